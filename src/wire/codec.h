/* codec.h - reads and writes the fields of a message, one after another: little-endian numbers
 * without padding, and strings of u16 length, bytes, NUL. With the NUL a reader can return pointers
 * into the bytes.
 *
 * Reader and writer have a flag, `bad`, that is set by the first field that does not fit. So a
 * layout is a list of calls and one check at its end. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codec_reader {
	const uint8_t *p;
	size_t n; /* bytes left */
	bool bad;
};

struct codec_writer {
	uint8_t *p;
	size_t n; /* room left */
	bool bad;
};

/* A number of `width` bytes; 0 if the bytes are missing. */
uint64_t codec_get(struct codec_reader *r, size_t width);

/* A string of at most cap bytes with its NUL, and no other NUL; else "". */
const char *codec_get_string(struct codec_reader *r, size_t cap);

void codec_put(struct codec_writer *w, size_t width, uint64_t v);

/* NULL is "". */
void codec_put_string(struct codec_writer *w, size_t cap, const char *s);
