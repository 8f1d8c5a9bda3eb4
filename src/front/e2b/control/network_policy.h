/* network_policy.h - translates the outbound rules of E2B's contract into a policy. Pure, fuzzed
 * with network.h. doc/e2b.md has the table. */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"

/* text: of a row, as network.h wrote it. open: sandboxes without rules may reach everything. *ret
 * is a document of policy.h, "" if there are no rules and the node's default applies. The caller
 * frees it. ERR_INVALID: a header refers to something unsupported. */
int network_policy_write(const char *text, bool open, char **ret, struct err *e) MUST_USE;

/* Call fn for every secret that headers of its rules name, until fn returns other than 0. Return
 * that value. */
int network_policy_secrets(const char *text, int (*fn)(const char *name, void *arg), void *arg);
