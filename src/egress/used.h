/* used.h - what a session has used of its limits, as a whole and by rule. Pure. Counts outlive
 * policies: a rule with the same name as before continues its count, and rules of one name are
 * counted together.
 *
 * Limits "in total" must hold if this process dies. So bytes are claimed before they are moved:
 * cordond stores the claim, and sends it back with the next configuration. Bytes that were claimed
 * and never moved are lost to the session then; a claim is small compared with the limit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy.h"

enum used_way { USED_OUT, USED_IN, USED_WAYS };

struct used {
	struct used *next, *next_here; /* list of all; list of the bucket */
	char rule[POLICY_NAME_MAX];    /* "": the session's own */
	uint64_t connections;	       /* open now */
	uint64_t full_ns;	       /* requests: when the bucket will be full again */
	uint64_t bytes[USED_WAYS];
	uint64_t claimed[USED_WAYS]; /* at least bytes */
	bool untold;		     /* claimed has changed since the last EGRESS_COUNTS */
	bool due;		     /* and must be sent before bytes of it are moved */
};

/* All counts of one session. */
struct used_table {
	struct used own;
	struct used *rules; /* owned; rules that have, or had, limits */
	bool untold;	    /* some of the rules are */
	size_t n;
	struct used **buckets; /* owned; NULL: no rules yet */
	struct used **of_rule; /* owned; by policy_rule.number; NULL: without limits */
	size_t nrules;
};

void used_init(struct used_table *t);
void used_release(struct used_table *t);
/* For a new policy: finds the count of each of its rules. -1: memory is short, nothing changed. */
int used_renew(struct used_table *t, const struct policy *p) MUST_USE;
/* The count of a rule by name, made if there is none; NULL: memory is short, or too many. */
struct used *used_find(struct used_table *t, const char *rule);
/* NULL: it has no limits. */
struct used *used_of(const struct used_table *t, const struct policy_rule *rule);

/* How many bytes may be moved under this limit (0: no limit) and are claimed: at least `want`, if
 * so many are left. Claims more, and sets due, if little is left of the last claim. */
uint64_t used_left(struct used *u, enum used_way way, uint64_t limit, uint64_t want);
void used_moved(struct used *u, enum used_way way, uint64_t n);
/* Sets what cordond says was claimed. Never lowers a count. */
void used_restore(struct used *u, uint64_t out, uint64_t in);
