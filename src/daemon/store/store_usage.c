/* store_usage.c - see store_usage.h. */
#include "daemon/store/store_usage.h"

#include "daemon/store/stmt.h"
#include "daemon/store/store_records.h"

#define ROW struct store_usage_sums
static const struct column usage_columns[] = {
	COLUMN(cpu_us, "cpu_us", 0),
	COLUMN(memory_kib_ms, "memory_kib_ms", 0),
	COLUMN(disk_kib_ms, "disk_kib_ms", 0),
	COLUMN(net_bytes_in, "net_bytes_in", 0),
	COLUMN(net_bytes_out, "net_bytes_out", 0),
	COLUMN(sessions, "sessions", 0),
	COLUMN(tokens_in, "tokens_in", 0),
	COLUMN(tokens_out, "tokens_out", 0),
};
static const struct table usage_table = TABLE("usage", usage_columns);
#undef ROW

#define ROW struct store_usage_mark
static const struct column mark_columns[] = {
	COLUMN(cpu_us, "cpu_us", 0),
	COLUMN(net_bytes_in, "net_bytes_in", 0),
	COLUMN(net_bytes_out, "net_bytes_out", 0),
	COLUMN(seen_ns, "seen_ns", 0),
};
static const struct table mark_table = TABLE("usage_mark", mark_columns);
#undef ROW

#define USAGE_LABEL                                                                     \
	"CASE WHEN json_valid(metadata) THEN"                                           \
	" substr(coalesce(CAST(json_extract(metadata, '$.label') AS TEXT), ''), 1, 63)" \
	" ELSE '' END"

/* The session is ?1, the hour ?2. Usually the row is there already. */
#define USAGE_MORE                                                                       \
	"WITH o AS (SELECT tenant, ?2 AS hour_ms, " USAGE_LABEL " AS label FROM session" \
	" WHERE id = ?1) UPDATE usage SET @{% = % + ?}"                                  \
	" WHERE (tenant, hour_ms, label) = (SELECT tenant, hour_ms, label FROM o)"

/* 256 labels in an hour: STORE_USAGE_LABELS. */
#define USAGE_ADD                                                                               \
	"INSERT INTO usage (tenant, hour_ms, label, @) SELECT tenant, ?2,"                      \
	" CASE WHEN EXISTS (SELECT 1 FROM usage u WHERE u.tenant = o.tenant AND u.hour_ms = ?2" \
	" AND u.label = o.label) OR (SELECT count(*) FROM usage u WHERE u.tenant = o.tenant"    \
	" AND u.hour_ms = ?2) < 256 THEN label ELSE '(other)' END, @{?}"                        \
	" FROM (SELECT tenant, " USAGE_LABEL " AS label FROM session WHERE id = ?1) o"          \
	" WHERE true ON CONFLICT (tenant, hour_ms, label) DO UPDATE SET @{% = % + excluded.%}"

/* How many rows it changed, or -1. */
static int usage_more(struct store *s, const char *session, uint64_t hour_ms,
		      const struct store_usage_sums *more, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, INSERT(usage_table, USAGE_MORE), IN(session, hour_ms));
	row_put(&q, more);
	return stmt_write(&q, session, e);
}

/* The row of the session's hour, counted when it is made. Most sessions have one row, written
 * once. */
static int usage_add_session(struct store *s, const char *tenant, const char *session,
			     uint64_t hour_ms, const struct store_usage_sums *more, struct err *e)
{
	struct stmt q;
	int made;

	stmt_open(&q, s,
		  INSERT(usage_table, "INSERT OR IGNORE INTO usage_session (session, hour_ms, @)"
				      " VALUES (?, ?, @{?})"),
		  IN(session, hour_ms));
	row_put(&q, more);
	made = stmt_write(&q, session, e);
	if (made < 0 ||
	    (made > 0 && store_records_add(s, tenant, 0, STORE_USAGE_SESSION_SIZE, e) < 0))
		return -1;
	if (made > 0)
		return 0;
	return row_write_sized(s,
			       UPDATE(usage_table, COLUMN_NEW,
				      "UPDATE usage_session SET @{% = % + ?}"
				      " WHERE session = ? AND hour_ms = ?"),
			       IN_NONE, more, sizeof(*more), IN(session, hour_ms), session, e);
}

