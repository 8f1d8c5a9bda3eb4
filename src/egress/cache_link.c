/* cache_link.c - theory of operation
 *
 * Requests are packets. A request that is answered goes when its tenant's share has room
 * (cache_share.c); until then it waits, tenants in turn, and a task of the loop sends it. One that
 * the socket does not take waits in a queue, which is bounded by the number of calls and stores;
 * requests without an answer are dropped when it is long. Answers are matched by their number; one
 * that no call waits for any more is dropped with its descriptor.
 *
 * A cache that did not answer in time, because it hangs or reads a large folder, is not asked until
 * its next answer comes, which that of the late request is at the latest: packages must not wait
 * for it one after the other.
 *
 * A link that breaks the protocol is closed like one that ended: cordond notices a cordon-cache
 * that hangs, and brings a new link after it was replaced. */
#include "cache_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "cache_private.h"
#include "egress_session.h"
#include "io.h"
#include "log.h"

#define CALL_MS 5000
#define QUEUED_MAX 1024
#define PACKETS_PER_TURN 64

struct cache_out {
	struct cache_out *next;
	int fd; /* owned; -1: none */
	size_t len;
	uint8_t bytes[];
};

int cache_link_missing(struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "the package cache is not running");
}

/* ---- sending */

static void drop_first(struct cache_link *l)
{
	struct cache_out *o = l->first;

	l->first = o->next;
	if (l->first == NULL)
		l->end = &l->first;
	l->queued--;
	if (o->fd >= 0)
		fd_close(o->fd);
	free(o);
}

/* False: the socket takes no more now. A broken link is seen by its next read. */
static bool send_now(struct cache_link *l, const uint8_t *packet, size_t len, int fd)
{
	struct err e;

	return io_send(l->sock, packet, len, &fd, fd >= 0 ? 1 : 0, &e) == 0;
}

static void flush(struct cache_link *l)
{
	while (l->first != NULL && send_now(l, l->first->bytes, l->first->len, l->first->fd))
		drop_first(l);
	loop_modify(l->loop, &l->watch, EPOLLIN | (l->first != NULL ? (uint32_t)EPOLLOUT : 0));
}

static int enqueue(struct cache_link *l, const uint8_t *packet, size_t len, int fd, struct err *e)
{
	struct cache_out *o = l->queued < QUEUED_MAX ? malloc(sizeof(*o) + len) : NULL;

	if (o == NULL) {
		if (fd >= 0)
			fd_close(fd);
		return err_set(e, ERR_LIMIT, "too many requests wait for the package cache");
	}
	*o = (struct cache_out){ .fd = fd, .len = len };
	memcpy(o->bytes, packet, len);
	*l->end = o;
	l->end = &o->next;
	l->queued++;
	loop_modify(l->loop, &l->watch, EPOLLIN | EPOLLOUT);
	return 0;
}

static int send_packet(struct cache_link *l, const uint8_t *packet, size_t len, int fd,
		       struct err *e)
{
	if (l->first != NULL || !send_now(l, packet, len, fd))
		return enqueue(l, packet, len, fd, e);
	if (fd >= 0)
		fd_close(fd);
	return 0;
}

/* Returns its length. */
static int write_packet(const struct cache_msg *m, uint8_t packet[CACHE_PACKET_MAX], struct err *e)
{
	int n = cache_msg_write(m, packet, CACHE_PACKET_MAX);

	return n > 0 ? n : err_set(e, ERR_INVALID, "a name or path is too long for the cache");
}

int cache_link_send(struct cache_link *l, const struct cache_msg *m, int fd, struct err *e)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	int n = write_packet(m, packet, e);

	if (n > 0)
		return send_packet(l, packet, (size_t)n, fd, e);
	if (fd >= 0)
		fd_close(fd);
	return -1;
}

uint32_t cache_link_number(struct cache_link *l)
{
	if (++l->last_id == 0)
		l->last_id = 1;
	return l->last_id;
}

/* ---- calls */

