/* policy_memo.h - a cache of the last merged documents. One change of a policy needs the merged
 * document several times: for its check, for the configuration of egress, and for the answer.
 * Merging a long document takes milliseconds of the loop. Used by cordond. Pure. Entries are found
 * by the texts of the layers, so they need no invalidation. */
#pragma once

#include "lib/base/err.h"
#include "lib/policy/policy.h"

struct policy_memo;

/* Create a cache. NULL: out of memory. */
struct policy_memo *policy_memo_new(void);
void policy_memo_free(struct policy_memo *m);

/* Merge as policy_merge() does. Failures are not kept. */
int policy_memo_merge(struct policy_memo *m, const char *const layers[POLICY_LAYERS], char **ret,
		      struct err *e) MUST_USE;

/* The number of merges so far, for tests. */
unsigned policy_memo_merges(const struct policy_memo *m);
