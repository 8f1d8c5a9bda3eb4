/* output_quota.c - theory of operation
 *
 * The logs of one session, together with the texts of its records, stay within session_output_max.
 * The session counts the bytes of its files: logs that still grow by their size, the others by
 * their rows, from which a new daemon counts again. Before bytes move into a log, room is made for
 * them: the logs of the executions that ended first are removed, except those that are being read
 * (the reader holds a lock, execution_log()) or followed. If that is not enough, the log that is to
 * grow is cut.
 *
 * The logs of all sessions of a tenant stay within tenant_max_output; those of ended sessions count
 * until their retention is over. A session makes room only among its own logs.
 *
 * The file is removed first, then its row is changed. A daemon that dies in between leaves a row
 * that counts the bytes of a file that is not there. Readers go by the file, and the row is
 * corrected when the next room is made, since it is one of the first to be looked at.
 *
 * At most REMOVE_MAX logs are removed at a time, and their space is freed in pieces
 * (log_removal.c). Output for which there is no room yet stays in its pipe for a later turn of the
 * loop, also while the tenant's removed logs still take much space. */
#include "output_quota.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core_private.h"
#include "log.h"
#include "log_removal.h"
#include "output_log.h"
#include "own.h"

#define LOOK_MAX 64
#define REMOVE_MAX 16
_Static_assert(LOG_NAME_MAX >= STORE_ID_MAX + sizeof(".log"), "a log is named after its execution");

/* False if the log must stay. */
static bool remove_file(const struct session *s, const char *id)
{
	char name[LOG_NAME_MAX];
	uint64_t bytes;
	OWN_FD fd = -1;

	(void)snprintf(name, sizeof(name), "%s.log", id);
	fd = output_log_open(s->core->output_fd, name, O_RDONLY);
	if (fd < 0)
		return errno == ENOENT; /* removed by a daemon that could not write the row */
	return flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	       log_removal_add(&s->core->removed_logs, &s->tenant->removal, name, LOG_MAKES_ROOM,
			       &bytes);
}

/* Logs of live executions stay, unless the execution is complete and only waits to be freed. */
static bool is_needed(struct session *s, const char *id)
{
	const struct execution *x = s->executions;

	while (x != NULL && strcmp(x->row.id, id) != 0)
		x = x->next;
	return x != NULL && (!x->complete || x->followers != NULL || x->unsaved);
}

/* Removes logs until so many bytes are gone, or REMOVE_MAX logs. Returns the bytes; 0 also if the
 * rows could not be written. */
static uint64_t remove_logs(struct session *s, uint64_t bytes)
{
	struct store_execution_log logs[LOOK_MAX];
	struct store *store = s->core->store;
	unsigned n = 0, removed = 0;
	uint64_t gone = 0;
	struct err e;

	if (store_execution_logs(store, s->row.id, LOOK_MAX, logs, &n, &e) < 0 || n == 0 ||
	    store_begin(store, &e) < 0)
		return 0;
	for (unsigned i = 0; i < n && removed < REMOVE_MAX && gone < bytes; i++) {
		if (is_needed(s, logs[i].id) || !remove_file(s, logs[i].id))
			continue;
		if (store_execution_log_removed(store, logs[i].id, &e) < 0) {
			store_rollback(store);
			return 0;
		}
		removed++;
		gone += logs[i].bytes;
	}
	if (store_commit(store, &e) < 0) {
		store_rollback(store);
		return 0;
	}
	if (removed > 0)
		log_debug("old output removed", "session_id=%s logs=%u bytes=%llu", s->row.id,
			  removed, (unsigned long long)gone);
	return gone;
}

void output_quota_count(struct execution *x, uint64_t before)
{
	x->session->kept_bytes += x->log.size - before;
	x->session->tenant->kept_bytes += x->log.size - before;
}

static void take(uint64_t *from, uint64_t bytes)
{
	*from -= bytes < *from ? bytes : *from;
}

void output_quota_gone(struct tenant *t, uint64_t bytes)
{
	take(&t->kept_bytes, bytes);
}

/* The lesser of what the session and its tenant have left. */
uint64_t output_quota_room(const struct session *s)
{
	const struct config *g = s->core->o.config;
	uint64_t used = s->kept_bytes + s->text_bytes, all = s->tenant->kept_bytes;
	uint64_t room = used < g->session_output_max ? g->session_output_max - used : 0;
	uint64_t left = all < g->tenant_max_output ? g->tenant_max_output - all : 0;

	return g->tenant_max_output > 0 && left < room ? left : room;
}

void output_quota_kept(struct session *s, uint64_t bytes)
{
	s->kept_bytes += bytes;
	s->tenant->kept_bytes += bytes;
}

void output_quota_make(struct execution *x, uint64_t need, bool can_wait)
{
	struct session *s = x->session;
	uint64_t room = output_quota_room(s);

	x->log.wait_for_room = false;
	x->log.asked = need;
	if (need > room && can_wait && log_removal_is_behind(&s->tenant->removal)) {
		x->log.wait_for_room = true;
	} else if (need > room) {
		uint64_t gone = remove_logs(s, need - room);

		take(&s->kept_bytes, gone);
		output_quota_gone(s->tenant, gone);
		x->log.wait_for_room = gone > 0;
	}
	x->log.room = output_quota_room(s);
}
