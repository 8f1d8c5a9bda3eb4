/* gateway_body.c - theory of operation
 *
 * A body is taken out of its framing piece by piece and sent on in another: with a known length as
 * it is, else in chunks. Bytes for which there is no room stay in the stream they came from.
 *
 * On its way to the cell a piece passes the mask, if the server can know a secret. The mask holds
 * back the last bytes, and a timer releases them. The timer counts only while there is nothing to
 * read and the cell takes its bytes: a cell that does not read must not be able to split a secret.
 * A masked byte counts as several bytes of those that a session may move in one turn
 * (resource_share.h). */
#include "egress/gateway/gateway_body.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "egress/gateway/gateway_end.h"
#include "egress/gateway/gateway_splice.h"
#include "egress/gateway/gateway_tap.h"
#include "egress/gateway/llm_call.h"
#include "lib/base/clock.h"
#include "lib/base/rand.h"

/* The input's part with valid WebSocket frames. */
static struct http1_span gateway_piece_next_frames(struct gateway_body *b,
						   struct gateway_stream *from)
{
	uint8_t *bytes = fifo_bytes(&from->in);
	ssize_t n = 0;

	if (from->in.len > b->ready)
		n = ws_walk(&b->walk, bytes + b->ready, from->in.len - b->ready);
	if (n > 0)
		b->ready += (size_t)n;
	/* Valid frames before the malformed one are sent on first. */
	if (b->ready == 0 && (n < 0 || (from->ended && from->in.len > 0)))
		b->bad = b->walk.masked ? "the program sent a malformed WebSocket frame"
					: "the server sent a malformed WebSocket frame";
	return (struct http1_span){ (char *)bytes, b->ready };
}

/* The piece stays in the input until gateway_piece_took(). If it is empty, more must come unless
 * b->done or b->bad is set. */
struct http1_span gateway_piece_next(struct gateway_body *b, struct gateway_stream *from)
{
	struct http1_span data = { 0 };
	size_t used = 0;

	if (b->frames)
		return gateway_piece_next_frames(b, from);
	if (b->framing != HTTP1_CHUNKED) {
		data = (struct http1_span){ (char *)fifo_bytes(&from->in), from->in.len };
		if (b->framing == HTTP1_LENGTH && data.n > b->left)
			data.n = (size_t)b->left;
		return data;
	}
	if (from->in.len == 0)
		return data;
	switch (chunk_read(&b->chunk, fifo_bytes(&from->in), from->in.len, &used, &data)) {
	case CHUNK_DATA:
		break;
	case CHUNK_END:
		b->done = true;
		data.n = 0;
		break;
	case CHUNK_MORE:
		data.n = 0;
		break;
	case CHUNK_BAD:
		b->bad = "the chunks of the body are malformed";
		b->bad_status = 400;
		return (struct http1_span){ 0 };
	case CHUNK_TOO_LONG:
		b->bad = "the body is larger than the policy allows";
		b->bad_status = 413;
		return (struct http1_span){ 0 };
	}
	fifo_consume(&from->in, used); /* its bytes stay valid */
	return data;
}

/* For a body of known length this is also the place where it ends. */
void gateway_piece_took(struct gateway_body *b, struct gateway_stream *from, size_t n)
{
	if (b->frames)
		b->ready -= n;
	if (b->framing == HTTP1_CHUNKED)
		chunk_took(&b->chunk, n);
	else if (b->framing == HTTP1_LENGTH)
		b->left -= n;
	fifo_consume(&from->in, n);
	if (b->framing == HTTP1_LENGTH && b->left == 0)
		b->done = true;
}

/* The caller has looked for room, or must send the bytes in any case. */
size_t gateway_piece_emit(const struct gateway_body *b, struct gateway_stream *to, const void *data,
			  size_t n)
{
	char head[CHUNK_HEAD_MAX];
	size_t nhead;

	if (n == 0)
		return 0;
	if (!b->rechunk) {
		gateway_stream_add(to, data, n);
		return n;
	}
	nhead = chunk_head(head, n);
	gateway_stream_add(to, head, nhead);
	gateway_stream_add(to, data, n);
	gateway_stream_add(to, CHUNK_TAIL, sizeof(CHUNK_TAIL) - 1);
	return nhead + n + sizeof(CHUNK_TAIL) - 1;
}

