/* used.h - what a session has used of its limits, as a whole and by rule. Counts outlive policies:
 * a rule is the same as before if it has the same name. Rules of one name count together. Pure.
 *
 * Limits "in total" must hold over the death of this process. So bytes are claimed before they are
 * moved: cordond is told of the claim, keeps it, and gives it back with the next order. What was
 * claimed and never moved is lost to the session then; a claim is small against the limit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy.h"

enum used_way { USED_OUT, USED_IN, USED_WAYS };

struct used {
	struct used *next, *next_here; /* of all; of the bucket */
	char rule[POLICY_NAME_MAX];    /* "": the session's own */
	uint64_t connections;	       /* now */
	uint64_t full_ns;	       /* requests: when their bucket will be full again */
	uint64_t bytes[USED_WAYS];
	uint64_t claimed[USED_WAYS]; /* at least bytes */
	bool untold;		     /* what is claimed has changed since cordond was told, */
	bool due;		     /* and it must be told before bytes of it move */
};

/* All of one session; the first is its own. */
struct used_table {
	struct used own;
	struct used *rules; /* owned; of rules that have, or had, limits */
	bool untold;	    /* some of those */
	size_t n;
	struct used **buckets; /* owned; NULL: no rules yet */
	struct used **of_rule; /* owned; by policy_rule.number; NULL: one without limits */
	size_t nrules;
};

void used_init(struct used_table *t);
void used_release(struct used_table *t);
/* For a policy: each of its rules finds what it has used. -1: memory is short, nothing changed. */
int used_renew(struct used_table *t, const struct policy *p) MUST_USE;
/* The count of a rule by name, made if it is not there; NULL: memory is short, or too many. */
struct used *used_find(struct used_table *t, const char *rule);
/* NULL: it has no limits. */
struct used *used_of(const struct used_table *t, const struct policy_rule *rule);

/* How many bytes may go by this limit (0: no limit), claimed: at least `want`, if so many are left.
 * More is claimed if little is left of the last claim, and due is set then. */
uint64_t used_left(struct used *u, enum used_way way, uint64_t limit, uint64_t want);
void used_moved(struct used *u, enum used_way way, uint64_t n);
/* What cordond says was claimed already. Never less than what is known here. */
void used_restore(struct used *u, uint64_t out, uint64_t in);
