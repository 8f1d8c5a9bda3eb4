/* refused_calls.h - how often the programs of a session made refused system calls, as a part of
 * sessions (session_hooks.h). The watcher of the session's cell counts them in a file
 * (watch_file.h). Each second this part looks at the sum. If it has grown, it reads the counts of
 * all calls, and raises the alarms refused_calls and escape_attempt.
 *
 * Called by the interfaces. */
#pragma once

#include "daemon/session/session_hooks.h"

extern const struct session_part refused_calls_part;

#define REFUSED_CALLS_TEXT_MAX 2048 /* of a row, with NUL */

/* The counts of a live session now, as lines "name TAB number". False: they are not counted. */
bool refused_calls_now(struct session *s, char ret[REFUSED_CALLS_TEXT_MAX]);
/* The name of a call, "other" if it is not known. */
const char *refused_calls_name(unsigned nr);
/* The lines in the row of a session. NULL: its calls were not counted. */
const char *refused_calls_kept(const struct store_session *row);
