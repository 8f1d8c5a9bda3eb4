/* listen_stream.h - subscriptions/listen: an answer that stays open, and counts as a stream of its
 * tenant. A client that asked for resourcesListChanged is told when a session of the tenant begins
 * or ends, once a second at most. The list of tools never changes. */
#pragma once

#include "tool.h"

void listen_stream_start(struct tool_call *c);
