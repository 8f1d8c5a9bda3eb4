/* Rows of executions and their logs: what is written is read back, field by field. */
#include "daemon/store/store.h"

#include "daemon/store/store_execution.h"
#include "daemon/store/store_records.h"
#include "store_support.h"

static void execute(struct store *s, const char *id, const char *session, uint64_t created_ms)
{
	struct store_execution row = { .tenant = "ten_a", .created_ms = created_ms };
	struct err e;

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.session, sizeof(row.session), "%s", session);
	MUST(store_execution_insert(s, &row, &e));
}

static const struct store_execution full_execution = {
	.id = "exe_1",
	.session = "ses_1",
	.tenant = "ten_a",
	.kind = 1,
	.command_hash = { 0, 1, 2, 255 },
	.command = "echo 'x'",
	.cwd = "/home/user",
	.user = "user",
	.tty = true,
	.created_ms = 2,
	.timeout_ms = 3,
	.handle = UINT32_MAX,
	.state = 5,
	.started_ms = 6,
	.ended_ms = 7,
	.exit_code = -8,
	.signal = 9,
	.limit = "memory",
	.timed_out = true,
	.error_code = 10,
	.error = "no such file",
	.out_bytes = 11,
	.err_bytes = 12,
	.log_bytes = 13,
	.truncated = true,
	.cpu_us = 14,
	.output_open = true,
	.mark = (1ULL << 62) - 1,
	.client = "{\"cmd\":\"x\"}",
	.output_limit = 15,
};

static void same_execution(const struct store_execution *got, const struct store_execution *want)
{
	CHECK_STR(got->id, want->id);
	CHECK_STR(got->session, want->session);
	CHECK_STR(got->tenant, want->tenant);
	CHECK(memcmp(got->command_hash, want->command_hash, sizeof(got->command_hash)) == 0);
	CHECK_STR(got->command, want->command);
	CHECK_STR(got->cwd, want->cwd);
	CHECK_STR(got->user, want->user);
	CHECK(got->kind == want->kind && got->tty == want->tty && got->handle == want->handle);
	CHECK(got->created_ms == want->created_ms && got->timeout_ms == want->timeout_ms);
	CHECK(got->state == want->state && got->started_ms == want->started_ms);
	CHECK(got->ended_ms == want->ended_ms && got->exit_code == want->exit_code);
	CHECK(got->signal == want->signal && got->timed_out == want->timed_out);
	CHECK_STR(got->limit, want->limit);
	CHECK(got->error_code == want->error_code);
	CHECK_STR(got->error, want->error);
	CHECK(got->out_bytes == want->out_bytes && got->err_bytes == want->err_bytes);
	CHECK(got->log_bytes == want->log_bytes && got->truncated == want->truncated);
	CHECK(got->cpu_us == want->cpu_us && got->output_open == want->output_open);
	CHECK(got->mark == want->mark && got->output_limit == want->output_limit);
	CHECK_STR(got->client, want->client);
}

static void execution_there_and_back(void)
{
	struct store *s = six_sessions();
	struct store_execution want = full_execution, got, other;
	struct err e;

	MUST(store_execution_insert(s, &want, &e));
	memset(&got, 0xff, sizeof(got));
	MUST(store_execution_get(s, "exe_1", &got, &e));
	same_execution(&got, &want);
	store_execution_release(&got);
	other = (struct store_execution){ .id = "exe_1",
					  .handle = 1,
					  .state = 50,
					  .started_ms = 60,
					  .ended_ms = 70,
					  .exit_code = 80,
					  .signal = 90,
					  .limit = "pids",
					  .error_code = 100,
					  .error = "x",
					  .out_bytes = 110,
					  .err_bytes = 120,
					  .log_bytes = 130,
					  .cpu_us = 140,
					  .mark = 150,
					  .client = "",
					  .command = "no" };
	MUST(store_execution_update(s, &other, &e));
	MUST(store_execution_get(s, "exe_1", &got, &e));
	memcpy(other.session, want.session, sizeof(other.session));
	memcpy(other.tenant, want.tenant, sizeof(other.tenant));
	memcpy(other.user, want.user, sizeof(other.user));
	memcpy(other.command_hash, want.command_hash, sizeof(other.command_hash));
	other.kind = want.kind;
	other.command = want.command;
	other.cwd = want.cwd;
	other.tty = want.tty;
	other.created_ms = want.created_ms;
	other.timeout_ms = want.timeout_ms;
	other.output_limit = want.output_limit;
	same_execution(&got, &other);
	store_execution_release(&got);
	FAILS(store_execution_insert(s, &want, &e), ERR_CONFLICT);
	memcpy(want.id, "exe_x", 6);
	FAILS(store_execution_update(s, &want, &e), ERR_NOT_FOUND);
	FAILS(store_execution_get(s, "exe_x", &got, &e), ERR_NOT_FOUND);
	memcpy(want.session, "ses_x", 6);
	FAILS(store_execution_insert(s, &want, &e), ERR_NOT_FOUND);
	end_store(s);
}

