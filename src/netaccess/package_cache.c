#include "package_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "core.h"
#include "err_reason.h"
#include "io.h"
#include "log.h"
#include "net_state.h"

#define PING_MS 15000
#define FIRST_PING_NS (1000 * CLOCK_MS) /* it has read a small folder by then */
#define CALL_MS 30000
#define LONG_CALL_MS 3600000 /* GC, REMOVE, VERIFY */

static struct package_cache *cache_of(const struct core *c)
{
	return &net_access_of(c)->cache;
}

bool package_cache_is_up(const struct core *c)
{
	return cache_of(c)->sock >= 0;
}

/* ---- the channel */

static void close_channel(struct package_cache *p)
{
	struct err e;

	loop_remove(core_loop(p->core), &p->watch);
	loop_timer_cancel(core_loop(p->core), &p->ping);
	if (p->sock >= 0)
		fd_close(p->sock);
	p->sock = -1;
	(void)err_set_reason(&e, REASON_PEER_DIED, "cordon-cache exited");
	completions_end_all(&p->calls, &e);
}

/* It may hang, and then it does not see that its channel is closed. */
static void give_up(struct package_cache *p, const char *why)
{
	const struct core_options *o = core_options(p->core);

	log_error("replacing cordon-cache", "error=%s", why);
	if (o->replace_cache != NULL)
		o->replace_cache(o->arg);
	close_channel(p);
}

/* Requests are few and small: a socket that does not take one belongs to a process that hangs. */
static int send_now(struct package_cache *p, const struct cache_msg *m, int fd, struct err *e)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	int n = cache_msg_write(m, packet, sizeof(packet));

	if (n < 0)
		return err_set(e, ERR_INVALID, "a name or path is too long");
	return io_send(p->sock, packet, (size_t)n, &fd, fd >= 0 ? 1 : 0, e);
}

static uint32_t next_id(struct package_cache *p)
{
	if (++p->last_id == 0)
		p->last_id = 1;
	return p->last_id;
}

static struct package_cache_call *find(const struct package_cache *p, uint32_t id)
{
	for (struct completion *w = p->calls.first; w != NULL; w = w->next) {
		struct package_cache_call *c = w->arg;

		if (c->id == id)
			return c;
	}
	return NULL;
}

static int handle(struct package_cache *p, const struct cache_msg *m, struct err *e)
{
	struct package_cache_call *c = find(p, m->id);
	struct err refused;

	p->pinged = false;
	if (m->type < CACHE_LISTED)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	if (m->type == CACHE_STATED)
		p->last = m->stats;
	if (c == NULL) /* of a ping, or it was cancelled */
		return 0;
	if (m->type == CACHE_REFUSED) {
		(void)err_set(&refused, m->code, "%s", m->text);
		err_sanitize(&refused);
		completion_end(&c->wait, &refused);
		return 0;
	}
	c->answer = m;
	completion_end(&c->wait, NULL);
	return 0;
}

static void on_sock(struct loop_fd *f, uint32_t events)
{
	static uint8_t packet[CACHE_PACKET_MAX + 1];
	struct package_cache *p = f->arg;
	struct cache_msg m;
	struct err e = { 0 };
	size_t nfds = 0;
	ssize_t n = io_recv(p->sock, packet, sizeof(packet), NULL, 0, &nfds, &e);

	(void)events;
	if (n < 0 && e.sys == EAGAIN)
		return;
	if (n == 0 || (n < 0 && e.sys == ECONNRESET)) {
		log_warn("cordon-cache disconnected", "");
		close_channel(p);
		return;
	}
	if (n < 0 || cache_msg_read(packet, (size_t)n, &m, &e) < 0 || handle(p, &m, &e) < 0)
		give_up(p, e.msg);
}

/* The ping is a question for its numbers, which the metrics show. */
static void on_ping(struct loop_timer *t)
{
	struct package_cache *p = t->arg;
	const struct cache_msg m = { .type = CACHE_STATS, .id = next_id(p) };
	struct err e;

	if (p->pinged) {
		give_up(p, "cordon-cache does not answer");
		return;
	}
	p->pinged = true;
	IGNORED(send_now(p, &m, -1, &e), "then it does not answer either");
	loop_timer_set(core_loop(p->core), t, loop_now_ns(core_loop(p->core)) + PING_MS * CLOCK_MS);
}

