/* mcptools.h - the interface for agents: tools of the Model Context Protocol over the core, at POST
 * /mcp. The protocol itself is in src/lib/mcp/server, the tools in tools.h. The contract is
 * doc/mcp.md. */
#pragma once

#include "front/web/routes.h"

struct core;

/* The interface of a request (request.h) is not NULL if clients reach the server by TLS. */
extern const struct routes mcptools_routes;

/* End sessions that existed for one call of an earlier daemon. Called when the core is ready. */
void mcptools_recover(struct core *core);
