/* session_save.h - writes the state of a session, and plans its one timer.
 *
 * The timer expires at the deadline or at the end of the idle time, the earlier one.
 * session_lifecycle.c has the action.
 */
#pragma once

#include "daemon/session/session.h"

/* The session is used: its idle time starts again. */
void session_touch(struct session *s);
/* Set the timer to the nearest of the session's deadlines, and queue a changed deadline for PID 1
 * (live_cell_lease.c). */
void session_plan_timer(struct session *s);
/* When a paused session ends without use, by the wall clock: a persistent one after its own time, a
 * cold one after cold_keep, any other after pause_keep. 0: never. */
uint64_t session_kept_until(const struct session *s);
/* Has the session been paused for longer than that? */
bool session_timer_is_unused(const struct session *s);

/* Move the deadlines of all sessions if the wall clock was set since the last call: no time has
 * passed. Called once a second, and before any decision by the wall clock. */
void session_timer_check_clock(struct core *c);

/* Has its deadline passed, at which PID 1 ends the cell if no server is connected
 * (cell/init/pid1/agentd.h)? */
bool session_timer_ends_cell(const struct session *s);

/* ---- a change of the state, with its event: the store gets both or none
 *
 * Called by session_lifecycle.c, session_pause.c, session_stop.c and session_suspend.c. A change
 * outside the table of session_states.h is refused.
 */

/* Move the row to a state and write it. After a failure the row is as before, and the caller's open
 * transaction is rolled back. */
int session_save(struct session *s, enum session_state to, enum session_reason reason,
		 struct err *e) MUST_USE;
/* Change the state whether or not it can be written, such as at the end of a session. A failed
 * write is tried again every second. */
void session_save_anyway(struct session *s, enum session_state to, enum session_reason reason);
/* Write the event and the log line of a change in the shown state: for a session paused with its
 * memory that loses its memory. */
int session_save_event(struct session *s, const char *from, struct err *e) MUST_USE;
void session_save_log(const struct session *s, const char *from);
/* Set the actor of the state change beginning now: for the events of this state and the following
 * ones. NULL: the server itself. */
void session_set_actor(struct session *s, const struct store_actor *who);
