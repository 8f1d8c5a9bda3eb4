/* glob.c - theory of operation
 *
 * The text before the first star and the text after the last star are compared first. That decides
 * most cases, and with a single star it decides all. With more stars, the pattern becomes a row of
 * items (a byte, or a star). A set of bits holds the number of items that may have been matched
 * after each byte of the text. Every byte of the text moves the whole set, some words at a time.
 * There is no backtracking and no recursion, so no pattern is slow for any text. */
#include "lib/policy/glob.h"

#include <stdint.h>
#include <string.h>

#define WORDS ((GLOB_MAX * 2 + 2 + 63) / 64) /* a '*' may need two items */

/* Bit i: the first i items may have matched the text so far. */
struct set {
	uint64_t w[WORDS];
};

/* A compiled pattern. */
struct glob_items {
	/* Items that accept this byte. Stars also keep their bit in the set. */
	struct set byte[256], any_but_slash, any;
	struct set once; /* any byte but '/', once: the first byte of a whole segment */
	size_t n;
};

static void set_add(struct set *s, size_t i)
{
	s->w[i / 64] |= UINT64_C(1) << (i % 64);
}

static bool set_has(const struct set *s, size_t i)
{
	return (s->w[i / 64] >> (i % 64) & 1) != 0;
}

/* Count the stars at p. */
static size_t glob_stars(const char *p)
{
	return strspn(p, "*");
}

/* Is the star at pattern[i] a whole segment? */
static bool is_whole_segment(const char *pattern, size_t i)
{
	return i > 0 && pattern[i - 1] == '/' && (pattern[i + 1] == '/' || pattern[i + 1] == '\0');
}

/* Translate the pattern. A whole-segment star needs two items, since it must match at least one
 * byte. */
static void glob_compile(const char *pattern, bool segments, struct glob_items *it)
{
	memset(it, 0, sizeof(*it));
	for (size_t i = 0; pattern[i] != '\0';) {
		size_t run = glob_stars(pattern + i);

		if (run == 0) {
			set_add(&it->byte[(unsigned char)pattern[i++]], it->n++);
			continue;
		}
		if (run == 1 && segments) {
			if (is_whole_segment(pattern, i))
				set_add(&it->once, it->n++);
			set_add(&it->any_but_slash, it->n++);
		} else {
			set_add(&it->any, it->n++);
		}
		i += run;
	}
}

/* Let stars match nothing. No two stars are adjacent, so one shift is enough. */
static void skip_stars(const struct glob_items *it, struct set *s)
{
	uint64_t carry = 0;

	for (size_t i = 0; i < WORDS; i++) {
		uint64_t at = s->w[i] & (it->any.w[i] | it->any_but_slash.w[i]);

		s->w[i] |= at << 1 | carry;
		carry = at >> 63;
	}
}

/* Feed one byte to all items at once. A carry moves the bit from one word to the next. */
static void glob_step(const struct glob_items *it, struct set *s, unsigned char c)
{
	uint64_t carry = 0, not_slash = c != '/' ? UINT64_MAX : 0;

	for (size_t i = 0; i < WORDS; i++) {
		uint64_t byte = it->byte[c].w[i];
		uint64_t go = s->w[i] & (byte | (it->once.w[i] & not_slash));
		uint64_t stay = s->w[i] & (it->any.w[i] | (it->any_but_slash.w[i] & not_slash));

		s->w[i] = go << 1 | carry | stay;
		carry = go >> 63;
	}
	skip_stars(it, s);
}

/* The middle of the text has several stars: simulate the pattern. */
static bool fits_slowly(const char *pattern, const char *text, size_t n, bool segments)
{
	struct glob_items it;
	struct set s = { 0 };

	glob_compile(pattern, segments, &it);
	set_add(&s, 0);
	skip_stars(&it, &s);
	for (size_t i = 0; i < n; i++)
		glob_step(&it, &s, (unsigned char)text[i]);
	return set_has(&s, it.n);
}

bool glob_is_slow(const char *pattern)
{
	size_t first = strcspn(pattern, "*");

	return strchr(pattern + first + glob_stars(pattern + first), '*') != NULL;
}

bool glob_fits(const char *pattern, const char *text, size_t len, bool segments)
{
	size_t n = strlen(pattern), front = strcspn(pattern, "*"), run, back;

	if (n > GLOB_MAX)
		return false;
	if (front == n)
		return n == len && memcmp(pattern, text, n) == 0;
	run = glob_stars(pattern + front);
	back = n - (size_t)(strrchr(pattern, '*') - pattern) - 1;
	if (len < front + back || memcmp(pattern, text, front) != 0 ||
	    memcmp(pattern + n - back, text + len - back, back) != 0)
		return false;
	if (front + run + back < n)
		return fits_slowly(pattern, text, len, segments);
	if (!segments || run > 1)
		return true;
	if (len == front + back && is_whole_segment(pattern, front))
		return false;
	return memchr(text + front, '/', len - front - back) == NULL;
}
