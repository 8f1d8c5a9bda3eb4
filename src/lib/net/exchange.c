/* exchange.c - the interface of handlers. Each function notes the handler's request and wakes the
 * connection, which acts on it (conn.c). None calls back, so that a handler's callbacks are never
 * called from inside its own calls. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "lib/base/log.h"
#include "lib/http/http1_write.h"
#include "lib/json/json.h"
#include "lib/loop/loop.h"
#include "lib/net/conn.h"
#include "lib/net/tls.h"

#define RETRY_AFTER "Retry-After"
#define HEADERS_MAX 8192
#define CHUNK_OVERHEAD (CHUNK_HEAD_MAX + sizeof(CHUNK_TAIL) - 1)

/* A handler called a function at a time when it must not, for example answered twice. The other
 * clients must not suffer from that: it is logged, and the call has no effect. A begun answer ends
 * incomplete, which its client sees. */
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
static void exchange_end_answer(struct exchange *x)
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

static bool exchange_is_ours(struct http1_span name)
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
	if (!http1_is_token(name.p, name.n) || !http1_is_value(value.p, value.n) ||
	    exchange_is_ours(name) || n > EXCHANGE_HEADERS_MAX || h->len > EXCHANGE_HEADERS_MAX - n)
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
	exchange_end_answer(x);
}

/* Types of streams that end only with the server. */
static bool exchange_is_endless(const char *type)
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
	x->endless = exchange_is_endless(type);
	x->status = status;
	x->answer = ANSWER_BEGUN;
	response_send(x, type, length, NULL, 0);
}

size_t exchange_room(const struct exchange *x)
{
	size_t used = x->conn->out.len + CHUNK_OVERHEAD;

	return used < CONN_OUT_MAX ? CONN_OUT_MAX - used : 0;
}

static void exchange_put_chunk(struct exchange *x, const void *data, size_t n)
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
	/* A connection about to be dropped takes everything: on_done follows. */
	if (x->refused || x->bodiless || x->conn->drop_pending || x->conn->state == CONN_DEAD ||
	    len == 0)
		return len;
	x->starved = n < len;
	if (n == 0)
		return 0;
	if (x->chunked) {
		exchange_put_chunk(x, data, n);
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
	exchange_end_answer(x);
}

/* Does the framing show the client that an answer which ends here is incomplete? */
static bool exchange_shows_cut(const struct exchange *x)
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
	conn_flush(x->conn); /* sends queued bytes, as far as the socket takes it at once */
	if (exchange_shows_cut(x)) {
		x->conn->cut = true;
		conn_drop_later(x->conn);
		return;
	}
	/* A reset, since the end of the connection would be taken for the end of the body. For the
	 * same reason TLS sends no close_notify. */
	(void)setsockopt(x->conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	if (x->conn->tls)
		tls_break(x->conn->tls);
	conn_drop_later(x->conn);
}

/* ---- heads of answers, and answers to requests that no handler sees */

#define HEAD_MAX 1024
#define RETRY "Retry-After: 1\r\n"
#define HINT_MAX_S \
	5 /* seconds: announced less than idle_ms, so that a request does not cross the close */

