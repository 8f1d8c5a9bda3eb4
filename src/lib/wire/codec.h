/* codec.h - the fields of a message, one after another: little-endian numbers without padding, and
 * strings of u16 length, bytes, NUL. With the NUL a reader can return pointers into the bytes.
 *
 * A layout is one list of calls for both directions. Each call takes the address of a field: a
 * reader fills the field from the bytes, a writer makes bytes of the field. So reader and writer
 * cannot disagree about an order or a width. The first field that does not fit sets `bad`, and one
 * check at the end is enough. A reader sets every field, to zero or "" where the bytes are bad.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct codec {
	const uint8_t *from; /* the next byte of a reader */
	uint8_t *to;	     /* the next byte of a writer, NULL: this one reads */
	size_t n;	     /* bytes left, or room left */
	bool bad;
};

static inline struct codec codec_reader(const void *bytes, size_t len)
{
	return (struct codec){ .from = bytes, .n = len };
}

static inline struct codec codec_writer(void *bytes, size_t cap)
{
	return (struct codec){ .to = bytes, .n = cap };
}

/* A number of `width` bytes. Return the number read, or v for a writer. */
uint64_t codec_number(struct codec *c, size_t width, uint64_t v);

/* A field of any integer or enum type with room for `width` bytes. */
#define codec_int(c, width, field) \
	((field) = (__typeof__(field))codec_number((c), (width), (uint64_t)(field)))

/* One byte, 0 or 1. */
void codec_flag(struct codec *c, bool *v);

/* A string of fewer than cap bytes, with no NUL but its last. A reader points into the bytes. A
 * writer takes NULL for "". */
void codec_string(struct codec *c, size_t cap, const char **s);

/* A text field in an array of cap bytes. */
void codec_text(struct codec *c, size_t cap, char *s);

/* n bytes. */
void codec_bytes(struct codec *c, void *bytes, size_t n);

/* The next `len` bytes. A reader points into its bytes. */
void codec_span(struct codec *c, const uint8_t **data, size_t len);

/* All remaining bytes. */
void codec_rest(struct codec *c, const uint8_t **data, size_t *len);

/* The code of an error, and its text of fewer than cap bytes. */
void codec_error(struct codec *c, enum err_code *code, size_t cap, const char **text);

/* Make c bad unless `fits`. */
static inline void codec_expect(struct codec *c, bool fits)
{
	c->bad = c->bad || !fits;
}
