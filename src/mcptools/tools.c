#include "tools.h"

const struct mcp_tool *tools_shown(void)
{
	static const struct tool *const all[TOOLS] = {
		&tool_create_session, &tool_run,	  &tool_read_output, &tool_stop,
		&tool_read_file,      &tool_write_file,	  &tool_list_files,  &tool_get_changes,
		&tool_open_port,      &tool_session_info,
	};
	static struct mcp_tool shown[TOOLS];

	for (size_t i = 0; shown[0].name == NULL && i < TOOLS; i++) {
		size_t at = TOOLS - 1 - i; /* the first one last: it says that all are there */

		shown[at] = all[at]->shown;
		shown[at].arg = all[at];
	}
	return shown;
}
