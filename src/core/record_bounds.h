/* record_bounds.h - how many events, network records and packages are kept, for a tenant and for
 * the node.
 *
 * Each tenant has a bound of its own, and its own oldest records go beyond it. Where all together
 * are beyond the node's bound, the tenant that has most loses its oldest: so what one tenant writes
 * never removes the records of another that has fewer. The rows of each tenant are counted once
 * after a start and kept up to date in memory from then on. Packages have the bounds of network
 * records, each for itself.
 *
 * Called by what appends records (record_bounds_add) and by retention.c, in pieces. */
#pragma once

#include "core.h"

enum record_kind { RECORD_EVENT, RECORD_NET, RECORD_PACKAGE, RECORD_KINDS };

/* A member of struct tenant. */
struct record_count {
	bool counted; /* else rows is not known yet */
	uint64_t rows;
};

/* Counts n rows of the tenant that were appended or, if negative, deleted; after every START_EVERY
 * rows it starts retention. t NULL: the tenant is not known, nothing is counted for one. */
void record_bounds_add(struct core *c, struct tenant *t, enum record_kind kind, int64_t n);

/* Deletes rows that are older than a time or beyond a bound, at most RECORD_BOUNDS_PIECE. 1: there
 * may be more to do; 0: there is nothing to do; -1: failed. */
#define RECORD_BOUNDS_PIECE 256
int record_bounds_piece(struct core *c, enum record_kind kind, uint64_t before_ms,
			struct err *e) MUST_USE;
