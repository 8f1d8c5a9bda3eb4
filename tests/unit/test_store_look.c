/* Lists over a hundred thousand rows: a call does a bounded amount of work, whatever its filter
 * matches. Work is counted in steps of SQLite's virtual machine, not in time. */
#include "daemon/store/stmt.h"
#include "daemon/store/store_event.h"
#include "daemon/store/store_execution.h"
#include "daemon/store/store_key.h"
#include "daemon/store/store_net.h"
#include "store_support.h"

#define ROWS 100000
#define LOOK 256
#define STEPS_PER_ROW 40 /* an index entry, or a row by its number */

#define NUMBERS "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "

static uint64_t steps_taken(struct store *s)
{
	uint64_t sum = 0;

	for (sqlite3_stmt *st = NULL; (st = sqlite3_next_stmt(s->db, st)) != NULL;)
		sum += (uint64_t)sqlite3_stmt_status(st, SQLITE_STMTSTATUS_VM_STEP, 1);
	return sum;
}

static struct store *store_with(const char *sql)
{
	struct store *s = new_store();
	struct store_session one = a_session("ses_1", "ten_a", 1);
	sqlite3 *db;
	struct err e;

	one.ended_ms = 1;
	MUST(store_session_insert(s, &one, &e));
	db = other_connection();
	other_runs(db, sql);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	(void)steps_taken(s);
	return s;
}

static int any(void)
{
	return 0;
}

static int no_execution(const struct store_execution *row, void *cookie)
{
	return any();
}

static void executions(void)
{
	struct store *s = store_with(
		"INSERT INTO execution (id, session, tenant, kind, handle, state, created_ms,"
		" started_ms, ended_ms, timeout_ms, exit_code, signal, limit_hit, timed_out,"
		" error_code, error, out_bytes, err_bytes, log_bytes, truncated, cpu_us, tty, user,"
		" cwd, command_hash, command) " NUMBERS
		"SELECT 'exe_' || i, 'ses_1', 'ten_a', 0, 0, 2, i, i, i, 0, 0, 0, '', 0, 0, '', 0,"
		" 0, 0, 0, 0, 0, '', '', zeroblob(32), 'true' FROM n");
	struct store_execution_filter f = { .session = "ses_1", .states = 1 << 1, .limit = LOOK };
	struct store_looked looked = { 0 };
	unsigned pages = 0;
	char after[STORE_ID_MAX];
	struct err e;

	do {
		MUST(store_execution_list(s, &f, no_execution, NULL, &looked, &e));
		CHECK(steps_taken(s) < LOOK * STEPS_PER_ROW);
		memcpy(after, looked.id, sizeof(after));
		f.after_ms = looked.ms;
		f.after_id = after;
		pages++;
	} while (!looked.end);
	CHECK(pages == ROWS / LOOK + 1);
	end_store(s);
}

static int no_session(const struct store_session *row, void *cookie)
{
	return any();
}

static void sessions(void)
{
	struct store *s = store_with(
		"INSERT INTO session (id, tenant, state, reason, created_ms, started_ms, ended_ms,"
		" deadline_ms, paused_since_ms, paused_total_ms, boot_id, pid, detail, template,"
		" profile, level, timeout_ms, idle_ms, on_timeout, on_idle, memory_bytes, "
		"cpu_millis,"
		" pids, disk_bytes, inodes, nofile, output_bytes, used_cpu_us, used_memory_peak,"
		" used_disk, used_bytes_out, metadata, rules, network, mounts, env) " NUMBERS
		"SELECT 'ses_n' || i, 'ten_a', 6, 0, i, i, i, 0, 0, 0, '', 0, '', 'host', 0, 0, 0, "
		"0,"
		" 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', '', '', '', x'' FROM n");
	struct store_session_filter f = { .tenant = "ten_a", .states = 1, .limit = LOOK };
	char id[STORE_ID_MAX];
	struct store_looked looked;
	uint64_t ms;
	struct err e;

	MUST(store_session_list(s, &f, no_session, NULL, &looked, &e));
	CHECK(looked.rows == LOOK && !looked.end && steps_taken(s) < LOOK * STEPS_PER_ROW);
	f = (struct store_session_filter){ .tenant = "ten_a", .template = "none", .limit = LOOK };
	MUST(store_session_list(s, &f, no_session, NULL, &looked, &e));
	CHECK(looked.rows == LOOK && !looked.end && steps_taken(s) < LOOK * STEPS_PER_ROW);
	/* what retention asks */
	CHECK(store_session_next_ended(s, 50000, "ses_n50000", 99999, &ms, id, &e) == 1);
	CHECK(ms == 50001 && steps_taken(s) < 100);
	end_store(s);
}

