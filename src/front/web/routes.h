/* routes.h - a table of routes, and how a request finds its handler.
 *
 * One table has everything about routing: method, pattern, scope, handler, parameters. A request is
 * matched against it once. The match also tells whether the path exists, its methods and the answer
 * to OPTIONS. Then the key is checked, then the names of the query's parameters, then the ids in
 * the path, and the handler is called with a struct request that lives as long as the exchange.
 *
 * A request without a key gets the same 401 for existing and missing paths, with any method. Two
 * kinds need no key: OPTIONS of a browser that asks before it sends a request (CORS), and methods
 * of paths open without a key. */
#pragma once

#include <stdio.h>

#include "front/web/request.h"
#include "lib/http/url.h"

struct route {
	enum http1_method method;
	const char *pattern; /* see url_match() */
	unsigned scope;	     /* TENANT_*. 0: no key is needed */
	void (*handle)(struct request *r);
	/* Names of its parameters, each followed by a space. "x.*": any such name. NULL: unknown
	 * parameters are ignored. */
	const char *query;
};

struct routes {
	const struct route *table;
	size_t n;
	const struct dialect *dialect;
	bool open; /* no route needs a key, and any client may learn which paths exist */
	/* Is this request allowed without a key although its route needs one? NULL: no request is.
	 */
	bool (*waives)(const struct request *r);
	/* Read the ids that a pattern's {} matched. If one is malformed, answers and returns
	 * false. */
	bool (*take_ids)(struct request *r, const struct url_params *params);
};

/* Is there a route for this path, with any method? */
bool routes_know(const struct routes *t, struct http1_span path);
/* Has any route the same first segment as this path? */
bool routes_have_prefix(const struct routes *t, struct http1_span path);

/* Find the handler of a request that exists already, and call it. */
void routes_dispatch(const struct routes *t, struct request *r);
/* Make the request, find its handler and call it. */
void routes_handle(const struct routes *t, struct core *core, struct exchange *x, void *arg);

/* "METHOD PATTERN" for each route, for tests. */
void routes_print(const struct routes *t, FILE *to);
