/* servers_part.h - MCP servers as a part of sessions (session_hooks.h). A session made with `mcp`
 * has further sessions, one for each server, which end with it. It can be used when all servers
 * have listed their tools. Called by cordond's main() and by the endpoint. */
#pragma once

#include "daemon/session/session_hooks.h"
#include "front/mcpservers/server_link.h"

extern const struct session_part servers_part;

/* The server after k of this session, in the order of their names. k NULL: the first. */
struct server_link *servers_next(struct core *c, const char *session_id,
				 const struct server_link *k);
/* NULL: the session has none of this name. */
struct server_link *servers_find(struct core *c, const char *session_id, const char *name,
				 size_t n);
