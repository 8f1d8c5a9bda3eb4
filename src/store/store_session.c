#include "store_session.h"

#include <string.h>

#include "stmt_rows.h"
#include "store_db.h"
#include "store_execution.h"
#include "store_records.h"

/* Values and columns come in the order of SESSION_COLUMNS in sql.c. The groups are those of the
 * header. */

static void put_identity(struct stmt *q, const struct store_session *row)
{
	stmt_text(q, row->id);
	stmt_text(q, row->tenant);
	stmt_text(q, row->template);
	stmt_text(q, row->template_id);
	stmt_u64(q, row->profile);
	stmt_u64(q, row->level);
	stmt_u64(q, row->created_ms);
	stmt_u64(q, row->limits.memory_bytes);
	stmt_u64(q, row->limits.cpu_millis);
	stmt_u64(q, row->limits.pids);
	stmt_u64(q, row->limits.disk_bytes);
	stmt_u64(q, row->limits.inodes);
	stmt_u64(q, row->limits.nofile);
	stmt_u64(q, row->limits.output_bytes);
	stmt_blob(q, row->env, row->env_len);
	stmt_text(q, row->mounts);
}

static void put_state(struct stmt *q, const struct store_session *row)
{
	stmt_u64(q, row->state);
	stmt_u64(q, row->reason);
	stmt_u64(q, row->started_ms);
	stmt_u64(q, row->ended_ms);
	stmt_u64(q, row->deadline_ms);
	stmt_u64(q, row->paused_since_ms);
	stmt_u64(q, row->paused_total_ms);
	stmt_text(q, row->boot_id);
	stmt_i32(q, row->pid);
	stmt_text(q, row->detail);
	stmt_u64(q, row->cold);
	stmt_text(q, row->image);
	stmt_u64(q, row->image_bytes);
	stmt_text(q, row->guest_origin);
}

static void put_settings(struct stmt *q, const struct store_session *row)
{
	stmt_u64(q, row->timeout_ms);
	stmt_u64(q, row->idle_ms);
	stmt_u64(q, row->on_timeout);
	stmt_u64(q, row->on_idle);
	stmt_text(q, row->metadata);
	stmt_text(q, row->rules);
	stmt_text(q, row->network);
	stmt_text(q, row->client);
	stmt_text(q, row->policy);
	stmt_text(q, row->secrets);
}

static void put_usage(struct stmt *q, const struct store_usage *usage)
{
	stmt_u64(q, usage->cpu_us);
	stmt_u64(q, usage->memory_peak_bytes);
	stmt_u64(q, usage->disk_bytes);
	stmt_u64(q, usage->bytes_out);
	stmt_u64(q, usage->net_bytes_in);
	stmt_u64(q, usage->net_bytes_out);
	stmt_u64(q, usage->net_requests);
}

static void put_diff(struct stmt *q, const struct store_session *row)
{
	stmt_u64(q, row->keep_diff);
	stmt_u64(q, row->diff_bytes);
	stmt_text(q, row->diff_why);
}

static void read_row(struct stmt *q, struct store_session *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->template, sizeof(ret->template));
	stmt_copy_text(q, ret->template_id, sizeof(ret->template_id));
	ret->profile = stmt_get_u32(q);
	ret->level = stmt_get_u32(q);
	ret->created_ms = stmt_get_u64(q);
	ret->limits.memory_bytes = stmt_get_u64(q);
	ret->limits.cpu_millis = stmt_get_u64(q);
	ret->limits.pids = stmt_get_u64(q);
	ret->limits.disk_bytes = stmt_get_u64(q);
	ret->limits.inodes = stmt_get_u64(q);
	ret->limits.nofile = stmt_get_u64(q);
	ret->limits.output_bytes = stmt_get_u64(q);
	ret->env = stmt_get_blob(q, &ret->env_len);
	ret->mounts = stmt_get_text(q);
	ret->state = stmt_get_u32(q);
	ret->reason = stmt_get_u32(q);
	ret->started_ms = stmt_get_u64(q);
	ret->ended_ms = stmt_get_u64(q);
	ret->deadline_ms = stmt_get_u64(q);
	ret->paused_since_ms = stmt_get_u64(q);
	ret->paused_total_ms = stmt_get_u64(q);
	stmt_copy_text(q, ret->boot_id, sizeof(ret->boot_id));
	ret->pid = stmt_get_i32(q);
	ret->detail = stmt_get_text(q);
	ret->cold = stmt_get_u32(q);
	stmt_copy_text(q, ret->image, sizeof(ret->image));
	ret->image_bytes = stmt_get_u64(q);
	stmt_copy_text(q, ret->guest_origin, sizeof(ret->guest_origin));
	ret->timeout_ms = stmt_get_u64(q);
	ret->idle_ms = stmt_get_u64(q);
	ret->on_timeout = stmt_get_u32(q);
	ret->on_idle = stmt_get_u32(q);
	ret->metadata = stmt_get_text(q);
	ret->rules = stmt_get_text(q);
	ret->network = stmt_get_text(q);
	ret->client = stmt_get_text(q);
	ret->policy = stmt_get_text(q);
	ret->secrets = stmt_get_text(q);
	ret->usage.cpu_us = stmt_get_u64(q);
	ret->usage.memory_peak_bytes = stmt_get_u64(q);
	ret->usage.disk_bytes = stmt_get_u64(q);
	ret->usage.bytes_out = stmt_get_u64(q);
	ret->usage.net_bytes_in = stmt_get_u64(q);
	ret->usage.net_bytes_out = stmt_get_u64(q);
	ret->usage.net_requests = stmt_get_u64(q);
	(void)stmt_get_u64(q); /* size */
	ret->keep_diff = stmt_get_u32(q);
	ret->diff_bytes = stmt_get_u64(q);
	ret->diff_why = stmt_get_text(q);
	stmt_copy_text(q, ret->creator_key, sizeof(ret->creator_key));
	ret->storage = stmt_get_u32(q);
	ret->read_only = stmt_get_u32(q) != 0;
	ret->limits.read_bps = stmt_get_u64(q);
	ret->limits.write_bps = stmt_get_u64(q);
	ret->keep_ms = stmt_get_u64(q);
	stmt_copy_text(q, ret->ports, sizeof(ret->ports));
	ret->owned = NULL;
}

