/* ws_conn.c - theory of operation
 *
 * A connection upgraded to a WebSocket. Frames are unmasked in the input buffer. A message complete
 * in one frame is delivered from there. Others are assembled in a buffer that grows with the bytes
 * received, never with the length that a head announces.
 *
 * At the end one side sends a close frame and the other answers with one. The exchange ends when
 * both were sent (or the peer's did not come in time). After a protocol error of the peer its close
 * frame is not waited for. */
#include "lib/net/conn.h"

#include <assert.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/http/ws.h"
#include "lib/loop/loop.h"

#define PING_MS 30000
#define CLOSE_MS 5000

struct ws_conn {
	struct ws_events events;
	size_t message_max;

	struct ws_head head; /* of the frame being read, if in_frame */
	bool in_frame;
	uint64_t got; /* bytes of its payload so far */
	uint8_t control[WS_CONTROL_MAX];
	bool open; /* inside a message of several fragments */
	bool text;
	struct ws_text utf8;
	struct fifo message;

	uint64_t ping_ns; /* when the last ping was sent, or the connection began */
	bool frame_seen;  /* a frame came since then */
	bool paused;	  /* by the handler */
	bool close_sent, close_came;
	uint64_t close_ns;
};

void ws_conn_free(struct ws_conn *w)
{
	if (!w)
		return;
	fifo_release(&w->message);
	free(w);
}

bool exchange_wants_ws(const struct exchange *x)
{
	return x->request.upgrade_websocket;
}

void exchange_accept_ws(struct exchange *x, const struct ws_events *events, size_t message_max)
{
	char key[WS_ACCEPT_LEN + 1];
	struct ws_conn *w;

	if (x->refused || exchange_misused(x, x->answer != ANSWER_NONE, __func__))
		return;
	assert(x->request.upgrade_websocket);
	w = calloc(1, sizeof(*w));
	if (!w) {
		conn_drop_later(x->conn);
		return;
	}
	w->events = *events;
	w->message_max = message_max;
	w->ping_ns = loop_now_ns(x->conn->loop);
	w->frame_seen = true;
	ws_accept_key(x->request.ws_key, key);
	exchange_header(x, "Upgrade", "websocket");
	exchange_header(x, "Sec-WebSocket-Accept", key);
	x->status = 101;
	response_send(x, NULL, 0, NULL, 0);
	x->close = true; /* what follows is not HTTP */
	x->answer = ANSWER_BEGUN;
	x->ws = w;
	conn_wake(x->conn);
}

/* ---- sending */

static void ws_put_frame(struct exchange *x, enum ws_opcode opcode, const void *data, size_t len)
{
	struct ws_head h = { .fin = true, .opcode = opcode, .length = len };
	uint8_t head[WS_HEAD_MAX];
	size_t n = ws_head_write(&h, head);

	conn_put_bytes(x->conn, head, n);
	conn_put_bytes(x->conn, data, len);
	x->bytes_out += n + len;
}

bool ws_send(struct exchange *x, bool text, const void *data, size_t len)
{
	struct conn *c = x->conn;

	if (c->drop_pending || c->state == CONN_DEAD || x->refused)
		return true; /* there is no reader any more. on_done follows */
	assert(x->ws);
	if (x->ws->close_sent)
		return true;
	/* A message longer than the buffer is accepted if nothing is queued: its sender bounds it.
	 */
	if (c->out.len > 0 && c->out.len + len + WS_HEAD_MAX > CONN_OUT_MAX) {
		x->starved = true;
		return false;
	}
	ws_put_frame(x, text ? WS_TEXT : WS_BINARY, data, len);
	return true;
}

void ws_close(struct exchange *x, uint16_t code, const char *reason)
{
	uint8_t payload[WS_CONTROL_MAX];
	struct ws_conn *w = x->ws;

	if (x->conn->drop_pending || x->conn->state == CONN_DEAD || x->refused)
		return;
	assert(w);
	if (w->close_sent)
		return;
	ws_put_frame(x, WS_CLOSE, payload, ws_close_write(code, reason ? reason : "", payload));
	w->close_sent = true;
	w->close_ns = loop_now_ns(x->conn->loop);
	if (w->close_came)
		response_ended(x);
}

/* The peer broke the protocol: sends a close frame with the reason, and ends. */
static void ws_fail(struct exchange *x, uint16_t code, const char *reason)
{
	ws_close(x, code, reason);
	x->truncated = true;
	response_ended(x);
}

/* ---- receiving */

static void ws_end_message(struct conn *c, const uint8_t *data, size_t len)
{
	struct exchange *x = c->x;
	struct ws_conn *w = x->ws;

	if (w->text && !ws_text_ended(&w->utf8)) {
		ws_fail(x, WS_CODE_NOT_TEXT, "not UTF-8");
		return;
	}
	w->utf8 = (struct ws_text){ 0 };
	if (!w->close_sent) /* else the close frame was sent before */
		w->events.on_message(x, w->text, data, len);
}

