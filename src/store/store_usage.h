/* store_usage.h - what sessions used, added up by tenant, hour and label. See store.h for what
 * holds for all rows.
 *
 * The label is the member "label" of a session's metadata, or "". A tenant has at most
 * STORE_USAGE_LABELS of them in an hour; what is beyond is added to "(other)". What was added of a
 * session is remembered with it in the same transaction, so that after a crash nothing is added
 * twice. */
#pragma once

#include "store.h"

#define STORE_USAGE_LABELS 256
#define STORE_USAGE_LABEL_MAX 64

struct store_usage_sums {
	uint64_t cpu_us;
	uint64_t memory_kib_ms, disk_kib_ms; /* KiB held, times the milliseconds */
	uint64_t net_bytes_in, net_bytes_out;
	uint64_t sessions; /* begun */
};

/* Counters of a session up to which its use was added. */
struct store_usage_mark {
	uint64_t cpu_us, net_bytes_in, net_bytes_out;
	/* Up to when memory and disk were added: CLOCK_MONOTONIC of the session's boot; 0: not
	 * known. */
	uint64_t seen_ns;
};

typedef void store_usage_fn(const char *label, const struct store_usage_sums *sums, void *cookie);

/* Adds to the hour that begins at a time, and writes the mark: both or none. ERR_NOT_FOUND: there
 * is no such session. */
int store_usage_add(struct store *s, const char *session, uint64_t hour_ms,
		    const struct store_usage_sums *more, const struct store_usage_mark *mark,
		    struct err *e) MUST_USE;
/* All zeros if nothing was added yet. */
int store_usage_mark(struct store *s, const char *session, struct store_usage_mark *ret,
		     struct err *e) MUST_USE;
/* Deletes the mark of a session that is deleted. */
int store_usage_forget(struct store *s, const char *session, struct err *e) MUST_USE;

/* Calls fn with the sums of each label, of the hours from one time to before another; at most limit
 * labels. */
int store_usage_sum(struct store *s, const char *tenant, uint64_t from_ms, uint64_t to_ms,
		    unsigned limit, store_usage_fn *fn, void *cookie, struct err *e) MUST_USE;
/* Deletes hours before a time, at most limit rows. Returns how many. */
int store_usage_prune(struct store *s, uint64_t before_ms, unsigned limit, struct err *e) MUST_USE;