size_t gateway_piece_put(const struct gateway_body *b, struct gateway_stream *to, const void *data,
			 size_t n, size_t *ret_went)
{
	size_t room;

	*ret_went = 0;
	if (!b->rechunk)
		return *ret_went = gateway_stream_put(to, data, n);
	room = gateway_stream_room(to);
	if (n + CHUNK_EXTRA > room && room < GATEWAY_STREAM_OUT_MAX / 2)
		return 0; /* as gateway_stream_put(): no small chunks */
	if (n > room - CHUNK_EXTRA)
		n = room - CHUNK_EXTRA;
	*ret_went = gateway_piece_emit(b, to, data, n);
	return n;
}

/* framing: bytes that the piece costs beside its own. */
size_t gateway_piece_within(struct gateway_body *b, size_t n, uint64_t left, size_t framing)
{
	left = left > framing ? left - framing : 0;
	b->limit_reached = n > 0 && left == 0;
	return left < n ? (size_t)left : n;
}

size_t gateway_piece_gather(struct gateway *x, uint8_t *ret, size_t cap, uint64_t left)
{
	struct gateway_body *b = &x->in;
	struct gateway_stream *from = &x->up->stream;
	size_t n = 0;

	while (n < cap && !b->done && !b->bad) {
		struct http1_span piece = gateway_piece_next(b, from);
		size_t more = piece.n < cap - n ? piece.n : cap - n;

		more = gateway_piece_within(b, more, left - n, 0);
		if (more == 0 || piece.p == NULL)
			break;
		memcpy(ret + n, piece.p, more);
		gateway_piece_took(b, from, more);
		n += more;
	}
	return n;
}

#define PIECE_MAX GATEWAY_MASK_PIECE

void gateway_body_begin(struct gateway_body *b, enum http1_framing framing, uint64_t length,
			uint64_t max)
{
	*b = (struct gateway_body){ .framing = framing, .left = length };
	b->done = framing == HTTP1_NO_BODY || (framing == HTTP1_LENGTH && length == 0);
	b->rechunk = framing == HTTP1_CHUNKED;
	if (framing == HTTP1_CHUNKED)
		chunk_init(&b->chunk, max);
}

void gateway_body_frame(struct gateway *x)
{
	bool collected = x->collects && x->out.done;

	x->out.goes_on = collected ? HTTP1_LENGTH : x->r.framing;
	x->out.length = collected ? x->collected.len : x->r.content_length;
	x->out.sent = 0;
	x->out.rechunk = x->out.goes_on == HTTP1_CHUNKED;
}

void gateway_body_frames(struct gateway_body *b, bool masked)
{
	gateway_body_begin(b, HTTP1_UNTIL_CLOSE, 0, 0);
	b->frames = true;
	ws_walk_init(&b->walk, masked, rand_bytes);
}

/* ---- to the server */

/* The server gets no byte over the limit, framing included, so room for the last chunk is reserved.
 */
static size_t gateway_body_put_out(struct gateway *x, struct http1_span piece)
{
	size_t framing = x->out.rechunk ? CHUNK_EXTRA + sizeof(CHUNK_LAST) - 1 : 0, went = 0, n;
	size_t most = gateway_piece_within(&x->out, piece.n, gateway_bytes_left(x, LIMIT_OUT, 1),
					   framing);

	n = most > 0 ? gateway_piece_put(&x->out, &x->up->stream, piece.p, most, &went) : 0;
	if (went > 0)
		gateway_count_bytes(x, LIMIT_OUT, went);
	return n;
}

/* Move the request's body until the server's stream is full, the input is empty, or a limit is
 * reached. Checks of the end follow, each at its own place, because a failure ends the request. */
bool gateway_body_out(struct gateway *x)
{
	struct gateway_body *b = &x->out;
	struct gateway_stream *from = &x->cell, *to = &x->up->stream;
	bool moved = gateway_stream_flush(to);
	uint64_t sent = 0;

	while (!b->done && !b->bad && !to->write_broken && !to->broken) {
		struct http1_span piece = gateway_piece_next(b, from);
		size_t n = piece.n > 0 ? gateway_body_put_out(x, piece) : 0;

		if (n > 0) {
			if (x->model)
				llm_call_request(x->model, (const uint8_t *)piece.p, n);
			gateway_piece_took(b, from, n);
			sent += n;
			continue;
		}
		if (b->done || b->bad || piece.n > 0)
			break;
		if (!gateway_stream_fill(from, GATEWAY_STREAM_IN_MAX) || from->in.len == 0)
			break;
	}
	b->sent += sent;
	assert(!b->done || b->goes_on != HTTP1_LENGTH || b->sent == b->length);
	if (b->done && b->rechunk) {
		b->rechunk = false;
		if (gateway_bytes_left(x, LIMIT_OUT, sizeof(CHUNK_LAST) - 1) <
		    sizeof(CHUNK_LAST) - 1) {
			gateway_limit_reached(x, LIMIT_OUT);
			return true;
		}
		gateway_stream_add(to, CHUNK_LAST, sizeof(CHUNK_LAST) - 1);
		gateway_count_bytes(x, LIMIT_OUT, sizeof(CHUNK_LAST) - 1);
		moved = true;
	}
	if (b->framing == HTTP1_UNTIL_CLOSE && !b->done && from->ended && from->in.len == 0) {
		b->done = true;
		gateway_stream_shut(to);
		moved = true;
	}
	if (!b->done && b->framing != HTTP1_UNTIL_CLOSE && from->ended && from->in.len == 0) {
		gateway_client_gone(x);
		return true;
	}
	if (b->limit_reached) {
		gateway_limit_reached(x, LIMIT_OUT);
		return true;
	}
	if (b->bad) {
		gateway_fail(x, b->bad_status, b->bad);
		return true;
	}
	return gateway_stream_flush(to) || moved || sent > 0;
}

