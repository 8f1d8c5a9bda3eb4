/* Opening, transactions, schema versions and what goes wrong. */
#include "daemon/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "daemon/store/schema.h"
#include "daemon/store/store_event.h"
#include "daemon/store/store_execution.h"
#include "daemon/store/store_records.h"
#include "store_support.h"

static void opens_and_opens_again(void)
{
	struct store *s;
	struct stat st;
	struct err e;
	char value[8];
	int before = count_fds();

	make_dir();
	s = open_store();
	MUST(store_meta_set(s, "boot", "one", &e));
	MUST(store_meta_set(s, "boot", "two", &e));
	MUST(store_meta_get(s, "boot", value, sizeof(value), &e));
	CHECK_STR(value, "two");
	FAILS(store_meta_get(s, "none", value, sizeof(value), &e), ERR_NOT_FOUND);
	FAILS(store_meta_get(s, "boot", value, 3, &e), ERR_LIMIT);
	MUST(store_meta_get(s, "boot", value, 4, &e));
	CHECK(stat(db_path(), &st) == 0 && (st.st_mode & 0777) == 0600);
	store_close(s);
	store_close(NULL);
	s = open_store();
	MUST(store_meta_get(s, "boot", value, sizeof(value), &e));
	CHECK_STR(value, "two");
	end_store(s);
	CHECK(count_fds() == before);
}

