/* session_pause.h - freezing and thawing a session's cell. For the core's own files; interfaces use
 * session_pause(), session_resume() and session_use() of session.h. */
#pragma once

#include "session.h"

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
