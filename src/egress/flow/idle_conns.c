/* idle_conns.c - theory of operation
 *
 * A list, the last used first. A server may end an idle connection at any time, and bytes that it
 * sends to an idle one belong to no request: either is an event of the descriptor, and closes the
 * connection. One timer closes those idle for too long. */
#include "egress/flow/idle_conns.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/list.h"

struct upstream *upstream_new(struct loop *l, const struct upstream_key *key, int fd,
			      const struct ip *at, struct err *e)
{
	struct upstream *up = calloc(1, sizeof(*up));

	if (!up) {
		fd_close(fd);
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	up->key = *key;
	up->at = *at;
	if (gateway_stream_open(&up->stream, l, fd, e) == 0)
		return up;
	free(up);
	return NULL;
}

void upstream_free(struct upstream *up)
{
	if (!up)
		return;
	gateway_stream_close(&up->stream, up->stream.out.len > 0);
	free(up);
}

struct idle_conns {
	struct resource_share *share;
	struct loop *loop;
	struct upstream *first, *last;
	size_t n;
	struct loop_timer timer;
};

static void idle_conns_detach(struct upstream *up)
{
	struct idle_conns *u = up->pool;

	LIST_GONE(up);
	*(up->prev ? &up->prev->next : &u->first) = up->next;
	*(up->next ? &up->next->prev : &u->last) = up->prev;
	up->prev = up->next = NULL;
	up->pool = NULL;
	u->n--;
	resource_share_give_fds(u->share, 1);
}

static void idle_conns_drop(struct upstream *up)
{
	idle_conns_detach(up);
	upstream_free(up);
}

static void on_timer(struct loop_timer *t)
{
	struct idle_conns *u = t->arg;
	uint64_t now = loop_now_ns(u->loop);

	while (u->last && u->last->idle_ns + IDLE_CONNS_IDLE_MS * CLOCK_MS <= now)
		idle_conns_drop(u->last);
	if (u->last)
		loop_timer_set(u->loop, t, u->last->idle_ns + IDLE_CONNS_IDLE_MS * CLOCK_MS);
}

struct idle_conns *idle_conns_new(struct loop *l, struct resource_share *share)
{
	struct idle_conns *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->share = share;
	u->loop = l;
	u->timer = (struct loop_timer){ .on_expire = on_timer, .arg = u };
	return u;
}

void idle_conns_empty(struct idle_conns *u)
{
	while (u->first)
		idle_conns_drop(u->first);
	loop_timer_cancel(u->loop, &u->timer);
}

void idle_conns_free(struct idle_conns *u)
{
	if (!u)
		return;
	idle_conns_empty(u);
	free(u);
}

static bool is_same(const struct upstream_key *a, const struct upstream_key *b)
{
	return a->tls == b->tls && a->by_ip == b->by_ip && a->port == b->port &&
	       (!a->by_ip || ip_same(&a->ip, &b->ip)) && strcmp(a->host, b->host) == 0;
}

/* The end of a connection may not have been reported in this turn yet: a read costs less than a
 * request that fails.
 */
static bool is_alive(struct upstream *up)
{
	(void)gateway_stream_look(&up->stream, 1);
	return !up->stream.ended && !up->stream.broken && up->stream.in.len == 0;
}

struct upstream *idle_conns_take(struct idle_conns *u, const struct upstream_key *key,
				 uint64_t young_ns)
{
	uint64_t now = loop_now_ns(u->loop);

	/* alone: a connection is closed, without a callback */
	LIST_WALK_ENDING(struct upstream, up, u->first) {
		if (!is_same(&up->key, key))
			continue;
		if (young_ns > 0 && up->idle_ns + young_ns < now)
			return NULL; /* the rest of the list has been idle for longer */
		if (is_alive(up)) {
			idle_conns_detach(up);
			return up;
		}
		idle_conns_drop(up);
	}
	return NULL;
}

static void on_event(struct gateway_stream *s)
{
	struct upstream *up = s->arg;

	/* TLS has messages of its own (tickets). Anything else ends it. */
	if (is_alive(up))
		gateway_stream_arm(&up->stream, true);
	else
		idle_conns_drop(up);
}

void idle_conns_keep(struct idle_conns *u, struct upstream *up)
{
	struct gateway_stream *s = &up->stream;

	if (u->n >= IDLE_CONNS_MAX)
		idle_conns_drop(u->last);
	if (s->ended || s->broken || s->in.len > 0 || s->out.len > 0 ||
	    !resource_share_take_fds(u->share, 1)) {
		upstream_free(up);
		return;
	}
	up->pool = u;
	up->next = u->first;
	*(u->first ? &u->first->prev : &u->last) = up;
	u->first = up;
	u->n++;
	up->idle_ns = loop_now_ns(u->loop);
	if (s->in.size > (size_t)32 * 1024)
		fifo_release(&s->in);
	fifo_release(&s->out);
	gateway_stream_watch(s, on_event, up);
	gateway_stream_arm(s, true);
	if (u->timer.place == 0)
		loop_timer_set(u->loop, &u->timer, up->idle_ns + IDLE_CONNS_IDLE_MS * CLOCK_MS);
}
