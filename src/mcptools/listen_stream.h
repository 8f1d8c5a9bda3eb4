/* listen_stream.h - subscriptions/listen: an answer that stays open. Nothing that this server
 * offers changes while it runs, so after the first message only comments are sent; it counts as a
 * stream of its tenant. */
#pragma once

#include "tool.h"

void listen_stream_start(struct tool_call *c);
