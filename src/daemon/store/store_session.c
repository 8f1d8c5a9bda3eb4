/* store_session.c - see store_session.h. */
#include "daemon/store/store_session.h"

#include "daemon/store/stmt.h"
#include "daemon/store/store_execution.h"
#include "daemon/store/store_records.h"
#include "daemon/store/store_sample.h"
#include "daemon/store/store_usage.h"

/* The groups of the header: each has a function that writes it. */
enum {
	STATE = COLUMN_GROUP,
	SETTINGS = COLUMN_GROUP << 1,
	USAGE = COLUMN_GROUP << 2,
	DIFF = COLUMN_GROUP << 3,
	PORTS = COLUMN_GROUP << 4,
	END = COLUMN_GROUP << 5,
};

#define ROW struct store_session
static const struct column session_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(template, "template", 0),
	COLUMN(template_id, "template_id", 0),
	COLUMN(profile, "profile", 0),
	COLUMN(level, "level", 0),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(limits.memory_bytes, "memory_bytes", 0),
	COLUMN(limits.cpu_millis, "cpu_millis", 0),
	COLUMN(limits.pids, "pids", 0),
	COLUMN(limits.disk_bytes, "disk_bytes", 0),
	COLUMN(limits.inodes, "inodes", 0),
	COLUMN(limits.nofile, "nofile", 0),
	COLUMN(limits.read_bps, "read_bps", 0),
	COLUMN(limits.write_bps, "write_bps", 0),
	COLUMN(output_limit, "output_bytes", 0),
	COLUMN_BLOB(env, env_len, "env", COLUMN_COUNTED),
	COLUMN(mounts, "mounts", COLUMN_COUNTED),
	COLUMN(creator_key, "creator_key", 0),
	COLUMN(traceparent, "traceparent", 0),
	COLUMN(storage, "storage", 0),
	COLUMN(read_only, "read_only", 0),
	COLUMN(keep_ms, "keep_ms", 0),
	COLUMN(alarms, "alarms", COLUMN_COUNTED),
	COLUMN(redact, "redact", COLUMN_COUNTED),
	COLUMN(trace, "trace", 0),
	COLUMN(watch_reads, "watch_reads", COLUMN_COUNTED),
	COLUMN(state, "state", STATE),
	COLUMN(reason, "reason", STATE),
	COLUMN(started_ms, "started_ms", STATE),
	COLUMN(ended_ms, "ended_ms", END),
	COLUMN(deadline_ms, "deadline_ms", STATE),
	COLUMN(paused_since_ms, "paused_since_ms", STATE),
	COLUMN(paused_total_ms, "paused_total_ms", STATE),
	COLUMN(boot_id, "boot_id", STATE),
	COLUMN(pid, "pid", STATE),
	COLUMN(detail, "detail", STATE),
	COLUMN(cold, "cold", STATE),
	COLUMN(image, "image", STATE),
	COLUMN(image_bytes, "image_bytes", STATE),
	COLUMN(guest_origin, "guest_origin", STATE),
	COLUMN(room, "room", STATE),
	COLUMN(refused, "refused", STATE),
	COLUMN(timeout_ms, "timeout_ms", SETTINGS),
	COLUMN(idle_ms, "idle_ms", SETTINGS),
	COLUMN(on_timeout, "on_timeout", SETTINGS),
	COLUMN(on_idle, "on_idle", SETTINGS),
	COLUMN(metadata, "metadata", SETTINGS | COLUMN_COUNTED),
	COLUMN(rules, "rules", SETTINGS | COLUMN_COUNTED),
	COLUMN(network, "network", SETTINGS | COLUMN_COUNTED),
	COLUMN(client, "client", SETTINGS | COLUMN_COUNTED),
	COLUMN(policy, "policy", SETTINGS | COLUMN_COUNTED),
	COLUMN(secrets, "secrets", SETTINGS | COLUMN_COUNTED),
	COLUMN_SIZE("size", SETTINGS),
	COLUMN(usage.cpu_us, "used_cpu_us", USAGE),
	COLUMN(usage.memory_peak_bytes, "used_memory_peak", USAGE),
	COLUMN(usage.disk_bytes, "used_disk", USAGE),
	COLUMN(usage.bytes_out, "used_bytes_out", USAGE),
	COLUMN(usage.net_bytes_in, "net_bytes_in", USAGE),
	COLUMN(usage.net_bytes_out, "net_bytes_out", USAGE),
	COLUMN(usage.net_requests, "net_requests", USAGE),
	COLUMN(keep_diff, "keep_diff", DIFF),
	COLUMN(diff_bytes, "diff_bytes", DIFF),
	COLUMN(diff_why, "diff_why", DIFF),
	COLUMN(ports, "ports", PORTS),
};
static const struct table session_table = TABLE_OWNED("session", session_columns);
#undef ROW

