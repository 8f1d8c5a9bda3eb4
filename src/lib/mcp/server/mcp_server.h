/* mcp_server.h - a server's offer, and the requests answered from it alone: server/discover,
 * initialize, ping, logging/setLevel, tools/list, resources/list, resources/templates/list,
 * notifications. Pure.
 *
 *	switch (mcp_server_answer(s, &r, &j, &f)) {
 *	case MCP_ANSWERED: send j with status 200
 *	case MCP_ACCEPTED: 202, no body; on stdio nothing
 *	case MCP_REFUSED:  mcp_write_error(&j, &r, &f), send with mcp_fault_status(&r, &f)
 *	case MCP_FOR_CALLER: the caller does it: tools/call, resources/read, prompts/list, ... */
#pragma once

#include "lib/mcp/server/mcp_request.h"

struct mcp_tool {
	const char *name, *title, *description; /* title may be NULL */
	const char *input_schema;		/* JSON. See mcp_arguments.h */
	const char *output_schema;		/* JSON, or NULL */
	/* Hints. Destructive and idempotent mean something only if not read_only. */
	bool read_only, destructive, idempotent, open_world;
	bool no_annotations; /* all hints are left out */
	int id;		     /* the caller's */
	const void *arg;     /* the caller's */
};

struct mcp_resource { /* or a template of resources: uri is then a URI template */
	const char *uri, *name, *title, *description, *mime_type; /* the last three may be NULL */
};

struct mcp_server {
	const char *name, *title, *version, *instructions; /* title, instructions may be NULL */
	const struct mcp_tool *tools;
	size_t tools_n;
	/* NULL: all tools are listed and found. */
	bool (*tool_visible)(const struct mcp_tool *tool, void *arg);
	void *arg;	    /* of tool_visible */
	bool tools_changed; /* declares listChanged */
	/* Capabilities of what follows are declared if has_... is set. */
	bool has_resources, resources_changed, resources_subscribe;
	const struct mcp_resource *resources, *templates;
	size_t resources_n, templates_n;
	bool resources_by_caller; /* resources/list is answered by the caller (MCP_FOR_CALLER) */
	bool tools_by_caller;	  /* the same for tools/list. Tools is not used then */
	bool has_prompts, prompts_changed; /* prompts/list and prompts/get are for the caller */
	bool has_completions, has_logging;
	/* Caching hints of modern answers: milliseconds. */
	uint64_t tools_ttl_ms, list_ttl_ms;
	bool cache_public; /* else "private" */
};

enum mcp_outcome { MCP_ANSWERED, MCP_ACCEPTED, MCP_REFUSED, MCP_FOR_CALLER };

/* MCP_FOR_CALLER: r->method is one that this server has declared, and not one of those above. Also
 * MCP_CANCELLED, and every MCP_RESPONSE. j gets a whole JSON-RPC message if MCP_ANSWERED. */
enum mcp_outcome mcp_server_answer(const struct mcp_server *s, const struct mcp_request *r,
				   struct json *j, struct mcp_fault *f) MUST_USE;

/* The tool that tools/call names. NULL and a fault (-32602) if there is none or it is not visible.
 */
const struct mcp_tool *mcp_server_tool(const struct mcp_server *s, const struct mcp_request *r,
				       struct mcp_fault *f);

/* Check the headers Mcp-Param-X of a modern tools/call: a parameter whose schema (JSON) has
 * "x-mcp-header": "X" is repeated there. Nothing to check if it marks none, as our own schemas. */
int mcp_check_param_headers(struct json_span schema, const struct mcp_http *h,
			    const struct mcp_request *r, struct mcp_fault *f) MUST_USE;
