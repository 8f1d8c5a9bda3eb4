/* resources.h - resources of the protocol: what sessions have, by the URIs of resource_uri.h. */
#pragma once

#include "front/mcptools/tool.h"

#define RESOURCES_TEMPLATES 4
extern const struct mcp_resource resources_templates[RESOURCES_TEMPLATES];

/* Answer resources/list: the sessions of the tenant that live. */
void resources_list(struct tool_call *c);
/* Answer resources/read. Most resources are the answer of a tool: then the tool is called
 * (c->resource). */
void resources_read(struct tool_call *c);
/* The result of such a tool: text, or else JSON. */
void resources_done(struct tool_call *c);
void resources_failed(struct tool_call *c, const struct failure *f);
