/* servers_view.h - the MCP servers of a session as the native interface shows them. */
#pragma once

struct core;
struct json;

/* The member "servers" of GET /v1/sessions/{id}/mcp. */
void servers_view_write(struct json *j, struct core *core, const char *session_id);
