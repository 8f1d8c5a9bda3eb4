/* network_policy.h - what E2B's clients say of whom a sandbox may contact, as a policy. Pure,
 * fuzzed with network.h. doc/e2b.md has the table. */
#pragma once

#include <stdbool.h>

#include "err.h"

/* text: of a row, as network.h wrote it. open: sandboxes of which nothing is said may contact
 * everybody. *ret is a document of policy.h, "" if nothing was said and the node's default counts;
 * the caller frees it. ERR_INVALID: a header asks for what there is not. */
int network_policy_write(const char *text, bool open, char **ret, struct err *e) MUST_USE;

/* Calls fn for every secret that headers of its rules name, until it returns other than 0, which is
 * returned. */
int network_policy_secrets(const char *text, int (*fn)(const char *name, void *arg), void *arg);
