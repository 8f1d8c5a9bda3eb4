/* gateway_body.h - moves bodies in both directions, within the limits of the session and of the
 * request's rule. Called by gateway.c, gateway_request.c and gateway_answer.c. */
#pragma once

#include "gateway_base.h"

void gateway_body_begin(struct gateway_body *b, enum http1_framing framing, uint64_t length,
			uint64_t max);
/* WebSocket frames from now on, until the connection ends. masked: the client's direction. */
void gateway_body_frames(struct gateway_body *b, bool masked);
/* Decides the framing of the request's body towards the server, once: head and body follow it. */
void gateway_body_frame(struct gateway *x);
/* Move the request's body to the server, and the answer's body to the cell, as far as both sides
 * are ready. True if anything moved or changed. */
bool gateway_body_out(struct gateway *x);
bool gateway_body_in(struct gateway *x);

#define GATEWAY_MASK_PIECE ((size_t)16 * 1024) /* bytes masked at once */
/* A buffer for such a piece and all that the mask holds back, valid until the next call. NULL: out
 * of memory. */
uint8_t *gateway_mask_room(const struct gateway *x);
