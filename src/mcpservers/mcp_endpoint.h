/* mcp_endpoint.h - POST /mcp/{session}: the tools of all MCP servers of a session, as one server.
 * The protocol is src/mcp; what servers may do is servers_part.h. The contract is doc/mcp.md. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct core;
struct exchange;

/* True: the request was for this interface, and is being answered. */
bool mcp_endpoint_handle(struct exchange *x, struct core *core);
/* "METHOD PATTERN" for each route, for tests. */
void mcp_endpoint_print_routes(FILE *to);
