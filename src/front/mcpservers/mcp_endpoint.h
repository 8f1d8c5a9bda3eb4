/* mcp_endpoint.h - POST /mcp/{session}: the tools of all MCP servers of a session, as one server.
 * The protocol is in src/lib/mcp/server, the servers' rights in servers_part.h. The contract is
 * doc/mcp.md. */
#pragma once

#include "front/web/routes.h"

extern const struct routes mcp_endpoint_routes;
