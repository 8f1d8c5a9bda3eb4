/* session_watch.c - see session_watch.h. */
#include "daemon/session/session_watch.h"

#include <string.h>
#include <unistd.h>

#include "lib/wire/cell_level.h"
#include "lib/wire/cell_spec.h"
#include "lib/wire/watch_file.h"

_Static_assert(SESSION_WATCH_MAX <= WATCH_PATTERNS && SESSION_WATCH_PATTERN < WATCH_PATTERN &&
		       SESSION_WATCH_TEXT <= WATCH_PATTERNS_TEXT + 1,
	       "the watcher has room for them");

/* A name, from behind a slash to the next one. */
static bool watch_is_name(const char *at, size_t n, bool last)
{
	if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
		return false;
	if (n == 2 && at[0] == '*' && at[1] == '*')
		return last;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)at[i] < ' ' || at[i] == 0x7f || strchr("?[]\\", at[i]) != NULL ||
		    (at[i] == '*' && i > 0 && at[i - 1] == '*'))
			return false;
	return true;
}

int session_watch_check(const char *pattern, struct err *e)
{
	const char *at = pattern;
	bool good = pattern[0] == '/' && strlen(pattern) <= SESSION_WATCH_PATTERN;

	while (good && *at != '\0') {
		size_t n = strcspn(at + 1, "/");

		good = watch_is_name(at + 1, n, at[1 + n] == '\0');
		at += 1 + n;
	}
	if (good)
		return 0;
	return err_set(
		e, ERR_INVALID,
		"must be absolute paths of at most %d bytes, such as /data/**, in which * is "
		"a part of a name and ** the last name",
		SESSION_WATCH_PATTERN);
}

bool session_watches(const struct store_session *row)
{
	return row->trace == SESSION_TRACE_FILES ||
	       (row->watch_reads != NULL && row->watch_reads[0] != '\0');
}

uint32_t session_watch_flags(const struct store_session *row)
{
	if (session_watches(row))
		return CELL_TRACE | CELL_TRACE_CALLS | CELL_TRACE_FILES;
	return row->trace == SESSION_TRACE_CALLS      ? CELL_TRACE | CELL_TRACE_CALLS
	       : row->trace == SESSION_TRACE_PROGRAMS ? CELL_TRACE
						      : 0;
}

int session_watch_allowed(const struct store_session *row, struct err *e)
{
	bool traced = row->trace != SESSION_TRACE_NONE;

	if (!traced && !session_watches(row))
		return 0;
	if (cell_level_of(row->level)->engine != CELL_ENGINE_NONE)
		return err_set(e, ERR_UNSUPPORTED,
			       "%s: programs of level %s run behind a kernel of their own, which "
			       "is not traced; use level container",
			       traced ? "trace" : "watch_reads", cell_level_of(row->level)->name);
	if (session_watches(row) && traced && row->trace != SESSION_TRACE_FILES)
		return err_set(
			e, ERR_UNSUPPORTED,
			"watch_reads: a session with trace programs or calls cannot have it, "
			"only one with trace files");
	return 0;
}

bool session_watch_wish(const struct store_session *row, int fd)
{
	struct watch_wish wish = { .version = WATCH_VERSION,
				   .all = row->trace == SESSION_TRACE_FILES };
	size_t n = row->watch_reads == NULL ? 0 : strlen(row->watch_reads);

	if (!session_watches(row))
		return true;
	if (n >= sizeof(wish.patterns))
		return false;
	if (n > 0)
		memcpy(wish.patterns, row->watch_reads, n);
	return pwrite(fd, &wish, sizeof(wish), WATCH_WISH_AT) == (ssize_t)sizeof(wish);
}
