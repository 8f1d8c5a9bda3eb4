#include "store_execution.h"

#include <stdio.h>
#include <string.h>

#include "stmt_rows.h"
#include "store_db.h"
#include "store_records.h"

/* Values and columns come in the order of EXECUTION_COLUMNS in sql.c. */

/* Both are in the column limit_hit, as "limit|list"; without the list, if it is the limit itself.
 */
static void put_limits(const struct store_execution *row, char *ret, size_t cap)
{
	bool same = strcmp(row->limit, row->limits_hit) == 0 || row->limits_hit[0] == '\0';

	(void)snprintf(ret, cap, "%s%s%s", row->limit, same ? "" : "|",
		       same ? "" : row->limits_hit);
}

static void get_limits(struct stmt *q, struct store_execution *ret)
{
	char text[sizeof(ret->limit) + sizeof(ret->limits_hit)];
	size_t n;

	stmt_copy_text(q, text, sizeof(text));
	n = strcspn(text, "|");
	(void)snprintf(ret->limits_hit, sizeof(ret->limits_hit), "%.63s",
		       text[n] == '|'		     ? text + n + 1
		       : strcmp(text, "killed") == 0 ? ""
						     : text);
	text[n] = '\0';
	(void)snprintf(ret->limit, sizeof(ret->limit), "%.15s", text);
}

/* joined: of put_limits(), which the caller keeps until the statement was run. */
static void put_progress(struct stmt *q, const struct store_execution *row, const char *joined)
{
	stmt_u64(q, row->handle);
	stmt_u64(q, row->state);
	stmt_u64(q, row->started_ms);
	stmt_u64(q, row->ended_ms);
	stmt_i32(q, row->exit_code);
	stmt_i32(q, row->signal);
	stmt_text(q, joined);
	stmt_u64(q, row->timed_out);
	stmt_u64(q, row->error_code);
	stmt_text(q, row->error);
	stmt_u64(q, row->out_bytes);
	stmt_u64(q, row->err_bytes);
	stmt_u64(q, row->log_bytes);
	stmt_u64(q, row->truncated);
	stmt_u64(q, row->cpu_us);
	stmt_u64(q, row->output_open);
	stmt_u64(q, row->mark);
	stmt_text(q, row->client);
	stmt_u64(q, row->result_bytes);
}

static size_t length(const char *text)
{
	return text == NULL ? 0 : strlen(text);
}

static uint64_t size_of(const struct store_execution *row)
{
	return STORE_RECORD_BASE + length(row->command) + length(row->cwd) + length(row->secrets);
}

static int insert(struct store *s, const struct store_execution *row, struct err *e)
{
	char joined[sizeof(row->limit) + sizeof(row->limits_hit)];
	struct stmt q;

	put_limits(row, joined, sizeof(joined));
	stmt_open(&q, s, SQL_EXECUTION_INSERT);
	stmt_text(&q, row->id);
	stmt_text(&q, row->session);
	stmt_text(&q, row->tenant);
	stmt_u64(&q, row->kind);
	stmt_blob(&q, row->command_hash, sizeof(row->command_hash));
	stmt_text(&q, row->command);
	stmt_text(&q, row->cwd);
	stmt_text(&q, row->user);
	stmt_u64(&q, row->tty);
	stmt_u64(&q, row->created_ms);
	stmt_u64(&q, row->timeout_ms);
	put_progress(&q, row, joined);
	stmt_u64(&q, row->output_limit);
	stmt_u64(&q, size_of(row));
	stmt_actor(&q, &row->actor);
	stmt_text(&q, row->secrets);
	stmt_text(&q, row->language);
	stmt_text(&q, row->context);
	return stmt_run(&q, true, "execution", row->id, e);
}

