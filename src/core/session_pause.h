/* session_pause.h - freezing and thawing a session's cell. For the core's own files; interfaces use
 * session_pause(), session_resume() and session_use() of session.h. */
#pragma once

#include "keeper_link.h"
#include "session.h"

struct live_cell;

/* Pauses a session whose time or idle time is over and that is to pause instead of end. A failure
 * is tried again. */
void session_pause_by_itself(struct session *s, bool without_memory);
/* The pause is over: moves its deadline, in the row only. */
void session_pause_over(struct session *s);
/* Thaws the cell of a session that is running in spite of that. */
void session_pause_thaw(struct session *s);
/* For recovery: an earlier daemon asked the keeper for it, and the answer is not known. */
void session_freeze_again(struct session *s);
void session_thaw_again(struct session *s);

/* Asks the keeper to freeze or thaw the session's cell. on_done gets the cell as its argument, and
 * calls session_freeze_answered() first. */
void session_ask_freeze(struct session *s, bool on, keeper_done_fn *on_done);
/* The keeper has answered. Returns the cell's session. NULL: the session is ending or has lost this
 * cell meanwhile; the end of the cell, which waited for the answer, goes on from here. frozen: is
 * the cell frozen, as far as the answer says? */
struct session *session_freeze_answered(struct live_cell *cell, bool frozen);
