/* rpc.c - theory of operation
 *
 * A body is collected here and not by the server, for two reasons: it is given back as soon as it
 * is parsed, where the server's would stay for as long as a stream runs, and one bound covers all
 * that clients make us keep at a time. Small bodies are not counted: their number is bounded by
 * that of connections. The server reports the end of a long one in a turn of its tenant (jobs.h),
 * so on_end() may parse it at once. A long message is handled in the tenant's next turn, since
 * parsing 1 MiB takes about 15 ms. */
#include "front/e2b/envd/rpc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/envd/rpc_base64_stream.h"
#include "front/web/reply.h"
#include "lib/base/clock.h"
#include "lib/json/json.h"

/* ---- streams
 *
 * rpc_stream is a paced_stream whose pieces are envelopes, with keepalives and a deadline. */

#define KEEPALIVE_S 90
#define KEEPALIVE_MAX_S 86400
#define END_MAX 8192 /* bytes of a last frame */

/* After it on_deadline is not called. */
static void rpc_stream_no_deadline(struct rpc_stream *s)
{
	if (s->paced.begun)
		loop_timer_cancel(core_loop(s->paced.r->core), &s->deadline);
}

/* One frame behind the bytes that wait. False: the stream was dropped. */
static bool rpc_stream_put(struct rpc_stream *s, unsigned flags, const char *message, size_t len)
{
	char *text = malloc(RPC_ENVELOPE_HEAD + len);

	if (text != NULL) {
		rpc_envelope_write((uint8_t *)text, flags, (uint32_t)len);
		memcpy(text + RPC_ENVELOPE_HEAD, message, len);
	}
	if (text == NULL)
		rpc_stream_no_deadline(s);
	return paced_stream_put(&s->paced, text, RPC_ENVELOPE_HEAD + len);
}

/* Not before the first message: clients take that one for the start. While a frame waits for room
 * no keepalive is due. */
static uint64_t rpc_stream_keepalive(struct paced_stream *p, uint64_t now_ns)
{
	struct rpc_stream *s = p->r->state;

	if (p->sent_ns == 0 || p->pending != NULL)
		return now_ns + s->keepalive_ns;
	if (now_ns - p->sent_ns >= s->keepalive_ns &&
	    !rpc_stream_put(s, 0, s->keepalive_message, strlen(s->keepalive_message)))
		return 0;
	return (p->pending == NULL ? p->sent_ns : now_ns) + s->keepalive_ns;
}

static void on_deadline(struct loop_timer *t)
{
	struct rpc_stream *s = t->arg;

	s->on_deadline(s->paced.r);
}

/* In nanoseconds, at most a day. */
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

/* Connect-Timeout-Ms of 0 is none. */
static void set_deadline(struct rpc_stream *s)
{
	struct request *r = s->paced.r;
	struct loop *l = core_loop(r->core);
	uint64_t ms = 0;
	struct err e;

	/* A malformed one was refused before, where it matters. */
	if (s->on_deadline == NULL || rpc_timeout(r, &ms, &e) < 0 || ms == 0)
		return;
	s->deadline.on_expire = on_deadline;
	s->deadline.arg = s;
	loop_timer_set(l, &s->deadline, loop_now_ns(l) + ms * CLOCK_MS);
}

void rpc_stream_begin(struct rpc_stream *s, struct request *r, const char *keepalive,
		      void (*on_room)(struct request *r), void (*on_late)(struct request *r))
{
	s->paced.on_room = on_room;
	s->paced.on_keepalive = rpc_stream_keepalive;
	s->on_deadline = on_late;
	s->keepalive_message = keepalive;
	s->keepalive_ns = keepalive_of(r);
	if (paced_stream_begin(&s->paced, r, "application/connect+json", s->keepalive_ns))
		set_deadline(s);
}

bool rpc_stream_ready(struct rpc_stream *s)
{
	return paced_stream_ready(&s->paced);
}

void rpc_stream_send(struct rpc_stream *s, const char *message, size_t len)
{
	assert(s->paced.begun && !s->paced.ended && s->paced.pending == NULL);
	(void)rpc_stream_put(s, 0, message, len);
}

