/* store_usage.h - what sessions used, added up by tenant, hour and label. See store.h for what
 * holds for all rows.
 *
 * The label is the member "label" of a session's metadata, or "". A tenant has at most
 * STORE_USAGE_LABELS of them in an hour. Further ones are added to "(other)". The amounts added for
 * a session are remembered with it in the same transaction, so that after a crash nothing is added
 * twice. Each session has these sums by hour, too, as long as its record. They count for the tenant
 * with its records. */
#pragma once

#include "daemon/store/store.h"

#define STORE_USAGE_LABELS 256
#define STORE_USAGE_LABEL_MAX 64
#define STORE_USAGE_SESSION_SIZE 128 /* what an hour of a session counts for its tenant */

struct store_usage_sums {
	uint64_t cpu_us;
	uint64_t memory_kib_ms, disk_kib_ms; /* KiB held, times the milliseconds */
	uint64_t net_bytes_in, net_bytes_out;
	uint64_t sessions;		/* begun */
	uint64_t tokens_in, tokens_out; /* of model calls */
};

/* Counters of a session up to which its use was added. */
struct store_usage_mark {
	uint64_t cpu_us, net_bytes_in, net_bytes_out;
	/* Up to when memory and disk were added: CLOCK_MONOTONIC of the session's boot. 0: not
	 * known. */
	uint64_t seen_ns;
};

typedef void store_usage_fn(const char *label, const struct store_usage_sums *sums, void *cookie);

/* Add to the hour that begins at a time, and write the mark unless it is NULL: both or none.
 * tenant: the session's. ERR_NOT_FOUND: there is no such session. */
int store_usage_add(struct store *s, const char *tenant, const char *session, uint64_t hour_ms,
		    const struct store_usage_sums *more, const struct store_usage_mark *mark,
		    struct err *e) MUST_USE;
/* All zeros if nothing was added yet. */
int store_usage_mark(struct store *s, const char *session, struct store_usage_mark *ret,
		     struct err *e) MUST_USE;
/* Delete the mark of a deleted session. */
int store_usage_forget(struct store *s, const char *session, struct err *e) MUST_USE;

/* The sums of one session over the hours from one time to before another. False in *ret_any: it has
 * none. */
int store_usage_of_session(struct store *s, const char *session, uint64_t from_ms, uint64_t to_ms,
			   struct store_usage_sums *ret, bool *ret_any, struct err *e) MUST_USE;
/* Delete the oldest hours of a session, at most limit (0: all). Return how many. */
int store_usage_delete_session(struct store *s, const char *session, unsigned limit,
			       struct err *e) MUST_USE;

/* Call fn with the sums of each label, of the hours from one time to before another. At most limit
 * labels. */
int store_usage_sum(struct store *s, const char *tenant, uint64_t from_ms, uint64_t to_ms,
		    unsigned limit, store_usage_fn *fn, void *cookie, struct err *e) MUST_USE;
/* Delete hours before a time, at most limit rows. Return how many. */
int store_usage_prune(struct store *s, uint64_t before_ms, unsigned limit, struct err *e) MUST_USE;
