/* store_event.c - see store_event.h. */
#include "daemon/store/store_event.h"

#include <stdio.h>

#include "daemon/store/stmt.h"

#define ROW struct store_event
static const struct column event_columns[] = {
	COLUMN_READ_ONLY(seq, "seq"),
	/* given by the caller */
	COLUMN(tenant, "tenant", 0),
	COLUMN(session, "session", 0),
	COLUMN(execution, "execution", 0),
	COLUMN(time_ms, "time_ms", 0),
	COLUMN(type, "type", 0),
	COLUMN(data, "data", 0),
	COLUMNS_ACTOR,
};
static const struct table event_table = TABLE("event", event_columns);
#undef ROW

ROWS_LIST(event_list, store_event)

/* ---- numbers
 *
 * SQLite gives a row the number behind that of the last row. AUTOINCREMENT would remember the last
 * number for the time when its row is gone, and costs a page of the journal for each event. So the
 * number is kept in the table meta when the row goes. */

#define META_LAST "event_last"

static int event_know(struct store *s, struct err *e)
{
	if (s->events.is_known && s->events.rollbacks == s->rollbacks)
		return 0;
	s->events.is_known = false;
	if (stmt_number(s,
			"SELECT coalesce((SELECT CAST(value AS INTEGER) FROM meta"
			" WHERE key = '" META_LAST "'), 0)",
			IN_NONE, "", &s->events.kept, e) < 0)
		return -1;
	s->events.is_known = true;
	s->events.rollbacks = s->rollbacks;
	return 0;
}

static int event_present(struct store *s, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT coalesce(max(seq), 0) FROM event", IN_NONE, "", ret, e);
}

int store_event_append(struct store *s, const struct store_event *row, uint64_t *ret_seq,
		       struct err *e)
{
	uint64_t seq;

	if (event_know(s, e) < 0 || row_insert(s, event_table, row, row->type, e) < 0)
		return -1;
	seq = (uint64_t)sqlite3_last_insert_rowid(s->db);
	if (seq <= s->events.kept) {
		if (stmt_change(s, "UPDATE event SET seq = ? WHERE seq = ?",
				IN(s->events.kept + 1, seq), row->type, e) < 0)
			return -1;
		seq = s->events.kept + 1;
	}
	if (ret_seq != NULL)
		*ret_seq = seq;
	return 0;
}

int store_event_last(struct store *s, uint64_t *ret_seq, struct err *e)
{
	if (event_know(s, e) < 0 || event_present(s, ret_seq, e) < 0)
		return -1;
	if (*ret_seq < s->events.kept)
		*ret_seq = s->events.kept;
	return 0;
}

/* Rows were deleted in the open transaction. last: the last number before that. */
static int event_keep(struct store *s, uint64_t last, struct err *e)
{
	uint64_t present;
	char text[24];

	if (event_present(s, &present, e) < 0)
		return -1;
	if (present >= last || s->events.kept >= last)
		return 0;
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)last);
	if (store_meta_set(s, META_LAST, text, e) < 0)
		return -1;
	s->events.kept = last;
	return 0;
}

static int event_delete_begin(struct store *s, uint64_t *ret_last, bool *ret_alone, struct err *e)
{
	if (store_join(s, ret_alone, e) < 0)
		return -1;
	if (store_event_last(s, ret_last, e) == 0)
		return 0;
	store_rollback(s);
	return -1;
}

/* n rows are deleted, or -1: it has failed. */
static int event_delete_end(struct store *s, int n, uint64_t last, bool alone, struct err *e)
{
	if (n < 0 || (n > 0 && event_keep(s, last, e) < 0)) {
		store_rollback(s);
		return -1;
	}
	return store_leave(s, alone, e) < 0 ? -1 : n;
}

/* ---- */

#define EVENT_LIST "SELECT seq, 1, 0, '', @ FROM event"
/* With the tenant, too, if there is one: an index can serve only one of them. */
#define EVENT_LIST_SESSION                                                          \
	EVENT_LIST " INDEXED BY event_session WHERE session <> '' AND session = ?4" \
		   " AND (?3 IS NULL OR tenant = ?3) AND seq "

static const struct sql *event_statement(const struct store_event_filter *f)
{
	if (f->session != NULL && f->descending)
		return READ_AS(event_table, EVENT_LIST_SESSION "< ?1 ORDER BY seq DESC LIMIT ?2");
	if (f->session != NULL)
		return READ_AS(event_table, EVENT_LIST_SESSION "> ?1 ORDER BY seq LIMIT ?2");
	if (f->tenant != NULL)
		return READ_AS(event_table,
			       EVENT_LIST " WHERE seq > ?1 AND tenant = ?3 ORDER BY seq LIMIT ?2");
	return READ_AS(event_table, EVENT_LIST " WHERE seq > ?1 ORDER BY seq LIMIT ?2");
}

int store_event_list(struct store *s, const struct store_event_filter *f, store_event_fn *fn,
		     void *cookie, struct store_looked *ret, struct err *e)
{
	uint64_t from = f->descending && f->after_seq == 0 ? UINT64_MAX : f->after_seq;
	struct value limit = value_limit(f->limit);
	struct row_list l = {
		.look = event_statement(f),
		.in = f->session != NULL  ? IN(from, limit, value_or_null(f->tenant), f->session)
		      : f->tenant != NULL ? IN(from, limit, f->tenant)
					  : IN(from, limit),
		.limit = f->limit,
		.at = { .seq = f->after_seq },
	};

	return event_list(s, &l, fn, cookie, ret, e);
}

int store_event_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
		      void *cookie, struct err *e)
{
	uint64_t last;
	bool alone;
	int n;

	if (event_delete_begin(s, &last, &alone, e) < 0)
		return -1;
	n = stmt_delete(s,
			"DELETE FROM event WHERE seq IN (SELECT seq FROM"
			" (SELECT seq, time_ms FROM event ORDER BY seq LIMIT ?2)"
			" WHERE time_ms < ?1) RETURNING tenant",
			IN(before_ms, value_limit(limit)), fn, cookie, e);
	return event_delete_end(s, n, last, alone, e);
}

int store_event_count(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT count(*) FROM event INDEXED BY event_tenant WHERE tenant = ?",
			   IN(tenant), tenant, ret, e);
}

int store_event_drop(struct store *s, const char *tenant, unsigned limit, struct err *e)
{
	uint64_t last;
	bool alone;
	int n;

	if (event_delete_begin(s, &last, &alone, e) < 0)
		return -1;
	n = stmt_run_counted(s,
			     "DELETE FROM event WHERE seq IN (SELECT seq"
			     " FROM event INDEXED BY event_tenant WHERE tenant = ?"
			     " ORDER BY seq LIMIT ?)",
			     IN(tenant, value_limit(limit)), tenant, e);
	return event_delete_end(s, n, last, alone, e);
}
