/* rpc_stream.c - an answer of messages. One frame is one write, so one chunk, and mostly one
 * packet; what does not fit into the connection's buffer waits here, and the next message is not
 * made before it has been sent. */
#include <assert.h>
#include <string.h>

#include "clock.h"
#include "json.h"
#include "rpc.h"

#define KEEPALIVE_S 90
#define KEEPALIVE_MAX_S 86400
#define TURN_MAX (512U << 10) /* bytes, before others have their turn */
#define END_MAX 8192	      /* bytes of a last frame */

static void flush(struct rpc_stream *s)
{
	if (s->pending == NULL)
		return;
	s->sent += exchange_write(s->r->x, s->pending + s->sent, s->len - s->sent);
	if (s->sent < s->len)
		return;
	free(s->pending);
	s->pending = NULL;
}

static void on_writable(struct exchange *x)
{
	struct request *r = request_of(x);
	struct rpc_stream *s = r->state; /* the first member of every state that has one */

	flush(s);
	if (s->pending != NULL)
		return;
	if (s->ended)
		exchange_end(x);
	else
		s->on_room(r);
}

static void stop(struct rpc_stream *s)
{
	struct loop *l = core_loop(s->r->core);

	s->ended = true;
	loop_timer_cancel(l, &s->keepalive);
	loop_timer_cancel(l, &s->deadline);
	loop_task_cancel(l, &s->turn);
}

/* Adds a frame to what is pending. Out of memory: the stream must not continue with a gap, so the
 * connection is dropped. */
static bool put(struct rpc_stream *s, unsigned flags, const char *message, size_t len)
{
	size_t rest = s->pending == NULL ? 0 : s->len - s->sent;
	char *text = malloc(rest + RPC_ENVELOPE_HEAD + len);

	if (text == NULL) {
		rpc_stream_drop(s);
		return false;
	}
	if (rest > 0)
		memcpy(text, s->pending + s->sent, rest);
	rpc_envelope_write((uint8_t *)text + rest, flags, (uint32_t)len);
	memcpy(text + rest + RPC_ENVELOPE_HEAD, message, len);
	free(s->pending);
	s->pending = text;
	s->len = rest + RPC_ENVELOPE_HEAD + len;
	s->sent = 0;
	s->spent += RPC_ENVELOPE_HEAD + len;
	s->sent_ns = loop_now_ns(core_loop(s->r->core));
	s->sent_any = true;
	flush(s);
	return true;
}

/* Not before the first message: clients take that one for the start. */
static void on_keepalive(struct loop_timer *t)
{
	struct rpc_stream *s = t->arg;
	struct loop *l = core_loop(s->r->core);

	if (s->sent_any && s->pending == NULL && loop_now_ns(l) - s->sent_ns >= s->keepalive_ns &&
	    !put(s, 0, s->keepalive_message, strlen(s->keepalive_message)))
		return;
	/* While a frame waits for room no keepalive is due. */
	loop_timer_set(l, t,
		       (s->sent_any && s->pending == NULL ? s->sent_ns : loop_now_ns(l)) +
			       s->keepalive_ns);
	s->on_room(s->r);
}

static void on_deadline(struct loop_timer *t)
{
	struct rpc_stream *s = t->arg;

	s->on_deadline(s->r);
}

static void on_turn(struct loop_task *t)
{
	struct rpc_stream *s = t->arg;

	s->spent = 0;
	if (!s->ended)
		s->on_room(s->r);
}

static uint64_t keepalive_of(const struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;
	uint64_t seconds = KEEPALIVE_S;
	struct err e;

	/* A malformed number of seconds is ignored. */
	if (http1_find(q->headers, q->headers_n, "keepalive-ping-interval", &value) == 1 &&
	    (rpc_timeout_parse(value.p, value.n, &seconds, &e) < 0 || seconds == 0))
		seconds = KEEPALIVE_S;
	return (seconds < KEEPALIVE_MAX_S ? seconds : KEEPALIVE_MAX_S) * 1000 * CLOCK_MS;
}

static void set_deadline(struct rpc_stream *s)
{
	struct loop *l = core_loop(s->r->core);
	uint64_t ms = 0;
	struct err e;

	/* A malformed one was refused before, where it matters. */
	if (s->on_deadline == NULL || rpc_timeout(s->r, &ms, &e) < 0 || ms == 0)
		return;
	s->deadline.on_expire = on_deadline;
	s->deadline.arg = s;
	loop_timer_set(l, &s->deadline, loop_now_ns(l) + ms * CLOCK_MS);
}

void rpc_stream_begin(struct rpc_stream *s, struct request *r, const char *keepalive,
		      void (*on_room)(struct request *r), void (*on_late)(struct request *r))
{
	struct loop *l = core_loop(r->core);

	assert(r->state == s);
	s->r = r;
	s->on_room = on_room;
	s->on_deadline = on_late;
	s->begun = true;
	s->keepalive_message = keepalive;
	s->keepalive_ns = keepalive_of(r);
	s->sent_ns = loop_now_ns(l);
	s->turn.on_run = on_turn;
	s->turn.arg = s;
	s->keepalive.on_expire = on_keepalive;
	s->keepalive.arg = s;
	exchange_header(r->x, "Cache-Control", "no-store");
	exchange_header(r->x, "X-Accel-Buffering", "no");
	exchange_begin(r->x, 200, "application/connect+json", EXCHANGE_CHUNKED);
	exchange_on_writable(r->x, on_writable);
	loop_timer_set(l, &s->keepalive, s->sent_ns + s->keepalive_ns);
	set_deadline(s);
}

bool rpc_stream_ready(struct rpc_stream *s)
{
	if (!s->begun || s->ended)
		return false;
	flush(s);
	if (s->pending == NULL && s->spent > TURN_MAX) {
		rpc_stream_wake(s);
		return false;
	}
	return s->pending == NULL;
}

void rpc_stream_send(struct rpc_stream *s, const char *message, size_t len)
{
	assert(s->begun && !s->ended && s->pending == NULL);
	(void)put(s, 0, message, len);
}

void rpc_stream_wake(struct rpc_stream *s)
{
	if (s->begun && !s->ended)
		loop_defer(core_loop(s->r->core), &s->turn);
}

void rpc_stream_end(struct rpc_stream *s, enum rpc_code code, const char *message)
{
	char text[END_MAX];
	struct json j;

	if (!s->begun || s->ended)
		return;
	stop(s);
	json_init(&j, text, sizeof(text));
	rpc_end_write(&j, code, message);
	if (!json_ok(&j)) { /* messages are that long only with many escapes */
		rpc_stream_drop(s);
		return;
	}
	if (put(s, RPC_FLAG_END, j.text, j.len) && s->pending == NULL)
		exchange_end(s->r->x);
}

void rpc_stream_drop(struct rpc_stream *s)
{
	if (!s->begun)
		return;
	stop(s);
	free(s->pending);
	s->pending = NULL;
	exchange_abort(s->r->x);
}

void rpc_stream_release(struct rpc_stream *s)
{
	if (s->begun)
		stop(s);
	free(s->pending);
	s->pending = NULL;
}
