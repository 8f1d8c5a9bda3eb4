/* walk.h - answers a request from many rows of the store, in pieces, in the tenant's share of the
 * loop (jobs.h).
 *
 * A route's state begins with a struct walk. Its on_piece() looks at WALK_PIECE rows, adds what it
 * found to the answer, and returns whether there are more; between two pieces other clients are
 * served. After rows_max rows the walk ends as if there were no more: the route's answer has the
 * position to continue from. */
#pragma once

#include "json.h"
#include "request.h"
#include "jobs.h"
#include "store.h"

#define WALK_PIECE 256	       /* rows in one piece */
#define WALK_ROWS 20000	       /* in one request, for lists with a cursor */
#define WALK_BYTES (4U << 20)  /* of an answer: a list ends its page there */
#define WALK_PIECE_BYTES 65536 /* by which an answer grows in one piece, about */

struct walk {
	struct request *r;
	struct job job;
	struct json j;	    /* the answer so far */
	size_t piece_began; /* its length when this piece began */
	unsigned rows, rows_max;
	/* 1: there are more rows, 0: no, or enough was found; -1: failed. */
	int (*on_piece)(struct walk *w, struct err *e);
	/* The walk is at its end: writes the rest of the answer. */
	void (*on_finish)(struct walk *w);
	/* May be NULL. */
	void (*release)(struct walk *w);
};

/* State of that size for the request, or NULL (then it was answered). Sets on_piece and on_finish;
 * the rest is the caller's to fill before walk_start(). */
void *walk_new(struct request *r, size_t size, int (*on_piece)(struct walk *w, struct err *e),
	       void (*on_finish)(struct walk *w)) MUST_USE;
/* The walk answers the request, or already has when this returns. */
void walk_start(struct walk *w);

/* Rows that a piece has looked at. Returns what on_piece() is to return: 1 if there may be more. */
int walk_count(struct walk *w, const struct store_looked *looked);
/* Is the answer long enough for this piece, or for the page? */
bool walk_piece_is_full(const struct walk *w);
bool walk_page_is_full(const struct walk *w);
