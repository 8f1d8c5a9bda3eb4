#include "gateway_piece.h"

#include <string.h>

/* The part of the input that is valid WebSocket frames. */
static struct http1_span next_frames(struct gateway_body *b, struct gateway_stream *from)
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

struct http1_span gateway_piece_next(struct gateway_body *b, struct gateway_stream *from)
{
	struct http1_span data = { 0 };
	size_t used = 0;

	if (b->frames)
		return next_frames(b, from);
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