static size_t length(const char *text)
{
	return text == NULL ? 0 : strlen(text);
}

static uint64_t size_of(const struct store_session *row)
{
	return STORE_RECORD_BASE + row->env_len + length(row->mounts) + length(row->metadata) +
	       length(row->rules) + length(row->network) + length(row->client) +
	       length(row->policy) + length(row->secrets);
}

static int insert(struct store *s, const struct store_session *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SESSION_INSERT);
	put_identity(&q, row);
	put_state(&q, row);
	put_settings(&q, row);
	put_usage(&q, &row->usage);
	stmt_u64(&q, size_of(row));
	put_diff(&q, row);
	stmt_text(&q, row->creator_key);
	stmt_u64(&q, row->storage);
	stmt_u64(&q, row->read_only);
	stmt_u64(&q, row->limits.read_bps);
	stmt_u64(&q, row->limits.write_bps);
	stmt_u64(&q, row->keep_ms);
	stmt_text(&q, row->ports);
	return stmt_run(&q, true, "session", row->id, e);
}

int store_session_insert(struct store *s, const struct store_session *row, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || insert(s, row, e) < 0 ||
	    store_records_add(s, row->tenant, 1, (int64_t)size_of(row), e) < 0)
		return -1;
	return store_leave(s, own, e);
}

/* What its record counts. ERR_NOT_FOUND: there is none. */
static int get_size(struct store *s, const char *id, char ret_tenant[STORE_ID_MAX], uint64_t *ret,
		    struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_SESSION_SIZE);
	stmt_text(&q, id);
	got = stmt_step(&q, "session", id, e);
	if (got > 0) {
		stmt_copy_text(&q, ret_tenant, STORE_ID_MAX);
		*ret = stmt_get_u64(&q);
	}
	stmt_close(&q);
	if (got == 0) {
		store_rollback(s);
		return err_set(e, ERR_NOT_FOUND, "store: session %.40s: not found", id);
	}
	return got > 0 ? 0 : -1;
}

int store_session_update_state(struct store *s, const struct store_session *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SESSION_STATE);
	put_state(&q, row);
	stmt_text(&q, row->id);
	return stmt_run(&q, true, "session", row->id, e);
}

int store_session_update_settings(struct store *s, const struct store_session *row, struct err *e)
{
	char tenant[STORE_ID_MAX];
	uint64_t before;
	struct stmt q;
	bool own;

	if (store_join(s, &own, e) < 0 || get_size(s, row->id, tenant, &before, e) < 0)
		return -1;
	stmt_open(&q, s, SQL_SESSION_SETTINGS);
	put_settings(&q, row);
	stmt_u64(&q, size_of(row));
	stmt_text(&q, row->id);
	if (stmt_run(&q, true, "session", row->id, e) < 0 ||
	    store_records_add(s, tenant, 0, (int64_t)size_of(row) - (int64_t)before, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_session_update_usage(struct store *s, const char *id, const struct store_usage *usage,
			       struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SESSION_USAGE);
	put_usage(&q, usage);
	stmt_text(&q, id);
	return stmt_run(&q, true, "session", id, e);
}

int store_session_update_diff(struct store *s, const struct store_session *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SESSION_DIFF);
	put_diff(&q, row);
	stmt_text(&q, row->id);
	return stmt_run(&q, true, "session", row->id, e);
}

int store_session_update_ports(struct store *s, const struct store_session *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SESSION_PORTS);
	stmt_text(&q, row->ports);
	stmt_text(&q, row->id);
	return stmt_run(&q, true, "session", row->id, e);
}

