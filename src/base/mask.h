/* mask.h - finds known values in a stream and covers them with '*', byte for byte: lengths stay.
 * Pure.
 *
 * Each value is also found as base64 (standard and URL alphabet, at any offset in what was encoded,
 * wrapped into lines or not), percent-encoded in any mixture, and as the inside of a JSON string.
 * Values shorter than MASK_VALUE_MIN are not looked for: they would be everywhere. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "own.h"

#define MASK_VALUE_MIN 6
#define MASK_VALUE_MAX 65536
#define MASK_PATTERN_MIN 4   /* bytes that a pattern must match at least */
#define MASK_PATTERN_MAX 256 /* and may match at most */

struct mask;

/* Patterns: "sk-[A-Za-z0-9]{20,64}". Bytes stand for themselves; '.' is any but a line's end;
 * "[a-z_]" and "[^a-z]" are sets; a backslash takes the meaning from what follows; {n} and {n,m}
 * repeat what is before them. What is not there is refused, above all '*', '+', '?', '|', '(' and
 * ')': a match has a bound. The first thing must be there at least once. */
int mask_pattern_check(const char *pattern, struct err *e) MUST_USE;

/* Borrowed texts are copied. NULL on failure (memory, a bad pattern, a value that is too long). */
struct mask *mask_new(const char *const *values, const size_t *lens, size_t n,
		      const char *const *patterns, size_t npatterns, struct err *e) MUST_USE;
void mask_free(struct mask *m); /* wipes it */
/* The most that a stream may hold back. */
size_t mask_reach(const struct mask *m);

/* Covers what is found in a whole text, in place. Returns how many places. */
size_t mask_text(const struct mask *m, uint8_t *text, size_t len);

/* A stream in pieces: what could be the start of something is held back until it is known.
 *	n = mask_feed(m, s, data, len, out)     out has room for len + mask_reach() bytes
 *	n = mask_flush(m, s, out)               what was held back, since somebody waits for it
 *	n = mask_end(m, s, out)                 the same, and nothing will follow
 * A beginning of MASK_VALUE_MIN bytes or more of a value is covered when it must be shown; a
 * shorter one is not, but what follows it is, if it was one. Begins as { 0 }. */
struct mask_stream {
	uint8_t *held;	   /* owned; NULL: nothing */
	size_t n, covered; /* covered: how many of them are known to be part of something */
	size_t shown;	   /* how many of them mask_flush() gave out already */
};
size_t mask_feed(const struct mask *m, struct mask_stream *s, const uint8_t *data, size_t len,
		 uint8_t *out);
size_t mask_flush(const struct mask *m, struct mask_stream *s, uint8_t *out);
size_t mask_end(const struct mask *m, struct mask_stream *s, uint8_t *out);
void mask_stream_release(struct mask_stream *s); /* wipes it */
