/* session_save.h - writes a change of a session's state to the store, with its event: both or none.
 *
 * Called by what changes states: session_lifecycle.c, session_pause.c, session_stop.c and
 * session_stopped.c. A change that session_states.h does not allow is refused. */
#pragma once

#include "session.h"

/* Moves the row to a state and writes it. If that fails, the row is as before, and a transaction
 * that the caller has open is taken back. */
int session_save(struct session *s, enum session_state to, enum session_reason reason,
		 struct err *e) MUST_USE;
/* The same for what happens whether or not it can be written, such as the end of a session: what
 * could not be written is tried again every second. */
void session_save_anyway(struct session *s, enum session_state to, enum session_reason reason);
/* The event and the log line of a change from what was shown before to what is shown now: for a
 * session that was paused with its memory and loses that. */
int session_save_event(struct session *s, const char *from, struct err *e) MUST_USE;
void session_save_log(const struct session *s, const char *from);
/* On whose behalf the change of state is made that begins now: for the events of this and of the
 * following states. NULL: the server itself. */
void session_set_actor(struct session *s, const struct store_actor *who);
