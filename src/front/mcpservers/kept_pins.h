/* kept_pins.h - pins of a server's tools in the store, so that a change is noticed after a restart
 * of the daemon, too. Only the first definition of a tool is written. Called by server_link.c. */
#pragma once

#include "daemon/node/core.h"
#include "front/mcpservers/tool_policy.h"

/* Failures are logged: the pins in memory count. */
void kept_pins_read(struct core *c, const char *session, struct tool_pins *p);
void kept_pins_write(struct core *c, const char *session, struct tool_pins *p);
void kept_pins_delete(struct core *c, const char *session);
