/* router.c - theory of operation
 *
 * All interfaces share each listener. A request is matched in two steps:
 *
 * 1. Its host, port and headers. A request that names a sandbox goes to that sandbox and nowhere
 *    else, whatever its path. This is the only rule about hosts (e2b_enter(), destination.h).
 * 2. Its path. The rows below are asked in their order. The native interface is the last row and
 *    takes each remaining request.
 *
 * A new interface is a table of routes and a row. */
#include "front/router/router.h"

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/e2b.h"
#include "front/mcpservers/mcp_endpoint.h"
#include "front/mcptools/mcptools.h"
#include "front/rest/api.h"
#include "front/web/mcp_front.h"

struct router_row {
	const struct routes *routes;
	/* Does the interface answer this path, perhaps with 404 in its dialect? NULL: any path. */
	bool (*takes)(const struct routes *t, struct http1_span path);
	/* A page of another site may not call it (mcp_front.h). */
	bool guarded;
};

/* Paths that E2B does not have are answered in its dialect if their first word is one of its
 * control plane's. */
static const struct router_row rows[] = {
	{ &control_routes, routes_have_prefix, false },
	{ &mcptools_routes, routes_know, true },
	{ &mcp_endpoint_routes, routes_know, true },
	{ &api_routes, NULL, false },
};

int router_init(struct router *r, struct core *core, struct err *e)
{
	*r = (struct router){ .core = core, .e2b = e2b_new(core, e) };
	return r->e2b == NULL ? -1 : 0;
}

/* The argument of the requests of an interface. */
static void *router_arg(struct router *r, const struct router_row *i)
{
	if (i->routes == &control_routes)
		return r->e2b;
	return i->routes == &mcptools_routes && r->has_tls ? r : NULL;
}

void router_handle(struct router *r, struct exchange *x, bool tls)
{
	struct http1_span path = exchange_request(x)->path;
	const struct router_row *i = rows;

	if (e2b_enter(r->e2b, x, tls))
		return;
	while (i->takes != NULL && !i->takes(i->routes, path))
		i++;
	if (i->guarded && !mcp_front_allowed(x, core_config(r->core)))
		mcp_front_refuse_origin(x);
	else
		routes_handle(i->routes, r->core, x, router_arg(r, i));
}

void router_print(FILE *to, bool e2b)
{
	if (e2b) {
		routes_print(&control_routes, to);
		return;
	}
	routes_print(&api_routes, to);
	routes_print(&mcptools_routes, to);
	routes_print(&mcp_endpoint_routes, to);
}
