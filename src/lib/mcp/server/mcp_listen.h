/* mcp_listen.h - subscriptions/listen of the modern era: the filter, the first message, and the
 * messages that follow. Pure. The caller keeps one mcp_listen for each open stream. */
#pragma once

#include "lib/mcp/server/mcp_write.h"

#define MCP_LISTEN_URIS 16

struct mcp_listen {
	char id[MCP_ID_MAX + 1]; /* of the request, as JSON */
	bool tools, prompts, resources;
	char *uris[MCP_LISTEN_URIS]; /* owned */
	size_t uris_n;
};

enum mcp_change { MCP_TOOLS_CHANGED, MCP_PROMPTS_CHANGED, MCP_RESOURCES_CHANGED };

/* Read the filter of a request. Entries that the server has not declared are dropped from it. */
int mcp_listen_read(struct mcp_listen *l, const struct mcp_server *s, const struct mcp_request *r,
		    struct mcp_fault *f) MUST_USE;
void mcp_listen_release(struct mcp_listen *l);
/* notifications/subscriptions/acknowledged, with the honoured filter. */
void mcp_listen_write_ack(struct json *j, const struct mcp_listen *l);
/* False: the client did not ask for it, nothing is written. */
bool mcp_listen_write_change(struct json *j, const struct mcp_listen *l, enum mcp_change what);
/* The answer to the request, when the server ends the stream. */
void mcp_listen_write_end(struct json *j, const struct mcp_server *s, const struct mcp_request *r);
