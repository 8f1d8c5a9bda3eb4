/* servers_part.h - MCP servers as a part of sessions (session_parts.h). A session that was made
 * with `mcp` has sessions of its own, one for each server, which end with it; it can be used when
 * all servers have listed their tools. Called by cordond's main() and by the endpoint. */
#pragma once

#include "server_link.h"
#include "session_parts.h"

extern const struct session_part servers_part;

/* The server after k of this session, in the order of their names; k NULL: the first. */
struct server_link *servers_next(struct core *c, const char *session_id,
				 const struct server_link *k);
/* NULL: the session has none of this name. */
struct server_link *servers_find(struct core *c, const char *session_id, const char *name,
				 size_t n);
