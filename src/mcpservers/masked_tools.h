/* masked_tools.h - takes values of secrets out of a list of tools, before anything is kept or shown
 * of it. Called by server_link.c. */
#pragma once

#include "session.h"
#include "tool_list.h"

/* Of the tools from `first` on. A tool whose name has a value is left out. A definition that cannot
 * be read any more after it was masked becomes one that says nothing. Hashes stay those of the
 * server's text. */
void masked_tools(struct tool_list *l, size_t first, const struct session *s);
