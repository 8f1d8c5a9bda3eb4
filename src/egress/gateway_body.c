/* gateway_body.c - theory of operation
 *
 * A body is taken out of its framing piece by piece and sent on in another: with a known length as
 * it is, else in chunks. Bytes for which there is no room stay in the stream they came from.
 *
 * On its way to the cell a piece passes the mask, if the server can know a secret. The mask holds
 * back the last bytes, and a timer releases them. The timer counts only while there is nothing to
 * read and the cell takes what it gets: a cell that does not read must not be able to split a
 * secret. A masked byte counts as several in what a session may move in one turn
 * (resource_share.h). */
#include "gateway_body.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "gateway_end.h"
#include "gateway_piece.h"
#include "gateway_splice.h"
#include "gateway_tap.h"
#include "llm_call.h"
#include "rand.h"

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
static size_t put_out(struct gateway *x, struct http1_span piece)
{
	size_t framing = x->out.rechunk ? CHUNK_EXTRA + sizeof(CHUNK_LAST) - 1 : 0, went = 0, n;
	size_t most = gateway_piece_within(&x->out, piece.n, gateway_bytes_left(x, LIMIT_OUT, 1),
					   framing);

	n = most > 0 ? gateway_piece_put(&x->out, &x->up->stream, piece.p, most, &went) : 0;
	if (went > 0)
		gateway_count_bytes(x, LIMIT_OUT, went);
	return n;
}

bool gateway_body_out(struct gateway *x)
{
	struct gateway_body *b = &x->out;
	struct gateway_stream *from = &x->cell, *to = &x->up->stream;
	bool moved = gateway_stream_flush(to);
	uint64_t sent = 0;

	while (!b->done && !b->bad && !to->write_broken && !to->broken) {
		struct http1_span piece = gateway_piece_next(b, from);
		size_t n = piece.n > 0 ? put_out(x, piece) : 0;

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

/* ---- to the cell */

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

static void watch_held(struct gateway *x);

/* Releases whole words only, but everything at the end of a WebSocket message: the answer to one
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
	watch_held(x);
	gateway_defer(x);
}

static void watch_held(struct gateway *x)
{
	if (mask_stream_held(&x->masked) == 0 || x->tick.place != 0)
		return;
	x->tick.on_expire = on_tick;
	x->tick.arg = x;
	loop_timer_set(x->loop, &x->tick, loop_now_ns(x->loop) + MASK_TICK_MS * CLOCK_MS);
}

/* How many bytes may be moved now: fewer for the mask, and as the tap takes them. */
static size_t piece_max(struct gateway *x)
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

static void send_masked(struct gateway *x, const uint8_t *data, size_t n)
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

/* Moves pieces that the tap or the mask reads. */
static uint64_t move_read(struct gateway *x, uint64_t left)
{
	static uint8_t pieces[PIECE_MAX], tapped[PIECE_MAX + GATEWAY_TAP_HELD];
	size_t n = 1;
	uint64_t got = 0;

	x->masked.only = &x->known_secrets;
	while (n > 0 && !x->in.bad && !x->cell.write_broken && !x->cell.broken &&
	       gateway_stream_room(&x->cell) > 0) {
		size_t most = piece_max(x);
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
			send_masked(x, goes, (size_t)ngoes);
		explicit_bzero(pieces, n);
		got += n;
	}
	watch_held(x);
	return got;
}

/* The body is complete: the bytes that the tap held back go on, if it was right. */
static void end_tapped(struct gateway *x)
{
	static uint8_t held[GATEWAY_TAP_HELD];
	ssize_t n = gateway_tap_finish(x, held);

	if (n > 0)
		send_masked(x, held, (size_t)n);
}

static void end_masked(struct gateway *x)
{
	uint8_t *room = gateway_mask_room(x);

	if (!room)
		x->in.bad = "out of memory";
	else if (x->mask)
		gateway_piece_emit(&x->in, &x->cell, room, mask_end(x->mask, &x->masked, room));
	else
		gateway_piece_emit(&x->in, &x->cell, room, mask_flush(NULL, &x->masked, room));
}

static bool is_masked(const struct gateway *x)
{
	return x->mask || mask_stream_held(&x->masked) > 0;
}

static uint64_t move_plain(struct gateway *x, uint64_t left)
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

/* Moves at most `left` bytes from the server. */
static uint64_t move_in(struct gateway *x, uint64_t left)
{
	if (gateway_splice_allowed(x)) {
		x->in.limit_reached = left == 0;
		return left == 0 ? 0 : gateway_splice(x, left);
	}
	if (x->mask)
		return move_read(x, left);
	if (mask_stream_held(&x->masked) > 0) { /* the session had a mask before */
		uint8_t *room = gateway_mask_room(x);

		if (room)
			gateway_piece_emit(&x->in, &x->cell, room,
					   mask_flush(NULL, &x->masked, room));
		else
			x->in.bad = "out of memory";
	}
	return gateway_tap_is_on(x) ? move_read(x, left) : move_plain(x, left);
}

bool gateway_body_in(struct gateway *x)
{
	struct gateway_body *b = &x->in;
	struct gateway_stream *from = &x->up->stream;
	uint64_t got = move_in(x, gateway_bytes_left(x, LIMIT_IN, 1));
	bool moved = got > 0;

	if (got > 0)
		gateway_count_bytes(x, LIMIT_IN, got);
	if (b->framing == HTTP1_UNTIL_CLOSE && !b->done && from->ended && from->in.len == 0)
		b->done = moved = true;
	if (b->done && gateway_tap_is_on(x))
		end_tapped(x);
	if (b->done && !b->bad) {
		if (is_masked(x))
			end_masked(x);
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
