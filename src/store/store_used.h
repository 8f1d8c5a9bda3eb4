/* store_used.h - what live sessions have used of their limits "in total", by rule: for the next
 * cordon-egress. See store.h for what holds for all rows. */
#pragma once

#include "store.h"

#define STORE_USED_RULE_MAX 64

struct store_used {
	char rule[STORE_USED_RULE_MAX]; /* "": the session's own */
	uint64_t in, out;
};

typedef int store_used_fn(const struct store_used *row, void *cookie);

/* Replaces what was there. */
int store_used_set(struct store *s, const char *session, const struct store_used *row,
		   struct err *e) MUST_USE;
/* In order of rules, at most so many. */
int store_used_each(struct store *s, const char *session, unsigned limit, store_used_fn *fn,
		    void *cookie, struct err *e) MUST_USE;
int store_used_delete(struct store *s, const char *session, struct err *e) MUST_USE;
