#include "front/web/paced_stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A piece of that size waits without being counted. */
#define SHORT_MAX (64U << 10)
#define TURN_MAX (512U << 10) /* bytes in one turn, also for a client that reads fast */

/* The count ends with the last byte, since the exchange counts its own buffer. */
static void paced_stream_flush(struct paced_stream *p)
{
	if (p->pending == NULL)
		return;
	p->sent += exchange_write(p->r->x, p->pending + p->sent, p->len - p->sent);
	if (p->sent < p->len)
		return;
	free(p->pending);
	p->pending = NULL;
	exchange_unreserve(p->r->x, p->counted);
	p->counted = 0;
}

/* Count the bytes that the client does not take at once. A short piece waits in any case: streams
 * are bounded in number. */
static bool paced_stream_count(struct paced_stream *p)
{
	if (!p->counts || p->pending == NULL)
		return true;
	if (exchange_reserve(p->r->x, p->len))
		p->counted = p->len;
	return p->counted > 0 || p->len <= SHORT_MAX;
}

/* No callback follows. Waiting bytes stay. */
static void paced_stream_stop(struct paced_stream *p)
{
	struct loop *l = core_loop(p->r->core);

	p->ended = true;
	loop_timer_cancel(l, &p->keepalive);
	loop_task_cancel(l, &p->turn);
}

/* Room is offered only when nothing waits. */
static void on_writable(struct exchange *x)
{
	struct request *r = request_of(x);
	struct paced_stream *p = r->state;

	paced_stream_flush(p);
	if (p->pending == NULL && p->ended)
		exchange_end(x);
	else if (p->pending == NULL)
		p->on_room(r);
}

/* 0: the stream was dropped, and p may be gone. */
static void on_keepalive(struct loop_timer *t)
{
	struct paced_stream *p = t->arg;
	struct loop *l = core_loop(p->r->core);
	uint64_t next = p->on_keepalive(p, loop_now_ns(l));

	if (next == 0)
		return;
	loop_timer_set(l, t, next);
	p->on_room(p->r);
}

/* A new turn has a new budget. */
static void on_turn(struct loop_task *t)
{
	struct paced_stream *p = t->arg;

	p->spent = 0;
	if (!p->ended)
		p->on_room(p->r);
}

/* False: the request wanted the head only, and is answered. */
bool paced_stream_begin(struct paced_stream *p, struct request *r, const char *type,
			uint64_t first_keepalive_ns)
{
	struct loop *l = core_loop(r->core);

	assert(r->state == p);
	p->r = r;
	p->begun = true;
	exchange_header(r->x, "Cache-Control", "no-store");
	exchange_header(r->x, "X-Accel-Buffering", "no");
	exchange_begin(r->x, 200, type, EXCHANGE_CHUNKED);
	if (request_is_head(r)) {
		p->ended = true;
		exchange_end(r->x);
		return false;
	}
	exchange_on_writable(r->x, on_writable);
	p->turn.on_run = on_turn;
	p->turn.arg = p;
	p->keepalive.on_expire = on_keepalive;
	p->keepalive.arg = p;
	loop_timer_set(l, &p->keepalive, loop_now_ns(l) + first_keepalive_ns);
	return true;
}

/* After TURN_MAX bytes the stream continues in the next turn, so that others are served. */
bool paced_stream_ready(struct paced_stream *p)
{
	if (!p->begun || p->ended)
		return false;
	paced_stream_flush(p);
	if (p->pending == NULL && p->spent > TURN_MAX) {
		paced_stream_wake(p);
		return false;
	}
	return p->pending == NULL;
}

/* A piece that comes while another one waits is joined with it. */
bool paced_stream_put(struct paced_stream *p, char *text, size_t len)
{
	size_t rest = p->pending == NULL ? 0 : p->len - p->sent;
	char *all = text == NULL || rest == 0 ? text : malloc(rest + len);

	if (all == NULL) {
		free(text);
		paced_stream_drop(p);
		return false;
	}
	if (all != text) {
		memcpy(all, p->pending + p->sent, rest);
		memcpy(all + rest, text, len);
		free(text);
	}
	free(p->pending);
	p->pending = all;
	p->len = rest + len;
	p->sent = 0;
	p->spent += len;
	p->sent_ns = loop_now_ns(core_loop(p->r->core));
	paced_stream_flush(p);
	if (paced_stream_count(p))
		return true;
	paced_stream_drop(p);
	return false;
}

void paced_stream_wake(struct paced_stream *p)
{
	if (p->begun && !p->ended)
		loop_defer(core_loop(p->r->core), &p->turn);
}

/* Waiting bytes go out before the end. */
void paced_stream_end(struct paced_stream *p)
{
	if (!p->begun || p->ended)
		return;
	paced_stream_stop(p);
	paced_stream_flush(p);
	if (p->pending == NULL)
		exchange_end(p->r->x);
}

/* The client sees that the answer was cut. */
void paced_stream_drop(struct paced_stream *p)
{
	if (!p->begun)
		return;
	paced_stream_stop(p);
	free(p->pending);
	p->pending = NULL;
	exchange_abort(p->r->x);
}

/* Safe if the stream has ended. */
void paced_stream_release(struct paced_stream *p)
{
	if (p->begun)
		paced_stream_stop(p);
	free(p->pending);
	p->pending = NULL;
}
