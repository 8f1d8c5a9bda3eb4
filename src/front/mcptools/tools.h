/* tools.h - the table of tools, one file for each. */
#pragma once

#include "front/mcptools/tool.h"

/* The column `client` of a session that exists for one call only. */
#define TOOLS_FRESH "{\"mcp\":\"call\"}"

/* mcptools.c lists them, and resources.c calls some of them for a resource. */
extern const struct tool tool_create_session, tool_run, tool_read_output, tool_stop, tool_read_file,
	tool_write_file, tool_list_files, tool_get_changes, tool_open_port, tool_session_info;

/* In the order in which they are listed. */
#define TOOLS 10
