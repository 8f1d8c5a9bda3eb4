/* limit_usage.h - a session's use of its limits, as a whole and by rule. Pure. Called by
 * session_limits.c and session_counts.c. Counts outlive policies: a rule with the same name as
 * before continues its count, and rules of one name are counted together.
 *
 * Limits "in total" must hold if this process dies. So bytes are claimed before they are moved:
 * cordond stores the claim, and sends it back with the next configuration. Bytes claimed and never
 * moved are lost to the session then. A claim is small compared with the limit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/policy/policy.h"

enum limit_way { LIMIT_OUT, LIMIT_IN, LIMIT_WAYS };

struct limit_usage {
	struct limit_usage *next, *next_here; /* list of all. List of the bucket */
	char rule[POLICY_NAME_MAX];	      /* "": the session's own */
	uint64_t connections;		      /* open now */
	uint64_t full_ns;		      /* requests: when the bucket will be full again */
	uint64_t bytes[LIMIT_WAYS];
	uint64_t claimed[LIMIT_WAYS]; /* at least bytes */
	bool unsent;		      /* claimed has changed since the last EGRESS_COUNTS */
	bool due;		      /* and must be sent before bytes of it are moved */
};

/* All counts of one session. */
struct limit_usage_table {
	struct limit_usage own;
	struct limit_usage *rules; /* owned. Rules with present or past limits */
	bool unsent;		   /* some of the rules are */
	size_t n;
	struct limit_usage **buckets; /* owned. NULL: no rules yet */
	struct limit_usage **of_rule; /* owned. By policy_rule.number. NULL: without limits */
	size_t nrules;
};

void limit_usage_init(struct limit_usage_table *t);
void limit_usage_release(struct limit_usage_table *t);
/* For a new policy: find the count for each rule. -1: out of memory, nothing changed. */
int limit_usage_renew(struct limit_usage_table *t, const struct policy *p) MUST_USE;
/* The count of a rule by name, made if there is none. NULL: out of memory, or too many. */
struct limit_usage *limit_usage_find(struct limit_usage_table *t, const char *rule);
/* NULL: it has no limits. */
struct limit_usage *limit_usage_of(const struct limit_usage_table *t,
				   const struct policy_rule *rule);

/* How many bytes may be moved under this limit (0: no limit) and are claimed: at least `want`, if
 * so many are left. Claim more, and set due, if little is left of the last claim. */
uint64_t limit_usage_left(struct limit_usage *u, enum limit_way way, uint64_t limit, uint64_t want);
void limit_usage_moved(struct limit_usage *u, enum limit_way way, uint64_t n);
/* Set what cordond says was claimed. Never lowers a count. */
void limit_usage_restore(struct limit_usage *u, uint64_t out, uint64_t in);
