/* gateway_piece.h - takes a body out of its framing piece by piece, and puts pieces into another
 * framing. For gateway_body.c. Nothing here waits or counts. */
#pragma once

#include "gateway_base.h"

/* More than the bytes of a chunk. */
#define CHUNK_EXTRA (CHUNK_HEAD_MAX + sizeof(CHUNK_TAIL))

/* The next piece that has arrived; framing before it is consumed. Empty: none, or the end of the
 * body. */
struct http1_span gateway_piece_next(struct gateway_body *b, struct gateway_stream *from);
/* n bytes of it were used. */
void gateway_piece_took(struct gateway_body *b, struct gateway_stream *from, size_t n);
/* Copies the pieces that have arrived into one buffer, at most `left` bytes. */
size_t gateway_piece_gather(struct gateway *x, uint8_t *ret, size_t cap, uint64_t left);
/* Adds all of it to the stream, in its framing, whether there is room or not. Returns the bytes
 * added. */
size_t gateway_piece_emit(const struct gateway_body *b, struct gateway_stream *to, const void *data,
			  size_t n);
/* Returns how many bytes of data were taken; *ret_went: how many that is in its framing. */
size_t gateway_piece_put(const struct gateway_body *b, struct gateway_stream *to, const void *data,
			 size_t n, size_t *ret_went);
/* How many bytes of a piece may go if `left` bytes may, framing included. */
size_t gateway_piece_within(struct gateway_body *b, size_t n, uint64_t left, size_t framing);