/* ---- links */

void package_cache_join(struct package_cache *p, unsigned slot)
{
	struct egress_link *l = &p->egress->links[slot];
	const struct cache_msg m = { .type = CACHE_LINK, .id = next_id(p), .slot = slot };
	struct err e = { 0 };
	int ends[2];

	if (p->sock < 0 || !egress_link_up(l))
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		log_error("no link between cordon-egress and cordon-cache", "slot=%u error=%s",
			  slot, strerror(errno));
		return;
	}
	OWN_FD for_cache = ends[0];
	if (send_now(p, &m, for_cache, &e) < 0) {
		fd_close(ends[1]);
		log_error("no link between cordon-egress and cordon-cache", "slot=%u error=%s",
			  slot, e.msg);
		return;
	}
	IGNORED(egress_link_send(l, EGRESS_CACHE, "", NULL, 0, &ends[1], &e),
		"the next channel gets another link");
}

/* ---- what net_access.c uses */

void package_cache_init(struct package_cache *p, struct core *c, struct egress_links *egress)
{
	*p = (struct package_cache){ .core = c,
				     .egress = egress,
				     .sock = -1,
				     .watch = { .fd = -1, .on_ready = on_sock, .arg = p },
				     .ping = { .on_expire = on_ping, .arg = p } };
}

void package_cache_release(struct package_cache *p)
{
	while (p->calls.first != NULL)
		completion_cancel(p->calls.first);
	close_channel(p);
}

int package_cache_attach(struct package_cache *p, int sock, struct err *e)
{
	OWN_FD mine = sock;

	if (fcntl(mine, F_SETFL, O_NONBLOCK) < 0 || fcntl(mine, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "cordon-cache's channel");
	close_channel(p);
	if (loop_add(core_loop(p->core), &p->watch, mine, EPOLLIN, e) < 0)
		return -1;
	p->sock = TAKE_FD(mine);
	p->pinged = false;
	p->last = (struct cache_stats){ 0 };
	loop_timer_set(core_loop(p->core), &p->ping,
		       loop_now_ns(core_loop(p->core)) + FIRST_PING_NS);
	for (unsigned i = 0; i < p->egress->n; i++)
		package_cache_join(p, i);
	return 0;
}

/* ---- calls */

static void on_ended(struct completion *w, const struct err *e)
{
	struct package_cache_call *c = w->arg;

	c->on_done(c, e == NULL ? c->answer : NULL, e);
}

static void begin(struct core *core, struct package_cache_call *c, struct cache_msg *m,
		  uint64_t deadline_ms)
{
	struct package_cache *p = cache_of(core);
	struct err e;
	int sent = -1;

	c->wait.on_done = on_ended;
	c->wait.arg = c;
	c->answer = NULL;
	c->id = m->id = next_id(p);
	completion_begin(&c->wait, core_loop(core), &p->calls);
	completion_set_deadline(&c->wait, deadline_ms, "cordon-cache");
	if (p->sock < 0)
		(void)err_set_reason(&e, REASON_UNAVAILABLE, "the package cache is not running");
	else
		sent = send_now(p, m, -1, &e);
	if (sent < 0)
		completion_end(&c->wait, &e);
}

void package_cache_stats(struct core *c, struct package_cache_call *call)
{
	begin(c, call, &(struct cache_msg){ .type = CACHE_STATS }, CALL_MS);
}

void package_cache_list(struct core *c, struct package_cache_call *call, uint32_t place)
{
	begin(c, call, &(struct cache_msg){ .type = CACHE_LIST, .place = place }, CALL_MS);
}

void package_cache_gc(struct core *c, struct package_cache_call *call, uint64_t bytes)
{
	begin(c, call, &(struct cache_msg){ .type = CACHE_GC, .size = bytes }, LONG_CALL_MS);
}

void package_cache_verify(struct core *c, struct package_cache_call *call)
{
	begin(c, call, &(struct cache_msg){ .type = CACHE_VERIFY }, LONG_CALL_MS);
}

void package_cache_cancel(struct package_cache_call *call)
{
	completion_cancel(&call->wait);
}
