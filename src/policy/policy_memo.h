/* policy_memo.h - the last merged documents. One change of a policy needs the merged document
 * several times: to check it, for the order to egress, for the answer. Merging a long one takes
 * milliseconds of the loop. Pure; what was merged is found by the texts themselves, so nothing has
 * to be told of changes. */
#pragma once

#include "err.h"
#include "policy.h"

struct policy_memo;

/* NULL without memory. */
struct policy_memo *policy_memo_new(void);
void policy_memo_free(struct policy_memo *m);

/* As policy_merge(). Failures are not kept. */
int policy_memo_merge(struct policy_memo *m, const char *const layers[POLICY_LAYERS], char **ret,
		      struct err *e) MUST_USE;

/* How many times layers were merged, for tests. */
unsigned policy_memo_merges(const struct policy_memo *m);
