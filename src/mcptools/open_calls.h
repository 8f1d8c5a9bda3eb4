/* open_calls.h - the calls that are under way, so that notifications/cancelled of the legacy era
 * finds the one it means.
 *
 * No session of the protocol is kept between requests. A call is known by its tenant, the key and
 * the address that it came with, the id that the client gave the request, and Mcp-Session-Id if the
 * client sends one of its own (cordon mcp does). If two clients behind one address share a key and
 * have a request with the same id under way, neither is cancelled. */
#pragma once

#include "tool.h"

void open_calls_add(struct tool_call *c);
void open_calls_remove(struct tool_call *c); /* safe if it was never added */

/* Cancels the call that this notification means, if there is exactly one. */
void open_calls_cancel(const struct tool_call *from);