static void ws_end_control(struct exchange *x)
{
	struct ws_conn *w = x->ws;
	size_t len = (size_t)w->head.length;
	struct http1_span reason;
	uint16_t code;

	if (w->head.opcode == WS_PING) {
		/* A pong for which there is no room is dropped: the peer does not read anyway. */
		if (!w->close_sent && x->conn->out.len < CONN_OUT_MAX)
			ws_put_frame(x, WS_PONG, w->control, len);
		return;
	}
	if (w->head.opcode != WS_CLOSE)
		return;
	if (ws_close_read(w->control, len, &code, &reason) < 0) {
		ws_fail(x, WS_CODE_PROTOCOL, "bad close frame");
		return;
	}
	w->close_came = true;
	ws_close(x, code == WS_CODE_NO_STATUS ? WS_CODE_NORMAL : code, "");
	response_ended(x);
}

/* Data of an incomplete frame, or of a fragment. */
static void ws_gather(struct conn *c, const uint8_t *data, size_t n)
{
	if (fifo_add(&c->x->ws->message, data, n) < 0)
		conn_drop_later(c);
}

static void ws_end_frame(struct conn *c)
{
	struct ws_conn *w = c->x->ws;

	w->in_frame = false;
	if (w->head.opcode >= WS_CLOSE) {
		ws_end_control(c->x);
	} else if (w->head.fin) {
		ws_end_message(c, fifo_bytes(&w->message), w->message.len);
		fifo_release(&w->message);
	}
}

static void ws_read_payload(struct conn *c, size_t n)
{
	struct ws_conn *w = c->x->ws;
	uint8_t *data = fifo_bytes(&c->in);

	ws_mask(data, n, w->head.mask, w->got);
	if (w->head.opcode >= WS_CLOSE) {
		if (n > 0)
			memcpy(w->control + w->got, data, n);
	} else if (w->text && !ws_text_feed(&w->utf8, data, n)) {
		ws_fail(c->x, WS_CODE_NOT_TEXT, "not UTF-8");
		return;
	} else if (w->head.fin && n == w->head.length && w->message.len == 0) {
		w->in_frame = false;
		ws_end_message(c, data, n);
		fifo_consume(&c->in, n);
		return;
	} else {
		ws_gather(c, data, n);
	}
	w->got += n;
	fifo_consume(&c->in, n);
	if (w->got == w->head.length)
		ws_end_frame(c);
}

static bool ws_read_head(struct conn *c)
{
	struct ws_conn *w = c->x->ws;
	bool continues = w->open;
	int n = c->in.len > 0 ? ws_head_read(fifo_bytes(&c->in), c->in.len, true, &w->head) : 0;

	if (n == 0)
		return false;
	if (n < 0 || !ws_order_check(&w->open, &w->head)) {
		ws_fail(c->x, WS_CODE_PROTOCOL, "bad frame");
		return true;
	}
	if (w->head.opcode < WS_CLOSE) {
		if (!continues)
			w->text = w->head.opcode == WS_TEXT;
		if (w->head.length > w->message_max - w->message.len) {
			ws_fail(c->x, WS_CODE_TOO_BIG, "message too long");
			return true;
		}
	}
	fifo_consume(&c->in, (size_t)n);
	w->frame_seen = true;
	w->in_frame = true;
	w->got = 0;
	return true;
}

bool ws_conn_step(struct conn *c)
{
	struct ws_conn *w = c->x->ws;
	uint64_t left;

	if (c->x->answer == ANSWER_ENDED)
		return false;
	if (!w->in_frame) {
		if (w->paused)
			return false;
		return ws_read_head(c);
	}
	left = w->head.length - w->got;
	if (left > 0 && c->in.len == 0)
		return false;
	ws_read_payload(c, left < c->in.len ? (size_t)left : c->in.len);
	return true;
}

void ws_conn_revoke(struct conn *c)
{
	ws_fail(c->x, WS_CODE_POLICY, "not allowed any more");
}

bool ws_conn_wants_input(const struct conn *c)
{
	return c->x->answer != ANSWER_ENDED && !c->x->ws->paused;
}

void ws_pause(struct exchange *x, bool pause)
{
	if (x->conn->drop_pending || x->conn->state == CONN_DEAD || x->refused)
		return;
	assert(x->ws);
	x->ws->paused = pause;
	conn_wake(x->conn);
}

/* ---- deadlines */

uint64_t ws_conn_deadline(const struct conn *c)
{
	const struct ws_conn *w = c->x->ws;

	if (w->close_sent)
		return w->close_ns + CLOSE_MS * CLOCK_MS;
	return w->ping_ns + PING_MS * CLOCK_MS;
}

void ws_conn_timeout(struct conn *c)
{
	struct ws_conn *w = c->x->ws;

	/* While input is not read, no pong can be seen. */
	if (w->close_sent || (!w->frame_seen && !w->paused)) {
		conn_drop_later(c);
		return;
	}
	w->frame_seen = false;
	w->ping_ns = loop_now_ns(c->loop);
	ws_put_frame(c->x, WS_PING, NULL, 0);
}
