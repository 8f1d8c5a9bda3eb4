/* store_event.h - events: what happened, in order. See store.h for what holds for all rows. */
#pragma once

#include "daemon/store/store_actor.h"

struct store_event {
	uint64_t seq; /* given by the store. Grows, and is never given twice */
	char tenant[STORE_ID_MAX];
	char session[STORE_ID_MAX];   /* "": none */
	char execution[STORE_ID_MAX]; /* "": none */
	uint64_t time_ms;
	char type[32];		  /* "session.started", ... */
	const char *data;	  /* opaque */
	struct store_actor actor; /* whose request caused it */
};

struct store_event_filter {
	const char *tenant;  /* NULL: all */
	const char *session; /* NULL: all */
	bool descending;     /* newest first. Needs a session */
	uint64_t after_seq;  /* in that order. Descending, 0: from the newest */
	unsigned limit;	     /* rows at most. 0: no limit */
};

typedef int store_event_fn(const struct store_event *row, void *cookie);

/* seq is ignored on the way in. *ret_seq, if not NULL, is its number. */
int store_event_append(struct store *s, const struct store_event *row, uint64_t *ret_seq,
		       struct err *e) MUST_USE;

/* Events after a number, in order. The filter is answered by an index: each row looked at is shown.
 * ret may be NULL. */
int store_event_list(struct store *s, const struct store_event_filter *filter, store_event_fn *fn,
		     void *cookie, struct store_looked *ret, struct err *e) MUST_USE;

/* The last number given, 0 if none ever was. */
int store_event_last(struct store *s, uint64_t *ret_seq, struct err *e) MUST_USE;

/* Delete events older than a time. Look at the `limit` oldest only, so that a call is short. Return
 * how many were deleted (0: done), and call fn for each. */
int store_event_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
		      void *cookie, struct err *e) MUST_USE;

/* How many a tenant has. Read an index of them. */
int store_event_count(struct store *s, const char *tenant, uint64_t *ret, struct err *e) MUST_USE;
/* Delete the oldest of a tenant, `limit` at most. Return how many were deleted. */
int store_event_drop(struct store *s, const char *tenant, unsigned limit, struct err *e) MUST_USE;
