/* session_pause.h - freezing and thawing a session's cell. For the core's own files; interfaces use
 * session_pause(), session_resume() and session_use() of session.h. */
#pragma once

#include "session.h"

/* Does the session run, are its parts ready and its executions known? After a restart of the daemon
 * only PID 1 can say what runs; until it has, every process would seem to be gone. */
bool session_is_usable(const struct session *s);

/* Pauses a session whose time or idle time is over and that is to pause instead of end. A failure
 * is tried again. */
void session_pause_by_itself(struct session *s);
/* For recovery: an earlier daemon asked the keeper for it, and the answer is not known. */
void session_freeze_again(struct session *s);
void session_thaw_again(struct session *s);
