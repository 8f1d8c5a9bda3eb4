#include "mcp_method.h"

static const struct mcp_method_row rows[] = {
	{ "server/discover", MCP_DISCOVER, true, false, MCP_PART_ALL, NULL },
	{ "initialize", MCP_INITIALIZE, false, true, MCP_PART_ALL, NULL },
	{ "ping", MCP_PING, false, true, MCP_PART_ALL, NULL },
	{ "tools/list", MCP_TOOLS_LIST, true, true, MCP_PART_TOOLS, NULL },
	{ "tools/call", MCP_TOOLS_CALL, true, true, MCP_PART_TOOLS, "name" },
	{ "resources/list", MCP_RESOURCES_LIST, true, true, MCP_PART_RESOURCES, NULL },
	{ "resources/templates/list", MCP_TEMPLATES_LIST, true, true, MCP_PART_RESOURCES, NULL },
	{ "resources/read", MCP_RESOURCES_READ, true, true, MCP_PART_RESOURCES, "uri" },
	{ "resources/subscribe", MCP_RESOURCES_SUBSCRIBE, false, true, MCP_PART_SUBSCRIBE, "uri" },
	{ "resources/unsubscribe", MCP_RESOURCES_UNSUBSCRIBE, false, true, MCP_PART_SUBSCRIBE,
	  "uri" },
	{ "prompts/list", MCP_PROMPTS_LIST, true, true, MCP_PART_PROMPTS, NULL },
	{ "prompts/get", MCP_PROMPTS_GET, true, true, MCP_PART_PROMPTS, "name" },
	{ "completion/complete", MCP_COMPLETE, true, true, MCP_PART_COMPLETIONS, NULL },
	{ "logging/setLevel", MCP_SET_LEVEL, false, true, MCP_PART_LOGGING, NULL },
	{ "subscriptions/listen", MCP_LISTEN, true, false, MCP_PART_LISTEN, NULL },
	{ "notifications/initialized", MCP_INITIALIZED, false, true, MCP_PART_ALL, NULL },
	{ "notifications/cancelled", MCP_CANCELLED, true, true, MCP_PART_ALL, NULL },
	{ "notifications/roots/list_changed", MCP_ROOTS_CHANGED, false, true, MCP_PART_ALL, NULL },
};

const struct mcp_method_row *mcp_method_find(struct json_span name)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (json_span_is(name, rows[i].name))
			return &rows[i];
	}
	return NULL;
}

const struct mcp_method_row *mcp_method_row(enum mcp_method method)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (rows[i].method == method)
			return &rows[i];
	}
	return NULL;
}
