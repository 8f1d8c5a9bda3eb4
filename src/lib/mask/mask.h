/* mask.h - finds known values in a text or a stream and covers them with '*', byte for byte, so
 * that lengths stay. Pure. Used by cordond for output and records and by cordon-egress for answers.
 *
 * Two rules make it safe to show masked text to code that guesses values:
 *  - Only whole values are covered. A part of a value is shown as any other text is.
 *  - How long bytes of a stream are held back depends on how many there are and when they came,
 *    never on whether they resemble a value.
 *
 * Forms in which a value is found: as it is. base64 (standard and URL alphabet, at any offset in
 * the encoded text). percent-encoding. Backslash escapes of JSON strings (also \u0041,
 * \ud83d\ude00, \x41, \U0001f600). HTML entities (&lt; &gt; &amp; &quot; &apos; &#65; &#x41;).
 * Escapes may be mixed, an escape may be escaped once more, and line breaks may be anywhere. Not
 * found: everything else, see doc/decisions/016-masking.md. Values shorter than MASK_VALUE_MIN are
 * not looked for: they occur by chance. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/own.h"

#define MASK_VALUE_MIN 6
#define MASK_VALUE_MAX 65536
#define MASK_VALUES_MAX 1152
#define MASK_PATTERN_MIN 4   /* bytes that a pattern must match at least */
#define MASK_PATTERN_MAX 256 /* and may match at most */
#define MASK_TICK_MS 25	     /* between two calls of mask_tick() */

struct mask;

/* Personal data and foreign keys, found by their form (mask_named.h, doc/secrets.md). */
enum mask_name {
	MASK_EMAIL,
	MASK_PHONE,
	MASK_CARD, /* with Luhn's check digit */
	MASK_IBAN, /* with its check digits, in its country's length */
	MASK_IP,
	MASK_TOKEN, /* API keys by their known beginnings */
	MASK_NAMES
};
#define MASK_OF_PATTERN MASK_NAMES /* the place of patterns in counts */
#define MASK_COUNTS (MASK_NAMES + 1)
extern const char *const mask_name_words[MASK_NAMES];
bool mask_name_read(const char *word, enum mask_name *ret);

/* A subset of a mask's values, by their index in mask_new(). */
struct mask_pick {
	uint64_t bits[MASK_VALUES_MAX / 64];
};
static inline void mask_pick_add(struct mask_pick *p, size_t value)
{
	p->bits[value / 64] |= 1ULL << value % 64;
}
static inline bool mask_pick_has(const struct mask_pick *p, size_t value)
{
	return (p->bits[value / 64] >> value % 64 & 1) != 0;
}

/* Patterns: "sk-[A-Za-z0-9]{20,64}". Bytes match themselves. '.' matches any byte but a line
 * break. "[a-z_]" and "[^a-z]" are sets. A backslash makes the next byte literal. {n} and {n,m}
 * repeat the item before them. '*', '+', '?', '|', '(' and ')' are refused, so every match has a
 * bound. The first item must match at least once. */
int mask_pattern_check(const char *pattern, struct err *e) MUST_USE;

/* Only hashes of the values are kept. NULL on failure (memory, a bad pattern, too many values or
 * one too long). */
struct mask *mask_new(const char *const *values, const size_t *lens, size_t n,
		      const char *const *patterns, size_t npatterns, struct err *e) MUST_USE;
/* The same, and things of these names: a set of 1 << name. */
struct mask *mask_new_named(const char *const *values, const size_t *lens, size_t n,
			    const char *const *patterns, size_t npatterns, unsigned names,
			    struct err *e);
void mask_free(struct mask *m); /* wipes it */
/* How many bytes of a stream are held back: four times the longest value, rounded up to a power of
 * two. 256 at least, 96 KiB at most. */
size_t mask_hold(const struct mask *m);
/* How many bytes a value or a match takes at most in the longest of its forms, line breaks not
 * counted. */
size_t mask_reach(const struct mask *m);
/* Steps that one byte may cost at most. */
size_t mask_cost(const struct mask *m);
/* How many bytes may be masked in one turn of an event loop. */
size_t mask_turn(const struct mask *m);

/* Cover all values found in a whole text, in place. only: NULL, or the values to look for. Return
 * in how many places. */
size_t mask_text(const struct mask *m, const struct mask_pick *only, uint8_t *text, size_t len);

/* As above, for a long text, which takes more than a turn of an event loop: a call masks the next n
 * bytes, and returns true when all of the text is masked. All zero at first. Another mask begins
 * again. Until the end the text may have uncovered parts of values. */
struct mask_scan;
struct mask_work {
	struct mask_scan *scan; /* owned */
	uint64_t mask;		/* its id */
	size_t at;		/* bytes so far */
	uint64_t places;	/* covered so far */
};
bool mask_work_step(const struct mask *m, struct mask_work *w, uint8_t *text, size_t len, size_t n);
/* Only count: the next n bytes of a text not kept. */
void mask_work_count(const struct mask *m, struct mask_work *w, const uint8_t *data, size_t n);
void mask_work_release(struct mask_work *w); /* wipes it. Keeps places */

/* A stream in pieces. The last mask_hold() bytes are held back. The bytes before them are given
 * out. A byte is let go by the second mask_tick() after it came. Bytes given out stay known: if a
 * value is completed later, the rest of it is covered. A found value is given out as a whole, if it
 * is not longer than mask_hold(): so up to twice as much may be held.
 *	n = mask_feed(m, s, data, len, out)     out has room for len + mask_stream_held() bytes
 *	n = mask_tick(m, s, words, out)         every MASK_TICK_MS while something is held;
 *	                                        out has room for mask_stream_held() bytes
 *	n = mask_flush(m, s, out)               all held bytes; m may be NULL: there is none
 *	                                        any more, and found values stay covered
 *	n = mask_end(m, s, out)                 the same, and nothing will follow
 * words: the end of a word (letters, digits and marks up to the next space or closing bracket) is
 * let go only when more has come or after MASK_WORD_TICKS. So if an answer stops inside of a value,
 * because the network is slow, the beginning of the value is not shown.
 *
 * A stream is zeroed at first. Each call may have another mask. */
#define MASK_WORD_TICKS 80

struct mask_state;
struct mask_stream {
	const struct mask_pick *only; /* borrowed. NULL: all values */
	size_t most;		      /* hold back no more than this. 0: mask_hold() */
	uint64_t places;	      /* covered so far */
	uint64_t counts[MASK_COUNTS]; /* of them, by name */
	struct mask_state *state;     /* owned */
};
size_t mask_stream_held(const struct mask_stream *s);
/* Bytes that it has allocated. */
size_t mask_stream_memory(const struct mask_stream *s);
size_t mask_feed(const struct mask *m, struct mask_stream *s, const uint8_t *data, size_t len,
		 uint8_t *out);
size_t mask_tick(const struct mask *m, struct mask_stream *s, bool words, uint8_t *out);
size_t mask_flush(const struct mask *m, struct mask_stream *s, uint8_t *out);
size_t mask_end(const struct mask *m, struct mask_stream *s, uint8_t *out);
void mask_stream_release(struct mask_stream *s); /* wipes it. Keeps only, most and places */
