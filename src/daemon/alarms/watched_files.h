/* watched_files.h - audit records for watched paths (`watch_reads`): reads the ring that the cell's
 * watcher writes (watch_file.h). Called by refused_calls.c each second. */
#pragma once

#include "daemon/session/session.h"

/* Record what is new. last: the cell is gone or will be, and nothing is left for later. */
void watched_files_look(struct session *s, bool last);
