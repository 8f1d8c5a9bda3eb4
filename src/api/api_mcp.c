/* api_mcp.c - the MCP servers of a session. Calls go to its own endpoint (mcpservers). */
#include "api_handlers.h"
#include "servers_view.h"
#include "reply.h"
#include "request.h"

#define SERVERS_MAX (8U << 20)

void api_mcp_get(struct request *r)
{
	struct session *live = NULL;
	struct err e = { 0 };
	struct json j;

	if (request_owns(r, &live, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, SERVERS_MAX);
	json_open(&j, NULL, '{');
	servers_view_write(&j, r->core, r->session_id);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
