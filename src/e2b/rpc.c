/* rpc.c - theory of operation
 *
 * A body is collected here and not by the server, for two reasons: it is given back as soon as it
 * is parsed, where the server's would stay for as long as a stream runs, and what clients make us
 * keep at a time is bounded for all of them together. Small bodies are not counted: their number is
 * bounded by that of connections. The server reports the end of a long one in a turn of its tenant
 * (jobs.h), so on_end() may parse it at once; a long message is handled in the tenant's next turn,
 * since parsing 1 MiB takes about 15 ms. */
#include "rpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "e2b_private.h"
#include "rpc_base64_stream.h"

#define COUNTED_MAX ((size_t)256 << 20)
#define DROPPED_MAX ((size_t)512 << 20)
#define MESSAGE_LONGEST 1024 /* of an error */
#define LONG (64U << 10)     /* a message of this size or more is handled in a turn of its own */
#define ERROR_MAX (8 * MESSAGE_LONGEST)

/* ---- bytes kept for clients */

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

/* ---- answers */

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

static void fail(struct request *r, enum rpc_code code, const char *message)
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
		fail(r, rpc_code_of_status(f->status), f->message);
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
	fail(r, code, message);
}

void rpc_reply(struct request *r, struct json *j)
{
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

static size_t header(const struct request *r, const char *name, struct http1_span *ret)
{
	const struct http1_request *q = exchange_request(r->x);

	return http1_find(q->headers, q->headers_n, name, ret);
}

static bool has_type(const struct request *r, const char *wanted)
{
	struct http1_span type;

	return header(r, "content-type", &type) == 1 &&
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
	if (header(r, "connect-protocol-version", &value) > 0 && !http1_span_is(value, "1")) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "connect-protocol-version must be \"1\"");
		return false;
	}
	if (header(r, stream ? "connect-content-encoding" : "content-encoding", &value) > 0 &&
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
	if (header(r, "connect-timeout-ms", &value) == 0)
		return 0;
	return rpc_timeout_parse(value.p, value.n, ret_ms, e);
}

/* ---- the body */

struct body {
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

static void forget(struct body *b)
{
	rpc_base64_stream_release(&b->in);
	rpc_uncount(b->counted);
	b->counted = 0;
	exchange_release(b->x);
}

static void give_back(struct request *r)
{
	struct body *b = r->state;

	forget(b);
	core_job_cancel(r->core, &b->handling);
	json_decref(b->message);
	r->state = b->state;
	r->release = b->release;
	free(b);
}

static void release(struct request *r, bool answered)
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

static int add(struct body *b, const uint8_t *data, size_t len, struct err *e)
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

/* Input after a failure is read and dropped, up to a bound: clients that are still sending do not
 * read an answer. */
static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct body *b = r->state;

	b->came += len;
	if (!b->failed && add(b, data, len, &b->why) < 0) {
		b->failed = true;
		forget(b);
	}
	if (b->failed && b->came > DROPPED_MAX)
		rpc_fail(r, code_of(&b->why), "%s", b->why.msg);
	return len;
}

/* The one message that is in the body; NULL if it was answered. */
static json_t *parse(struct request *r)
{
	const struct body *b = r->state;
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

/* Calls the handler. The body is gone before: a handler may answer with a long stream. */
static void deliver(struct request *r)
{
	struct body *b = r->state, was = *b;

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
	deliver(job->arg);
	return false;
}

static void on_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct body *b = r->state;

	if (!ok)
		return; /* the server answers if the client is still there */
	if (b->failed) {
		rpc_fail(r, code_of(&b->why), "%s", b->why.msg);
		return;
	}
	b->message = parse(r);
	if (b->message == NULL)
		return;
	if (b->in.text.len < LONG) {
		deliver(r);
		return;
	}
	b->handling = (struct job){ .on_piece = on_handling, .arg = r };
	core_job_add(r->core, r->tenant, &b->handling);
}

static void read_body(struct request *r, const struct body *with)
{
	struct body *b;

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
	r->release = release;
	exchange_read_body(r->x, UINT64_MAX, on_data, on_end);
	exchange_set_body_deadline(r->x, with->max);
}

void rpc_read(struct request *r, void (*on_message)(struct request *r, json_t *message))
{
	read_body(r, &(struct body){ .max = RPC_MESSAGE_MAX, .on_message = on_message });
}

void rpc_read_with_bytes(struct request *r, size_t max,
			 void (*on_message)(struct request *r, json_t *message, struct buf *bytes))
{
	read_body(r, &(struct body){ .max = max, .on_bytes = on_message });
}

void rpc_read_stream(struct request *r, void (*on_message)(struct request *r, json_t *message))
{
	read_body(r, &(struct body){
			     .max = RPC_MESSAGE_MAX, .stream = true, .on_message = on_message });
}
