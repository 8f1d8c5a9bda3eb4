/* e2b.h - the interface for E2B's clients: their control plane, their envd in each sandbox, and the
 * way to any port of one. It is an adapter: everything it does, the core does, and what both
 * interfaces show of a session is the same. The contract is doc/e2b.md. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "err.h"

struct core;
struct e2b;
struct exchange;

/* Reads (or makes) the node's key for access tokens, which is in the store. It lives as long as the
 * process. */
struct e2b *e2b_new(struct core *core, struct err *e) MUST_USE;

/* True: the request was for this interface, and is being answered. tls: it came that way. */
bool e2b_handle(struct e2b *b, struct exchange *x, bool tls);

/* "METHOD PATTERN" for each route of the control plane, for tests. */
void e2b_print_routes(FILE *to);
