/* trace.c - see trace.h. */
#include "daemon/alarms/trace.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/alarms/refused_calls.h"
#include "daemon/cells/cell_socket.h"
#include "daemon/cells/live_cell.h"
#include "lib/base/own.h"

/* The watcher may be writing to the oldest entries. */
#define MARGIN 4

/* The watcher has cut it if it fills its room. */
static void cover_text(const struct session *s, char *text, size_t room)
{
	if (strlen(text) >= room)
		session_redact_cut(s, text);
	else
		session_redact(s, text);
}

/* The last argument does not end if it was cut. Names of files end, and are cut to a half or
 * more. */
static void cover_arguments(const struct session *s, struct watch_entry *w)
{
	bool cut_names = w->kind == WATCH_FILE && (w->flags & WATCH_CUT) != 0;
	size_t len = w->args_len;
	char *args = w->args;
	char text[WATCH_ARGS + 1];
	size_t n;

	for (size_t at = 0; at < len; at += n + 1) {
		n = strnlen(args + at, len - at);
		memcpy(text, args + at, n);
		text[n] = '\0';
		cover_text(s, text,
			   at + n == WATCH_ARGS ? n
			   : cut_names		? WATCH_HALF
						: sizeof(text));
		memcpy(args + at, text, n);
	}
}

size_t trace_cover(const struct session *s, struct watch_entry *w)
{
	const size_t numbers = 6 * sizeof(uint64_t);

	w->path[WATCH_PATH - 1] = w->cwd[WATCH_CWD - 1] = '\0';
	if (w->args_len > WATCH_ARGS)
		w->args_len = WATCH_ARGS;
	cover_text(s, w->path, WATCH_PATH - 1);
	cover_text(s, w->cwd, WATCH_CWD - 1);
	if (w->kind != WATCH_CALL)
		cover_arguments(s, w);
	else if (w->args_len > numbers)
		session_redact_bytes(s, w->args + numbers, w->args_len - numbers);
	return strlen(w->path) + strlen(w->cwd) + w->args_len;
}

static uint64_t oldest_of(const struct watch_file *head)
{
	uint64_t kept = WATCH_RING - MARGIN;

	return head->next - head->first > kept ? head->next - kept : head->first;
}

int trace_list(struct session *s, uint64_t after, unsigned limit, trace_fn *fn, void *cookie,
	       struct store_looked *ret, struct err *e)
{
	const struct live_cell *cell = session_cell(s);
	struct watch_file head;
	struct trace_row row;
	size_t masked = 0, most = session_redact_turn(s);
	uint64_t want, seq;

	*ret = (struct store_looked){ .end = true, .seq = after };
	if (session_row(s)->trace == SESSION_TRACE_NONE)
		return err_set(e, ERR_CONFLICT,
			       "session %s has no trace: it must be created with trace",
			       session_row(s)->id);
	if (cell == NULL)
		return 0;
	OWN_FD fd = cell_watch_open(cell->cells->dir_fd, cell->id);
	if (fd < 0 || !cell_watch_head(fd, &head) || head.next < head.first)
		return 0;
	want = after < head.first ? head.first : after + 1;
	seq = want < oldest_of(&head) ? oldest_of(&head) : want;
	for (; seq < head.next && ret->rows < limit && masked < most; seq++) {
		if (!cell_watch_entry(fd, seq, &row.entry))
			continue; /* overwritten since: lost */
		row.lost = seq - want;
		row.call = row.entry.kind == WATCH_CALL
				   ? refused_calls_name((unsigned)row.entry.code)
				   : NULL;
		masked += trace_cover(s, &row.entry);
		if (fn(&row, cookie) != 0)
			break;
		want = seq + 1;
		ret->rows++;
		ret->seq = seq;
	}
	ret->end = seq >= head.next;
	return 0;
}