#define ROW struct store_mcp_pin
static const struct column pin_columns[] = {
	COLUMN(tool, "tool", 0),
	COLUMN(hash, "hash", 0),
};
static const struct table pin_table = TABLE("mcp_pin", pin_columns);
#undef ROW

ROWS_EACH(session_each, store_session)
ROWS_EACH(session_each_pin, store_mcp_pin)
ROWS_LIST(session_list, store_session)

int store_session_insert(struct store *s, const struct store_session *row, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || row_insert(s, session_table, row, row->id, e) < 0 ||
	    store_records_add(s, row->tenant, 1, (int64_t)row_size(&session_table, row), e) < 0)
		return -1;
	return store_leave(s, own, e);
}

/* Read a record's tenant and size. Roll back if there is none. */
static int session_size(struct store *s, const char *id, char ret_tenant[STORE_ID_MAX],
			uint64_t *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL("SELECT tenant, size FROM session WHERE id = ?"), IN(id));
	got = stmt_step(&q, id, e);
	if (got > 0) {
		stmt_copy_text(&q, ret_tenant, STORE_ID_MAX);
		*ret = stmt_get_u64(&q);
	}
	stmt_close(&q);
	if (got == 0) {
		store_rollback(s);
		return stmt_not_found(q.sql, id, e);
	}
	return got > 0 ? 0 : -1;
}

int store_session_update_state(struct store *s, const struct store_session *row, struct err *e)
{
	/* An index has the end of a session, and is written even with the same value. */
	return row->ended_ms == 0 ? row_update(s, session_table, STATE, row, row->id, e)
				  : row_update(s, session_table, STATE | END, row, row->id, e);
}

int store_session_update_end(struct store *s, const struct store_session *row, struct err *e)
{
	return row->ended_ms == 0
		       ? row_update(s, session_table, STATE | USAGE, row, row->id, e)
		       : row_update(s, session_table, STATE | END | USAGE, row, row->id, e);
}

