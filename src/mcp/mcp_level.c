#include "mcp_request.h"

static const char *const names[] = { NULL,    "debug",	  "info",  "notice",   "warning",
				     "error", "critical", "alert", "emergency" };

const char *mcp_level_name(enum mcp_level level)
{
	return names[level];
}

enum mcp_level mcp_level_find(struct json_span name)
{
	for (size_t i = 1; i < COUNT(names); i++) {
		if (json_span_is(name, names[i]))
			return (enum mcp_level)i;
	}
	return MCP_LEVEL_NONE;
}
