/* client_ws.c - WebSocket, the client side. Frames are masked with new random bytes; messages of
 * the server are assembled in one buffer, and bounded. */
#include "client.h"

#include <stdio.h>
#include <string.h>

#include "base64.h"
#include "client_conn.h"
#include "clock.h"
#include "rand.h"

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

static int send_frame(struct client *c, enum ws_opcode opcode, const uint8_t *data, size_t len,
		      struct err *e)
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
	return send_frame(c, text ? WS_TEXT : WS_BINARY, data, len, e);
}

int client_ws_close(struct client *c, uint16_t code, const char *reason, struct err *e)
{
	uint8_t payload[WS_CONTROL_MAX];

	if (c->ws_close_sent)
		return 0;
	c->ws_close_sent = true;
	return send_frame(c, WS_CLOSE, payload, ws_close_write(code, reason, payload), e);
}

/* ---- receiving */

static int broken(struct client *c, uint16_t code, const char *what, struct err *e)
{
	IGNORED(client_ws_close(c, code, what, e), "the fault itself is what is reported");
	client_conn_close(c);
	return err_set(e, ERR_INVALID, "%s broke the WebSocket protocol: %s", c->host_port, what);
}

static int closed(struct client *c, uint16_t code, struct http1_span reason,
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

/* Handles a control frame whose payload is at the front of the input. 1: ret is set. */
static int take_control(struct client *c, const struct ws_head *h, struct client_ws_message *ret,
			struct err *e)
{
	uint8_t payload[WS_CONTROL_MAX];
	size_t n = (size_t)h->length;
	struct http1_span reason = { "", 0 };
	uint16_t code;

	if (n > 0)
		memcpy(payload, fifo_bytes(&c->in), n);
	fifo_consume(&c->in, n);
	if (h->opcode == WS_PING)
		return c->ws_close_sent ? 0 : send_frame(c, WS_PONG, payload, n, e);
	if (h->opcode != WS_CLOSE)
		return 0;
	if (ws_close_read(payload, n, &code, &reason) < 0)
		return broken(c, WS_CODE_PROTOCOL, "bad close frame", e);
	return closed(c, code, reason, ret, e);
}

static int take_data(struct client *c, const struct ws_head *h, struct client_ws_message *ret,
		     struct err *e)
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
		return broken(c, WS_CODE_NOT_TEXT, "text that is not UTF-8", e);
	*ret = (struct client_ws_message){ .kind = c->ws_text ? CLIENT_WS_TEXT : CLIENT_WS_BINARY,
					   .data = fifo_bytes(&c->message),
					   .len = c->message.len };
	c->ws_given = true;
	return 1;
}

/* Handles one frame, if it is complete: 1: a message is in ret; 0: call again; -1; -2: more input
 * is needed. */
static int take_frame(struct client *c, struct client_ws_message *ret, struct err *e)
{
	struct ws_head h;
	bool frag = c->ws_frag;
	int n = c->in.len > 0 ? ws_head_read(fifo_bytes(&c->in), c->in.len, false, &h) : 0;

	if (n == 0)
		return -2;
	if (n < 0 || !ws_order_check(&frag, &h))
		return broken(c, WS_CODE_PROTOCOL, "bad frame", e);
	if (h.length > CLIENT_WS_MESSAGE_MAX - c->message.len)
		return broken(c, WS_CODE_TOO_BIG, "message too long", e);
	if (c->in.len - (size_t)n < h.length)
		return -2;
	c->ws_frag = frag;
	fifo_consume(&c->in, (size_t)n);
	return h.opcode >= WS_CLOSE ? take_control(c, &h, ret, e) : take_data(c, &h, ret, e);
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
		int n = take_frame(c, ret, e);

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
			return closed(c, CODE_GONE, no_reason, ret, e);
	}
}
