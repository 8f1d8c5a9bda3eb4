/* watched_files.c - see watched_files.h.
 *
 * The place of the last entry that is in the audit log is in the watcher's file, too. It is written
 * behind the records: a cordond that is killed in between records some entries twice, with the same
 * numbers, and misses none. */
#include "daemon/alarms/watched_files.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "daemon/alarms/trace.h"
#include "daemon/audit/audit_flood.h"
#include "daemon/audit/fact_lines.h"
#include "daemon/cells/cell_socket.h"
#include "daemon/cells/live_cell.h"
#include "daemon/execution/execution.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/own.h"
#include "lib/wire/watch_file.h"

#define WATCHED_MARGIN 4     /* entries that the watcher may be writing to */
#define WATCHED_SETTLED 1500 /* ms after which the count of an entry does not grow */
#define WATCHED_AT_ONCE 64   /* records of a look */
#define WATCHED_AT_END 4     /* times as many in the last one. The others are counted */

struct watched_look {
	struct session *session;
	uint64_t now_ms, lost;
	unsigned records, max;
	size_t masked, most; /* bytes */
	bool last;
};

static const char *watched_access(int32_t code)
{
	return (code & WATCH_REMOVE) != 0   ? "remove"
	       : (code & WATCH_RENAME) != 0 ? "rename"
	       : (code & WATCH_LINK) != 0   ? "link"
	       : (code & WATCH_WRITE) == 0  ? "read"
	       : (code & WATCH_READ) == 0   ? "write"
					    : "read write";
}

/* The execution whose program it was, or a child from it. */
static const char *watched_execution(struct session *s, const struct watch_entry *w)
{
	const char *past;

	for (struct execution *x = execution_next(s, NULL); x != NULL; x = execution_next(s, x)) {
		uint32_t pid = execution_pid(x);

		if (pid != 0 && (pid == w->pid || pid == w->parent))
			return execution_row(x)->id;
	}
	past = execution_past_by_pid(s, w->pid);
	return past != NULL ? past : execution_past_by_pid(s, w->parent);
}

/* How long before its record the program asked. The record itself has the time at which it is
 * written, as every other: times of a log do not run backwards. */
static uint64_t watched_late(const struct audit_record *r, const struct watch_entry *w)
{
	return r->time_ms > w->time_ms ? r->time_ms - w->time_ms : 0;
}

static int watched_record(struct watched_look *l, struct watch_entry *w, struct err *e)
{
	struct session *s = l->session;
	struct audit_record record = { .tenant = session_row(s)->tenant,
				       .session = session_row(s)->id,
				       .type = "file.watched",
				       .time_ms = clock_wall_ms() };
	char path[WATCH_ARGS + 1] = "", to[WATCH_ARGS + 1] = "", facts[512];

	if (w == NULL) {
		(void)fact_lines_print(facts, sizeof(facts), "lost\t%llu\n",
				       (unsigned long long)l->lost);
	} else {
		l->masked += trace_cover(s, w);
		size_t n = strnlen(w->args, WATCH_ARGS);

		memcpy(path, w->args, n);
		if (n + 1 < w->args_len)
			memcpy(to, w->args + n + 1, strnlen(w->args + n + 1, w->args_len - n - 1));
		record.execution = watched_execution(s, w);
		record.sealed[0] = (struct audit_sealed){ "path", path };
		record.sealed[1] = (struct audit_sealed){ "program", w->path };
		record.sealed[2] = (struct audit_sealed){ "to", to[0] == '\0' ? NULL : to };
		(void)fact_lines_print(facts, sizeof(facts),
				       "access\t%s\ntimes\t%u\nsource\tclaimed\npid\t%u\nuid\t%u\n"
				       "entry\t%llu\nlate_ms\t%llu\nlost\t%llu\n",
				       watched_access(w->code), w->count, w->pid, w->uid,
				       (unsigned long long)w->seq,
				       (unsigned long long)watched_late(&record, w),
				       (unsigned long long)l->lost);
	}
	l->records++;
	l->lost = 0;
	return audit_flood_append(core_audit(session_core(s)), &record, facts, false, 0, e);
}

/* Move *at behind the entries that are done with. */
static int watched_read(struct watched_look *l, int fd, const struct watch_file *head, uint64_t *at,
			struct err *e)
{
	uint64_t kept = WATCH_RING - WATCHED_MARGIN, oldest = head->first;
	struct watch_entry w;

	if (head->next - head->first > kept)
		oldest = head->next - kept;
	if (*at < oldest) {
		l->lost += oldest - *at;
		*at = oldest;
	}
	for (; *at < head->next && l->records < l->max && l->masked < l->most; (*at)++) {
		if (!cell_watch_entry(fd, *at, &w)) {
			l->lost++; /* overwritten since */
			continue;
		}
		if (w.kind != WATCH_FILE || (w.flags & WATCH_MATCHED) == 0)
			continue;
		if (!l->last && w.time_ms + WATCHED_SETTLED > l->now_ms && w.time_ms <= l->now_ms)
			break;
		if (watched_record(l, &w, e) < 0)
			return -1;
	}
	for (; l->last && *at < head->next; (*at)++)
		l->lost += !cell_watch_entry(fd, *at, &w) ||
			   (w.kind == WATCH_FILE && (w.flags & WATCH_MATCHED) != 0);
	return l->lost > 0 ? watched_record(l, NULL, e) : 0;
}

static int watched_take(struct watched_look *l, int fd, struct err *e)
{
	struct store *store = core_store(session_core(l->session));
	const off_t cursor_at = WATCH_WISH_AT + (off_t)offsetof(struct watch_wish, cursor);
	struct watch_file head;
	uint64_t at = 0, before;
	bool own;

	if (!cell_watch_head(fd, &head) || head.next < head.first ||
	    pread(fd, &at, sizeof(at), cursor_at) != (ssize_t)sizeof(at))
		return 0;
	before = at;
	if (at < head.first)
		at = head.first;
	if (at >= head.next)
		return 0;
	if (store_join(store, &own, e) < 0 || watched_read(l, fd, &head, &at, e) < 0 ||
	    store_leave(store, own, e) < 0)
		return -1;
	if (at != before && pwrite(fd, &at, sizeof(at), cursor_at) != (ssize_t)sizeof(at))
		return err_sys(e, "the cursor");
	return 0;
}

void watched_files_look(struct session *s, bool last)
{
	const struct live_cell *cell = session_cell(s);
	struct watched_look l = { .session = s,
				  .now_ms = clock_wall_ms(),
				  .max = last ? WATCHED_AT_END * WATCHED_AT_ONCE : WATCHED_AT_ONCE,
				  .most = session_redact_turn(s),
				  .last = last };
	const char *reads = session_row(s)->watch_reads;
	struct err e;

	if (last && l.most < SIZE_MAX / WATCHED_AT_END)
		l.most *= WATCHED_AT_END;
	if (cell == NULL || reads == NULL || reads[0] == '\0')
		return;
	OWN_FD fd = cell_watch_open_rw(cell->cells->dir_fd, cell->id);
	if (fd >= 0 && watched_take(&l, fd, &e) < 0)
		log_error("reads of watched files could not be recorded", "session_id=%s error=%s",
			  session_row(s)->id, e.msg);
}