int store_execution_insert(struct store *s, const struct store_execution *row, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || insert(s, row, e) < 0 ||
	    store_records_add(s, row->tenant, 1, (int64_t)size_of(row), e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_execution_update(struct store *s, const struct store_execution *row, struct err *e)
{
	char joined[sizeof(row->limit) + sizeof(row->limits_hit)];
	struct stmt q;

	put_limits(row, joined, sizeof(joined));
	stmt_open(&q, s, SQL_EXECUTION_UPDATE);
	put_progress(&q, row, joined);
	stmt_text(&q, row->id);
	return stmt_run(&q, true, "execution", row->id, e);
}

static void read_row(struct stmt *q, struct store_execution *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->session, sizeof(ret->session));
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	ret->kind = stmt_get_u32(q);
	stmt_copy_blob(q, ret->command_hash, sizeof(ret->command_hash));
	ret->command = stmt_get_text(q);
	ret->cwd = stmt_get_text(q);
	stmt_copy_text(q, ret->user, sizeof(ret->user));
	ret->tty = stmt_get_bool(q);
	ret->created_ms = stmt_get_u64(q);
	ret->timeout_ms = stmt_get_u64(q);
	ret->handle = stmt_get_u32(q);
	ret->state = stmt_get_u32(q);
	ret->started_ms = stmt_get_u64(q);
	ret->ended_ms = stmt_get_u64(q);
	ret->exit_code = stmt_get_i32(q);
	ret->signal = stmt_get_i32(q);
	get_limits(q, ret);
	ret->timed_out = stmt_get_bool(q);
	ret->error_code = stmt_get_u32(q);
	ret->error = stmt_get_text(q);
	ret->out_bytes = stmt_get_u64(q);
	ret->err_bytes = stmt_get_u64(q);
	ret->log_bytes = stmt_get_u64(q);
	ret->truncated = stmt_get_bool(q);
	ret->cpu_us = stmt_get_u64(q);
	ret->output_open = stmt_get_bool(q);
	ret->mark = stmt_get_u64(q);
	ret->client = stmt_get_text(q);
	ret->result_bytes = stmt_get_u64(q);
	ret->output_limit = stmt_get_u64(q);
	(void)stmt_get_u64(q); /* size */
	stmt_get_actor(q, &ret->actor);
	ret->secrets = stmt_get_text(q);
	stmt_copy_text(q, ret->language, sizeof(ret->language));
	stmt_copy_text(q, ret->context, sizeof(ret->context));
	ret->owned = NULL;
}

static int own_row(struct store_execution *row, struct err *e)
{
	const char **const texts[] = { &row->command, &row->cwd, &row->error, &row->client,
				       &row->secrets };

	return stmt_own(texts, COUNT(texts), NULL, 0, &row->owned, e);
}

STMT_ROWS_GET(store_execution, "execution")
STMT_ROWS_EACH(store_execution, "executions")
STMT_ROWS_SHOW(store_execution, "executions")

int store_execution_get(struct store *s, const char *id, struct store_execution *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_EXECUTION_GET);
	stmt_text(&q, id);
	return get_row(&q, id, ret, e);
}

void store_execution_release(struct store_execution *row)
{
	free(row->owned);
	row->owned = NULL;
}

static void look(struct stmt *q, struct store_looked *at, uint32_t *ret_state, bool *ret_ended)
{
	at->ms = stmt_get_u64(q);
	stmt_copy_text(q, at->id, sizeof(at->id));
	*ret_state = stmt_get_u32(q);
	*ret_ended = stmt_get_u64(q) != 0;
}

int store_execution_list(struct store *s, const struct store_execution_filter *filter,
			 store_execution_fn *fn, void *cookie, struct store_looked *ret,
			 struct err *e)
{
	bool resumed = filter->after_id != NULL && filter->after_id[0] != '\0', ended;
	struct store_looked done = { 0 }, at = { 0 };
	uint32_t state;
	struct stmt q;
	int got, stop = 0;

	stmt_open(&q, s, filter->ascending ? SQL_EXECUTION_LOOK_UP : SQL_EXECUTION_LOOK_DOWN);
	stmt_text(&q, filter->session);
	stmt_u64(&q, resumed ? filter->after_ms : filter->ascending ? 0 : UINT64_MAX);
	stmt_text(&q, filter->after_id);
	stmt_limit(&q, filter->limit);
	while (stop == 0 && (got = stmt_step(&q, "executions", "", e)) > 0) {
		uint64_t rowid = stmt_get_u64(&q);

		look(&q, &at, &state, &ended);
		if (filter->states == 0 || !ended || (filter->states >> state & 1) != 0)
			stop = show_row(s, SQL_EXECUTION_ROW, rowid, fn, cookie, e);
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

int store_execution_each_live(struct store *s, const char *session, store_execution_fn *fn,
			      void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, session == NULL ? SQL_EXECUTION_LIVE : SQL_EXECUTION_LIVE_OF_SESSION);
	if (session != NULL)
		stmt_text(&q, session);
	return each_row(&q, fn, cookie, e);
}

int store_execution_each_open(struct store *s, const char *session, store_execution_fn *fn,
			      void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_EXECUTION_OPEN_OF_SESSION);
	stmt_text(&q, session);
	return each_row(&q, fn, cookie, e);
}

