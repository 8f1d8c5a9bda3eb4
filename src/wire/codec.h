/* codec.h - the fields of a message, one after another: little-endian numbers without padding, and
 * strings of u16 length, bytes, NUL. The NUL lets a reader hand out pointers into what it was
 * given.
 *
 * Both cursors remember the first thing that did not fit, so that a layout is one list of fields
 * and one question at its end. Pure. */
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

/* A number of so many bytes; 0 if it is not there. */
uint64_t codec_get(struct codec_reader *r, size_t width);

/* A string that takes at most cap bytes with its NUL and holds no other; else "". */
const char *codec_get_string(struct codec_reader *r, size_t cap);

void codec_put(struct codec_writer *w, size_t width, uint64_t v);

/* NULL is "". */
void codec_put_string(struct codec_writer *w, size_t cap, const char *s);
