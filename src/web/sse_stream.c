#include "sse_stream.h"

#include <string.h>

#include "clock.h"
#include "sse.h"
#include "units.h"

#define KEEPALIVE_NS (15000 * CLOCK_MS)
#define TURN_MAX (512U << 10) /* bytes in one turn, also for a client that reads fast */
#define EVENT_OVERHEAD 256    /* names and ids of events are short */

static const char comment[] = ":\n\n";

static void flush(struct sse_stream *f)
{
	if (f->pending == NULL)
		return;
	f->sent += exchange_write(f->r->x, f->pending + f->sent, f->len - f->sent);
	if (f->sent < f->len)
		return;
	free(f->pending);
	f->pending = NULL;
}

static void on_writable(struct exchange *x)
{
	struct request *r = request_of(x);
	struct sse_stream *f = r->state; /* the first member of every state that has one */

	flush(f);
	if (f->pending == NULL && f->ended)
		exchange_end(x);
	else if (f->pending == NULL)
		f->on_room(r);
}

static void on_keepalive(struct loop_timer *t)
{
	struct sse_stream *f = t->arg;
	struct loop *l = core_loop(f->r->core);

	if (f->pending == NULL && exchange_room(f->r->x) >= sizeof(comment))
		(void)exchange_write(f->r->x, comment, sizeof(comment) - 1);
	loop_timer_set(l, t, loop_now_ns(l) + KEEPALIVE_NS);
	f->on_room(f->r); /* sends records whose notification was missed */
}

static void on_turn(struct loop_task *t)
{
	struct sse_stream *f = t->arg;

	f->spent = 0;
	if (!f->ended)
		f->on_room(f->r);
}

bool sse_stream_begin(struct sse_stream *f, struct request *r, void (*on_room)(struct request *r))
{
	struct loop *l = core_loop(r->core);

	f->r = r;
	f->on_room = on_room;
	exchange_header(r->x, "Cache-Control", "no-store");
	exchange_header(r->x, "X-Accel-Buffering", "no");
	exchange_begin(r->x, 200, "text/event-stream", EXCHANGE_CHUNKED);
	if (request_is_head(r)) {
		f->ended = true;
		exchange_end(r->x);
		return false;
	}
	exchange_on_writable(r->x, on_writable);
	f->turn.on_run = on_turn;
	f->turn.arg = f;
	f->keepalive.on_expire = on_keepalive;
	f->keepalive.arg = f;
	loop_timer_set(l, &f->keepalive, loop_now_ns(l) + KEEPALIVE_NS);
	return true;
}

bool sse_stream_ready(struct sse_stream *f)
{
	if (f->ended)
		return false;
	flush(f);
	if (f->pending == NULL && f->spent > TURN_MAX) {
		loop_defer(core_loop(f->r->core), &f->turn);
		return false;
	}
	return f->pending == NULL;
}

void sse_stream_event(struct sse_stream *f, const char *event, const char *id, const char *data,
		      size_t len)
{
	size_t cap = len + EVENT_OVERHEAD;
	char *text = malloc(cap);
	int n = text == NULL ? -1 : sse_event(text, cap, event, id, data, len);

	if (n < 0) { /* out of memory: the stream must not continue with a gap */
		free(text);
		f->ended = true;
		exchange_abort(f->r->x);
		return;
	}
	f->pending = text;
	f->len = (size_t)n;
	f->sent = 0;
	f->spent += f->len;
	flush(f);
}

void sse_stream_end(struct sse_stream *f)
{
	if (f->ended)
		return;
	f->ended = true;
	loop_timer_cancel(core_loop(f->r->core), &f->keepalive);
	flush(f);
	if (f->pending == NULL)
		exchange_end(f->r->x);
}

void sse_stream_release(struct sse_stream *f)
{
	if (f->r != NULL) {
		loop_timer_cancel(core_loop(f->r->core), &f->keepalive);
		loop_task_cancel(core_loop(f->r->core), &f->turn);
	}
	free(f->pending);
	f->pending = NULL;
}

bool sse_stream_last_id(struct request *r, uint64_t *ret)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;
	char text[24];
	struct err e;

	if (http1_find(q->headers, q->headers_n, "last-event-id", &value) != 1 || value.n == 0 ||
	    value.n >= sizeof(text))
		return false;
	memcpy(text, value.p, value.n);
	text[value.n] = '\0';
	return units_count(text, 0, INT64_MAX, ret, &e) == 0;
}