/* Calls fn for the oldest and adds up their sizes. All of them belong to one tenant. */
static int oldest(struct store *s, const char *session, unsigned limit, store_execution_id_fn *fn,
		  void *cookie, char ret_tenant[STORE_ID_MAX], uint64_t *ret_bytes, struct err *e)
{
	struct stmt q;
	int got, n = 0;

	*ret_bytes = 0;
	stmt_open(&q, s, SQL_EXECUTION_OLDEST);
	stmt_text(&q, session);
	stmt_limit(&q, limit);
	for (; (got = stmt_step(&q, "executions of", session, e)) > 0; n++) {
		char id[STORE_ID_MAX];

		stmt_copy_text(&q, id, sizeof(id));
		stmt_copy_text(&q, ret_tenant, STORE_ID_MAX);
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
	struct stmt q;
	bool own;
	int n = oldest(s, session, limit, fn, cookie, tenant, &bytes, e);

	if (n <= 0)
		return n;
	if (store_join(s, &own, e) < 0)
		return -1;
	stmt_open(&q, s, SQL_EXECUTION_DELETE);
	stmt_text(&q, session);
	stmt_limit(&q, limit);
	if (stmt_run(&q, true, "executions of", session, e) < 0 ||
	    store_records_add(s, tenant, -n, -(int64_t)bytes, e) < 0 || store_leave(s, own, e) < 0)
		return -1;
	return n;
}

int store_execution_count(struct store *s, const char *session, uint64_t *ret, uint64_t *ret_bytes,
			  struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_EXECUTION_COUNT);
	stmt_text(&q, session);
	got = stmt_step(&q, "executions of", session, e);
	if (got > 0) {
		*ret = stmt_get_u64(&q);
		*ret_bytes = stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_execution_logs(struct store *s, const char *session, unsigned limit,
			 struct store_execution_log *ret, unsigned *ret_n, struct err *e)
{
	unsigned n = 0;
	struct stmt q;
	int got = 0;

	stmt_open(&q, s, SQL_EXECUTION_KEPT);
	stmt_text(&q, session);
	stmt_u64(&q, limit);
	while (n < limit && (got = stmt_step(&q, "logs of", session, e)) > 0) {
		stmt_copy_text(&q, ret[n].id, sizeof(ret[n].id));
		ret[n++].bytes = stmt_get_u64(&q);
	}
	stmt_close(&q);
	*ret_n = n;
	return got < 0 ? -1 : 0;
}

int store_execution_logs_size(struct store *s, const char *session, uint64_t *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_EXECUTION_KEPT_BYTES);
	stmt_text(&q, session);
	got = stmt_step(&q, "logs of", session, e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_execution_logs_by_tenant(struct store *s, store_execution_sum_fn *fn, void *cookie,
				   struct err *e)
{
	char tenant[STORE_ID_MAX];
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_EXECUTION_KEPT_BY_TENANT);
	while ((got = stmt_step(&q, "logs of", "all", e)) > 0) {
		stmt_copy_text(&q, tenant, sizeof(tenant));
		fn(tenant, stmt_get_u64(&q), cookie);
	}
	stmt_close(&q);
	return got;
}

int store_execution_log_removed(struct store *s, const char *id, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_EXECUTION_LOG_REMOVED);
	stmt_text(&q, id);
	return stmt_run(&q, true, "execution", id, e);
}

int store_execution_by_mark(struct store *s, const char *session, uint64_t mark,
			    char ret_id[STORE_ID_MAX], struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_EXECUTION_BY_MARK);
	stmt_text(&q, session);
	stmt_u64(&q, mark);
	got = stmt_step(&q, "execution by mark of", session, e);
	if (got > 0)
		stmt_copy_text(&q, ret_id, STORE_ID_MAX);
	else if (got == 0)
		got = err_set(e, ERR_NOT_FOUND, "store: session %.40s: no execution of that mark",
			      session);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_execution_had_interpreter(struct store *s, const char *session, bool *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_EXECUTION_INTERPRETER);
	stmt_text(&q, session);
	got = stmt_step(&q, "interpreter of", session, e);
	stmt_close(&q);
	*ret = got > 0;
	return got < 0 ? -1 : 0;
}

int store_execution_each_secrets(struct store *s, const char *session, store_execution_text_fn *fn,
				 void *cookie, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_EXECUTION_SECRETS);
	stmt_text(&q, session);
	while ((got = stmt_step(&q, "secrets of", session, e)) > 0)
		fn(stmt_get_text(&q), cookie);
	stmt_close(&q);
	return got;
}