int store_session_update_settings(struct store *s, const struct store_session *row, struct err *e)
{
	int64_t size = (int64_t)row_size(&session_table, row);
	char tenant[STORE_ID_MAX];
	uint64_t before = 0;
	bool own;

	if (store_join(s, &own, e) < 0 || session_size(s, row->id, tenant, &before, e) < 0 ||
	    row_update(s, session_table, SETTINGS, row, row->id, e) < 0 ||
	    store_records_add(s, tenant, 0, size - (int64_t)before, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_session_update_usage(struct store *s, const char *id, const struct store_usage *usage,
			       struct err *e)
{
	struct store_session row = { .usage = *usage };

	return row_update(s, session_table, USAGE, &row, id, e);
}

int store_session_update_diff(struct store *s, const struct store_session *row, struct err *e)
{
	return row_update(s, session_table, DIFF, row, row->id, e);
}

int store_session_update_ports(struct store *s, const struct store_session *row, struct err *e)
{
	return row_update(s, session_table, PORTS, row, row->id, e);
}

int store_session_diffs_by_tenant(struct store *s, store_sum_fn *fn, void *cookie, struct err *e)
{
	return stmt_sums(s,
			 "SELECT tenant, sum(diff_bytes) FROM session"
			 " INDEXED BY session_diff WHERE diff_bytes > 0 GROUP BY tenant",
			 fn, cookie, e);
}

int store_session_get(struct store *s, const char *id, struct store_session *ret, struct err *e)
{
	return row_get(s, session_table, "FROM session WHERE id = ?", IN(id), id, ret, e);
}

void store_session_release(struct store_session *row)
{
	row_release(&session_table, row);
}

/* The index has all columns of the filter: no row is read until the list shows it. */
#define SESSION_LOOK                                                      \
	"SELECT rowid, (?5 = 0 OR ended_ms = 0 OR ?5 >> state & 1)"       \
	" AND (?6 IS NULL OR template = ?6), created_ms, id FROM session" \
	" INDEXED BY session_look WHERE tenant = ?1 AND (created_ms, id) "

int store_session_list(struct store *s, const struct store_session_filter *f, store_session_fn *fn,
		       void *cookie, struct store_looked *ret, struct err *e)
{
	bool resumed = f->after_id != NULL && f->after_id[0] != '\0';
	struct row_list l = {
		.look = f->ascending
				? SQL(SESSION_LOOK "> (?2, ?3) ORDER BY created_ms, id LIMIT ?4")
				: SQL(SESSION_LOOK
				      "< (?2, ?3) ORDER BY created_ms DESC, id DESC LIMIT ?4"),
		.in = IN(f->tenant,
			 resumed	? f->after_ms
			 : f->ascending ? 0
					: UINT64_MAX,
			 f->after_id, value_limit(f->limit), f->states, value_or_null(f->template)),
		.row = READ(session_table, "FROM session WHERE rowid = ?"),
		.limit = f->limit,
	};

	return session_list(s, &l, fn, cookie, ret, e);
}

int store_session_each_live(struct store *s, store_session_fn *fn, void *cookie, struct err *e)
{
	/* By name: otherwise the planner scans all sessions instead of sorting a few. */
	return session_each(s,
			    READ(session_table, "FROM session INDEXED BY session_retire"
						" WHERE ended_ms = 0 ORDER BY created_ms, id"),
			    IN_NONE, fn, cookie, e);
}

int store_session_next_ended(struct store *s, uint64_t after_ms, const char *after_id,
			     uint64_t before_ms, uint64_t *ret_ms, char ret_id[STORE_ID_MAX],
			     struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s,
		  SQL("SELECT ended_ms, id FROM session INDEXED BY session_retire"
		      " WHERE (ended_ms, id) > (?, ?) AND ended_ms < ?"
		      " ORDER BY ended_ms, id LIMIT 1"),
		  IN(after_ms == 0 ? 1 : after_ms, after_id, before_ms)); /* 0: it is live */
	got = stmt_step(&q, "", e);
	if (got > 0) {
		*ret_ms = stmt_get_u64(&q);
		stmt_copy_text(&q, ret_id, STORE_ID_MAX);
	}
	stmt_close(&q);
	return got;
}

int store_session_delete(struct store *s, const char *id, struct err *e)
{
	char tenant[STORE_ID_MAX];
	uint64_t size = 0;
	bool own;

	if (store_join(s, &own, e) < 0 || session_size(s, id, tenant, &size, e) < 0 ||
	    store_execution_delete_some(s, id, 0, NULL, NULL, e) < 0 ||
	    store_sample_delete(s, id, 0, e) < 0 || store_usage_delete_session(s, id, 0, e) < 0 ||
	    stmt_change(s, "DELETE FROM session WHERE id = ?", IN(id), id, e) < 0 ||
	    store_records_add(s, tenant, -1, -(int64_t)size, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

/* ---- definitions of tools */

int store_mcp_pin_add(struct store *s, const char *session, const struct store_mcp_pin *row,
		      struct err *e)
{
	struct stmt q;

	stmt_open(&q, s,
		  INSERT(pin_table, "INSERT OR IGNORE INTO mcp_pin (session, @) VALUES (?, @{?})"),
		  IN(session));
	row_put(&q, row);
	return stmt_write(&q, session, e) < 0 ? -1 : 0;
}

int store_mcp_pin_each(struct store *s, const char *session, unsigned limit, store_mcp_pin_fn *fn,
		       void *cookie, struct err *e)
{
	return session_each_pin(
		s, READ(pin_table, "FROM mcp_pin WHERE session = ? ORDER BY tool LIMIT ?"),
		IN(session, value_limit(limit)), fn, cookie, e);
}

int store_mcp_pin_delete(struct store *s, const char *session, struct err *e)
{
	return stmt_run(s, "DELETE FROM mcp_pin WHERE session = ?", IN(session), session, e);
}

int store_mcp_pin_sweep(struct store *s, struct err *e)
{
	return stmt_run(s, "DELETE FROM mcp_pin WHERE session NOT IN (SELECT id FROM session)",
			IN_NONE, "", e);
}
