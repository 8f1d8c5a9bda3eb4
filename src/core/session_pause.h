/* session_pause.h - freezing and thawing, for the core's own files; clients use session.h. */
#pragma once

#include "session.h"

/* The session runs, its parts are ready, and its executions are known. After a restart of the
 * daemon only PID 1 can say what runs; until it has, every process would seem to be gone. */
bool session_usable(const struct session *s);

/* Its time or its idle time is over, and it pauses instead of ending. Tried again if it fails. */
void session_pause_by_itself(struct session *s);
/* Recovery: the daemon before this one asked for it, and the answer is not known. */
void session_freeze_again(struct session *s);
void session_thaw_again(struct session *s);
