/* mcptools.h - the interface for agents: tools of the Model Context Protocol over the core, at POST
 * /mcp. The protocol itself is src/mcp; tools.h has the tools. The contract is doc/mcp.md. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "err.h"

struct core;
struct exchange;

/* True: the request was for this interface, and is being answered. tls: clients reach the server
 * that way. */
bool mcptools_handle(struct exchange *x, struct core *core, bool tls);

/* Ends sessions that existed for one call of an earlier daemon. Called when the core is ready. */
void mcptools_recover(struct core *core);

/* "METHOD PATTERN" for each route, for tests. */
void mcptools_print_routes(FILE *to);
