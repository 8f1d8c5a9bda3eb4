/* exchange.c - the interface of handlers. Each function notes what the handler wants and wakes the
 * connection, which acts on it (conn.c); none calls back, so that a handler's callbacks are never
 * called from inside its own calls. */
#include "conn.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

#include "log.h"
#include "loop.h"
#include "tls.h"

#define RETRY_AFTER "Retry-After"
#define HEADERS_MAX 8192
#define CHUNK_OVERHEAD (CHUNK_HEAD_MAX + sizeof(CHUNK_TAIL) - 1)

/* A handler called a function at a time when it must not, for example answered twice. The other
 * clients must not suffer from that: it is logged, and the call has no effect; an answer that has
 * begun ends incomplete, which its client sees. */
bool exchange_misused(struct exchange *x, bool wrong, const char *function)
{
	static struct log_limit limit = { .burst = 20, .interval_ms = 1000 };
	unsigned long long dropped;

	if (!wrong)
		return false;
#ifdef CORDON_TEST_ABORTS
	abort();
#endif
	if (log_limit(&limit, &dropped))
		log_error("a handler called a function of its request out of order",
			  "request_id=%s function=%s left_out=%llu", x->id, function, dropped);
	if (x->answer == ANSWER_BEGUN)
		exchange_abort(x);
	return true;
}

/* ---- the request */

const struct http1_request *exchange_request(const struct exchange *x)
{
	return &x->request;
}

const char *exchange_id(const struct exchange *x)
{
	return x->id;
}

const char *exchange_peer(const struct exchange *x)
{
	return x->conn->peer;
}

bool exchange_is_local(const struct exchange *x)
{
	return x->conn->from->local;
}

const uint8_t *exchange_address(const struct exchange *x)
{
	return x->conn->from->key;
}

void exchange_set_arg(struct exchange *x, void *arg)
{
	x->arg = arg;
}

void *exchange_arg(const struct exchange *x)
{
	return x->arg;
}

void exchange_set_carrier(struct exchange *x, void *carrier)
{
	x->carrier = carrier;
}

void *exchange_carrier(const struct exchange *x)
{
	return x->carrier;
}

void exchange_on_done(struct exchange *x, void (*on_done)(struct exchange *x, bool answered))
{
	x->on_done = on_done;
}

void exchange_on_drain(struct exchange *x, void (*on_drain)(struct exchange *x))
{
	x->on_drain = on_drain;
}

void exchange_revoke(struct exchange *x, int status, const char *words)
{
	if (x->conn->state == CONN_DEAD)
		return;
	x->revoked = status;
	x->why_revoked = words;
	conn_wake(x->conn);
}

/* ---- its body */

static size_t on_collect_data(struct exchange *x, const uint8_t *data, size_t len)
{
	if (fifo_add(&x->collected, data, len) < 0)
		conn_drop_later(x->conn);
	return len;
}

static void on_collect_end(struct exchange *x, bool ok)
{
	if (ok)
		x->on_body(x, fifo_bytes(&x->collected), x->collected.len);
}

void exchange_read_all(struct exchange *x, size_t max,
		       void (*on_body)(struct exchange *x, const uint8_t *body, size_t len))
{
	if (exchange_misused(x, x->on_body || x->on_data, __func__))
		return;
	x->on_body = on_body;
	if (x->conn->body.done) {
		on_body(x, (const uint8_t *)"", 0);
		return;
	}
	exchange_read_body(x, max, on_collect_data, on_collect_end);
	exchange_set_body_deadline(x, max);
}

void exchange_read_body(struct exchange *x, uint64_t max,
			size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len),
			void (*on_end)(struct exchange *x, bool ok))
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct conn *c = x->conn;

	if (c->state == CONN_DEAD || x->refused)
		return;
	if (exchange_misused(x, x->on_data || x->answer == ANSWER_ENDED, __func__))
		return;
	x->on_data = on_data;
	x->on_end = on_end;
	c->read_ns = loop_now_ns(c->loop);
	conn_wake(c);
	c->body.chunk.max = max;
	if (c->body.framing == HTTP1_LENGTH && c->body.left > max) {
		x->too_long = true; /* request_body_deliver() reports it: no callback from here */
		return;
	}
	if (x->request.expect_continue && c->in.len == 0 && x->answer == ANSWER_NONE)
		conn_put_bytes(c, go_on, sizeof(go_on) - 1);
	x->request.expect_continue = false;
}

void exchange_resume_body(struct exchange *x)
{
	x->paused = false;
	x->conn->read_ns = loop_now_ns(x->conn->loop);
	conn_wake(x->conn);
}

/* ---- the answer */

/* The answer is complete: the rest of the request's body is not for the handler any more. */
static void end_answer(struct exchange *x)
{
	x->on_data = NULL;
	x->on_end = NULL;
	response_ended(x);
}

bool exchange_has_begun(const struct exchange *x)
{
	return x->answer != ANSWER_NONE;
}

void exchange_header(struct exchange *x, const char *name, const char *value)
{
	size_t n = strlen(name), v = strlen(value);
	struct fifo *h = &x->headers;
	bool retry = strcmp(name, RETRY_AFTER) == 0;

	if (x->refused || (retry && x->retried))
		return; /* a second Retry-After would contradict the first */
	if (exchange_misused(x, x->answer != ANSWER_NONE, __func__) ||
	    exchange_misused(x, !http1_is_token(name, n) || !http1_is_value(value, v), __func__) ||
	    exchange_misused(x, h->len + n + v + 4 > HEADERS_MAX, __func__))
		return;
	x->retried = x->retried || retry;
	if (fifo_add(h, name, n) < 0 || fifo_add(h, ": ", 2) < 0 || fifo_add(h, value, v) < 0 ||
	    fifo_add(h, "\r\n", 2) < 0)
		conn_drop_later(x->conn);
}