static int add_execution(const struct store_execution *row, void *cookie)
{
	return add_id(cookie, row->id);
}

static void execution_pages(void)
{
	struct store *s = six_sessions();
	struct store_execution_filter f = { .session = "ses_1", .limit = 2 };
	struct store_execution ended = { .id = "exe_2", .ended_ms = 1 };
	struct store_looked looked;
	struct ids ids = { 0 };
	uint64_t n, bytes;
	struct err e;

	execute(s, "exe_1", "ses_1", 5);
	execute(s, "exe_2", "ses_1", 6);
	execute(s, "exe_3", "ses_1", 6);
	execute(s, "exe_4", "ses_2", 1);
	MUST(store_execution_list(s, &f, add_execution, &ids, NULL, &e));
	CHECK_STR(ids.text, "exe_3 exe_2");
	f.after_ms = 6;
	f.after_id = "exe_2";
	ids = (struct ids){ 0 };
	MUST(store_execution_list(s, &f, add_execution, &ids, NULL, &e));
	CHECK_STR(ids.text, "exe_1");
	f = (struct store_execution_filter){ .session = "ses_1", .ascending = true };
	ids = (struct ids){ 0 };
	MUST(store_execution_list(s, &f, add_execution, &ids, NULL, &e));
	CHECK_STR(ids.text, "exe_1 exe_2 exe_3");
	f.after_ms = 6;
	f.after_id = "exe_2";
	ids = (struct ids){ 0 };
	MUST(store_execution_list(s, &f, add_execution, &ids, NULL, &e));
	CHECK_STR(ids.text, "exe_3");
	MUST(store_execution_update(s, &ended, &e));
	ids = (struct ids){ 0 };
	MUST(store_execution_each_live(s, NULL, add_execution, &ids, &e));
	CHECK_STR(ids.text, "exe_4 exe_1 exe_3");
	ids = (struct ids){ 0 };
	MUST(store_execution_each_live(s, "ses_1", add_execution, &ids, &e));
	CHECK_STR(ids.text, "exe_1 exe_3");
	MUST(store_execution_count(s, "ses_1", &n, &bytes, &e));
	CHECK(n == 3 && bytes == 3 * STORE_RECORD_BASE);
	/* a filter hides rows, and the cursor is behind what was looked at */
	f = (struct store_execution_filter){ .session = "ses_1", .states = 1 << 5, .limit = 2 };
	ids = (struct ids){ 0 };
	MUST(store_execution_list(s, &f, add_execution, &ids, &looked, &e));
	CHECK_STR(ids.text, "exe_3");
	CHECK_STR(looked.id, "exe_2");
	CHECK(looked.rows == 2 && looked.ms == 6 && !looked.end);
	/* a row at which the callback stops was not looked at */
	ids = (struct ids){ .stop_at = 1 };
	MUST(store_execution_list(s, &f, add_execution, &ids, &looked, &e));
	CHECK(looked.rows == 0 && !looked.end && looked.id[0] == '\0');
	end_store(s);
}

