/* mask_private.h - structures and functions that the files mask*.c share. mask.c explains how they
 * work together. */
#pragma once

#include "lib/mask/mask.h"
#include "lib/mask/mask_named.h"

#define MASK_NONE SIZE_MAX
#define MASK_UNITS_MAX 4080 /* compared of a needle: 4096 with MASK_ESCAPE_ROOM */
#define MASK_WINDOWS 4	    /* widths of windows */

/* One form of one value. */
struct mask_needle {
	uint64_t hash;	 /* of its units: the last MASK_UNITS_MAX, if it has more */
	uint64_t power;	 /* MASK_BASE to the power of units */
	uint32_t units;	 /* hashed */
	uint32_t before; /* and those before them, covered with them */
	uint32_t value;	 /* its index in mask_new() */
	uint32_t next;	 /* a shorter one with the same window: its index plus one. 0: none */
	unsigned window; /* which width */
	uint64_t end;	 /* hash of its last units, as many as the window has */
	uint8_t *text;	 /* owned: its units, until the tables are made */
};

struct mask_slot {
	uint64_t end;
	uint32_t first; /* of a chain: index of a needle plus one. 0: the slot is free */
	uint32_t lengths, nlengths; /* of these needles, in mask.lengths, each once, ascending */
};

struct mask_length {
	uint32_t units;
	uint64_t power; /* MASK_BASE to the power of units */
};

/* See mask_lengths.c. */
struct mask_mark {
	uint64_t hash;
	uint32_t units; /* 0: the place is free */
	uint32_t best;	/* index of a needle plus one. 0: none */
	bool settled;	/* best is known */
};

/* All needles with the same width of window, by the hash of their ends. */
struct mask_window {
	uint32_t width;
	uint64_t power;
	struct mask_slot *slots; /* owned */
	unsigned shift;		 /* 64 minus the logarithm of their number */
	size_t n;		 /* of slots */
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
};

/* A pattern in a stream: began[k] is where the longest match began of which k sets have matched,
 * or MASK_NONE. For k up to top. */
struct mask_pattern_state {
	size_t began[MASK_PATTERN_MAX + 1];
	size_t top; /* 0: none is in progress */
};

/* Take the byte at `at`. Return where a match began that ends with it, or MASK_NONE. */
size_t mask_pattern_step(const struct mask_pattern *p, struct mask_pattern_state *s, uint8_t c,
			 size_t at);

struct mask_scan;

struct mask {
	uint64_t id;		     /* of all masks that this process made */
	struct mask_needle *needles; /* owned */
	size_t n;
	struct mask_window windows[MASK_WINDOWS];
	size_t nwindows;
	struct mask_length *lengths; /* owned */
	size_t nlengths;
	struct mask_mark *marks;       /* owned: a table */
	size_t nmarks;		       /* its places */
	unsigned marks_shift;	       /* 64 minus the logarithm of their number */
	size_t longest;		       /* units of a needle, at most */
	size_t chain;		       /* needles with the same window, at most */
	struct mask_pattern *patterns; /* owned */
	size_t npatterns;
	unsigned names; /* a set of 1 << name */
	size_t hold;
	size_t past; /* bytes that a stream remembers behind those that it has given out */
	bool spaced; /* a value holds a byte that ends words: only line breaks end them then */
	struct mask_scan *scratch; /* owned: for mask_text(). NULL at first */
};

/* ---- hashes: polynomials modulo 2^64 */
#define MASK_BASE 0x9e3779b97f4a7c15ULL

/* These are one character in both views: the two alphabets of base64, and a form's space. */
static inline uint8_t mask_fold(uint8_t c)
{
	return c == '-' || c == ' ' ? '+' : c == '_' ? '/' : c;
}
static inline bool mask_is_break(uint8_t c)
{
	return c == '\n' || c == '\r';
}
static inline uint64_t mask_hash_add(uint64_t hash, uint8_t c)
{
	return hash * MASK_BASE + c + 1;
}

/* ---- mask_lengths.c */

/* Fill in the lengths of all slots, and make the marks. */
int mask_lengths_make(struct mask *m) MUST_USE;
/* NULL: there is none. */
const struct mask_mark *mask_lengths_mark(const struct mask *m, uint32_t units, uint64_t hash);

/* ---- mask_scan.c: escapes of URLs, JSON and HTML */
#define MASK_ESCAPE_MAX 10  /* bytes of one that stands for a byte of a value */
#define MASK_ESCAPE_ROOM 12 /* bytes of any: \ud83d\ude00 is four bytes of a value */
enum mask_escape { MASK_ESCAPE_NONE, MASK_ESCAPE_MORE, MASK_ESCAPE_WHOLE };
static inline bool mask_escape_begins(uint8_t c)
{
	return c == '%' || c == '\\' || c == '&';
}

/* ---- mask_scan.c: one step for each byte */

/* One view of the stream: its units and the hash of all up to each of the last ones. */
struct mask_view {
	uint64_t *sum; /* owned, [unit % size]: of all units before it */
	uint32_t *at;  /* owned, [unit % size]: where it began, modulo 2^32 */
	uint64_t units, hash;
};

struct mask_run {
	uint64_t from, to;
};

/* An escape being read: its bytes, and where each stands in the stream. */
struct mask_decoder {
	uint8_t text[MASK_ESCAPE_ROOM];
	struct mask_run at[MASK_ESCAPE_ROOM];
	size_t n;
	uint64_t units; /* of the view that it reads, before the escape */
};

struct mask_scan {
	const struct mask *m;	      /* borrowed */
	const struct mask_pick *only; /* borrowed. NULL: all */
	struct mask_view raw, decoded, twice;
	uint64_t size; /* of the views, a power of two */
	struct mask_decoder decoders[2];
	bool twice_differs;   /* else the view `twice` is not kept: decoded is the same */
	uint64_t twice_until; /* as many units as this, without an escape */
	uint64_t at;	      /* bytes so far */
	struct mask_pattern_state *patterns; /* owned. NULL: none */
	size_t npatterns;		     /* of them: the mask may be gone */
	/* The places to be covered: apart from each other, in order. */
	struct mask_run *runs; /* owned */
	size_t first, n, cap;  /* runs[first] to runs[first + n - 1] */
	uint64_t places;
	uint64_t counts[MASK_COUNTS];
	struct mask_named named;
	uint64_t steps; /* for tests: windows and needles compared */
};

/* NULL: out of memory. */
struct mask_scan *mask_scan_new(const struct mask *m);
void mask_scan_free(struct mask_scan *s); /* wipes it */
size_t mask_scan_memory(const struct mask_scan *s);
void mask_scan_restart(struct mask_scan *s);
void mask_scan_feed(struct mask_scan *s, const uint8_t *data, size_t n);
/* Cover things that end with the last byte so far: the bytes are about to be given out. */
void mask_scan_settle(struct mask_scan *s);
/* Nothing follows: an incomplete escape is none. */
void mask_scan_end(struct mask_scan *s);
/* Cover the values found in the n bytes that began at `from`. out has a copy of them. */
void mask_scan_cover(const struct mask_scan *s, uint64_t from, uint8_t *out, size_t n);
/* Where the run begins that goes across `at`. `at`, if none does. */
uint64_t mask_scan_whole(const struct mask_scan *s, uint64_t at);
/* Add the places that another scan, of another mask, has found behind its `old_base`, the same byte
 * as `base` here. */
void mask_scan_adopt(struct mask_scan *s, uint64_t base, const struct mask_scan *old,
		     uint64_t old_base);
/* Bytes before `to` are not needed any more. */
void mask_scan_forget(struct mask_scan *s, uint64_t to);
