/* record_quota.c - theory of operation
 *
 * The logs of one session, together with the texts of its records, stay within session_output_max.
 * The session counts the bytes of its files: growing logs by their size, the others by their rows,
 * from which a new daemon counts again. Before bytes move into a log, room is made for them: the
 * logs of the executions that ended first are removed, except those with a reader (which holds a
 * lock, execution_log()) or a follower. If these are too few, the growing log is cut.
 *
 * The logs of all sessions of a tenant stay within tenant_max_output. Those of ended sessions count
 * until their retention has ended. A session makes room only among its own logs.
 *
 * The file is removed first, then its row is changed. A daemon that dies in between leaves a row
 * that counts the bytes of a missing file. Readers go by the file, and the row is corrected when
 * the next room is made, since its turn comes early.
 *
 * At most REMOVE_MAX logs are removed at a time, and their space is freed in pieces
 * (log_removal.c). Output without room stays in its pipe for a later turn of the loop, also while
 * the tenant's removed logs still take much space. */
#include "daemon/tenant/record_quota.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "daemon/node/core_private.h"
#include "daemon/output/log_removal.h"
#include "daemon/output/output_log.h"
#include "daemon/store/store_event.h"
#include "daemon/store/store_net.h"
#include "daemon/store/store_package.h"
#include "daemon/store/store_records.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/log.h"
#include "lib/base/own.h"

#define START_EVERY RECORD_BOUNDS_PIECE

struct gone {
	struct core *core;
	enum record_kind kind;
};

/* The functions of the store for each kind. */
static const struct {
	int (*count)(struct store *s, const char *tenant, uint64_t *ret, struct err *e);
	int (*drop)(struct store *s, const char *tenant, unsigned limit, struct err *e);
	int (*prune)(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
		     void *cookie, struct err *e);
} kinds[RECORD_KINDS] = {
	[RECORD_EVENT] = { store_event_count, store_event_drop, store_event_prune },
	[RECORD_NET] = { store_net_count_tenant, store_net_drop_tenant, store_net_prune },
	[RECORD_PACKAGE] = { store_package_count_tenant, store_package_drop_tenant,
			     store_package_prune },
};

static uint64_t node_max(const struct config *g, enum record_kind kind)
{
	return kind == RECORD_EVENT ? g->event_max : g->network_records_max;
}

static uint64_t tenant_max(const struct config *g, enum record_kind kind)
{
	return kind == RECORD_EVENT ? g->tenant_event_max : g->tenant_network_records_max;
}

void record_bounds_add(struct core *c, struct tenant *t, enum record_kind kind, int64_t n)
{
	struct record_count *k = t == NULL ? NULL : &t->kept[kind];

	if (k != NULL && k->counted) {
		uint64_t less = n < 0 ? (uint64_t)-n : 0;

		k->rows = n >= 0 ? k->rows + (uint64_t)n : k->rows > less ? k->rows - less : 0;
	}
	if (n > 0 && ++c->appended[kind] % START_EVERY == 0)
		core_job_add(c, NULL, &c->retention.job);
}

static void on_gone(const char *tenant, void *cookie)
{
	struct gone *g = cookie;

	record_bounds_add(g->core, tenant_find(g->core, tenant), g->kind, -1);
}

/* A tenant whose rows are not counted yet, or NULL. */
static struct tenant *find_uncounted(struct core *c, enum record_kind kind)
{
	struct tenant *t = c->tenants;

	while (t != NULL && t->kept[kind].counted)
		t = t->next;
	return t;
}

/* The tenant whose records are deleted next, and how many of them. NULL: none is beyond a bound. */
static struct tenant *find_beyond(struct core *c, enum record_kind kind, uint64_t *ret)
{
	const struct config *g = c->o.config;
	struct tenant *most = NULL;
	uint64_t all = 0;

	for (struct tenant *t = c->tenants; t != NULL; t = t->next) {
		uint64_t rows = t->kept[kind].rows;

		all += rows;
		if (most == NULL || rows > most->kept[kind].rows)
			most = t;
	}
	if (most == NULL)
		return NULL;
	*ret = 0;
	if (all > node_max(g, kind))
		*ret = all - node_max(g, kind);
	if (most->kept[kind].rows > tenant_max(g, kind) &&
	    most->kept[kind].rows - tenant_max(g, kind) > *ret)
		*ret = most->kept[kind].rows - tenant_max(g, kind);
	return *ret == 0 ? NULL : most;
}

