/* gateway_answer.c - theory of operation
 *
 * The head of an answer is read as strictly as that of a request, and written again. A body without
 * a known length is sent in chunks, or, for HTTP/1.0, ends with the connection. An answer that ends
 * too early is cut for the cell, too, so that it never looks complete. */
#include "egress/gateway/gateway_answer.h"

#include <string.h>
#include <strings.h>

#include "egress/gateway/gateway_body.h"
#include "egress/gateway/gateway_end.h"
#include "egress/gateway/gateway_head.h"
#include "egress/gateway/gateway_server.h"
#include "egress/gateway/gateway_splice.h"
#include "egress/gateway/gateway_tap.h"
#include "egress/gateway/llm_call.h"

/* ---- checks an answer to a WebSocket handshake (RFC 6455, 4.1). A server, or a proxy
 * before it, that did not compute the right Sec-WebSocket-Accept does not speak WebSocket, whatever
 * its status says. Extensions, which change the form of frames, are never asked for and refused. */

static bool gateway_ws_is_accepted(const struct gateway *x, const struct http1_response *a)
{
	struct http1_span accept;
	char want[WS_ACCEPT_LEN + 1];

	ws_accept_key(x->r.ws_key, want);
	return http1_find(a->headers, a->headers_n, "sec-websocket-accept", &accept) == 1 &&
	       http1_span_is(accept, want);
}

/* Did the server choose an offered subprotocol, or none? */
static bool gateway_ws_is_protocol_known(const struct gateway *x, const struct http1_response *a)
{
	struct http1_span chosen;
	char text[128];
	size_t n = http1_find(a->headers, a->headers_n, "sec-websocket-protocol", &chosen);

	if (n == 0)
		return true;
	if (n != 1 || chosen.n >= sizeof(text))
		return false;
	if (chosen.n > 0)
		memcpy(text, chosen.p, chosen.n);
	text[chosen.n] = '\0';
	return http1_lists(x->r.headers, x->r.headers_n, "sec-websocket-protocol", text);
}

/* The text is a constant, fit for the record. */
const char *gateway_ws_flaw(const struct gateway *x, const struct http1_response *a)
{
	if (!x->r.upgrade_websocket)
		return "the server changed the protocol without being asked";
	if (!http1_lists(a->headers, a->headers_n, "upgrade", "websocket"))
		return "the server changed to a protocol other than WebSocket";
	if (!gateway_ws_is_accepted(x, a))
		return "the server's Sec-WebSocket-Accept does not match the key it was sent";
	if (http1_find(a->headers, a->headers_n, "sec-websocket-extensions", NULL) > 0)
		return "the server uses a WebSocket extension that was not asked for";
	if (!gateway_ws_is_protocol_known(x, a))
		return "the server chose a WebSocket protocol that was not offered";
	return NULL;
}

/* A coding of an empty value counts as none. Two headers are never plain. */
static bool gateway_answer_is_plain(const struct http1_response *a)
{
	struct http1_span coding;
	size_t n = http1_find(a->headers, a->headers_n, "content-encoding", &coding);

	return n == 0 || (n == 1 && (coding.n == 0 || http1_span_is_nocase(coding, "identity")));
}

/* A part of a whole: it may begin or end inside a secret, which the mask would not find. */
static bool gateway_answer_is_part(const struct http1_response *a)
{
	static const char parts[] = "multipart/byteranges";
	struct http1_span type = { 0 };

	if (a->status == 206 || http1_find(a->headers, a->headers_n, "content-range", &type) > 0)
		return true;
	return http1_find(a->headers, a->headers_n, "content-type", &type) > 0 &&
	       type.n >= sizeof(parts) - 1 && strncasecmp(type.p, parts, sizeof(parts) - 1) == 0;
}

/* The connection to the cell stays only if the end of the answer is told by a length or by chunks,
 * and the request was read to its end. */
static void gateway_answer_begin_body(struct gateway *x, const struct http1_response *a)
{
	bool endless = a->framing == HTTP1_UNTIL_CLOSE || a->framing == HTTP1_CHUNKED;

	gateway_body_begin(&x->in, a->framing, a->content_length, UINT64_MAX);
	if (a->framing == HTTP1_CHUNKED)
		chunk_init_answer(&x->in.chunk, UINT64_MAX);
	x->in.rechunk = endless && x->r.minor > 0;
	x->up_keep = a->keep_alive;
	x->cell_keep = x->r.keep_alive && x->out.done && (!endless || x->r.minor > 0);
}

/* Neither connection is used again afterwards. */
static void gateway_answer_begin_tunnel(struct gateway *x)
{
	x->state = GATEWAY_TUNNEL;
	gateway_body_frames(&x->out, true);
	gateway_body_frames(&x->in, false);
	x->cell_keep = x->up_keep = false;
}

/* 100 goes only to a program that waits for it. */
static void gateway_answer_interim(struct gateway *x, const struct http1_response *a)
{
	x->up_scanned = 0;
	if (++x->interim > GATEWAY_INTERIM_MAX) {
		gateway_fail(x, 502, "the server sent too many interim answers");
		return;
	}
	if (x->r.minor == 0 || (a->status == 100 && !x->r.expect_continue))
		return;
	if (gateway_head_answer(x, a, true) < 0)
		x->over = true;
}

