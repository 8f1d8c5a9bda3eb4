/* store_execution.c - see store_execution.h. */
#include "daemon/store/store_execution.h"

#include "daemon/store/stmt.h"
#include "daemon/store/store_records.h"

enum { PROGRESS = COLUMN_GROUP }; /* store_execution_update() writes it */

#define ROW struct store_execution
static const struct column execution_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(session, "session", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(kind, "kind", 0),
	COLUMN(command_hash, "command_hash", 0),
	COLUMN(command, "command", COLUMN_COUNTED),
	COLUMN(cwd, "cwd", COLUMN_COUNTED),
	COLUMN(user, "user", 0),
	COLUMN(tty, "tty", 0),
	COLUMN(record_input, "record_input", 0),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(timeout_ms, "timeout_ms", 0),
	COLUMNS_ACTOR,
	COLUMN(output_limit, "output_limit", 0),
	COLUMN(secrets, "secrets", COLUMN_COUNTED),
	COLUMN(language, "language", 0),
	COLUMN(context, "context", 0),
	COLUMN(handle, "handle", PROGRESS),
	COLUMN(state, "state", PROGRESS),
	COLUMN(started_ms, "started_ms", PROGRESS),
	COLUMN(ended_ms, "ended_ms", PROGRESS),
	COLUMN(exit_code, "exit_code", PROGRESS),
	COLUMN(signal, "signal", PROGRESS),
	COLUMN_LIMITS(limit, limits_hit, "limit_hit", PROGRESS),
	COLUMN(timed_out, "timed_out", PROGRESS),
	COLUMN(error_code, "error_code", PROGRESS),
	COLUMN(error, "error", PROGRESS),
	COLUMN(out_bytes, "out_bytes", PROGRESS),
	COLUMN(err_bytes, "err_bytes", PROGRESS),
	COLUMN(log_bytes, "log_bytes", PROGRESS),
	COLUMN(truncated, "truncated", PROGRESS),
	COLUMN(cpu_us, "cpu_us", PROGRESS),
	COLUMN(output_open, "output_open", PROGRESS),
	COLUMN(mark, "mark", PROGRESS),
	COLUMN(client, "client", PROGRESS),
	COLUMN(result_bytes, "result_bytes", PROGRESS),
	COLUMN(redacted, "redacted", PROGRESS),
	COLUMN_SIZE("size", 0),
};
static const struct table execution_table = TABLE_OWNED("execution", execution_columns);
#undef ROW

ROWS_EACH(execution_each, store_execution)
ROWS_LIST(execution_list, store_execution)

/* The rows of the index execution_kept: logs that no process writes to any more. */
#define EXECUTION_KEPT                                                                      \
	" FROM execution INDEXED BY execution_kept WHERE log_bytes > 0 AND output_open = 0" \
	" AND ended_ms > 0 AND session = ?"

