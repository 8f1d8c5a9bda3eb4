/* store_sample.h - the use of resources of each session over its whole life: points of processor
 * time, memory, disk, processes and network. See store.h for what holds for all rows.
 *
 * A session has at most STORE_SAMPLES_MAX points. When it has more, two neighbours become one, so
 * that the resolution halves each time the session has lived twice as long. The points count for
 * the tenant with its records (store_records.h), and are deleted with the session. */
#pragma once

#include "daemon/store/store.h"

#define STORE_SAMPLES_MAX 256
#define STORE_SAMPLE_MS 5000  /* the finest resolution */
#define STORE_SAMPLE_SIZE 128 /* what a point counts for its tenant */

/* Counters up to a time, and the use in the span before it. */
struct store_sample {
	uint64_t seq;	  /* given by the store: grows within a session, and is never given twice */
	uint64_t time_ms; /* the end of the span */
	uint64_t span_ms;
	uint64_t looks;	       /* readings that it was made of */
	uint64_t cpu_us;       /* of the whole session up to then, as the bytes */
	uint64_t memory_bytes; /* the mean of the readings */
	uint64_t memory_max_bytes, disk_bytes, pids; /* the highest of the readings */
	uint64_t net_bytes_in, net_bytes_out;
};

typedef int store_sample_fn(const struct store_sample *row, void *cookie);

/* Make one point of a and the one after it, in a. */
void store_sample_join(struct store_sample *a, const struct store_sample *next);

/* Add a point behind the others, and join two of them if there are too many. *step_ms: the span
 * of points from now on. is_first: the session has none, so the store does not look.
 * ERR_NOT_FOUND: there is no such session. */
int store_sample_add(struct store *s, const char *tenant, const char *session,
		     const struct store_sample *row, bool is_first, uint64_t *step_ms,
		     struct err *e) MUST_USE;
/* The span that new points of the session have. */
int store_sample_step(struct store *s, const char *session, uint64_t *ret_step_ms,
		      struct err *e) MUST_USE;

/* Those after a number, in order. ret may be NULL. */
int store_sample_list(struct store *s, const char *session, uint64_t after_seq, unsigned limit,
		      store_sample_fn *fn, void *cookie, struct store_looked *ret,
		      struct err *e) MUST_USE;
/* The last number of the session, 0 if it has none. */
int store_sample_last(struct store *s, const char *session, uint64_t *ret_seq,
		      struct err *e) MUST_USE;

/* Delete the oldest points of a session, at most limit (0: all). Return how many. */
int store_sample_delete(struct store *s, const char *session, unsigned limit,
			struct err *e) MUST_USE;