static bool is_ours(struct http1_span name)
{
	return http1_span_is_nocase(name, "content-length") ||
	       http1_span_is_nocase(name, "transfer-encoding") ||
	       http1_span_is_nocase(name, "connection");
}

int exchange_pass_header(struct exchange *x, struct http1_span name, struct http1_span value)
{
	size_t n = name.n + value.n + 4;
	struct fifo *h = &x->headers;
	uint8_t *to;

	if (x->refused)
		return 0;
	if (exchange_misused(x, x->answer != ANSWER_NONE, __func__))
		return -1;
	if (!http1_is_token(name.p, name.n) || !http1_is_value(value.p, value.n) || is_ours(name) ||
	    n > EXCHANGE_HEADERS_MAX || h->len > EXCHANGE_HEADERS_MAX - n)
		return -1;
	to = fifo_reserve(h, n);
	if (!to)
		return -1;
	memcpy(to, name.p, name.n);
	to[name.n] = ':';
	to[name.n + 1] = ' ';
	if (value.n > 0)
		memcpy(to + name.n + 2, value.p, value.n);
	to[n - 2] = '\r';
	to[n - 1] = '\n';
	fifo_commit(h, n);
	x->dated = x->dated || http1_span_is_nocase(name, "date");
	x->named = x->named || http1_span_is_nocase(name, "x-request-id");
	return 0;
}

void exchange_reply(struct exchange *x, int status, const char *type, const void *body, size_t len)
{
	if (x->refused || exchange_misused(x, x->answer != ANSWER_NONE, __func__))
		return;
	assert(status >= 200 && status <= 599);
	x->status = status;
	response_send(x, type, len, body, len);
	end_answer(x);
}

/* Types of streams that end only with the server. */
static bool is_endless(const char *type)
{
	static const char *const types[] = { "text/event-stream", "application/connect+json" };

	for (size_t i = 0; type != NULL && i < COUNT(types); i++)
		if (strncmp(type, types[i], strlen(types[i])) == 0) /* it may have parameters */
			return true;
	return false;
}

void exchange_begin(struct exchange *x, int status, const char *type, uint64_t length)
{
	if (x->refused || exchange_misused(x, x->answer != ANSWER_NONE, __func__))
		return;
	assert(status >= 200 && status <= 599);
	x->endless = is_endless(type);
	x->status = status;
	x->answer = ANSWER_BEGUN;
	response_send(x, type, length, NULL, 0);
}

size_t exchange_room(const struct exchange *x)
{
	size_t used = x->conn->out.len + CHUNK_OVERHEAD;

	return used < CONN_OUT_MAX ? CONN_OUT_MAX - used : 0;
}

static void put_chunk(struct exchange *x, const void *data, size_t n)
{
	char head[CHUNK_HEAD_MAX];
	size_t head_len = chunk_head(head, n);

	conn_put_bytes(x->conn, head, head_len);
	conn_put_bytes(x->conn, data, n);
	conn_put_bytes(x->conn, CHUNK_TAIL, sizeof(CHUNK_TAIL) - 1);
	x->bytes_out += head_len + n + sizeof(CHUNK_TAIL) - 1;
}

size_t exchange_write(struct exchange *x, const void *data, size_t len)
{
	size_t room = exchange_room(x);
	size_t n = len < room ? len : room;

	if (!x->refused && exchange_misused(x, x->answer != ANSWER_BEGUN, __func__))
		return len;
	/* A connection that is about to be dropped takes everything: on_done follows. */
	if (x->refused || x->bodiless || x->conn->drop_pending || x->conn->state == CONN_DEAD ||
	    len == 0)
		return len;
	x->starved = n < len;
	if (n == 0)
		return 0;
	if (x->chunked) {
		put_chunk(x, data, n);
		return n;
	}
	if (x->left != EXCHANGE_CHUNKED) {
		if (exchange_misused(x, n > x->left, __func__)) /* more than was announced */
			return len;
		x->left -= n;
	}
	conn_put_bytes(x->conn, data, n);
	x->bytes_out += n;
	return n;
}

void exchange_on_writable(struct exchange *x, void (*on_writable)(struct exchange *x))
{
	x->on_writable = on_writable;
}

void exchange_end(struct exchange *x)
{
	if (x->refused || exchange_misused(x, x->answer != ANSWER_BEGUN, __func__))
		return;
	if (!x->bodiless && !x->chunked && x->left != EXCHANGE_CHUNKED && x->left > 0) {
		exchange_abort(x); /* less than was announced: the client must see it */
		return;
	}
	if (x->chunked && !x->bodiless)
		conn_put_bytes(x->conn, CHUNK_LAST, sizeof(CHUNK_LAST) - 1);
	end_answer(x);
}

/* Does the framing show the client that an answer which ends here is incomplete? */
static bool shows_cut(const struct exchange *x)
{
	if (x->answer != ANSWER_BEGUN || x->bodiless || x->tunnel || x->ws)
		return false;
	return x->chunked || (x->left != EXCHANGE_CHUNKED && x->left > 0);
}

void exchange_abort(struct exchange *x)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	if (x->conn->state == CONN_DEAD || x->refused)
		return;
	conn_flush(x->conn); /* sends what is queued, as far as the socket takes it at once */
	if (shows_cut(x)) {
		x->conn->cut = true;
		conn_drop_later(x->conn);
		return;
	}
	/* A reset, since the end of the connection would be taken for the end of the body; for the
	 * same reason TLS sends no close_notify. */
	(void)setsockopt(x->conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	if (x->conn->tls)
		tls_break(x->conn->tls);
	conn_drop_later(x->conn);
}
