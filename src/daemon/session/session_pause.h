/* session_pause.h - freezes and thaws a session's cell. For the core's own files. Interfaces use
 * session_pause(), session_resume() and session_use() of session.h. */
#pragma once

#include "daemon/cells/keeper_link.h"
#include "daemon/session/session.h"

struct live_cell;

/* Pause a session whose time or idle time has ended and whose setting is to pause. A failure is
 * tried again. */
void session_pause_by_itself(struct session *s, bool without_memory);
/* Pause a session because of an alarm: it stays paused until a client resumes it, and ends with
 * that detail if it cannot be paused. False: its state changes now, try again later. */
bool session_pause_for_alarm(struct session *s, const char *detail);
/* End the pause: move the session's deadline, in the row only. */
void session_pause_over(struct session *s);
/* Thaw the cell of a session running in spite of a frozen cell. */
void session_pause_thaw(struct session *s);
/* For recovery: an earlier daemon asked the keeper, and the answer is not known. */
void session_freeze_again(struct session *s);
void session_thaw_again(struct session *s);

/* Ask the keeper to freeze or thaw the session's cell. on_done gets the cell as its argument, and
 * calls session_freeze_answered() first. */
void session_ask_freeze(struct session *s, bool on, keeper_done_fn *on_done);
/* Take the keeper's answer and return the cell's session. NULL: the session is ending or has lost
 * this cell since. The end of the cell waited for the answer and continues here. frozen: is the
 * cell frozen, as far as the answer says? */
struct session *session_freeze_answered(struct live_cell *cell, bool frozen);
