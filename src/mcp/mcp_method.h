/* mcp_method.h - the methods of both eras, in one table. For mcp_request.c and mcp_server.c. */
#pragma once

#include "mcp_request.h"

/* What a server must have declared for the method to be there. */
enum mcp_part {
	MCP_PART_ALL,
	MCP_PART_TOOLS,
	MCP_PART_RESOURCES,
	MCP_PART_SUBSCRIBE,
	MCP_PART_PROMPTS,
	MCP_PART_COMPLETIONS,
	MCP_PART_LOGGING,
	MCP_PART_LISTEN,
	MCP_PARTS
};

struct mcp_method_row {
	const char *name;
	enum mcp_method method;
	bool modern, legacy;
	enum mcp_part part;
	const char *name_member; /* of params: repeated in Mcp-Name; NULL: none */
};

/* NULL: no such method in either era. */
const struct mcp_method_row *mcp_method_find(struct json_span name);
const struct mcp_method_row *mcp_method_row(enum mcp_method method);
