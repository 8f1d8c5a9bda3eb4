/* session_stop.h - ends a session: its state becomes ending, everything that waits for it ends
 * with an error, and its cell is told to end. When the cell is gone, session_ended() writes the
 * rest.
 *
 * Callable in any state but queued, and repeatable. detail is a constant text for clients.
 */
#pragma once

#include "daemon/session/session.h"

/* By the server itself, or on behalf of a client. */
void session_stop(struct session *s, enum session_reason reason, const char *detail);
void session_stop_for(struct session *s, const struct store_actor *who, enum session_reason reason,
		      const char *detail);
/* End a session that can never be used, because a part of it failed (session_hooks.h): all who wait
 * for it get that error, and it ends as crashed. */
void session_fail(struct session *s, const struct err *why, const char *detail);
/* Read the session's usage, to be written with its next state. */
void session_note_usage(struct session *s);

/* ---- the last record of a session, when nothing of its cell is left
 *
 * No request waits for this record. If the daemon ends before it is written, recovery finds an
 * ending session without a cell, and writes it. So one transaction has the records of all
 * sessions whose cells ended within ENDED_MS: under load that saves a fifth of all transactions.
 * Until then a session is ending. Each function frees the session once its record is written.
 */

/* Write the record now. */
void session_ended(struct session *s);
/* Write the record a few milliseconds later, together with those of other sessions. */
void session_ended_soon(struct session *s);
/* Write all records put off by session_ended_soon(). */
void session_ended_write(struct core *c);
/* session_ended_write() as the callback of core's write_ended. */
void session_ended_on_timer(struct loop_timer *t);
/* Once a second: write a state whose write has failed, and free the session if it has ended. */
void session_ended_retry(struct session *s);