/* Gives back what it has of its tenant's share. */
static void leave_share(struct cache_call *c)
{
	struct cache_link *l = c->link;
	struct cache_share *s = c->share;

	c->link = NULL;
	c->share = NULL;
	if (s == NULL)
		return;
	if (c->packet != NULL) {
		fair_queue_drop(&l->queue, &c->item);
		free(c->packet);
		c->packet = NULL;
	} else {
		s->calls--;
		l->ncalls--;
		loop_defer(l->loop, &l->pump);
	}
	cache_share_drop(l, s);
}

static void on_ended(struct completion *w, const struct err *e)
{
	struct cache_call *c = w->arg;
	struct cache_found found = c->found;

	if (e != NULL && e->sys == ETIMEDOUT)
		c->link->late = true;
	leave_share(c);
	c->found.fd = -1;
	c->on_done(c, e == NULL && c->is_found ? &found : NULL, e);
	/* c may be gone */
	if (found.fd >= 0)
		fd_close(found.fd);
}

void cache_call_begin(struct cache_link *l, struct cache_call *c, uint32_t id, uint64_t deadline_ms)
{
	cache_call_cancel(c);
	c->wait.on_done = on_ended;
	c->wait.arg = c;
	c->id = id;
	c->is_found = false;
	c->found = (struct cache_found){ .fd = -1 };
	c->link = l;
	c->share = NULL;
	completion_begin(&c->wait, l->loop, &l->calls);
	completion_set_deadline(&c->wait, deadline_ms, "package cache");
}

void cache_call_cancel(struct cache_call *c)
{
	if (c->link == NULL)
		return;
	completion_cancel(&c->wait);
	leave_share(c);
	if (c->found.fd >= 0)
		fd_close(c->found.fd);
	c->found.fd = -1;
}

bool cache_call_is_waiting(const struct cache_call *c)
{
	return c->link != NULL;
}

struct cache_call *cache_call_find(const struct cache_link *l, uint32_t id)
{
	for (struct completion *w = l->calls.first; w != NULL; w = w->next) {
		struct cache_call *c = w->arg;

		if (c->id == id)
			return c;
	}
	return NULL;
}

void cache_call_fail(struct cache_link *l, uint32_t id, const struct err *e)
{
	struct cache_call *c = cache_call_find(l, id);

	if (c != NULL)
		completion_end(&c->wait, e);
}

static struct cache_call *call_of(struct fair_queue_item *i)
{
	return (struct cache_call *)((char *)i - offsetof(struct cache_call, item));
}

static bool may_take(struct fair_queue_item *i)
{
	const struct cache_call *c = call_of(i);

	return cache_share_may(c->share->calls, c->link->ncalls, CACHE_REQUESTS_MAX);
}

/* Sends a request that waited. */
static void begin(struct cache_link *l, struct cache_call *c)
{
	uint8_t *packet = c->packet;
	struct err e;
	int sent = send_packet(l, packet, c->len, -1, &e);

	c->packet = NULL;
	free(packet);
	l->ncalls++;
	c->share->calls++;
	completion_begin(&c->wait, l->loop, &l->calls);
	completion_set_deadline(&c->wait, CALL_MS, "package cache");
	if (sent < 0)
		completion_end(&c->wait, &e);
}

static void pump(struct loop_task *t)
{
	struct cache_link *l = t->arg;
	struct fair_queue_item *i;
	struct err e;

	if (l->sock < 0 || l->late) {
		(void)err_set(&e, ERR_LIMIT, "the package cache does not answer");
		completions_end_all(&l->waiting, &e);
		return;
	}
	while ((i = fair_queue_take(&l->queue, ++l->turn, 1)) != NULL)
		begin(l, call_of(i));
}

