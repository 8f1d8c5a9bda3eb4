/* router.h - decides which interface answers a request: the one place where the interfaces of
 * cordond meet. Each interface has one table of routes (routes.h). */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"

struct core;
struct e2b;
struct exchange;

struct router {
	struct core *core; /* borrowed */
	struct e2b *e2b;   /* lives as long as the process */
	bool has_tls;	   /* clients reach the server by TLS. Set before the first request */
};

int router_init(struct router *r, struct core *core, struct err *e) MUST_USE;

/* Answer the request, now or later. tls: the request came by TLS. */
void router_handle(struct router *r, struct exchange *x, bool tls);

/* "METHOD PATTERN" for each route of E2B's control plane, or of all other interfaces. For tests. */
void router_print(FILE *to, bool e2b);