void rpc_stream_wake(struct rpc_stream *s)
{
	paced_stream_wake(&s->paced);
}

/* A second end is ignored. */
void rpc_stream_end(struct rpc_stream *s, enum rpc_code code, const char *message)
{
	char text[END_MAX];
	struct json j;

	if (!s->paced.begun || s->paced.ended)
		return;
	rpc_stream_no_deadline(s);
	json_init(&j, text, sizeof(text));
	rpc_end_write(&j, code, message);
	if (!json_ok(&j)) /* messages are that long only with many escapes */
		paced_stream_drop(&s->paced);
	else if (rpc_stream_put(s, RPC_FLAG_END, j.text, j.len))
		paced_stream_end(&s->paced);
}

void rpc_stream_drop(struct rpc_stream *s)
{
	rpc_stream_no_deadline(s);
	paced_stream_drop(&s->paced);
}

void rpc_stream_release(struct rpc_stream *s)
{
	rpc_stream_no_deadline(s);
	paced_stream_release(&s->paced);
}

/* ---- unary calls */

#define COUNTED_MAX ((size_t)256 << 20)
#define DROPPED_MAX ((size_t)512 << 20)
#define MESSAGE_LONGEST 1024 /* of an error */
#define LONG (64U << 10)     /* a message of this size or more is handled in a turn of its own */
#define ERROR_MAX (8 * MESSAGE_LONGEST)

/* ---- bytes kept for clients
 *
 * One sum for the process. Callers keep their share and give it back. */

static size_t counted;

bool rpc_count(size_t bytes)
{
	if (bytes > COUNTED_MAX - counted)
		return false;
	counted += bytes;
	return true;
}

void rpc_uncount(size_t bytes)
{
	counted -= bytes;
}

/* ---- answers
 *
 * A failure has the form of the request: an error as JSON, or a stream with only its last frame. */

static void fail_unary(struct request *r, enum rpc_code code, const char *message)
{
	char text[ERROR_MAX];
	struct json j;

	json_init(&j, text, sizeof(text));
	rpc_error_write(&j, NULL, code, message);
	exchange_reply(r->x, rpc_code_status(code), "application/json", j.text, j.len);
}

static void fail_stream(struct request *r, enum rpc_code code, const char *message)
{
	char text[RPC_ENVELOPE_HEAD + ERROR_MAX];
	struct json j;

	json_init(&j, text + RPC_ENVELOPE_HEAD, sizeof(text) - RPC_ENVELOPE_HEAD);
	rpc_end_write(&j, code, message);
	rpc_envelope_write((uint8_t *)text, RPC_FLAG_END, (uint32_t)j.len);
	exchange_reply(r->x, 200, "application/connect+json", text, RPC_ENVELOPE_HEAD + j.len);
}

static void rpc_fail_dialect(struct request *r, enum rpc_code code, const char *message)
{
	if (session_find(r->core, r->session_id) == NULL)
		sandbox_entry_gone(r); /* takes precedence over the other failure */
	else if (r->dialect == &rpc_stream_dialect)
		fail_stream(r, code, message);
	else
		fail_unary(r, code, message);
}

static void fail_in_dialect(struct request *r, const struct failure *f)
{
	if (f->status == 410)
		sandbox_entry_gone(r); /* it is paused */
	else
		rpc_fail_dialect(r, rpc_code_of_status(f->status), f->message);
}

const struct dialect rpc_unary_dialect = { .interface = "e2b", .fail = fail_in_dialect };
const struct dialect rpc_stream_dialect = { .interface = "e2b", .fail = fail_in_dialect };

void rpc_fail(struct request *r, enum rpc_code code, const char *format, ...)
{
	char message[MESSAGE_LONGEST];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	rpc_fail_dialect(r, code, message);
}

/* A text that did not fit is an error. */
void rpc_reply(struct request *r, struct json *j)
{
	reply_uncount(r);
	if (json_ok(j))
		exchange_reply(r->x, 200, "application/json", j->text, j->len);
	else
		rpc_fail(r, RPC_INTERNAL, "the answer is too large, or out of memory");
	json_release(j);
}