/* ---- to the cell
 *
 * There are three ways: by splice(2), plain copies, and pieces that the tap or the mask reads. The
 * choice is made for each call, as a policy may bring a mask. */

/* One buffer for all gateways, as its bytes are sent before the next one is asked for it. NULL: out
 * of memory. */
uint8_t *gateway_mask_room(const struct gateway *x)
{
	static uint8_t *room;
	static size_t cap;
	size_t need = PIECE_MAX + mask_stream_held(&x->masked) + 1;
	uint8_t *grown;

	if (need <= cap)
		return room;
	grown = realloc(room, need);
	if (!grown)
		return NULL;
	room = grown;
	cap = need;
	return room;
}

static void gateway_body_watch_held(struct gateway *x);

/* Release whole words only, but everything at the end of a WebSocket message: the answer to one
 * message must not wait for the next. */
static void on_tick(struct loop_timer *t)
{
	struct gateway *x = t->arg;
	bool waits = x->up && (x->up->stream.in.len > 0 || !x->up->stream.dry);
	bool message_ends = x->in.frames && x->in.walk.left == 0 && !x->in.walk.open;
	uint8_t *room = gateway_mask_room(x);

	if (room && !waits && x->cell.out.len == 0)
		gateway_piece_emit(&x->in, &x->cell, room,
				   x->mask ? mask_tick(x->mask, &x->masked, !message_ends, room)
					   : mask_flush(NULL, &x->masked, room));
	gateway_body_watch_held(x);
	gateway_defer(x);
}

static void gateway_body_watch_held(struct gateway *x)
{
	if (mask_stream_held(&x->masked) == 0 || x->tick.place != 0)
		return;
	x->tick.on_expire = on_tick;
	x->tick.arg = x;
	loop_timer_set(x->loop, &x->tick, loop_now_ns(x->loop) + MASK_TICK_MS * CLOCK_MS);
}

/* How many bytes may be moved now: fewer for the mask, and as the tap takes them. */
static size_t gateway_body_piece_max(struct gateway *x)
{
	uint64_t most = PIECE_MAX;

	if (x->mask) {
		most = resource_share_turn_left(&x->session->share) / gateway_mask_weight(x);
		if (most == 0)
			gateway_defer(x);
	}
	if (most > PIECE_MAX)
		most = PIECE_MAX;
	return gateway_tap_is_on(x) ? gateway_tap_room(x, (size_t)most) : (size_t)most;
}

/* Out of memory ends the answer, since it must not pass unmasked. */
static void gateway_body_send_masked(struct gateway *x, const uint8_t *data, size_t n)
{
	uint8_t *room = x->mask ? gateway_mask_room(x) : NULL;

	if (!x->mask)
		gateway_piece_emit(&x->in, &x->cell, data, n);
	else if (room)
		gateway_piece_emit(&x->in, &x->cell, room,
				   mask_feed(x->mask, &x->masked, data, n, room));
	else
		x->in.bad = "out of memory";
}

/* Move pieces that the tap or the mask reads. */
static uint64_t gateway_body_move_read(struct gateway *x, uint64_t left)
{
	static uint8_t pieces[PIECE_MAX], tapped[PIECE_MAX + GATEWAY_TAP_HELD];
	size_t n = 1;
	uint64_t got = 0;

	x->masked.only = &x->known_secrets;
	while (n > 0 && !x->in.bad && !x->cell.write_broken && !x->cell.broken &&
	       gateway_stream_room(&x->cell) > 0) {
		size_t most = gateway_body_piece_max(x);
		const uint8_t *goes = pieces;
		ssize_t ngoes;

		n = most > 0 ? gateway_piece_gather(x, pieces, most, left - got) : 0;
		ngoes = (ssize_t)n;
		gateway_count_masked(x, n);
		if (n > 0 && x->model)
			llm_call_answer(x->model, pieces, n, clock_now_ns() - x->start_ns);
		if (n > 0 && gateway_tap_is_on(x)) {
			ngoes = gateway_tap_feed(x, pieces, n, tapped);
			goes = tapped;
		}
		if (ngoes > 0)
			gateway_body_send_masked(x, goes, (size_t)ngoes);
		explicit_bzero(pieces, n);
		got += n;
	}
	gateway_body_watch_held(x);
	return got;
}

