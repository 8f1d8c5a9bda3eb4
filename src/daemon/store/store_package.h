/* store_package.h - packages that sessions asked registries for: one row for each name and version
 * of a registry in a session, folded from the records of kind "package" as they come, and the sums
 * of each session. See store.h for what holds for all rows. */
#pragma once

#include "daemon/store/store.h"

struct store_package {
	uint64_t seq; /* given by the store. Grows, and is never given twice */
	char tenant[STORE_ID_MAX];
	char session[STORE_ID_MAX];
	char ecosystem[16];
	char registry[320]; /* "": a direct URL */
	char name[256];
	char version[160];
	unsigned result; /* a larger number replaces a smaller one, together with data */
	uint64_t attempts, downloads, refusals, bytes;
	uint64_t first_ms, last_ms;
	char execution[STORE_ID_MAX]; /* of data. "": not known */
	/* JSON object: the details of the record that decided. Its member "files", an object, is
	 * kept from all records with one, up to 16 KiB. */
	const char *data;
};

struct store_package_filter {
	const char *session;
	uint64_t after_seq;
	const char *ecosystem; /* NULL: all */
	const char *name;      /* NULL: all */
	const char *execution; /* NULL: all */
	int result;	       /* -1: all */
	unsigned limit;	       /* rows looked at, at most. 0: no limit */
};

struct store_package_sum {
	uint64_t downloads, refusals, mismatches, bytes, hits;
};

typedef int store_package_fn(const struct store_package *row, void *cookie);

/* Add one record to its row, which it makes if there is none: attempts, downloads, refusals and
 * bytes are added. Seq is ignored. *ret_new: the row was made. */
int store_package_add(struct store *s, const struct store_package *row, bool *ret_new,
		      struct err *e) MUST_USE;
/* Add to the sums of the session. */
int store_package_sum_add(struct store *s, const char *session, const struct store_package_sum *sum,
			  struct err *e) MUST_USE;
/* Zeroes if the session has none. */
int store_package_sum_get(struct store *s, const char *session, struct store_package_sum *ret,
			  struct err *e) MUST_USE;

/* Those after a number, in order. ret may be NULL. */
int store_package_list(struct store *s, const struct store_package_filter *filter,
		       store_package_fn *fn, void *cookie, struct store_looked *ret,
		       struct err *e) MUST_USE;
int store_package_last(struct store *s, uint64_t *ret_seq, struct err *e) MUST_USE;

int store_package_count(struct store *s, const char *session, uint64_t *ret,
			struct err *e) MUST_USE;
/* Delete so many rows of a session, those of which nothing was downloaded first, then the oldest.
 * Return how many were deleted. */
int store_package_drop(struct store *s, const char *session, unsigned limit,
		       struct err *e) MUST_USE;
/* Delete the sums of a session. */
int store_package_sum_delete(struct store *s, const char *session, struct err *e) MUST_USE;

/* As store_event_prune(), store_event_count() and store_event_drop(). */
int store_package_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
			void *cookie, struct err *e) MUST_USE;
int store_package_count_tenant(struct store *s, const char *tenant, uint64_t *ret,
			       struct err *e) MUST_USE;
int store_package_drop_tenant(struct store *s, const char *tenant, unsigned limit,
			      struct err *e) MUST_USE;