void rpc_reply_empty(struct request *r)
{
	exchange_reply(r->x, 200, "application/json", "{}", 2);
}

/* ---- the head of a request */

static size_t rpc_header(const struct request *r, const char *name, struct http1_span *ret)
{
	const struct http1_request *q = exchange_request(r->x);

	return http1_find(q->headers, q->headers_n, name, ret);
}

static bool has_type(const struct request *r, const char *wanted)
{
	struct http1_span type;

	return rpc_header(r, "content-type", &type) == 1 &&
	       http1_span_is_nocase(http1_media_type(type), wanted);
}

bool rpc_check_head(struct request *r, bool stream)
{
	const char *type = stream ? "application/connect+json" : "application/json";
	struct http1_span value;

	r->dialect = stream ? &rpc_stream_dialect : &rpc_unary_dialect;
	if (!has_type(r, type)) {
		exchange_header(r->x, "Accept-Post", type);
		exchange_reply(r->x, 415, NULL, "", 0);
		return false;
	}
	if (rpc_header(r, "connect-protocol-version", &value) > 0 && !http1_span_is(value, "1")) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "connect-protocol-version must be \"1\"");
		return false;
	}
	if (rpc_header(r, stream ? "connect-content-encoding" : "content-encoding", &value) > 0 &&
	    value.n > 0 && !http1_span_is_nocase(value, "identity")) {
		rpc_fail(r, RPC_UNIMPLEMENTED,
			 "unknown compression: supported encodings are identity");
		return false;
	}
	return true;
}

int rpc_timeout(struct request *r, uint64_t *ret_ms, struct err *e)
{
	struct http1_span value;

	*ret_ms = 0;
	if (rpc_header(r, "connect-timeout-ms", &value) == 0)
		return 0;
	return rpc_timeout_parse(value.p, value.n, ret_ms, e);
}

/* ---- the body */

/* Stands in for the request's state until the message is handled. */
struct rpc_body {
	struct exchange *x;
	struct rpc_base64_stream in; /* without on_bytes: only its text */
	size_t came, max, counted;
	bool stream, failed;
	struct err why;
	void (*on_message)(struct request *r, json_t *message);
	void (*on_bytes)(struct request *r, json_t *message, struct buf *bytes); /* with bytes */
	json_t *message;     /* owned: parsed, not yet handled */
	struct job handling; /* of a long one */
	/* what the request had before */
	void *state;
	void (*release)(struct request *r, bool answered);
};

/* The body's bytes are gone, and no longer counted. */
static void rpc_forget(struct rpc_body *b)
{
	rpc_base64_stream_release(&b->in);
	rpc_uncount(b->counted);
	b->counted = 0;
	exchange_release(b->x);
}

/* The handler's own state is in place again. */
static void give_back(struct request *r)
{
	struct rpc_body *b = r->state;

	rpc_forget(b);
	core_job_cancel(r->core, &b->handling);
	json_decref(b->message);
	r->state = b->state;
	r->release = b->release;
	free(b);
}

static void rpc_release(struct request *r, bool answered)
{
	give_back(r);
	if (r->release != NULL)
		r->release(r, answered);
}

static enum rpc_code code_of(const struct err *e)
{
	return e->code == ERR_LIMIT	    ? RPC_RESOURCE_EXHAUSTED
	       : e->code == ERR_UNSUPPORTED ? RPC_INTERNAL
					    : RPC_INVALID_ARGUMENT;
}

static int rpc_add(struct rpc_body *b, const uint8_t *data, size_t len, struct err *e)
{
	if (b->came > b->max)
		return err_set(e, ERR_LIMIT, "the request is larger than %zu bytes", b->max);
	if (b->came > RPC_SMALL) {
		if (!rpc_count(len))
			return err_set(e, ERR_LIMIT,
				       "too many large requests at a time, try again");
		b->counted += len;
	}
	if (!exchange_reserve(b->x, len))
		return err_set(e, ERR_LIMIT, "too many requests at a time, try again");
	return b->on_bytes != NULL ? rpc_base64_stream_add(&b->in, data, len, e)
				   : buf_add(&b->in.text, data, len, e);
}

