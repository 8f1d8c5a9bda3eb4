/* server_spec.h - the member `mcp` of a new session: its MCP servers. Pure but for jansson.
 *
 * {"servers": {NAME: {"command": "..." or ["..."], "cwd": "...", "tools": {"allow", "deny"},
 * "pin": "warn" or "strict", ...}}}. A server's other members (env, secrets, mounts, volumes,
 * network, template, limits, ...) are members of POST /v1/sessions, for the server's own session.
 *
 * Two texts are kept in the column `client` of rows of sessions. The requested session has
 * {"mcp":{"servers":...}}, as requested. A server's own session has
 * {"mcp_server":{"session":ID,"name":NAME},"gateway":{...},"tools":{...},"pin":"..."}. */
#pragma once

#include <jansson.h>

#include "daemon/store/store.h"
#include "front/mcpservers/tool_policy.h"
#include "lib/mcp/client/join.h"

#define SERVER_SPEC_MAX 16 /* servers of a session */
#define SERVER_SPEC_TEXT_MAX (128U << 10)

/* Check it, and give the text for the column. The caller frees it. */
int server_spec_check(json_t *mcp, char **ret_text, struct err *e) MUST_USE;

/* The servers of a session, from its column. NULL: it has none. The caller releases the object with
 * json_decref(). */
json_t *server_spec_servers(const char *client);
/* One of them as what its session is made from: the body of POST /v1/sessions, and the column. The
 * caller frees both. */
int server_spec_session(const char *owner, const char *name, json_t *server, char **ret_body,
			char **ret_client, struct err *e) MUST_USE;

/* The purpose of a server's own session. */
struct server_spec {
	char owner[STORE_ID_MAX];
	char name[JOIN_SERVER_MAX + 1];
	char *gateway; /* owned: the argument of mcp-gateway */
	struct tool_policy policy;
	bool strict; /* a changed tool is refused */
};

/* False: the session is no such. */
bool server_spec_read(const char *client, struct server_spec *ret);
