/* e2b.h - the interface for E2B's clients: their control plane, their envd in each sandbox, and the
 * way to any port of one. It is an adapter: everything it does, the core does, and what both
 * interfaces show of a session is the same. The contract is doc/e2b.md. */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"

struct core;
struct e2b;
struct exchange;

/* Read (or make) the node's key for access tokens from the store. It lives as long as the
 * process. */
struct e2b *e2b_new(struct core *core, struct err *e) MUST_USE;

/* Take a request that names a sandbox, by its host, its headers, a token or a signature. True: the
 * request is being answered. tls: the request came by TLS. The control plane is control_routes. */
bool e2b_enter(struct e2b *b, struct exchange *x, bool tls);