int store_usage_of_session(struct store *s, const char *session, uint64_t from_ms, uint64_t to_ms,
			   struct store_usage_sums *ret, bool *ret_any, struct err *e)
{
	struct stmt q;
	int got;

	*ret = (struct store_usage_sums){ 0 };
	stmt_open(&q, s,
		  READ_AS(usage_table, "SELECT @{coalesce(sum(%), 0)}, count(*) FROM usage_session"
				       " WHERE session = ?1 AND hour_ms >= ?2 AND hour_ms < ?3"),
		  IN(session, from_ms, to_ms));
	got = row_next(&q, session, ret, e);
	*ret_any = got > 0 && stmt_get_u64(&q) > 0;
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_usage_delete_session(struct store *s, const char *session, unsigned limit, struct err *e)
{
	char tenant[STORE_ID_MAX];
	bool own;
	int n;

	if (store_join(s, &own, e) < 0)
		return -1;
	n = stmt_run_counted(s,
			     "DELETE FROM usage_session WHERE session = ?1 AND hour_ms IN"
			     " (SELECT hour_ms FROM usage_session WHERE session = ?1"
			     " ORDER BY hour_ms LIMIT ?2)",
			     IN(session, value_limit(limit)), session, e);
	if (n < 0 || (n > 0 && (stmt_id(s, "SELECT tenant FROM session WHERE id = ?", IN(session),
					session, tenant, e) < 0 ||
				store_records_add(s, tenant, 0,
						  -(int64_t)n * STORE_USAGE_SESSION_SIZE, e) < 0)))
		return -1;
	return store_leave(s, own, e) < 0 ? -1 : n;
}

int store_usage_add(struct store *s, const char *tenant, const char *session, uint64_t hour_ms,
		    const struct store_usage_sums *more, const struct store_usage_mark *mark,
		    struct err *e)
{
	bool own;
	int n;

	if (store_join(s, &own, e) < 0 || (n = usage_more(s, session, hour_ms, more, e)) < 0 ||
	    (n == 0 &&
	     row_add(s, usage_table, USAGE_ADD, IN(session, hour_ms), more, session, e) < 0) ||
	    usage_add_session(s, tenant, session, hour_ms, more, e) < 0 ||
	    (mark != NULL &&
	     row_add(s, mark_table,
		     "INSERT OR REPLACE INTO usage_mark (session, @) VALUES (?, @{?})", IN(session),
		     mark, session, e) < 0))
		return -1;
	return store_leave(s, own, e);
}

int store_usage_mark(struct store *s, const char *session, struct store_usage_mark *ret,
		     struct err *e)
{
	return row_find(s, mark_table, "FROM usage_mark WHERE session = ?", IN(session), session,
			ret, e);
}

int store_usage_forget(struct store *s, const char *session, struct err *e)
{
	return stmt_run(s, "DELETE FROM usage_mark WHERE session = ?", IN(session), session, e);
}

int store_usage_sum(struct store *s, const char *tenant, uint64_t from_ms, uint64_t to_ms,
		    unsigned limit, store_usage_fn *fn, void *cookie, struct err *e)
{
	char label[4 * STORE_USAGE_LABEL_MAX];
	struct store_usage_sums sums;
	struct stmt q;
	int got;

	stmt_open(&q, s,
		  READ_AS(usage_table, "SELECT @{sum(%)}, label FROM usage WHERE tenant = ?1"
				       " AND hour_ms >= ?2 AND hour_ms < ?3 GROUP BY label"
				       " ORDER BY label LIMIT ?4"),
		  IN(tenant, from_ms, to_ms, value_limit(limit)));
	while ((got = row_next(&q, tenant, &sums, e)) > 0) {
		stmt_copy_text(&q, label, sizeof(label));
		fn(label, &sums, cookie);
	}
	stmt_close(&q);
	return got;
}

int store_usage_prune(struct store *s, uint64_t before_ms, unsigned limit, struct err *e)
{
	return stmt_run_counted(s,
				"DELETE FROM usage WHERE rowid IN (SELECT rowid"
				" FROM usage INDEXED BY usage_hour WHERE hour_ms < ? LIMIT ?)",
				IN(before_ms, value_limit(limit)), "", e);
}