/* The order matters: the gate may turn the answer into another one, checks for the mask come before
 * any byte is sent, and the tap sees the head before the cell does. */
static void gateway_answer_final(struct gateway *x, const struct http1_response *a)
{
	struct http1_span type = { 0 };
	const char *flaw = a->status == 101 ? gateway_ws_flaw(x, a) : NULL;
	size_t before;

	if (flaw) {
		gateway_fail(x, 502, flaw);
		return;
	}
	if (x->gate && !x->gate->on_head(x, a))
		return;
	if (x->mask && a->framing != HTTP1_NO_BODY &&
	    (!gateway_answer_is_plain(a) || gateway_answer_is_part(a))) {
		gateway_fail(x, 502,
			     gateway_answer_is_plain(a)
				     ? "the answer is partial, and could hold a part of a secret"
				     : "the answer is compressed, and could hold a secret");
		return;
	}
	if (!gateway_answer_is_plain(a) && a->framing != HTTP1_NO_BODY) {
		llm_call_free(x->model);
		x->model = NULL;
	}
	if (!gateway_tap_head(x, a))
		return;
	x->status = a->status;
	x->answered = true;
	gateway_answer_begin_body(x, a);
	if (x->model) {
		(void)http1_find(a->headers, a->headers_n, "content-type", &type);
		llm_call_response(x->model, a->status, type);
	}
	if (a->status == 101)
		gateway_answer_begin_tunnel(x);
	before = x->cell.out.len;
	if (gateway_head_answer(x, a, false) < 0)
		x->over = true;
	else
		gateway_tap_hold_head(x, before);
}

/* True: a head was read, or the answer has failed. False: more bytes are needed. */
static bool gateway_answer_read_head(struct gateway *x)
{
	static struct http1_response a; /* too large for the stack */
	struct gateway_stream *s = &x->up->stream;
	struct http1_fault fault = { .words = "the head of the server's answer contains a control "
					      "byte, or a CR or LF alone" };
	int n;

	if (s->in.len == 0)
		return false;
	x->answer_began = true;
	n = http1_head_end((char *)fifo_bytes(&s->in), s->in.len, &x->up_scanned);
	if (n == 0 && s->in.len < FLOW_HEAD_MAX)
		return false;
	if (n > FLOW_HEAD_MAX)
		n = 0;
	if (n == 0)
		fault.words = "the head of the server's answer is too long";
	if (n > 0)
		n = http1_response_read((char *)fifo_bytes(&s->in), (size_t)n, x->r.method, &a,
					&fault);
	if (n <= 0) {
		gateway_fail(x, 502, fault.words);
		return true;
	}
	x->mask = x->server_knows ? secrets_mask(x->session->secrets) : NULL;
	gateway_count_masked(x, (size_t)n);
	fifo_consume(&s->in, (size_t)n); /* its bytes stay valid until more is read */
	if (gateway_bytes_left(x, LIMIT_IN, (uint64_t)n) < (uint64_t)n) {
		gateway_limit_reached(x, LIMIT_IN);
		return true;
	}
	gateway_count_bytes(x, LIMIT_IN, (uint64_t)n);
	if (a.status < 200 && a.status != 101)
		gateway_answer_interim(x, &a);
	else
		gateway_answer_final(x, &a);
	return true;
}

static bool gateway_answer_is_cut(const struct gateway *x)
{
	const struct gateway_stream *s = &x->up->stream;

	/* Bytes that came before the end are delivered first. An incomplete head is dropped. */
	return (s->broken || s->ended) && (s->in.len == 0 || !x->answered);
}

/* Each direction ends on its own. The tunnel ends when both have, and nothing waits to be sent. */
static void gateway_answer_end_tunnel(struct gateway *x)
{
	if (x->up->stream.broken && x->up->stream.in.len == 0)
		x->over = x->reset = true;
	if (x->in.done && !x->cell.shut)
		gateway_stream_shut(&x->cell);
	if (x->in.done && x->out.done && x->cell.out.len == 0 && x->up->stream.out.len == 0)
		x->over = true;
}

/* At most one head a call, then as much of the body as fits. */
bool gateway_answer(struct gateway *x)
{
	struct gateway_stream *s = &x->up->stream;
	bool moved = !gateway_splice_allowed(x) && gateway_stream_fill(s, GATEWAY_STREAM_IN_MAX);

	/* If the program does not read interim answers, no more are read from the server: they
	 * would pile up. */
	if (!x->answered && gateway_stream_room(&x->cell) == 0)
		return gateway_stream_flush(&x->cell) || moved;
	if (!x->answered && gateway_answer_read_head(x))
		return true;
	if (x->answered && !x->in.done) {
		moved = gateway_body_in(x) || moved;
		if (x->over || x->state == GATEWAY_LINGER || x->state == GATEWAY_HEAD)
			return true;
	}
	moved = gateway_stream_flush(&x->cell) || moved;
	if (x->state == GATEWAY_TUNNEL) {
		gateway_answer_end_tunnel(x);
		return moved || x->over;
	}
	if (x->answered && x->in.done) {
		gateway_done(x);
		return true;
	}
	if (gateway_answer_is_cut(x)) {
		gateway_server_lost(x);
		return true;
	}
	return moved;
}
