/* mcp_post.h - passes one message of the Model Context Protocol to the server and its answer back,
 * for cordon mcp. Runs in a process of its own (verb_mcp.c), so it may wait. */
#pragma once

#include "cmd/client/api_call.h"
#include "lib/mcp/server/mcp_request.h"

/* Write one line to the client, whole, whatever other processes write. */
int mcp_post_line(int lock_fd, const char *line, size_t n, struct err *e) MUST_USE;

/* Send the message and write each message of the answer as a line. A request that gets no answer
 * with its id gets an error with the reason, also printed to stderr. session: the server recognises
 * this client by it. */
int mcp_post(const struct args_common *o, const struct mcp_request *q, const char *line, size_t n,
	     const char *session, int lock_fd, struct err *e) MUST_USE;
