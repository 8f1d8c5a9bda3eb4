#include "front/mcptools/tools.h"

const struct mcp_tool *tools_shown(void)
{
	static const struct tool *const all[TOOLS] = {
		&tool_create_session, &tool_run,	  &tool_read_output, &tool_stop,
		&tool_read_file,      &tool_write_file,	  &tool_list_files,  &tool_get_changes,
		&tool_open_port,      &tool_session_info,
	};
	static struct mcp_tool shown[TOOLS];

	for (size_t i = 0; shown[TOOLS - 1].name == NULL && i < TOOLS; i++) {
		shown[i] = all[i]->shown;
		shown[i].arg = all[i];
	}
	return shown;
}