/* -1: it cannot wait. */
static int enter(struct cache_link *l, const char *tenant, struct cache_call *c,
		 const struct cache_msg *m, struct err *e)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	int n;

	if (l->sock < 0)
		return cache_link_missing(e);
	if (l->late)
		return err_set(e, ERR_LIMIT, "the package cache does not answer");
	n = write_packet(m, packet, e);
	if (n < 0)
		return -1;
	c->packet = malloc((size_t)n);
	c->share = c->packet == NULL ? NULL : cache_share_of(l, tenant);
	if (c->share == NULL) {
		free(c->packet);
		c->packet = NULL;
		return err_set(e, ERR_SYSTEM, "out of memory");
	}
	memcpy(c->packet, packet, (size_t)n);
	c->len = (size_t)n;
	fair_queue_add(&l->queue, &c->share->queue, &c->share->queued, &c->item);
	return 0;
}

/* Sends a request, in its turn, and waits for its answer. */
static void ask(struct egress *g, const char *tenant, struct cache_call *c, struct cache_msg *m)
{
	struct cache_link *l = cache_link_of(g);
	struct err e;

	m->id = cache_link_number(l);
	cache_call_cancel(c);
	c->wait.on_done = on_ended;
	c->wait.arg = c;
	c->id = m->id;
	c->is_found = false;
	c->found = (struct cache_found){ .fd = -1 };
	c->link = l;
	completion_begin(&c->wait, l->loop, &l->waiting);
	if (enter(l, tenant, c, m, &e) < 0)
		completion_end(&c->wait, &e);
	else
		pump(&l->pump);
}

void cache_find(struct egress *g, const char *tenant, struct cache_call *c,
		const struct cache_key *key)
{
	ask(g, tenant, c, &(struct cache_msg){ .type = CACHE_FIND, .key = *key });
}

void cache_seen(struct egress *g, const char *tenant, struct cache_call *c,
		const struct cache_key *key, const char *name)
{
	struct cache_msg m = { .type = CACHE_SEEN,
			       .key = { key->scope, key->registry, "" },
			       .name = name };

	ask(g, tenant, c, &m);
}

void cache_known(struct egress *g, const char *tenant, struct cache_call *c,
		 const struct cache_key *key, const char *name)
{
	struct cache_msg m = { .type = CACHE_KNOWN,
			       .key = { key->scope, key->registry, "" },
			       .name = name };

	ask(g, tenant, c, &m);
}

static void tell(struct egress *g, struct cache_msg *m)
{
	struct cache_link *l = cache_link_of(g);
	struct err e;

	m->id = cache_link_number(l);
	if (l->sock >= 0 && l->queued < QUEUED_MAX / 2)
		IGNORED(cache_link_send(l, m, -1, &e), "it costs a request to the registry");
}

void cache_note(struct egress *g, const struct cache_key *key, const char *name)
{
	tell(g, &(struct cache_msg){ .type = CACHE_SEEN,
				     .key = { key->scope, key->registry, "" },
				     .name = name });
}

void cache_touch(struct egress *g, const struct cache_key *key, const struct cache_meta *meta)
{
	tell(g, &(struct cache_msg){ .type = CACHE_TOUCH, .key = *key, .meta = *meta });
}

void cache_drop(struct egress *g, const struct cache_key *key)
{
	tell(g, &(struct cache_msg){ .type = CACHE_DROP, .key = *key });
}

/* ---- answers */

static void copy(char *ret, size_t cap, const char *text)
{
	size_t n = strnlen(text, cap - 1);

	memcpy(ret, text, n);
	ret[n] = '\0';
}

static void fill(struct cache_call *c, const struct cache_msg *m, int fd)
{
	struct cache_found *f = &c->found;

	if (m->type == CACHE_FOUND) {
		copy(f->etag, sizeof(f->etag), m->meta.etag);
		copy(f->last_modified, sizeof(f->last_modified), m->meta.last_modified);
		copy(f->type, sizeof(f->type), m->meta.type);
	}
	f->fetched_ms = f->seen_ms = m->time_ms;
	f->size = m->size;
	memcpy(f->sha256, m->sha256, sizeof(f->sha256));
	f->fd = fd;
	c->is_found = m->type != CACHE_NONE;
}

