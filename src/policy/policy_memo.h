/* policy_memo.h - a cache of the last merged documents. One change of a policy needs the merged
 * document several times: to check it, for the configuration of egress, for the answer; and
 * merging a long one takes milliseconds of the loop. Used by cordond. Pure; entries are found by
 * the texts of the layers, so they need no invalidation. */
#pragma once

#include "err.h"
#include "policy.h"

struct policy_memo;

/* NULL: out of memory. */
struct policy_memo *policy_memo_new(void);
void policy_memo_free(struct policy_memo *m);

/* As policy_merge(). Failures are not kept. */
int policy_memo_merge(struct policy_memo *m, const char *const layers[POLICY_LAYERS], char **ret,
		      struct err *e) MUST_USE;

/* The number of merges so far, for tests. */
unsigned policy_memo_merges(const struct policy_memo *m);