static void execution_marks(void)
{
	struct store *s = six_sessions();
	struct store_execution row = { .id = "exe_2", .mark = (1ULL << 62) - 2 };
	char id[STORE_ID_MAX] = "none";
	struct err e;

	execute(s, "exe_1", "ses_1", 5); /* never ran: no mark */
	execute(s, "exe_2", "ses_1", 6);
	execute(s, "exe_3", "ses_2", 6);
	FAILS(store_execution_by_mark(s, "ses_1", row.mark, id, &e), ERR_NOT_FOUND);
	MUST(store_execution_update(s, &row, &e));
	memcpy(row.id, "exe_3", 6); /* another cell, the same mark */
	MUST(store_execution_update(s, &row, &e));
	MUST(store_execution_by_mark(s, "ses_1", row.mark, id, &e));
	CHECK_STR(id, "exe_2");
	MUST(store_execution_by_mark(s, "ses_2", row.mark, id, &e));
	CHECK_STR(id, "exe_3");
	FAILS(store_execution_by_mark(s, "ses_1", row.mark - 1, id, &e), ERR_NOT_FOUND);
	FAILS(store_execution_by_mark(s, "ses_1", 0, id, &e), ERR_NOT_FOUND);
	FAILS(store_execution_by_mark(s, "ses_3", row.mark, id, &e), ERR_NOT_FOUND);
	CHECK_STR(id, "exe_3");
	end_store(s);
}

/* The ids that store_execution_logs() gives, each with its bytes. */
static const char *logs(struct store *s, const char *session, unsigned limit)
{
	static char text[256];
	struct store_execution_log list[8];
	unsigned n = 99;
	size_t at = 0;
	struct err e;

	CHECK(limit <= COUNT(list));
	MUST(store_execution_logs(s, session, limit, list, &n, &e));
	text[0] = '\0';
	for (unsigned i = 0; i < n && i < limit; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s:%llu ", list[i].id,
				       (unsigned long long)list[i].bytes);
	return text;
}

static uint64_t logs_size(struct store *s, const char *session)
{
	uint64_t n = 99;
	struct err e;

	MUST(store_execution_logs_size(s, session, &n, &e));
	return n;
}

static void execution_logs(void)
{
	struct store *s = six_sessions();
	static const struct store_execution rows[] = {
		{ .id = "exe_1", .ended_ms = 30, .log_bytes = 100 }, /* began first, ended last */
		{ .id = "exe_2", .ended_ms = 20, .log_bytes = 10 },
		{ .id = "exe_3", .ended_ms = 20, .log_bytes = 1ULL << 40 },
		{ .id = "exe_4", .ended_ms = 10, .log_bytes = 0 }, /* said nothing */
		{ .id = "exe_5", .ended_ms = 10, .log_bytes = 5, .output_open = true },
		{ .id = "exe_6", .ended_ms = 0, .log_bytes = 5 }, /* runs */
		{ .id = "exe_7", .ended_ms = 5, .log_bytes = 7 }, /* another session's */
	};
	struct store_execution got;
	struct err e;

	CHECK(logs_size(s, "ses_1") == 0);
	CHECK_STR(logs(s, "ses_1", 8), "");
	for (size_t i = 0; i < COUNT(rows); i++) {
		execute(s, rows[i].id, i == 6 ? "ses_2" : "ses_1", i);
		MUST(store_execution_update(s, &rows[i], &e));
	}
	CHECK(logs_size(s, "ses_1") == (1ULL << 40) + 110);
	CHECK_STR(logs(s, "ses_1", 8), "exe_2:10 exe_3:1099511627776 exe_1:100 ");
	CHECK_STR(logs(s, "ses_1", 2), "exe_2:10 exe_3:1099511627776 ");
	CHECK_STR(logs(s, "ses_1", 0), "");
	CHECK_STR(logs(s, "ses_2", 8), "exe_7:7 ");
	MUST(store_execution_log_removed(s, "exe_2", &e));
	MUST(store_execution_log_removed(s, "exe_2", &e));
	FAILS(store_execution_log_removed(s, "exe_x", &e), ERR_NOT_FOUND);
	CHECK_STR(logs(s, "ses_1", 8), "exe_3:1099511627776 exe_1:100 ");
	CHECK(logs_size(s, "ses_1") == (1ULL << 40) + 100);
	MUST(store_execution_get(s, "exe_2", &got, &e));
	CHECK(got.log_bytes == 0 && got.truncated && got.ended_ms == 20);
	store_execution_release(&got);
	/* in a transaction that is taken back nothing has happened */
	MUST(store_begin(s, &e));
	MUST(store_execution_log_removed(s, "exe_3", &e));
	store_rollback(s);
	CHECK(logs_size(s, "ses_1") == (1ULL << 40) + 100);
	CHECK(logs_size(s, "ses_2") == 7);
	end_store(s);
}

TEST_MAIN({ "an execution, there and back", execution_there_and_back },
	  { "pages of executions", execution_pages }, { "executions by mark", execution_marks },
	  { "logs of a session", execution_logs })
