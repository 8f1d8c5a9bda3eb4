/* mcp_local.h - cordon mcp --run: one tool, `run`, on cordon run, without a server. Each call is a
 * cell of its own. Runs in a process of its own for each message (verb_mcp.c). */
#pragma once

#include "mcp_request.h"

/* Does the message and writes the answer, if there is one, as a line. */
int mcp_local(const struct mcp_request *q, int lock_fd, struct err *e) MUST_USE;