int store_session_diffs_by_tenant(struct store *s, store_session_sum_fn *fn, void *cookie,
				  struct err *e)
{
	char tenant[STORE_ID_MAX];
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_SESSION_DIFFS_BY_TENANT);
	while ((got = stmt_step(&q, "diffs of", "all", e)) > 0) {
		stmt_copy_text(&q, tenant, sizeof(tenant));
		fn(tenant, stmt_get_u64(&q), cookie);
	}
	stmt_close(&q);
	return got;
}

static int own_row(struct store_session *row, struct err *e)
{
	const char **const texts[] = { &row->mounts, &row->detail,  &row->metadata,
				       &row->rules,  &row->network, &row->client,
				       &row->policy, &row->secrets, &row->diff_why };

	return stmt_own(texts, COUNT(texts), &row->env, row->env_len, &row->owned, e);
}

STMT_ROWS_GET(store_session, "session")
STMT_ROWS_EACH(store_session, "sessions")
STMT_ROWS_SHOW(store_session, "sessions")

int store_session_get(struct store *s, const char *id, struct store_session *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SESSION_GET);
	stmt_text(&q, id);
	return get_row(&q, id, ret, e);
}

void store_session_release(struct store_session *row)
{
	free(row->owned);
	row->owned = NULL;
}

/* Reads what the index has of a row: does the filter let it through? */
static bool look(struct stmt *q, const struct store_session_filter *filter, struct store_looked *at)
{
	uint32_t state;
	bool ended;

	at->ms = stmt_get_u64(q);
	stmt_copy_text(q, at->id, sizeof(at->id));
	state = stmt_get_u32(q);
	ended = stmt_get_u64(q) != 0;
	return (filter->states == 0 || !ended || (filter->states >> state & 1) != 0) &&
	       (filter->template == NULL || strcmp(filter->template, stmt_get_text(q)) == 0);
}

int store_session_list(struct store *s, const struct store_session_filter *filter,
		       store_session_fn *fn, void *cookie, struct store_looked *ret, struct err *e)
{
	bool resumed = filter->after_id != NULL && filter->after_id[0] != '\0';
	struct store_looked done = { 0 }, at = { 0 };
	struct stmt q;
	int got, stop = 0;

	stmt_open(&q, s, filter->ascending ? SQL_SESSION_LOOK_UP : SQL_SESSION_LOOK_DOWN);
	stmt_text(&q, filter->tenant);
	stmt_u64(&q, resumed ? filter->after_ms : filter->ascending ? 0 : UINT64_MAX);
	stmt_text(&q, filter->after_id);
	stmt_limit(&q, filter->limit);
	while (stop == 0 && (got = stmt_step(&q, "sessions", "", e)) > 0) {
		uint64_t rowid = stmt_get_u64(&q);

		if (look(&q, filter, &at))
			stop = show_row(s, SQL_SESSION_ROW, rowid, fn, cookie, e);
		if (stop == 0) {
			at.rows = done.rows + 1;
			done = at;
		}
	}
	stmt_close(&q);
	done.end = stop == 0 && got == 0 && (filter->limit == 0 || done.rows < filter->limit);
	if (ret != NULL)
		*ret = done;
	return stop < 0 || (stop == 0 && got < 0) ? -1 : 0;
}

int store_session_each_live(struct store *s, store_session_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_SESSION_LIVE);
	return each_row(&q, fn, cookie, e);
}

int store_session_next_ended(struct store *s, uint64_t after_ms, const char *after_id,
			     uint64_t before_ms, uint64_t *ret_ms, char ret_id[STORE_ID_MAX],
			     struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_SESSION_NEXT_ENDED);
	stmt_u64(&q, after_ms == 0 ? 1 : after_ms); /* 0: it is live */
	stmt_text(&q, after_id);
	stmt_u64(&q, before_ms);
	got = stmt_step(&q, "ended sessions", "", e);
	if (got > 0) {
		*ret_ms = stmt_get_u64(&q);
		stmt_copy_text(&q, ret_id, STORE_ID_MAX);
	}
	stmt_close(&q);
	return got;
}

static void ignore(const char *id, const char *tenant, void *cookie)
{
	(void)id;
	(void)tenant;
	(void)cookie;
}

int store_session_delete(struct store *s, const char *id, struct err *e)
{
	char tenant[STORE_ID_MAX];
	uint64_t size;
	struct stmt q;
	bool own;

	if (store_join(s, &own, e) < 0 || get_size(s, id, tenant, &size, e) < 0 ||
	    store_execution_delete_some(s, id, 0, ignore, NULL, e) < 0)
		return -1;
	stmt_open(&q, s, SQL_SESSION_DELETE);
	stmt_text(&q, id);
	if (stmt_run(&q, true, "session", id, e) < 0 ||
	    store_records_add(s, tenant, -1, -(int64_t)size, e) < 0)
		return -1;
	return store_leave(s, own, e);
}
