/* mask_inside.h - what mask.c, mask_look.c, mask_needle.c and mask_pattern.c share. */
#pragma once

#include "mask.h"

#define MASK_NONE SIZE_MAX

/* One text to find, with its table of Knuth, Morris and Pratt. */
struct mask_needle {
	uint8_t *text;	/* owned */
	uint32_t *fail; /* owned: [k] is the longest proper border of the first k bytes */
	size_t len;
	bool raw; /* in the bytes as they are; else in the folded stream, see mask.c */
	struct mask_needle *next_first; /* with the same first byte */
	/* while a text is looked at */
	size_t state; /* bytes of it that the text ends with */
	size_t end;   /* of its last match */
};

struct mask_set {
	uint64_t bits[4];
};

static inline bool mask_set_has(const struct mask_set *s, uint8_t c)
{
	return (s->bits[c >> 6] >> (c & 63) & 1) != 0;
}

/* A pattern is a row of sets, of which some may be passed over. */
struct mask_pattern {
	size_t n;
	struct mask_set set[MASK_PATTERN_MAX];
	bool optional[MASK_PATTERN_MAX];
	/* while a text is looked at: where the longest match began of which this many sets are
	 * behind us, or MASK_NONE; up to top */
	size_t began[MASK_PATTERN_MAX + 1];
	size_t top; /* 0: none is under way */
};

int mask_pattern_read(const char *text, struct mask_pattern *ret, struct err *e) MUST_USE;
/* What a second byte can be. */
struct mask_set mask_pattern_second(const struct mask_pattern *p);
/* Takes the byte at `at`. Returns where a match began that ends with it, or MASK_NONE. */
size_t mask_pattern_step(struct mask_pattern *p, uint8_t c, size_t at);

/* In the folded stream these are one: the two alphabets of base64, and a form's space. */
static inline uint8_t mask_fold(uint8_t c)
{
	return c == '-' || c == ' ' ? '+' : c == '_' ? '/' : c;
}

static inline bool mask_is_break(uint8_t c)
{
	return c == '\n' || c == '\r';
}

static inline int mask_hex(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that an escape at p (three bytes) stands for; -1: it is none. */
static inline int mask_escape(const uint8_t *p)
{
	int high = mask_hex(p[1]), low = mask_hex(p[2]);

	return p[0] == '%' && high >= 0 && low >= 0 ? high * 16 + low : -1;
}

/* All forms of a value; add is called for each, and copies. */
typedef int mask_needle_add(void *arg, const uint8_t *text, size_t len, bool raw);
int mask_needle_each(const uint8_t *value, size_t len, mask_needle_add *add, void *arg) MUST_USE;
/* Copies the text, folds it if it is not raw. 1: nothing is left to look for. -1: no memory. */
int mask_needle_make(const uint8_t *text, size_t len, bool raw, struct mask_needle *ret) MUST_USE;
void mask_needle_release(struct mask_needle *n); /* wipes it */
/* The next byte. True if it ends a match. */
bool mask_needle_step(struct mask_needle *n, uint8_t c);

#define MASK_BREAKS_MAX 2 /* in a row: CR LF */
/* Longest extent of a byte in the folded stream: an escape, after escaped line breaks. */
#define MASK_EXTENT ((size_t)3 * (1 + MASK_BREAKS_MAX))

struct mask {
	struct mask_needle *needles; /* owned */
	size_t n;
	struct mask_pattern *patterns; /* owned */
	size_t npatterns;
	size_t reach;
	struct mask_needle *first[2][256]; /* [raw][byte]: those that begin with it */
	uint64_t pairs[1024];
	bool single[256];
	/* while a text is looked at */
	struct mask_needle **active[2]; /* owned: [raw] */
	size_t nactive[2];
};

/* One look at a text. */
struct mask_look {
	struct mask *m;
	const uint8_t *src;
	size_t n;
	uint8_t *out; /* the same text, in which is covered */
	size_t end;   /* of what was looked at: all but an escape that is cut */
	size_t places, covered_to;
};

/* final: nothing follows, so that an escape that is cut is none. Covers what it finds. */
void mask_look_at(struct mask_look *l, bool final);
/* After it: where what is under way begins; where the look ended, if nothing is. */
size_t mask_look_hold(const struct mask_look *l);
/* Nothing more can be waited for: what looks much like a value is covered. */
void mask_look_cover_beginning(struct mask_look *l);
/* Ends a look. */
void mask_look_forget(struct mask *m);
