/* session_stop.h - ends a session: its state becomes stopping, everything that waits for it ends
 * with an error, and its cell is told to end. When the cell is gone, session_stopped.h writes the
 * rest.
 *
 * Callable in any state but queued, and repeatable. detail is a constant text that clients see. */
#pragma once

#include "session.h"

/* By the server itself, or on behalf of a client. */
void session_stop(struct session *s, enum session_reason reason, const char *detail);
void session_stop_for(struct session *s, const struct store_actor *who, enum session_reason reason,
		      const char *detail);
/* The session can never be used, because a part of it failed (session_parts.h): those that wait for
 * it get that error, and it ends as crashed. */
void session_fail(struct session *s, const struct err *why, const char *detail);
/* Reads what the session has used, to be written with its next state. */
void session_note_usage(struct session *s);
