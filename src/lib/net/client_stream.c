/* client_stream.c - WebSocket and server-sent events, the client side. Frames of WebSocket are
 * masked with new random bytes. Messages of the server are assembled in one buffer, and bounded. */
#include <stdio.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/rand.h"
#include "lib/net/client.h"
#include "lib/net/client_conn.h"

#define HEADERS_MAX 16
#define PIECE ((size_t)16 * 1024)
#define CODE_GONE 1006

int client_ws_open(struct client *c, const char *target, const struct client_header *headers,
		   size_t nheaders, struct err *e)
{
	char key[BASE64_LENGTH(16) + 1], want[WS_ACCEPT_LEN + 1], got[WS_ACCEPT_LEN + 1];
	struct client_header all[HEADERS_MAX + 4] = { { "Connection", "Upgrade" },
						      { "Upgrade", "websocket" },
						      { "Sec-WebSocket-Version", "13" },
						      { "Sec-WebSocket-Key", key } };
	struct client_request r = {
		.method = "GET", .target = target, .headers = all, .nheaders = nheaders + 4
	};
	uint8_t nonce[16];

	if (nheaders > HEADERS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d headers", HEADERS_MAX);
	if (nheaders > 0)
		memcpy(all + 4, headers, nheaders * sizeof(*headers));
	rand_bytes(nonce, sizeof(nonce));
	base64_encode(nonce, sizeof(nonce), key);
	if (client_send(c, &r, e) < 0)
		return -1;
	if (c->answer.status != 101)
		return 1;
	ws_accept_key((struct http1_span){ key, strlen(key) }, want);
	if (!client_header(c, "Sec-WebSocket-Accept", got, sizeof(got)) || strcmp(got, want) != 0) {
		client_conn_close(c);
		return err_set(e, ERR_INVALID, "%s did not accept the WebSocket correctly",
			       c->host_port);
	}
	fifo_release(&c->message);
	c->ws_frag = c->ws_given = c->ws_closed = c->ws_close_sent = false;
	return 0;
}

/* ---- sending */

static int client_ws_send_frame(struct client *c, enum ws_opcode opcode, const uint8_t *data,
				size_t len, struct err *e)
{
	struct ws_head h = { .fin = true, .masked = true, .opcode = opcode, .length = len };
	uint8_t piece[WS_HEAD_MAX + PIECE];
	size_t n, done = 0;

	if (c->fd < 0)
		return err_set(e, ERR_CONFLICT, "the connection to %s is closed", c->host_port);
	rand_bytes(h.mask, sizeof(h.mask));
	n = ws_head_write(&h, piece);
	do {
		size_t part = len - done < PIECE ? len - done : PIECE;

		if (part > 0)
			memcpy(piece + n, data + done, part);
		ws_mask(piece + n, part, h.mask, done);
		if (client_conn_send(c, piece, n + part, false, e) < 0)
			return -1;
		done += part;
		n = 0;
	} while (done < len);
	return 0;
}

int client_ws_send(struct client *c, bool text, const void *data, size_t len, struct err *e)
{
	if (c->ws_close_sent)
		return err_set(e, ERR_CONFLICT, "the WebSocket to %s is closed", c->host_port);
	return client_ws_send_frame(c, text ? WS_TEXT : WS_BINARY, data, len, e);
}

int client_ws_close(struct client *c, uint16_t code, const char *reason, struct err *e)
{
	uint8_t payload[WS_CONTROL_MAX];

	if (c->ws_close_sent)
		return 0;
	c->ws_close_sent = true;
	return client_ws_send_frame(c, WS_CLOSE, payload, ws_close_write(code, reason, payload), e);
}

/* ---- receiving */

static int client_ws_broken(struct client *c, uint16_t code, const char *what, struct err *e)
{
	IGNORED(client_ws_close(c, code, what, e), "the fault itself is what is reported");
	client_conn_close(c);
	return err_set(e, ERR_INVALID, "%s broke the WebSocket protocol: %s", c->host_port, what);
}

static int client_ws_closed(struct client *c, uint16_t code, struct http1_span reason,
			    struct client_ws_message *ret, struct err *e)
{
	if (!c->ws_close_sent)
		IGNORED(client_ws_close(c,
					code >= 1000 && code != WS_CODE_NO_STATUS &&
							code != CODE_GONE
						? code
						: WS_CODE_NORMAL,
					"", e),
			"the peer has gone, or will");
	c->ws_closed = true;
	(void)snprintf(c->ws_reason, sizeof(c->ws_reason), "%.*s", (int)reason.n, reason.p);
	client_conn_close(c);
	*ret = (struct client_ws_message){ .kind = CLIENT_WS_CLOSED,
					   .data = (const uint8_t *)c->ws_reason,
					   .len = strlen(c->ws_reason),
					   .code = code };
	return 1;
}

/* Handle a control frame whose payload is at the front of the input. 1: ret is set. */
static int client_ws_take_control(struct client *c, const struct ws_head *h,
				  struct client_ws_message *ret, struct err *e)
{
	uint8_t payload[WS_CONTROL_MAX];
	size_t n = (size_t)h->length;
	struct http1_span reason = { "", 0 };
	uint16_t code;

	if (n > 0)
		memcpy(payload, fifo_bytes(&c->in), n);
	fifo_consume(&c->in, n);
	if (h->opcode == WS_PING)
		return c->ws_close_sent ? 0 : client_ws_send_frame(c, WS_PONG, payload, n, e);
	if (h->opcode != WS_CLOSE)
		return 0;
	if (ws_close_read(payload, n, &code, &reason) < 0)
		return client_ws_broken(c, WS_CODE_PROTOCOL, "bad close frame", e);
	return client_ws_closed(c, code, reason, ret, e);
}

static int client_ws_take_data(struct client *c, const struct ws_head *h,
			       struct client_ws_message *ret, struct err *e)
{
	size_t n = (size_t)h->length;
	struct ws_text utf8 = { 0 };

	if (h->opcode != WS_CONTINUATION)
		c->ws_text = h->opcode == WS_TEXT;
	if (fifo_add(&c->message, fifo_bytes(&c->in), n) < 0)
		return err_sys(e, "out of memory for a message");
	fifo_consume(&c->in, n);
	if (!h->fin)
		return 0;
	if (c->ws_text && c->message.len > 0 &&
	    (!ws_text_feed(&utf8, fifo_bytes(&c->message), c->message.len) ||
	     !ws_text_ended(&utf8)))
		return client_ws_broken(c, WS_CODE_NOT_TEXT, "text that is not UTF-8", e);
	*ret = (struct client_ws_message){ .kind = c->ws_text ? CLIENT_WS_TEXT : CLIENT_WS_BINARY,
					   .data = fifo_bytes(&c->message),
					   .len = c->message.len };
	c->ws_given = true;
	return 1;
}

/* Handle one frame, if it is complete: 1: a message is in ret. 0: call again. -1. -2: more input
 * is needed. */
static int client_ws_take_frame(struct client *c, struct client_ws_message *ret, struct err *e)
{
	struct ws_head h;
	bool frag = c->ws_frag;
	int n = c->in.len > 0 ? ws_head_read(fifo_bytes(&c->in), c->in.len, false, &h) : 0;

	if (n == 0)
		return -2;
	if (n < 0 || !ws_order_check(&frag, &h))
		return client_ws_broken(c, WS_CODE_PROTOCOL, "bad frame", e);
	if (h.length > CLIENT_WS_MESSAGE_MAX - c->message.len)
		return client_ws_broken(c, WS_CODE_TOO_BIG, "message too long", e);
	if (c->in.len - (size_t)n < h.length)
		return -2;
	c->ws_frag = frag;
	fifo_consume(&c->in, (size_t)n);
	return h.opcode >= WS_CLOSE ? client_ws_take_control(c, &h, ret, e)
				    : client_ws_take_data(c, &h, ret, e);
}

int client_ws_recv(struct client *c, uint64_t timeout_ms, struct client_ws_message *ret,
		   struct err *e)
{
	static const struct http1_span no_reason = { "", 0 };
	uint64_t began = clock_now_ns();

	if (c->ws_closed)
		return err_set(e, ERR_CONFLICT, "the WebSocket to %s is closed", c->host_port);
	if (c->ws_given)
		fifo_release(&c->message);
	c->ws_given = false;
	for (;;) {
		uint64_t past = (clock_now_ns() - began) / CLOCK_MS;
		int n = client_ws_take_frame(c, ret, e);

		if (n == 1 || n == -1)
			return n;
		if (n == 0)
			continue;
		if (timeout_ms != UINT64_MAX && past > timeout_ms)
			return 0;
		n = client_conn_fill(c, timeout_ms == UINT64_MAX ? timeout_ms : timeout_ms - past,
				     e);
		if (n == -2)
			return 0;
		if (n == -1)
			return -1;
		if (n == 0)
			return client_ws_closed(c, CODE_GONE, no_reason, ret, e);
	}
}

/* ---- server-sent events in the body of an answer, line by line (LF, or CR LF) */

static int client_sse_too_long(const struct client *c, struct err *e)
{
	return err_set(e, ERR_LIMIT, "%s sent an event longer than %zu bytes", c->host_port,
		       CLIENT_EVENT_MAX);
}

/* The next line, without its end, in *ret: 1. 0 at the end of the body. -1. Valid until the next
 * call. */
static int client_sse_next_line(struct client *c, struct http1_span *ret, struct err *e)
{
	for (;;) {
		char *bytes = (char *)fifo_bytes(&c->lines);
		char *end = c->lines.len > c->lines_scanned
				    ? memchr(bytes + c->lines_scanned, '\n',
					     c->lines.len - c->lines_scanned)
				    : NULL;
		uint8_t *to;
		ssize_t n;

		if (end) {
			*ret = (struct http1_span){ bytes, (size_t)(end - bytes) };
			if (ret->n > 0 && bytes[ret->n - 1] == '\r')
				ret->n--;
			fifo_consume(&c->lines, (size_t)(end - bytes) + 1);
			c->lines_scanned = 0;
			return 1;
		}
		c->lines_scanned = c->lines.len;
		if (c->lines.len > CLIENT_EVENT_MAX)
			return client_sse_too_long(c, e);
		to = fifo_reserve(&c->lines, 4096);
		if (!to)
			return err_sys(e, "out of memory for an event");
		n = client_read(c, to, 4096, e);
		if (n <= 0)
			return (int)n; /* a last line without an end is dropped */
		fifo_commit(&c->lines, (size_t)n);
	}
}

static bool client_sse_is_field(struct http1_span line, const char *name,
				struct http1_span *ret_value)
{
	size_t n = strlen(name);

	if (line.n < n || memcmp(line.p, name, n) != 0 || (line.n > n && line.p[n] != ':'))
		return false;
	n += line.n > n;
	n += line.n > n && line.p[n] == ' ';
	*ret_value = (struct http1_span){ line.p + n, line.n - n };
	return true;
}

/* 0, or -1. */
static int client_sse_take_line(struct client *c, struct http1_span line, struct err *e)
{
	struct http1_span value;

	if (client_sse_is_field(line, "event", &value))
		(void)snprintf(c->event_name, sizeof(c->event_name), "%.*s", (int)value.n, value.p);
	else if (client_sse_is_field(line, "id", &value))
		(void)snprintf(c->event_id, sizeof(c->event_id), "%.*s", (int)value.n, value.p);
	else if (client_sse_is_field(line, "data", &value)) {
		if (c->event.len + value.n > CLIENT_EVENT_MAX)
			return client_sse_too_long(c, e);
		if (fifo_add(&c->event, value.p, value.n) < 0 || fifo_add(&c->event, "\n", 1) < 0)
			return err_sys(e, "out of memory for an event");
	}
	return 0; /* comments and unknown fields */
}

int client_sse_next(struct client *c, struct client_event *ret, struct err *e)
{
	fifo_consume(&c->event, c->event.len);
	c->event_name[0] = c->event_id[0] = '\0';
	for (;;) {
		struct http1_span line = { 0 };
		int n = client_sse_next_line(c, &line, e);

		if (n <= 0)
			return n;
		if (line.n > 0) {
			if (client_sse_take_line(c, line, e) < 0)
				return -1;
			continue;
		}
		if (c->event.len > 0)
			break;
		c->event_name[0] = c->event_id[0] = '\0'; /* without data there is no event */
	}
	/* The end of the last line becomes the NUL. */
	c->event.data[c->event.at + c->event.len - 1] = '\0';
	*ret = (struct client_event){ .name = c->event_name[0] ? c->event_name : "message",
				      .id = c->event_id,
				      .data = (const char *)fifo_bytes(&c->event),
				      .data_len = c->event.len - 1 };
	return 1;
}