static const char *response_date(struct server *s)
{
	uint64_t now_s = loop_now_ns(s->loop) / 1000000000;
	struct tm tm;
	time_t t;

	if (s->date_s == now_s && s->date[0])
		return s->date;
	t = time(NULL);
	if (!gmtime_r(&t, &tm) ||
	    strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
		s->date[0] = '\0';
	s->date_s = now_s;
	return s->date;
}

/* Must the connection be closed after this answer? Not if the unread rest of the body is short and
 * certain to come. */
static bool response_must_close(const struct exchange *x)
{
	const struct conn *c = x->conn;

	if (x->close || c->server->draining)
		return true;
	if (c->body.done)
		return false;
	if (c->body.framing == HTTP1_CHUNKED || x->request.expect_continue)
		return true;
	return c->body.left > CONN_DISCARD_MAX;
}

/* Without Keep-Alive some clients close a connection after 4 s. */
static void response_write_connection(struct http1_write *w, const struct exchange *x)
{
	uint64_t idle_s = x->conn->server->options.idle_ms / 1000;
	uint64_t early_s = idle_s / 4 < HINT_MAX_S ? idle_s / 4 : HINT_MAX_S;
	char hint[40];

	if (x->status == 101) {
		http1_write_header(w, "Connection", "Upgrade");
		return;
	}
	if (x->close) {
		http1_write_header(w, "Connection", "close");
		return;
	}
	if (x->request.minor == 0)
		http1_write_header(w, "Connection", "keep-alive");
	if (idle_s == 0)
		return;
	(void)snprintf(hint, sizeof(hint), "timeout=%" PRIu64, idle_s - early_s);
	http1_write_header(w, "Keep-Alive", hint);
}

void response_send(struct exchange *x, const char *type, uint64_t length, const void *body,
		   size_t len)
{
	bool bare = x->status == 204 || x->status == 304 || x->status < 200;
	struct http1_write w;
	char head[HEAD_MAX];
	struct iovec parts[4];

	x->bodiless = x->bodiless || bare;
	x->chunked = length == EXCHANGE_CHUNKED && x->request.minor > 0;
	/* Without chunks the body ends with the connection. */
	x->close = response_must_close(x) || (length == EXCHANGE_CHUNKED && !x->chunked && !bare);
	x->left = length;
	http1_write_status(&w, head, sizeof(head), x->status);
	if (!x->dated)
		http1_write_header(&w, "Date", response_date(x->conn->server));
	if (!x->named)
		http1_write_header(&w, "X-Request-Id", x->id);
	if (type)
		http1_write_header(&w, "Content-Type", type);
	if (!bare && length != EXCHANGE_CHUNKED)
		http1_write_number(&w, "Content-Length", length);
	else if (!bare && x->chunked)
		http1_write_header(&w, "Transfer-Encoding", "chunked");
	response_write_connection(&w, x);
	assert(!w.bad);
	parts[0] = (struct iovec){ head, w.len };
	parts[1] = (struct iovec){ fifo_bytes(&x->headers), x->headers.len };
	parts[2] = (struct iovec){ (char *)(uintptr_t) "\r\n", 2 };
	parts[3] = (struct iovec){ (void *)(uintptr_t)body, x->bodiless ? 0 : len };
	x->bytes_out += w.len + x->headers.len + 2 + parts[3].iov_len;
	/* The head of a stream waits for its first bytes, so that both go in one packet. */
	conn_put(x->conn, parts, parts[3].iov_len > 0 ? 4 : 3, x->answer != ANSWER_BEGUN);
	fifo_release(&x->headers);
}

void response_ended(struct exchange *x)
{
	x->answer = ANSWER_ENDED;
	x->ended_ns = loop_now_ns(x->conn->loop);
	x->owed = x->conn->out.len;
	conn_wake(x->conn);
}

/* The codes of doc/openapi.yaml: errors look the same whether the server or a handler found them.
 */
static const char *response_code_of(int status)
{
	switch (status) {
	case 401:
		return "unauthorized";
	case 408:
		return "request_timeout";
	case 413:
	case 414:
	case 431:
		return "too_large";
	case 429:
		return "quota_bodies";
	case 503:
		return "unavailable";
	case 501:
	case 505:
		return "unsupported";
	default:
		return "invalid";
	}
}

void response_refuse(struct exchange *x, int status, const char *words)
{
	char text[512];
	struct json j;

	assert(x->answer == ANSWER_NONE);
	x->status = status;
	x->close = true;
	x->truncated = true;
	x->refused = true;
	if ((status == 429 || status == 503) && !x->retried &&
	    fifo_add(&x->headers, RETRY, sizeof(RETRY) - 1) < 0)
		conn_drop_later(x->conn);
	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_open(&j, "error", '{');
	json_text(&j, "code", response_code_of(status));
	json_text(&j, "message", words);
	json_text(&j, "fault", status == 503 ? "platform" : "user");
	json_text(&j, "session_id", NULL);
	json_text(&j, "request_id", x->id);
	json_close(&j, '}');
	json_close(&j, '}');
	response_send(x, "application/json", strlen(text), text, strlen(text));
	response_ended(x);
}

/* ---- tunnels: exchanges upgraded to another protocol, bytes both ways
 *
 * Output is a stream without framing (exchange_write()). Input is delivered as it comes. While the
 * handler cannot take it nothing is read, so that the peer's socket holds it back. The directions
 * end separately: the end of the peer's is reported by on_end, the other is ended by
 * exchange_shut(). */

void exchange_upgrade(struct exchange *x,
		      size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len),
		      void (*on_end)(struct exchange *x, bool ok))
{
	if (x->refused || exchange_misused(x, x->answer != ANSWER_NONE || x->on_data, __func__))
		return;
	assert(x->request.framing == HTTP1_NO_BODY);
	x->status = 101;
	response_send(x, NULL, EXCHANGE_CHUNKED, NULL, 0);
	/* The following bytes are not HTTP: they have no framing, and no request comes after
	 * them. */
	x->close = true;
	x->chunked = false;
	x->bodiless = false;
	x->answer = ANSWER_BEGUN;
	x->tunnel = true;
	x->on_data = on_data;
	x->on_end = on_end;
	conn_wake(x->conn);
}

void exchange_shut(struct exchange *x)
{
	if (x->refused)
		return;
	assert(x->tunnel);
	x->shut = true;
	conn_wake(x->conn);
}

bool tunnel_wants_input(const struct conn *c)
{
	return c->x->on_data && !c->x->paused && c->x->answer != ANSWER_ENDED && c->in.len == 0;
}

static void tunnel_end_input(struct exchange *x)
{
	void (*on_end)(struct exchange * x, bool ok) = x->on_end;

	x->on_data = NULL;
	x->on_end = NULL;
	if (on_end)
		on_end(x, true);
}

bool tunnel_step(struct conn *c)
{
	struct exchange *x = c->x;
	size_t n;

	if (!x->on_data || x->paused || x->answer == ANSWER_ENDED)
		return false;
	if (c->in.len > 0) {
		n = x->on_data(x, fifo_bytes(&c->in), c->in.len);
		assert(n <= c->in.len);
		x->paused = n < c->in.len;
		fifo_consume(&c->in, n);
		return true;
	}
	if (!c->ended)
		return false;
	tunnel_end_input(x);
	return true;
}

/* The handler may be too slow for it now, but still want it. So the handler ends the tunnel. */
bool tunnel_has_tail(const struct conn *c)
{
	return c->x && c->x->tunnel;
}

void tunnel_shut(struct conn *c)
{
	struct exchange *x = c->x;

	if (!x->tunnel || !x->shut || x->shut_done || c->drop_pending || c->out.len > 0)
		return;
	if (!c->tls)
		(void)shutdown(c->fd, SHUT_WR); /* fails only if the peer is gone */
	else if (tls_shut(c->tls) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_drop_later(c);
		return;
	}
	x->shut_done = true;
}
