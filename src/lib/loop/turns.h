/* turns.h - statistics of an event loop: how long its turns take, and which callback took longest.
 *
 * loop.c reads the clock between two callbacks and calls turns_add(). A process shows the numbers
 * with turns_write() (Prometheus text) or reads them from the structure. Pure, except for a log
 * line about a turn that took too long. */
#pragma once

#include <stdint.h>

struct buf;

#define TURNS_BUCKETS 14
#define TURNS_SLOW_MS 100 /* from here on a turn is logged */
#define TURNS_WINDOW_S 60

/* The reason for calling a callback. */
enum turns_kind { TURNS_NONE, TURNS_FD, TURNS_TIMER, TURNS_TASK };

struct turns_callback {
	enum turns_kind kind;
	const char *file; /* constant: the file that registered it */
	const char *note; /* constant: of loop_note(), or NULL */
	uint64_t ns;
};

struct turns_turn {
	uint64_t ns;
	unsigned callbacks;
	struct turns_callback longest;
};

struct turns {
	uint64_t count, sum_ns, max_ns; /* since the start */
	uint64_t buckets[TURNS_BUCKETS + 1];
	struct turns_turn slowest[2]; /* of this window and of the one before it */
	uint64_t window_ns;	      /* when this one began */
};

/* Upper bounds of the buckets, in nanoseconds. The last bucket has none. */
extern const uint64_t turns_bounds_ns[TURNS_BUCKETS];

/* A turn that ended at now_ns. */
void turns_add(struct turns *t, const struct turns_turn *turn, uint64_t now_ns);

/* The slowest turn of the last one to two minutes. */
const struct turns_turn *turns_slowest(const struct turns *t);

/* "timer daemon/node/core.c", or with a note "descriptor lib/net/conn.c: /v1/keys". */
#define TURNS_NAME_MAX 160
void turns_name(const struct turns_callback *c, char ret[TURNS_NAME_MAX]);

/* PREFIX_loop_turn_seconds (a histogram), PREFIX_loop_turn_max_seconds and
 * PREFIX_loop_turn_slowest_seconds{callback="..."}. */
void turns_write(const struct turns *t, const char *prefix, struct buf *to);
/* As above, for another process that sent its numbers and the name of its longest callback. */
void turns_write_named(const struct turns *t, const char *prefix, const char *longest,
		       struct buf *to);
