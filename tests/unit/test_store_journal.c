/* The journal's VFS: one write for a commit, and the same files as with SQLite's own VFS whatever
 * happens in between. Kills and full disks are in test_store.c. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/store_audit.h"
#include "daemon/store/store_event.h"
#include "store_support.h"

#define LONG 3000 /* bytes of an event: about one page */

static char filler[LONG + 1];

static int append(struct store *s, unsigned events, struct err *e)
{
	struct store_event row = { .tenant = "ten_a", .type = "test", .data = filler };

	memset(filler, 'x', LONG);
	for (unsigned i = 0; i < events; i++)
		if (store_event_append(s, &row, NULL, e) < 0)
			return -1;
	return 0;
}

static int commit(struct store *s, unsigned events, struct err *e)
{
	if (store_begin(s, e) < 0 || append(s, events, e) < 0)
		return -1;
	return store_commit(s, e);
}

/* Calls of this process that write, or -1 where the kernel does not count them. */
static long writes(void)
{
	char text[512] = "", *at;
	int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		(void)close(fd);
	at = n <= 0 ? NULL : strstr(text, "syscw: ");
	return at == NULL ? -1 : strtol(at + 7, NULL, 10);
}

/* As another process sees it. */
static void has_events(int64_t want)
{
	sqlite3 *db = other_connection();

	CHECK(number(db, "SELECT count(*) FROM event") == want);
	CHECK(number(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") == 1);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

static void one_write_for_a_commit(void)
{
	struct store *s = new_store();
	long before, after;
	struct err e;

	MUST(commit(s, 1, &e));
	before = writes();
	if (before < 0)
		SKIP("the kernel does not count writes");
	MUST(commit(s, 20, &e)); /* more than 20 pages */
	after = writes();
	CHECK(after - before == 1);
	before = writes();
	MUST(append(s, 1, &e)); /* a transaction of its own */
	after = writes();
	CHECK(after - before == 1);
	before = writes();
	MUST(commit(s, 100, &e)); /* more than is held at once */
	after = writes();
	CHECK(after - before > 1 && after - before < 10);
	has_events(122);
	end_store(s);
}

/* Then pages are written before the commit, some of them twice. */
static void transactions_larger_than_the_cache(void)
{
	struct store *s = new_store();
	struct err e;

	MUST(commit(s, 4000, &e));
	has_events(4000);
	MUST(store_begin(s, &e));
	MUST(append(s, 4000, &e));
	store_rollback(s);
	has_events(4000);
	MUST(commit(s, 10, &e));
	has_events(4010);
	MUST(store_begin(s, &e));
	MUST(append(s, 4000, &e));
	has_events(4010);
	MUST(store_commit(s, &e));
	has_events(8010);
	store_close(s);
	has_events(8010);
	s = open_store();
	end_store(s);
}

/* Other processes may write, too: where this one would write next. */
static void others_write_in_between(void)
{
	struct store *s = new_store();
	sqlite3 *db = other_connection();
	struct err e;

	for (unsigned i = 1; i <= 20; i++) {
		MUST(commit(s, 3, &e));
		other_runs(db,
			   "INSERT INTO event (tenant, session, execution, time_ms, type, data) "
			   "VALUES ('ten_b', '', '', 1, 'x', 'y')");
		MUST(store_begin(s, &e));
		MUST(append(s, 30, &e));
		store_rollback(s);
		other_runs(db,
			   "INSERT INTO event (tenant, session, execution, time_ms, type, data) "
			   "VALUES ('ten_b', '', '', 1, 'x', 'y')");
		if (i % 7 == 0)
			other_runs(db, "PRAGMA wal_checkpoint"); /* the journal begins anew */
		has_events(5 * (int64_t)i);
	}
	CHECK(sqlite3_close(db) == SQLITE_OK);
	end_store(s);
}

static bool sees_events(struct store *s, uint64_t want)
{
	uint64_t n = 0;
	struct err e;

	MUST(store_event_count(s, "ten_a", &n, &e));
	return n == want;
}

/* Statements share a view, but not for long, and this process's own changes are in it at once. */
static void views_are_renewed(void)
{
	struct store *s = new_store();
	sqlite3 *db = other_connection();
	struct err e;

	for (unsigned i = 1; i <= 20; i++) {
		MUST(append(s, 1, &e));
		CHECK(sees_events(s, 2 * i - 1));
		other_runs(db,
			   "INSERT INTO event (tenant, session, execution, time_ms, type, data) "
			   "VALUES ('ten_a', '', '', 1, 'x', 'y')");
		for (unsigned tries = 0; !sees_events(s, 2 * i); tries++) {
			CHECK(tries < 10000);
			CHECK(usleep(1000) == 0);
		}
	}
	CHECK(sqlite3_close(db) == SQLITE_OK);
	end_store(s);
}

/* The view of statements is no reader that the journal would have to stay for. */
static void the_journal_is_cut(void)
{
	struct store *s = new_store();
	char path[160];
	struct stat st;
	struct err e;

	(void)snprintf(path, sizeof(path), "%s-wal", db_path());
	MUST(store_meta_set(s, "key", "value", &e));
	CHECK(sees_events(s, 0));
	CHECK(stat(path, &st) == 0 && st.st_size > 0);
	MUST(store_meta_wipe(s, "key", &e));
	CHECK(stat(path, &st) == 0 && st.st_size == 0);
	MUST(commit(s, 10, &e));
	CHECK(sees_events(s, 10));
	CHECK(stat(path, &st) == 0 && st.st_size > 0);
	MUST(store_audit_forget(s, &e));
	CHECK(stat(path, &st) == 0 && st.st_size == 0);
	end_store(s);
}

static void limit_journal(rlim_t bytes)
{
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	limit.rlim_cur = bytes;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* Of a commit whose write fails half-way nothing is there, and the next one works. */
static void failed_write(void)
{
	struct store *s = new_store();
	char path[160];
	struct stat st;
	struct err e;

	(void)signal(SIGXFSZ, SIG_IGN);
	(void)snprintf(path, sizeof(path), "%s-wal", db_path());
	MUST(commit(s, 1, &e));
	for (unsigned i = 0; i < 40; i++) {
		CHECK(stat(path, &st) == 0);
		limit_journal((rlim_t)st.st_size + 997 * i);
		FAILS(commit(s, 60, &e), e.code);
		has_events(1 + i);
		limit_journal(RLIM_INFINITY);
		MUST(commit(s, 1, &e));
		has_events(2 + i);
	}
	end_store(s);
}

TEST_MAIN({ "a commit is one write", one_write_for_a_commit },
	  { "transactions larger than the cache", transactions_larger_than_the_cache },
	  { "others write in between", others_write_in_between },
	  { "views are renewed", views_are_renewed }, { "the journal is cut", the_journal_is_cut },
	  { "a write that fails", failed_write })
