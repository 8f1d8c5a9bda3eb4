/* session_watch.h - which files a session has watched: `trace` and `watch_reads` in its
 * specification, and what its cell's watcher is told (watch_file.h). */
#pragma once

#include "daemon/session/session.h"

#define SESSION_WATCH_MAX 16	  /* patterns of a session */
#define SESSION_WATCH_PATTERN 199 /* bytes of one */
#define SESSION_WATCH_TEXT (SESSION_WATCH_MAX * (SESSION_WATCH_PATTERN + 1) + 1)

/* Can it be a pattern: an absolute path in which a star is any part of a name, perhaps with two
 * stars as its last name for all below it? */
int session_watch_check(const char *pattern, struct err *e) MUST_USE;

/* Has the session files that are watched? */
bool session_watches(const struct store_session *row);
/* Which calls its cell's watcher gets: bits in CELL_WATCH_ANY. */
uint32_t session_watch_flags(const struct store_session *row);
/* May it, at its level and beside its trace? */
int session_watch_allowed(const struct store_session *row, struct err *e) MUST_USE;
/* Write struct watch_wish into the new file of its watcher. */
bool session_watch_wish(const struct store_session *row, int fd);
