/* store_net_claim.h - what live sessions have used of their limits "in total", by rule: for the
 * next cordon-egress. See store.h for what holds for all rows. */
#pragma once

#include "store.h"

#define STORE_NET_CLAIM_RULE_MAX 64

struct store_net_claim {
	char rule[STORE_NET_CLAIM_RULE_MAX]; /* "": the session's own */
	uint64_t in, out;
};

typedef int store_net_claim_fn(const struct store_net_claim *row, void *cookie);

/* Writes the claim of a rule, or replaces it. */
int store_net_claim_set(struct store *s, const char *session, const struct store_net_claim *row,
			struct err *e) MUST_USE;
/* In order of rules, at most so many. */
int store_net_claim_each(struct store *s, const char *session, unsigned limit,
			 store_net_claim_fn *fn, void *cookie, struct err *e) MUST_USE;
int store_net_claim_delete(struct store *s, const char *session, struct err *e) MUST_USE;