static int no_record(const struct store_net *row, void *cookie)
{
	return any();
}

static void network_records(void)
{
	struct store *s = store_with(
		"INSERT INTO net (tenant, session, time_ms, kind, allowed, name, data) " NUMBERS
		"SELECT 'ten_a', 'ses_1', i, 'dns', 0, 'name', '{}' FROM n");
	struct store_net_filter f = {
		.session = "ses_1", .verdict = STORE_NET_ANY, .name = "nosuch", .limit = LOOK
	};
	struct store_looked looked;
	struct err e;

	MUST(store_net_list(s, &f, no_record, NULL, &looked, &e));
	CHECK(looked.rows == LOOK && looked.seq == LOOK && !looked.end);
	CHECK(steps_taken(s) < LOOK * STEPS_PER_ROW);
	/* a follower that has looked at all of them looks at none again */
	f.after_seq = ROWS;
	MUST(store_net_list(s, &f, no_record, NULL, &looked, &e));
	CHECK(looked.rows == 0 && looked.seq == ROWS && looked.end && steps_taken(s) < 100);
	end_store(s);
}

static int no_event(const struct store_event *row, void *cookie)
{
	uint64_t *last = cookie;

	*last = row->seq;
	return 0;
}

static void events(void)
{
	struct store *s = store_with(
		"INSERT INTO event (tenant, session, execution, time_ms, type, data) " NUMBERS
		"SELECT 'ten_a', 'ses_1', '', i, 't', '' FROM n");
	struct store_event_filter f = {
		.tenant = "ten_a", .session = "ses_1", .descending = true, .limit = LOOK
	};
	struct store_looked looked;
	uint64_t last = 0;
	struct err e;

	MUST(store_event_list(s, &f, no_event, &last, &looked, &e));
	CHECK(looked.rows == LOOK && last == ROWS - LOOK + 1 && looked.seq == last);
	CHECK(steps_taken(s) < LOOK * STEPS_PER_ROW);
	CHECK(store_event_drop(s, "ten_a", LOOK, &e) == LOOK);
	CHECK(steps_taken(s) < LOOK * 2 * STEPS_PER_ROW);
	end_store(s);
}

/* The file gets smaller when a large part of it is free, in small steps. */
static void the_file_shrinks(void)
{
	struct store *s = store_with(
		"INSERT INTO event (tenant, session, execution, time_ms, type, data) " NUMBERS
		"SELECT 'ten_a', 'ses_1', '', i, 't', hex(zeroblob(60)) FROM n");
	unsigned calls = 0;
	struct err e;
	int n;

	CHECK(store_can_shrink(s));
	CHECK(store_shrink(s, 64, &e) == 0); /* nothing is free */
	for (int left = ROWS - 100; left > 0; left -= n) {
		n = store_event_drop(s, "ten_a", left < 5000 ? (unsigned)left : 5000, &e);
		CHECK(n > 0);
	}
	while ((n = store_shrink(s, 64, &e)) > 0)
		calls++;
	CHECK(n == 0 && calls > 10);
	end_store(s);
}

TEST_MAIN({ "executions", executions }, { "sessions", sessions },
	  { "network records", network_records }, { "events", events },
	  { "the file shrinks", the_file_shrinks })
