/* frame.h - the framing of channels B and C, and of the stream between a shim and its guest
 * (mux.h): a sequence of { length, type, stream, body }. Pure.
 *
 * The head is 8 bytes, little-endian: u32 body length, u16 type, u16 stream number. Only mux.h has
 * streams. On channels B and C the number is 0, and any other is refused. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define FRAME_HEAD 8

struct frame {
	uint16_t type;
	uint16_t stream;
	uint32_t len;
	const uint8_t *body; /* borrowed from the buffer it was read from */
};

/* Read the frame at the start of the bytes. Return how many it takes, 0 if it is not all there
 * yet, -1 if its body would be longer than max or its head is malformed. */
int frame_read(const uint8_t *bytes, size_t len, size_t max, struct frame *ret,
	       struct err *e) MUST_USE;

/* As above, with any stream number. */
int frame_read_stream(const uint8_t *bytes, size_t len, size_t max, struct frame *ret,
		      struct err *e) MUST_USE;

void frame_head(uint8_t head[FRAME_HEAD], uint16_t type, uint32_t len);
void frame_head_stream(uint8_t head[FRAME_HEAD], uint16_t type, uint16_t stream, uint32_t len);