static int record_quota_drop(struct core *c, struct tenant *t, enum record_kind kind, uint64_t rows,
			     struct err *e)
{
	unsigned limit = rows < RECORD_BOUNDS_PIECE ? (unsigned)rows : RECORD_BOUNDS_PIECE;
	int n = kinds[kind].drop(c->store, t->row.id, limit, e);

	if (n < 0)
		return -1;
	record_bounds_add(c, t, kind, -n);
	if (n == 0)
		t->kept[kind].counted = false; /* the count was wrong */
	return 1;
}

int record_bounds_piece(struct core *c, enum record_kind kind, uint64_t before_ms, struct err *e)
{
	struct gone gone = { c, kind };
	struct tenant *t = find_uncounted(c, kind);
	uint64_t rows;
	int n;

	if (t != NULL) {
		if (kinds[kind].count(c->store, t->row.id, &t->kept[kind].rows, e) < 0)
			return -1;
		t->kept[kind].counted = true;
		return 1;
	}
	n = kinds[kind].prune(c->store, before_ms, RECORD_BOUNDS_PIECE, on_gone, &gone, e);
	if (n != 0)
		return n < 0 ? -1 : 1;
	t = find_beyond(c, kind, &rows);
	return t == NULL ? 0 : record_quota_drop(c, t, kind, rows, e);
}

void record_quota_cut(char *text)
{
	static const char end[] = "...";
	size_t at = RECORD_TEXT_MAX - strlen(end);

	if (strlen(text) <= RECORD_TEXT_MAX)
		return;
	while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
		at--;
	memcpy(text + at, end, sizeof(end));
}

int record_quota_session(struct core *c, const struct tenant *t, uint64_t *ret_max, struct err *e)
{
	uint64_t rows, bytes, max = c->o.config->tenant_max_records;

	*ret_max = max;
	if (max == 0)
		return 0;
	if (store_records_get(c->store, t->row.id, &rows, &bytes, e) < 0)
		return -1;
	return bytes >= max;
}

static int record_quota_count(struct session *s, struct err *e)
{
	uint64_t rows, bytes;

	if (s->records.n > 0 || !s->restored)
		return 0;
	if (store_execution_count(s->core->store, s->row.id, &rows, &bytes, e) < 0)
		return -1;
	s->records.n = rows;
	s->records.text_bytes =
		bytes > rows * STORE_RECORD_BASE ? bytes - rows * STORE_RECORD_BASE : 0;
	return 0;
}

int record_quota_check(struct session *s, struct err *e)
{
	uint64_t max = s->core->o.config->execution_records_max;
	int full;

	if (record_quota_count(s, e) < 0)
		return -1;
	if (s->records.n >= max)
		return err_set_reason(e, REASON_QUOTA_RECORDS,
				      "a session has at most %llu executions",
				      (unsigned long long)max);
	full = record_quota_session(s->core, s->tenant, &max, e);
	if (full > 0)
		return err_set_reason(e, REASON_QUOTA_RECORDS,
				      "the tenant's bytes of records are %llu; those of "
				      "ended sessions go with their retention",
				      (unsigned long long)max);
	return full;
}

void record_quota_text(struct session *s, char *text)
{
	size_t len = strlen(text);

	if (s->records.text_bytes + len > s->core->o.config->session_output_max)
		text[0] = '\0';
	else
		s->records.text_bytes += len;
}

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

/* Remove logs until so many bytes are gone, or REMOVE_MAX logs. Return the bytes, 0 also if the
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
	x->session->records.kept_bytes += x->log.size - before;
	x->session->records.output_bytes += x->log.size - before;
	x->session->tenant->kept_bytes += x->log.size - before;
}

static void record_quota_take(uint64_t *from, uint64_t bytes)
{
	*from -= bytes < *from ? bytes : *from;
}

void output_quota_gone(struct tenant *t, uint64_t bytes)
{
	record_quota_take(&t->kept_bytes, bytes);
}

/* The lesser of the rests of the session and its tenant. */
uint64_t output_quota_room(const struct session *s)
{
	const struct config *g = s->core->o.config;
	uint64_t used = s->records.kept_bytes + s->records.text_bytes, all = s->tenant->kept_bytes;
	uint64_t room = used < g->session_output_max ? g->session_output_max - used : 0;
	uint64_t left = all < g->tenant_max_output ? g->tenant_max_output - all : 0;

	return g->tenant_max_output > 0 && left < room ? left : room;
}

void output_quota_kept(struct session *s, uint64_t bytes)
{
	s->records.kept_bytes += bytes;
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

		record_quota_take(&s->records.kept_bytes, gone);
		output_quota_gone(s->tenant, gone);
		x->log.wait_for_room = gone > 0;
	}
	x->log.room = output_quota_room(s);
}