/* The body is complete: release the bytes that the tap held back, if it was right. */
static void gateway_body_end_tapped(struct gateway *x)
{
	static uint8_t held[GATEWAY_TAP_HELD];
	ssize_t n = gateway_tap_finish(x, held);

	if (n > 0)
		gateway_body_send_masked(x, held, (size_t)n);
}

static void gateway_body_end_masked(struct gateway *x)
{
	uint8_t *room = gateway_mask_room(x);

	if (!room)
		x->in.bad = "out of memory";
	else if (x->mask)
		gateway_piece_emit(&x->in, &x->cell, room, mask_end(x->mask, &x->masked, room));
	else
		gateway_piece_emit(&x->in, &x->cell, room, mask_flush(NULL, &x->masked, room));
}

static bool gateway_body_is_masked(const struct gateway *x)
{
	return x->mask || mask_stream_held(&x->masked) > 0;
}

/* No copy of the bytes is made but the one into the stream. Return the number of bytes. */
static uint64_t gateway_body_move_plain(struct gateway *x, uint64_t left)
{
	struct gateway_body *b = &x->in;
	struct gateway_stream *from = &x->up->stream;
	uint64_t got = 0;
	size_t went;

	while (!b->done && !b->bad && !x->cell.write_broken && !x->cell.broken) {
		struct http1_span piece = gateway_piece_next(b, from);
		size_t most = gateway_piece_within(b, piece.n, left - got, 0);
		size_t n = most > 0 ? gateway_piece_put(b, &x->cell, piece.p, most, &went) : 0;

		if (n == 0)
			break;
		if (x->model)
			llm_call_answer(x->model, (const uint8_t *)piece.p, n,
					clock_now_ns() - x->start_ns);
		gateway_piece_took(b, from, n);
		got += n;
	}
	return got;
}

/* Move at most `left` bytes from the server. */
static uint64_t gateway_body_move_in(struct gateway *x, uint64_t left)
{
	if (gateway_splice_allowed(x)) {
		x->in.limit_reached = left == 0;
		return left == 0 ? 0 : gateway_splice(x, left);
	}
	if (x->mask)
		return gateway_body_move_read(x, left);
	if (mask_stream_held(&x->masked) > 0) { /* the session had a mask before */
		uint8_t *room = gateway_mask_room(x);

		if (room)
			gateway_piece_emit(&x->in, &x->cell, room,
					   mask_flush(NULL, &x->masked, room));
		else
			x->in.bad = "out of memory";
	}
	return gateway_tap_is_on(x) ? gateway_body_move_read(x, left)
				    : gateway_body_move_plain(x, left);
}

/* Move the answer's body, and complete it: bytes of the tap first, then those of the mask, then the
 * last chunk. */
bool gateway_body_in(struct gateway *x)
{
	struct gateway_body *b = &x->in;
	struct gateway_stream *from = &x->up->stream;
	uint64_t got = gateway_body_move_in(x, gateway_bytes_left(x, LIMIT_IN, 1));
	bool moved = got > 0;

	if (got > 0)
		gateway_count_bytes(x, LIMIT_IN, got);
	if (b->framing == HTTP1_UNTIL_CLOSE && !b->done && from->ended && from->in.len == 0)
		b->done = moved = true;
	if (b->done && gateway_tap_is_on(x))
		gateway_body_end_tapped(x);
	if (b->done && !b->bad) {
		if (gateway_body_is_masked(x))
			gateway_body_end_masked(x);
		if (!b->bad)
			gateway_tap_passed(x);
		if (b->rechunk)
			gateway_stream_add(&x->cell, CHUNK_LAST, sizeof(CHUNK_LAST) - 1);
		b->rechunk = false;
	}
	if (b->limit_reached && gateway_bytes_left(x, LIMIT_IN, 1) == 0) {
		gateway_limit_reached(x, LIMIT_IN);
		return true;
	}
	if (b->bad)
		gateway_fail(x, gateway_tap_status(x), b->bad);
	return moved || b->bad;
}
