/* gateway_body.h - moves bodies in both directions, within the limits of the session and of the
 * request's rule. Called by gateway.c, gateway_request.c and gateway_answer.c. */
#pragma once

#include "egress/gateway/gateway_base.h"

void gateway_body_begin(struct gateway_body *b, enum http1_framing framing, uint64_t length,
			uint64_t max);
/* WebSocket frames from now on, until the connection ends. masked: the client's direction. */
void gateway_body_frames(struct gateway_body *b, bool masked);
/* Decide the framing of the request's body towards the server, once: head and body follow it. */
void gateway_body_frame(struct gateway *x);
/* Move the request's body to the server, and the answer's body to the cell, as far as both sides
 * are ready. True if anything moved or changed. */
bool gateway_body_out(struct gateway *x);
bool gateway_body_in(struct gateway *x);

#define GATEWAY_MASK_PIECE ((size_t)16 * 1024) /* bytes masked at once */
/* A buffer for such a piece and all that the mask holds back, valid until the next call. NULL: out
 * of memory. */
uint8_t *gateway_mask_room(const struct gateway *x);

/* ---- takes a body out of its framing piece by piece, and puts pieces into another
 * framing. For gateway_body.c. Nothing here waits or counts. */

/* More than the bytes of a chunk. */
#define CHUNK_EXTRA (CHUNK_HEAD_MAX + sizeof(CHUNK_TAIL))

/* The next piece received. Framing before it is consumed. Empty: none, or the end of the body. */
struct http1_span gateway_piece_next(struct gateway_body *b, struct gateway_stream *from);
/* n bytes of it were used. */
void gateway_piece_took(struct gateway_body *b, struct gateway_stream *from, size_t n);
/* Copy the pieces received into one buffer, at most `left` bytes. */
size_t gateway_piece_gather(struct gateway *x, uint8_t *ret, size_t cap, uint64_t left);
/* Add all of it to the stream, in its framing, whether there is room or not. Return the bytes
 * added. */
size_t gateway_piece_emit(const struct gateway_body *b, struct gateway_stream *to, const void *data,
			  size_t n);
/* Return how many bytes of data were taken. *ret_went: how many they are in its framing. */
size_t gateway_piece_put(const struct gateway_body *b, struct gateway_stream *to, const void *data,
			 size_t n, size_t *ret_went);
/* How many bytes of a piece may go if `left` bytes may, framing included. */
size_t gateway_piece_within(struct gateway_body *b, size_t n, uint64_t left, size_t framing);