static void does_not_open(void)
{
	struct store *s = NULL;
	struct err e;
	int before, fd;

	make_dir();
	before = count_fds();
	FAILS(store_open(&s, "/nowhere", &e), ERR_SYSTEM);
	CHECK(e.sys == ENOENT);
	fd = open(db_path(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(write(fd,
		    "this is not a database, and longer than a header of one is, which has 100 "
		    "bytes, so here are some more of them",
		    110) == 110);
	(void)close(fd);
	FAILS(store_open(&s, test_dir, &e), ERR_INVALID);
	CHECK(unlink(db_path()) == 0 && symlink("/etc/passwd", db_path()) == 0);
	FAILS(store_open(&s, test_dir, &e), ERR_SYSTEM);
	CHECK(e.sys == ELOOP && s == NULL && count_fds() == before);
	remove_dir();
}

static void database_of_another_program(void)
{
	struct store *s = NULL;
	sqlite3 *db;
	struct err e;

	make_dir();
	db = other_connection();
	other_runs(db, "CREATE TABLE theirs (x)");
	CHECK(sqlite3_close(db) == SQLITE_OK);
	FAILS(store_open(&s, test_dir, &e), ERR_INVALID);
	CHECK_HAS("words", e.msg, "not a database of Cordon's");
	remove_dir();
}

static void newer_schema_is_refused(void)
{
	struct store *s = new_store();
	sqlite3 *db;
	struct err e;

	store_close(s);
	db = other_connection();
	other_runs(db, "PRAGMA user_version = 1000");
	CHECK(sqlite3_close(db) == SQLITE_OK);
	FAILS(store_open(&s, test_dir, &e), ERR_UNSUPPORTED);
	CHECK_HAS("version", e.msg, "schema version 1000");
	CHECK_HAS("why", e.msg, "newer Cordon");
	remove_dir();
}

static int count_session(const struct store_session *row, void *cookie)
{
	return add_id(cookie, row->id);
}

static int count_execution(const struct store_execution *row, void *cookie)
{
	CHECK_STR(row->command, "make -j2");
	return add_id(cookie, row->id);
}

static int count_event(const struct store_event *row, void *cookie)
{
	return add_id(cookie, row->type);
}

static void load_dump(sqlite3 *db, const char *path)
{
	char text[16384];
	struct err e;

	CHECK(io_read_file(AT_FDCWD, path, text, sizeof(text), &e) > 0);
	other_runs(db, text);
}

/* A database that the first version made, rows and all, is good for the one of today. */
static void first_version_still_opens(void)
{
	struct store_session_filter all = { .tenant = "ten_0000000000000001", .ascending = true };
	struct store_event_filter events = { .tenant = "ten_0000000000000001" };
	struct ids ids = { 0 };
	struct store_session row;
	struct store *s;
	sqlite3 *db;
	struct err e;

	make_dir();
	db = other_connection();
	load_dump(db, STORE_V1_SQL);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	s = open_store();
	MUST(store_session_list(s, &all, count_session, &ids, NULL, &e));
	CHECK_STR(ids.text, "ses_0000000000000001 ses_0000000000000002");
	MUST(store_session_get(s, "ses_0000000000000002", &row, &e));
	CHECK_STR(row.metadata, "{\"team\":\"red\"}");
	CHECK(row.env_len == 4 && memcmp(row.env, "A=b", 4) == 0 && row.pid == 77);
	CHECK(row.limits.memory_bytes == 536870912 && row.deadline_ms == 1700000300000);
	store_session_release(&row);
	ids = (struct ids){ 0 };
	MUST(store_execution_each_live(s, NULL, count_execution, &ids, &e));
	CHECK_STR(ids.text, "exe_0000000000000001");
	ids = (struct ids){ 0 };
	MUST(store_event_list(s, &events, count_event, &ids, NULL, &e));
	CHECK_STR(ids.text, "session.created session.started");
	/* and can be written to */
	row = a_session("ses_new", "ten_0000000000000001", 5);
	MUST(store_session_insert(s, &row, &e));
	end_store(s);
}

/* The first step still makes what it made then, byte for byte. */
static void first_step_is_never_changed(void)
{
	sqlite3 *db, *memory = NULL;
	char attach[160];
	struct err e;

	make_dir();
	db = other_connection();
	load_dump(db, STORE_V1_SQL);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	CHECK(sqlite3_open(":memory:", &memory) == SQLITE_OK);
	MUST(schema_migrate(memory, schema_steps, 1, &e));
	(void)snprintf(attach, sizeof(attach), "ATTACH '%s' AS then_", db_path());
	other_runs(memory, attach);
	CHECK(number(memory, "SELECT count(*) FROM then_.sqlite_schema") > 10);
	CHECK(number(memory,
		     "SELECT count(*) FROM (SELECT name, sql FROM then_.sqlite_schema EXCEPT"
		     " SELECT name, sql FROM main.sqlite_schema)") == 0);
	CHECK(number(memory, "SELECT count(*) FROM (SELECT name, sql FROM main.sqlite_schema EXCEPT"
			     " SELECT name, sql FROM then_.sqlite_schema)") == 0);
	CHECK(sqlite3_close(memory) == SQLITE_OK);
	remove_dir();
}

static void ignore_id(const char *id, const char *tenant, void *cookie)
{
}

/* Records of a version that did not count them count as those of today, and go as such. */
static void records_of_before_count(void)
{
	static const char tenant[] = "ten_0000000000000001";
	struct store_session row = a_session("ses_new", tenant, 5);
	uint64_t rows, bytes, had;
	struct store *s;
	sqlite3 *db;
	struct err e;

	make_dir();
	db = other_connection();
	load_dump(db, STORE_V1_SQL);
	/* characters of several bytes, and rows of the version that began to count */
	other_runs(db, "UPDATE execution SET command = 'caf\xc3\xa9'");
	MUST(schema_migrate(db, schema_steps, 10, &e));
	other_runs(db, "INSERT INTO records VALUES ('ten_0000000000000001', 1, 5000);"
		       "UPDATE session SET size = 5000 WHERE id = 'ses_0000000000000001'");
	CHECK(sqlite3_close(db) == SQLITE_OK);
	s = open_store();
	MUST(store_records_get(s, tenant, &rows, &bytes, &e));
	had = 5000 + STORE_RECORD_BASE + strlen("{\"team\":\"red\"}") + sizeof("A=b") +
	      STORE_RECORD_BASE + strlen("caf\xc3\xa9") + strlen("/home/user");
	CHECK(rows == 3 && bytes == had);
	MUST(store_session_insert(s, &row, &e));
	CHECK(store_execution_delete_some(s, "ses_0000000000000002", 9, ignore_id, NULL, &e) == 1);
	MUST(store_session_delete(s, "ses_0000000000000001", &e));
	MUST(store_session_delete(s, "ses_0000000000000002", &e));
	MUST(store_records_get(s, tenant, &rows, &bytes, &e));
	CHECK(rows == 1 && bytes == STORE_RECORD_BASE);
	end_store(s);
}

#define NEXT (STORE_VERSION + 1)

/* The machinery for the versions to come: steps are taken once, in order, whole or not at all. */
static void steps_are_taken_once(void)
{
	const char *steps[STORE_VERSION + 2];
	sqlite3 *db;
	struct err e;

	make_dir();
	memcpy(steps, schema_steps, STORE_VERSION * sizeof(steps[0]));
	steps[NEXT - 1] = "ALTER TABLE session ADD COLUMN color TEXT";
	steps[NEXT] = "CREATE TABLE one (x); INSERT INTO nowhere VALUES (1)";
	store_close(open_store()); /* by the real thing */
	db = other_connection();
	CHECK(number(db, "PRAGMA user_version") == STORE_VERSION);
	other_runs(db, "INSERT INTO meta VALUES ('a', 'b')");
	MUST(schema_migrate(db, steps, NEXT, &e));
	CHECK(number(db, "PRAGMA user_version") == NEXT);
	CHECK(number(db, "SELECT count(color) FROM session") == 0);
	CHECK(number(db, "SELECT count(*) FROM meta") == 1);
	MUST(schema_migrate(db, steps, NEXT, &e)); /* nothing to do: the column is there */
	e = (struct err){ 0 };
	CHECK(schema_migrate(db, steps, NEXT + 1, &e) < 0);
	CHECK_HAS("which", e.msg, ": store: schema");
	CHECK(number(db, "PRAGMA user_version") == NEXT);
	CHECK(number(db, "SELECT count(*) FROM one") == -1); /* the first half is gone, too */
	CHECK(sqlite3_get_autocommit(db) != 0);
	e = (struct err){ 0 };
	CHECK(schema_migrate(db, steps, STORE_VERSION, &e) < 0 && e.code == ERR_UNSUPPORTED);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	remove_dir();
}

/* Version 36 puts a result of packages between the first and the second. */
static void results_of_packages_keep_their_meaning(void)
{
	sqlite3 *db;
	struct err e;

	make_dir();
	CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
	MUST(schema_migrate(db, schema_steps, 35, &e));
	for (int i = 0; i < 6; i++) {
		char sql[256];

		(void)snprintf(sql, sizeof(sql),
			       "INSERT INTO package VALUES (%d, '', '', '', '', '%d', '', %d, 0, 0,"
			       " 0, 0, 0, 0, '', '{}')",
			       i + 1, i, i);
		other_runs(db, sql);
	}
	MUST(schema_migrate(db, schema_steps, 36, &e));
	CHECK(number(db, "SELECT result FROM package WHERE name = '0'") == 0);
	CHECK(number(db, "SELECT count(*) FROM package WHERE result = name + 1") == 5);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	remove_dir();
}

/* What the first version wrote is there in the newest, with what came later at its default. */
static void first_version_is_opened(void)
{
	sqlite3 *db;
	struct store_execution x;
	struct store *s;
	struct err e;

	make_dir();
	CHECK(sqlite3_open(db_path(), &db) == SQLITE_OK);
	MUST(schema_migrate(db, schema_steps, 1, &e));
	other_runs(db, "INSERT INTO tenant VALUES ('ten_a', 'a', 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)");
	other_runs(db, "INSERT INTO session VALUES ('ses_1', 'ten_a', 1, 0, 1, 1, 0, 0, 0, 0, '', "
		       "0, '', 'host',"
		       " 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', '', '', '', x'')");
	other_runs(db, "INSERT INTO execution VALUES ('exe_1', 'ses_1', 'ten_a', 0, 7, 1, 1, 1, 0, "
		       "0, 0, 0, '', 0,"
		       " 0, '', 0, 0, 0, 0, 0, 0, '', '', zeroblob(32), 'true')");
	CHECK(sqlite3_close(db) == SQLITE_OK);
	s = open_store();
	MUST(store_execution_get(s, "exe_1", &x, &e));
	CHECK(x.handle == 7 && x.output_limit == 0 && !x.output_open && x.mark == 0);
	CHECK_STR(x.command, "true");
	store_execution_release(&x);
	store_close(s);
	remove_dir();
}

static int add_one(const struct store_session *row, void *cookie)
{
	unsigned *n = cookie;

	++*n;
	return 0;
}

static unsigned live(struct store *s)
{
	unsigned n = 0;
	struct err e;

	MUST(store_session_each_live(s, add_one, &n, &e));
	return n;
}

static void transactions_are_whole(void)
{
	struct store *s = new_store();
	struct store_session row = a_session("ses_1", "ten_a", 1),
			     two = a_session("ses_2", "ten_a", 2);
	struct store_event event = { .tenant = "ten_a", .session = "ses_1", .type = "t" };
	uint64_t seq = 99;
	struct err e;

	MUST(store_begin(s, &e));
	MUST(store_session_insert(s, &row, &e));
	MUST(store_event_append(s, &event, &seq, &e));
	store_rollback(s);
	CHECK(live(s) == 0);
	MUST(store_event_last(s, &seq, &e));
	CHECK(seq == 0);
	FAILS(store_commit(s, &e), ERR_CONFLICT);
	store_rollback(s);
	MUST(store_begin(s, &e));
	MUST(store_session_insert(s, &row, &e));
	MUST(store_event_append(s, &event, &seq, &e));
	MUST(store_commit(s, &e));
	CHECK(live(s) == 1 && seq == 1);
	/* what fails takes the rest with it */
	MUST(store_begin(s, &e));
	MUST(store_session_insert(s, &two, &e));
	FAILS(store_session_insert(s, &row, &e), ERR_CONFLICT);
	FAILS(store_commit(s, &e), ERR_CONFLICT);
	CHECK(live(s) == 1);
	/* a reader that finds nothing does not */
	MUST(store_begin(s, &e));
	MUST(store_session_insert(s, &two, &e));
	FAILS(store_session_get(s, "ses_none", &row, &e), ERR_NOT_FOUND);
	MUST(store_commit(s, &e));
	CHECK(live(s) == 2);
	/* closed in the middle: taken back */
	MUST(store_begin(s, &e));
	MUST(store_session_delete(s, "ses_2", &e));
	store_close(s);
	s = open_store();
	CHECK(live(s) == 2);
	end_store(s);
}

static void busy_is_said_and_survived(void)
{
	struct store *s = new_store();
	struct store_session row = a_session("ses_1", "ten_a", 1);
	sqlite3 *db = other_connection();
	struct err e;

	other_runs(db, "BEGIN IMMEDIATE");
	FAILS(store_begin(s, &e), ERR_SYSTEM);
	CHECK(e.reason == REASON_UNAVAILABLE);
	CHECK_HAS("words", e.msg, "another process holds the database");
	FAILS(store_session_insert(s, &row, &e), ERR_SYSTEM);
	CHECK(e.reason == REASON_UNAVAILABLE && live(s) == 0); /* reading goes on */
	other_runs(db, "ROLLBACK");
	MUST(store_session_insert(s, &row, &e));
	CHECK(live(s) == 1);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	end_store(s);
}

/* Until nothing fits any more; then once more with room. `grow` is given the means to make room. */
static void fill_and_recover(struct store *s, void (*make_room)(void))
{
	static char big[20000];
	struct store_session row;
	struct err e = { 0 };
	unsigned n = 0;
	char id[STORE_ID_MAX];

	memset(big, 'x', sizeof(big) - 1);
	for (;; n++) {
		(void)snprintf(id, sizeof(id), "ses_%u", n);
		row = a_session(id, "ten_a", n);
		row.metadata = big;
		if (store_begin(s, &e) < 0 || store_session_insert(s, &row, &e) < 0 ||
		    store_commit(s, &e) < 0)
			break;
		CHECK(n < 10000);
	}
	CHECK(n > 2);
	CHECK(e.code == ERR_LIMIT && e.reason == REASON_STORAGE_FULL);
	CHECK_HAS("words", e.msg, "the disk is full");
	CHECK(live(s) == n); /* reads, and all that was acknowledged is there */
	FAILS(store_commit(s, &e), ERR_CONFLICT);
	FAILS(store_session_insert(s, &row, &e), ERR_LIMIT);
	make_room();
	MUST(store_session_insert(s, &row, &e));
	CHECK(live(s) == n + 1);
	store_close(s);
	s = open_store();
	CHECK(live(s) == n + 1);
	store_close(s);
}

static void more_tmpfs(void)
{
	CHECK(mount("none", test_dir, NULL, MS_REMOUNT, "size=64m") == 0);
}

static void full_disk(void)
{
	/* a mount namespace of its own: the machine sees nothing of it */
	if (unshare(CLONE_NEWNS) < 0)
		SKIP("mounting a small file system needs root");
	CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	make_dir();
	CHECK(mount("none", test_dir, "tmpfs", 0, "size=2m") == 0);
	{
		struct store_tenant a = { .id = "ten_a", .name = "a" };
		struct store *s = open_store();
		struct err e;

		MUST(store_tenant_insert(s, &a, &e));
		fill_and_recover(s, more_tmpfs);
	}
	CHECK(umount(test_dir) == 0);
	remove_dir();
}

static void set_number(struct store *s, unsigned i)
{
	static char text[65536];
	char key[32];
	struct err e;

	memset(text, 'a' + (int)(i % 26), sizeof(text) - 1);
	(void)snprintf(key, sizeof(key), "n%u", i % 50);
	MUST(store_meta_set(s, key, text, &e));
}

/* Far fewer pages than a store without the thread keeps in its journal. */
static void journal_is_emptied_by_a_thread(void)
{
	static char text[65536];
	struct store *s = new_store();
	unsigned i = 0;
	struct err e;

	MUST(store_checkpoint_in_thread(s, &e));
	while (i < 5 * STORE_CHECKPOINT_PAGES / 16)
		set_number(s, i++);
	for (int tries = 0; store_journal_pages(s) >= STORE_CHECKPOINT_PAGES; tries++) {
		CHECK(tries < 2000);
		CHECK(usleep(10000) == 0);
		MUST(store_meta_set(s, "small", tries % 2 == 0 ? "x" : "y", &e));
	}
	store_close(s);
	s = open_store();
	MUST(store_meta_get(s, "n7", text, sizeof(text), &e));
	CHECK(strlen(text) == sizeof(text) - 1);
	end_store(s);
}

/* Writes sessions with their events for as long as it lives, and says each number on the pipe after
 * its commit. */
static NORETURN void commit_for_ever(int to, unsigned n)
{
	struct store *s = open_store();
	struct err e;

	MUST(store_checkpoint_in_thread(s, &e));
	for (;; n++) {
		char id[STORE_ID_MAX];
		struct store_session row;
		struct store_event event = { .tenant = "ten_a", .type = "created" };

		(void)snprintf(id, sizeof(id), "ses_%u", n);
		row = a_session(id, "ten_a", n);
		memcpy(event.session, row.id, sizeof(event.session));
		MUST(store_begin(s, &e));
		MUST(store_session_insert(s, &row, &e));
		MUST(store_event_append(s, &event, NULL, &e));
		MUST(store_commit(s, &e));
		if (write(to, &n, sizeof(n)) != (ssize_t)sizeof(n))
			_exit(1);
	}
}

static unsigned kill_one(unsigned start, useconds_t after_us)
{
	unsigned n, last = start;
	int ends[2], status;
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0)
		commit_for_ever(ends[1], start);
	(void)close(ends[1]);
	CHECK(read(ends[0], &n, sizeof(n)) == (ssize_t)sizeof(n)); /* it has begun */
	(void)usleep(after_us);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	do
		last = n + 1;
	while (read(ends[0], &n, sizeof(n)) == (ssize_t)sizeof(n));
	(void)close(ends[0]);
	return last;
}

/* What was acknowledged is there; of what was not, all or nothing, and at most one. */
static void kill_9_loses_nothing(void)
{
	unsigned acknowledged = 0, rounds = 40;
	struct store *s = new_store();
	sqlite3 *db;

	store_close(s);
	for (unsigned i = 0; i < rounds; i++) {
		int64_t sessions, events;

		acknowledged = kill_one(acknowledged, 997 * i % 9000);
		db = other_connection();
		sessions = number(db, "SELECT count(*) FROM session");
		events = number(db, "SELECT count(*) FROM event");
		CHECK(sessions == acknowledged || sessions == acknowledged + 1);
		CHECK(events == sessions);
		CHECK(number(db, "SELECT count(*) FROM session JOIN event ON event.session = "
				 "session.id") == sessions);
		CHECK(number(db, "SELECT max(created_ms) FROM session") == sessions - 1);
		CHECK(sqlite3_close(db) == SQLITE_OK);
		acknowledged = (unsigned)sessions;
	}
	CHECK(acknowledged > rounds);
	printf("# %u commits, %u kills\n", acknowledged, rounds);
	db = other_connection();
	CHECK(number(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") == 1);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	remove_dir();
}

TEST_MAIN({ "opens, remembers, opens again", opens_and_opens_again },
	  { "what is no database does not open", does_not_open },
	  { "the database of another program is left alone", database_of_another_program },
	  { "a newer schema is refused", newer_schema_is_refused },
	  { "the first version still opens", first_version_still_opens },
	  { "the first step is never changed", first_step_is_never_changed },
	  { "steps of the schema are taken once", steps_are_taken_once },
	  { "results of packages keep their meaning", results_of_packages_keep_their_meaning },
	  { "a database of the first version is opened", first_version_is_opened },
	  { "records of before count", records_of_before_count },
	  { "transactions are whole", transactions_are_whole },
	  { "busy is said and survived", busy_is_said_and_survived },
	  { "a full disk is said and survived", full_disk },
	  { "a thread empties the journal", journal_is_emptied_by_a_thread },
	  { "kill -9 loses nothing that was acknowledged", kill_9_loses_nothing })
