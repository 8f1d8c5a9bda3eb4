/* response.c - writes the heads of answers, and the answers to requests that no handler sees.
 * Called by exchange.c and conn_step.c. */
#include "conn.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "http1_write.h"
#include "json.h"
#include "loop.h"

#define HEAD_MAX 1024
#define RETRY "Retry-After: 1\r\n"
#define HINT_MAX_S \
	5 /* seconds: announced less than idle_ms, so that a request does not cross the close */

static const char *date(struct server *s)
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
static bool must_close(const struct exchange *x)
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
static void write_connection(struct http1_write *w, const struct exchange *x)
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
	x->close = must_close(x) || (length == EXCHANGE_CHUNKED && !x->chunked && !bare);
	x->left = length;
	http1_write_status(&w, head, sizeof(head), x->status);
	if (!x->dated)
		http1_write_header(&w, "Date", date(x->conn->server));
	if (!x->named)
		http1_write_header(&w, "X-Request-Id", x->id);
	if (type)
		http1_write_header(&w, "Content-Type", type);
	if (!bare && length != EXCHANGE_CHUNKED)
		http1_write_number(&w, "Content-Length", length);
	else if (!bare && x->chunked)
		http1_write_header(&w, "Transfer-Encoding", "chunked");
	write_connection(&w, x);
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
static const char *code_of(int status)
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
	json_text(&j, "code", code_of(status));
	json_text(&j, "message", words);
	json_text(&j, "fault", status == 503 ? "platform" : "user");
	json_text(&j, "session_id", NULL);
	json_text(&j, "request_id", x->id);
	json_close(&j, '}');
	json_close(&j, '}');
	response_send(x, "application/json", strlen(text), text, strlen(text));
	response_ended(x);
}