int store_execution_insert(struct store *s, const struct store_execution *row, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || row_insert(s, execution_table, row, row->id, e) < 0 ||
	    store_records_add(s, row->tenant, 1, (int64_t)row_size(&execution_table, row), e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_execution_update(struct store *s, const struct store_execution *row, struct err *e)
{
	return row_update(s, execution_table, PROGRESS, row, row->id, e);
}

int store_execution_get(struct store *s, const char *id, struct store_execution *ret, struct err *e)
{
	return row_get(s, execution_table, "FROM execution WHERE id = ?", IN(id), id, ret, e);
}

void store_execution_release(struct store_execution *row)
{
	row_release(&execution_table, row);
}

#define EXECUTION_LOOK                                                            \
	"SELECT rowid, ?5 = 0 OR ended_ms = 0 OR ?5 >> state & 1, created_ms, id" \
	" FROM execution INDEXED BY execution_look WHERE session = ?1 AND (created_ms, id) "

int store_execution_list(struct store *s, const struct store_execution_filter *f,
			 store_execution_fn *fn, void *cookie, struct store_looked *ret,
			 struct err *e)
{
	bool resumed = f->after_id != NULL && f->after_id[0] != '\0';
	struct row_list l = {
		.look = f->ascending
				? SQL(EXECUTION_LOOK "> (?2, ?3) ORDER BY created_ms, id LIMIT ?4")
				: SQL(EXECUTION_LOOK
				      "< (?2, ?3) ORDER BY created_ms DESC, id DESC LIMIT ?4"),
		.in = IN(f->session,
			 resumed	? f->after_ms
			 : f->ascending ? 0
					: UINT64_MAX,
			 f->after_id, value_limit(f->limit), f->states),
		.row = READ(execution_table, "FROM execution WHERE rowid = ?"),
		.limit = f->limit,
	};

	return execution_list(s, &l, fn, cookie, ret, e);
}

int store_execution_each_live(struct store *s, const char *session, store_execution_fn *fn,
			      void *cookie, struct err *e)
{
	if (session == NULL)
		return execution_each(
			s,
			READ(execution_table,
			     "FROM execution WHERE ended_ms = 0 ORDER BY created_ms, id"),
			IN_NONE, fn, cookie, e);
	return execution_each(s,
			      READ(execution_table,
				   "FROM execution INDEXED BY execution_look"
				   " WHERE ended_ms = 0 AND session = ? ORDER BY created_ms, id"),
			      IN(session), fn, cookie, e);
}

int store_execution_each_open(struct store *s, const char *session, store_execution_fn *fn,
			      void *cookie, struct err *e)
{
	return execution_each(s,
			      READ(execution_table, "FROM execution INDEXED BY execution_open"
						    " WHERE output_open = 1 AND ended_ms > 0"
						    " AND session = ? ORDER BY created_ms, id"),
			      IN(session), fn, cookie, e);
}

/* Call fn for the oldest and add up their sizes. All of them belong to one tenant. */
static int execution_oldest(struct store *s, const char *session, unsigned limit,
			    store_execution_id_fn *fn, void *cookie, char ret_tenant[STORE_ID_MAX],
			    uint64_t *ret_bytes, struct err *e)
{
	char id[STORE_ID_MAX];
	struct stmt q;
	int got, n = 0;

	*ret_bytes = 0;
	stmt_open(&q, s,
		  SQL("SELECT id, tenant, size FROM execution INDEXED BY execution_look"
		      " WHERE session = ? ORDER BY created_ms, id LIMIT ?"),
		  IN(session, value_limit(limit)));
	for (; (got = stmt_step(&q, session, e)) > 0; n++) {
		stmt_copy_text(&q, id, sizeof(id));
		stmt_copy_text(&q, ret_tenant, STORE_ID_MAX);
		if (fn != NULL)
			fn(id, ret_tenant, cookie);
		*ret_bytes += stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got < 0 ? -1 : n;
}

int store_execution_delete_some(struct store *s, const char *session, unsigned limit,
				store_execution_id_fn *fn, void *cookie, struct err *e)
{
	char tenant[STORE_ID_MAX];
	uint64_t bytes;
	bool own;
	int n = execution_oldest(s, session, limit, fn, cookie, tenant, &bytes, e);

	if (n <= 0)
		return n;
	if (store_join(s, &own, e) < 0 ||
	    stmt_change(s,
			"DELETE FROM execution WHERE rowid IN (SELECT rowid"
			" FROM execution INDEXED BY execution_look WHERE session = ?"
			" ORDER BY created_ms, id LIMIT ?)",
			IN(session, value_limit(limit)), session, e) < 0 ||
	    store_records_add(s, tenant, -n, -(int64_t)bytes, e) < 0 || store_leave(s, own, e) < 0)
		return -1;
	return n;
}

int store_execution_count(struct store *s, const char *session, uint64_t *ret, uint64_t *ret_bytes,
			  struct err *e)
{
	return stmt_numbers(s,
			    "SELECT count(*), coalesce(sum(size), 0) FROM execution"
			    " INDEXED BY execution_look WHERE session = ?",
			    IN(session), session, ret, ret_bytes, e);
}

int store_execution_logs(struct store *s, const char *session, unsigned limit,
			 struct store_execution_log *ret, unsigned *ret_n, struct err *e)
{
	unsigned n = 0;
	struct stmt q;
	int got = 0;

	stmt_open(&q, s,
		  SQL("SELECT id, log_bytes" EXECUTION_KEPT " ORDER BY ended_ms, id LIMIT ?"),
		  IN(session, limit));
	while (n < limit && (got = stmt_step(&q, session, e)) > 0) {
		stmt_copy_text(&q, ret[n].id, sizeof(ret[n].id));
		ret[n++].bytes = stmt_get_u64(&q);
	}
	stmt_close(&q);
	*ret_n = n;
	return got < 0 ? -1 : 0;
}

int store_execution_logs_size(struct store *s, const char *session, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT coalesce(sum(log_bytes), 0)" EXECUTION_KEPT, IN(session),
			   session, ret, e);
}

int store_execution_logs_by_tenant(struct store *s, store_sum_fn *fn, void *cookie, struct err *e)
{
	return stmt_sums(s,
			 "SELECT tenant, sum(log_bytes) FROM execution WHERE log_bytes > 0"
			 " AND output_open = 0 AND ended_ms > 0 GROUP BY tenant",
			 fn, cookie, e);
}

int store_execution_log_removed(struct store *s, const char *id, struct err *e)
{
	return stmt_change(s, "UPDATE execution SET log_bytes = 0, truncated = 1 WHERE id = ?",
			   IN(id), id, e);
}

int store_execution_by_mark(struct store *s, const char *session, uint64_t mark,
			    char ret_id[STORE_ID_MAX], struct err *e)
{
	return stmt_id(s,
		       "SELECT id FROM execution INDEXED BY execution_mark WHERE mark > 0"
		       " AND session = ? AND mark = ? ORDER BY created_ms DESC LIMIT 1",
		       IN(session, mark), session, ret_id, e);
}

int store_execution_had_interpreter(struct store *s, const char *session, bool *ret, struct err *e)
{
	int got = stmt_exists(s,
			      "SELECT 1 FROM execution INDEXED BY execution_interpreter"
			      " WHERE kind = 3 AND session = ? LIMIT 1",
			      IN(session), session, e);

	*ret = got > 0;
	return got < 0 ? -1 : 0;
}

int store_execution_each_secrets(struct store *s, const char *session, store_execution_text_fn *fn,
				 void *cookie, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s,
		  SQL("SELECT secrets FROM execution INDEXED BY execution_secrets"
		      " WHERE secrets <> '' AND session = ?"),
		  IN(session));
	while ((got = stmt_step(&q, session, e)) > 0)
		fn(stmt_get_text(&q), cookie);
	stmt_close(&q);
	return got;
}