/* Input after a failure is read and dropped, up to a bound: clients do not read an answer while
 * they send. */
static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct rpc_body *b = r->state;

	b->came += len;
	if (!b->failed && rpc_add(b, data, len, &b->why) < 0) {
		b->failed = true;
		rpc_forget(b);
	}
	if (b->failed && b->came > DROPPED_MAX)
		rpc_fail(r, code_of(&b->why), "%s", b->why.msg);
	return len;
}

/* The one message of the body. NULL if it was answered. */
static json_t *rpc_parse_body(struct request *r)
{
	const struct rpc_body *b = r->state;
	const uint8_t *text = b->in.text.data;
	size_t len = b->in.text.len;
	struct err e = { 0 };
	json_t *message;
	int whole = 1;

	if (b->stream)
		whole = rpc_envelope_read(text, len, b->max, &text, &len, &e);
	if (whole < 0) {
		rpc_fail(r, code_of(&e), "%s", e.msg);
		return NULL;
	}
	if (whole == 0 || (b->stream && len + RPC_ENVELOPE_HEAD != b->in.text.len)) {
		rpc_fail(r, RPC_INVALID_ARGUMENT,
			 "protocol error: the request must be one whole message");
		return NULL;
	}
	message = rpc_parse(text, len, &e);
	if (message == NULL)
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
	return message;
}

/* Call the handler. The body is gone before: a handler may answer with a long stream. */
static void rpc_deliver(struct request *r)
{
	struct rpc_body *b = r->state, was = *b;

	buf_init(&b->in.bytes, 0); /* its bytes are in was now */
	b->message = NULL;
	give_back(r);
	if (was.on_bytes != NULL)
		was.on_bytes(r, was.message, &was.in.bytes);
	else
		was.on_message(r, was.message);
	buf_release(&was.in.bytes);
	json_decref(was.message);
}

static bool on_handling(struct job *job)
{
	rpc_deliver(job->arg);
	return false;
}

static void on_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct rpc_body *b = r->state;

	if (!ok)
		return; /* the server answers if the client is still there */
	if (b->failed) {
		rpc_fail(r, code_of(&b->why), "%s", b->why.msg);
		return;
	}
	b->message = rpc_parse_body(r);
	if (b->message == NULL)
		return;
	if (b->in.text.len < LONG) {
		rpc_deliver(r);
		return;
	}
	b->handling = (struct job){ .on_piece = on_handling, .arg = r };
	core_job_add(r->core, r->tenant, &b->handling);
}

/* with has the bounds and the callback. */
static void read_body(struct request *r, const struct rpc_body *with)
{
	struct rpc_body *b;

	if (!rpc_check_head(r, with->stream))
		return;
	b = calloc(1, sizeof(*b));
	if (b == NULL) {
		exchange_abort(r->x);
		return;
	}
	*b = *with;
	b->x = r->x;
	b->max += b->stream ? RPC_ENVELOPE_HEAD : 0;
	b->state = r->state;
	b->release = r->release;
	rpc_base64_stream_init(&b->in, b->on_bytes != NULL ? RPC_MESSAGE_MAX : b->max, b->max);
	r->state = b;
	r->release = rpc_release;
	exchange_read_body(r->x, UINT64_MAX, on_data, on_end);
	exchange_set_body_deadline(r->x, with->max);
}

void rpc_read(struct request *r, void (*on_message)(struct request *r, json_t *message))
{
	read_body(r, &(struct rpc_body){ .max = RPC_MESSAGE_MAX, .on_message = on_message });
}

void rpc_read_with_bytes(struct request *r, size_t max,
			 void (*on_message)(struct request *r, json_t *message, struct buf *bytes))
{
	read_body(r, &(struct rpc_body){ .max = max, .on_bytes = on_message });
}

void rpc_read_stream(struct request *r, void (*on_message)(struct request *r, json_t *message))
{
	read_body(r, &(struct rpc_body){
			     .max = RPC_MESSAGE_MAX, .stream = true, .on_message = on_message });
}
