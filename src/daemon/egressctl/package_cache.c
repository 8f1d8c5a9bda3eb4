#include "daemon/egressctl/package_cache.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/egressctl/egress_link.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/node/core.h"
#include "lib/base/err_reason.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"

#define PING_MS 15000
#define FIRST_PING_MS 1000 /* it has read a small folder by then */
#define CALL_MS 30000
#define LONG_CALL_MS 3600000 /* GC, REMOVE, VERIFY */

static struct package_cache *package_cache_cache_of(const struct core *c)
{
	return &net_access_of(c)->cache;
}

bool package_cache_is_up(const struct core *c)
{
	return channel_is_up(&package_cache_cache_of(c)->channel);
}

/* ---- the channel */

static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	if (how == CHANNEL_CLOSED || how == CHANNEL_LOST)
		log_warn("cordon-cache disconnected", "");
}

static void on_hung(struct channel *c, const char *why)
{
	const struct core_options *o = core_options(((struct package_cache *)c->arg)->core);

	log_error("replacing cordon-cache", "error=%s", why);
	if (o->replace_cache != NULL)
		o->replace_cache(o->arg);
}

/* fd is taken over in any case. */
static int package_cache_send(struct package_cache *p, const struct cache_msg *m, int fd,
			      struct err *e)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	OWN_FD mine = fd;
	int n = cache_msg_write(m, packet, sizeof(packet));

	if (n < 0)
		return err_set(e, ERR_INVALID, "a name or path is too long");
	return channel_send(
		&p->channel,
		&(struct channel_msg){
			.bytes = packet, .len = (size_t)n, .fds = &mine, .nfds = mine >= 0 },
		e);
}

static struct package_cache_call *package_cache_call_of(struct channel_call *c)
{
	return c == NULL ? NULL : c->done.arg;
}

static int on_message(struct channel *channel, const struct channel_got *got, struct err *e)
{
	struct package_cache *p = channel->arg;
	struct package_cache_call *c;
	struct cache_msg m;
	struct err refused;

	if (cache_msg_read(got->bytes, got->len, &m, e) < 0)
		return -1;
	if (m.type < CACHE_LISTED)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	if (m.type == CACHE_STATED)
		p->last = m.stats;
	c = package_cache_call_of(channel_call_find(channel, m.id));
	if (c == NULL) /* of a ping, or it was cancelled */
		return 0;
	if (m.type == CACHE_REFUSED) {
		(void)err_set(&refused, m.code, "%s", m.text);
		err_sanitize(&refused);
		completion_end(&c->wait.done, &refused);
		return 0;
	}
	c->answer = &m;
	completion_end(&c->wait.done, NULL);
	return 0;
}

/* The ping is a question for its numbers, which the metrics show. */
static void on_ping(struct channel *c)
{
	const struct cache_msg m = { .type = CACHE_STATS, .id = channel_next_id(c) };
	struct err e;

	IGNORED(package_cache_send(c->arg, &m, -1, &e), "then it does not answer either");
}

/* ---- links */

void package_cache_join(struct package_cache *p, unsigned slot)
{
	struct egress_link *l = &p->egress->links[slot];
	const struct cache_msg m = { .type = CACHE_LINK,
				     .id = channel_next_id(&p->channel),
				     .slot = slot };
	struct err e = { 0 };
	int ends[2];

	if (!channel_is_up(&p->channel) || !egress_link_up(l))
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		log_error("no link between cordon-egress and cordon-cache", "slot=%u error=%s",
			  slot, strerror(errno));
		return;
	}
	if (package_cache_send(p, &m, ends[0], &e) < 0) {
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
	static const struct channel_rules rules = { .peer = "cordon-cache",
						    .in_max = CACHE_PACKET_MAX,
						    .first_ping_ms = FIRST_PING_MS,
						    .ping_ms = PING_MS,
						    .patience_ms = PING_MS };

	*p = (struct package_cache){ .core = c, .egress = egress };
	channel_init(&p->channel, core_loop(c), &rules);
	p->channel.arg = p;
	p->channel.on_message = on_message;
	p->channel.on_end = on_end;
	p->channel.on_hung = on_hung;
	p->channel.on_ping = on_ping;
}

void package_cache_release(struct package_cache *p)
{
	channel_release(&p->channel);
}

int package_cache_attach(struct package_cache *p, int sock, struct err *e)
{
	if (channel_attach(&p->channel, sock, e) < 0)
		return -1;
	p->last = (struct cache_stats){ 0 };
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

static void package_cache_ask(struct core *core, struct package_cache_call *c, struct cache_msg *m,
			      uint64_t deadline_ms)
{
	struct package_cache *p = package_cache_cache_of(core);
	struct err e;
	int sent = -1;

	c->wait.done.on_done = on_ended;
	c->wait.done.arg = c;
	c->answer = NULL;
	m->id = channel_next_id(&p->channel);
	channel_call_begin(&p->channel, &c->wait, m->id, deadline_ms);
	if (!channel_is_up(&p->channel))
		(void)err_set_reason(&e, REASON_UNAVAILABLE, "the package cache is not running");
	else
		sent = package_cache_send(p, m, -1, &e);
	if (sent < 0)
		completion_end(&c->wait.done, &e);
}

void package_cache_stats(struct core *c, struct package_cache_call *call)
{
	package_cache_ask(c, call, &(struct cache_msg){ .type = CACHE_STATS }, CALL_MS);
}

void package_cache_list(struct core *c, struct package_cache_call *call, uint32_t place)
{
	package_cache_ask(c, call, &(struct cache_msg){ .type = CACHE_LIST, .place = place },
			  CALL_MS);
}

void package_cache_gc(struct core *c, struct package_cache_call *call, uint64_t bytes)
{
	package_cache_ask(c, call, &(struct cache_msg){ .type = CACHE_GC, .size = bytes },
			  LONG_CALL_MS);
}

void package_cache_verify(struct core *c, struct package_cache_call *call)
{
	package_cache_ask(c, call, &(struct cache_msg){ .type = CACHE_VERIFY }, LONG_CALL_MS);
}

void package_cache_cancel(struct package_cache_call *call)
{
	completion_cancel(&call->wait.done);
}