/* fd is taken over. */
static int on_answer(struct cache_link *l, const struct cache_msg *m, int fd, struct err *e)
{
	OWN_FD mine = fd;
	struct cache_call *c = cache_call_find(l, m->id);
	struct err failed;

	if (m->type < CACHE_FOUND || m->type >= CACHE_ANSWERS_END)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	if (cache_msg_has_fd(m->type) != (mine >= 0))
		return err_set(e, ERR_INVALID, "a descriptor is missing, or one too many came");
	if (m->type == CACHE_FAILED) {
		(void)err_set(&failed, m->code, "%s", m->text);
		err_sanitize(&failed);
		cache_store_failed(l, m->id, &failed);
		cache_call_fail(l, m->id, &failed);
		return 0;
	}
	if (c == NULL)
		return 0; /* no call waits for it any more */
	fill(c, m, TAKE_FD(mine));
	completion_end(&c->wait, NULL);
	return 0;
}

/* 1: a packet was handled; 0: there is none. */
static int receive(struct cache_link *l, struct err *e)
{
	static uint8_t packet[CACHE_PACKET_MAX + 1];
	struct cache_msg m;
	size_t nfds = 0;
	int fd = -1;
	ssize_t n = io_recv(l->sock, packet, sizeof(packet), &fd, 1, &nfds, e);

	if (n < 0 && e->sys == EAGAIN)
		return 0;
	if (n < 0 && e->code == ERR_LIMIT)
		return 1; /* no descriptor is free: the call ends by its deadline */
	if (n == 0)
		return err_set(e, ERR_NOT_FOUND, "cordon-cache ended");
	if (n < 0)
		return -1;
	l->late = false;
	if (cache_msg_read(packet, (size_t)n, &m, e) < 0) {
		io_close_all(&fd, nfds);
		return -1;
	}
	return on_answer(l, &m, nfds == 1 ? fd : -1, e) < 0 ? -1 : 1;
}

static void close_link(struct cache_link *l)
{
	struct err e;

	loop_remove(l->loop, &l->watch);
	if (l->sock >= 0)
		fd_close(l->sock);
	l->sock = -1;
	l->late = false;
	while (l->first != NULL)
		drop_first(l);
	(void)cache_link_missing(&e);
	cache_stores_fail(l, &e);
	completions_end_all(&l->calls, &e);
	completions_end_all(&l->waiting, &e);
}

static void on_ready(struct loop_fd *w, uint32_t events)
{
	struct cache_link *l = w->arg;
	struct err e = { 0 };
	int got = 1, sock = l->sock;

	if ((events & EPOLLOUT) != 0)
		flush(l);
	for (unsigned i = 0; i < PACKETS_PER_TURN && got > 0 && l->sock == sock; i++)
		got = receive(l, &e);
	if (got >= 0 || l->sock != sock)
		return;
	if (e.code != ERR_NOT_FOUND)
		log_warn("link to cordon-cache closed", "error=%s", e.msg);
	close_link(l);
}

/* ---- the link */

struct cache_link *cache_link_of(struct egress *g)
{
	static struct cache_link only;

	if (g->cache == NULL) {
		only = (struct cache_link){
			.loop = g->loop,
			.sock = -1,
			.watch = { .fd = -1, .on_ready = on_ready, .arg = &only },
			.queue = { .may_take = may_take },
			.pump = { .on_run = pump, .arg = &only }
		};
		only.end = &only.first;
		g->cache = &only;
	}
	return g->cache;
}

void cache_link_open(struct egress *g, int sock)
{
	struct cache_link *l = cache_link_of(g);
	struct err e = { 0 };

	close_link(l);
	if (fcntl(sock, F_SETFL, O_NONBLOCK) < 0 ||
	    loop_add(l->loop, &l->watch, sock, EPOLLIN, &e) < 0) {
		log_error("link to cordon-cache not opened", "error=%s", e.msg);
		fd_close(sock);
		return;
	}
	l->sock = sock;
}

bool cache_link_is_open(const struct egress *g)
{
	return g->cache != NULL && g->cache->sock >= 0;
}
