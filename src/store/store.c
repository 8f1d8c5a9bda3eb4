/* store.c - theory of operation
 *
 * One connection in WAL mode with synchronous=NORMAL: a commit is one write(2) into the journal
 * (journal_vfs.h) and no fsync(2), so it takes microseconds; it survives the death of this process,
 * since the kernel has it, and after a power cut the database is as it was at some earlier commit.
 * Foreign keys are on, the schema is STRICT, and the connection is DEFENSIVE: a bug of ours cannot
 * write what the schema does not know. All statements are prepared once.
 *
 * A statement that fails rolls an open transaction back (stmt.c), so that no caller has to. */
#include "store.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "checkpointer.h"
#include "journal_vfs.h"
#include "migrate.h"
#include "sql_error.h"
#include "stmt.h"
#include "store_db.h"
#include "store_room.h"

#define OPEN_BUSY_MS 2000 /* an earlier daemon may still be ending */
#define BUSY_MS 20	  /* no other process should use it, and the loop waits meanwhile */

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* Runs after each commit, with the pages that the journal has then. The thread moves most of them;
 * what it left is moved here if it is little, so that SQLite begins the journal anew. Without a
 * thread (at the start), or if it cannot keep up, everything is moved here. A checkpoint that fails
 * leaves everything in the journal, which is as safe; the next one will do it. */
static int on_commit(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *s = arg;
	unsigned in_journal = (unsigned)pages, moved = 0;
	bool idle = s->checkpointer != NULL && checkpointer_is_idle(s->checkpointer, &moved);

	s->journal_pages = in_journal;
	if (moved > in_journal) /* of the journal before this one */
		moved = 0;
	if (in_journal >= STORE_JOURNAL_PAGES || (idle && in_journal >= STORE_CHECKPOINT_PAGES &&
						  in_journal - moved <= CHECKPOINTER_REST))
		(void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	else if (idle && in_journal >= STORE_CHECKPOINT_PAGES)
		(void)checkpointer_ask(s->checkpointer);
	return SQLITE_OK;
}

static int set_up(struct store *s, struct err *e)
{
	static const int options[][2] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },   { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_FKEY, 1 }, { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_DQS_DDL, 0 },	    { SQLITE_DBCONFIG_DQS_DML, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
	};
	static const char pragmas[] = "PRAGMA auto_vacuum = INCREMENTAL;" /* if it is empty */
				      "PRAGMA journal_mode = WAL;"
				      "PRAGMA synchronous = NORMAL;"
				      "PRAGMA temp_store = MEMORY;"
				      "PRAGMA cell_size_check = ON;"
				      "PRAGMA journal_size_limit = 33554432;"
				      "PRAGMA cache_size = -8192;";
	int code, got;

	for (size_t i = 0; i < COUNT(options); i++) {
		code = sqlite3_db_config(s->db, options[i][0], options[i][1], &got);
		if (code != SQLITE_OK || got != options[i][1])
			return err_set(e, ERR_UNSUPPORTED, "store: SQLite refuses option %d",
				       options[i][0]);
	}
	code = sqlite3_exec(s->db, pragmas, NULL, NULL, NULL);
	return code == SQLITE_OK ? 0 : sql_error(s->db, code, "settings", "", e);
}

/* A database gives free pages back only if it was made, or rewritten, to keep track of them. One of
 * an older version is rewritten when it is opened, if that takes no longer than a moment. */
#define REWRITE_PAGES_MAX 16384 /* 64 MiB */

static int64_t pragma(sqlite3 *db, const char *text)
{
	sqlite3_stmt *st = NULL;
	int64_t value = -1;

	if (sqlite3_prepare_v2(db, text, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		value = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	return value;
}

static void make_shrinkable(struct store *s)
{
	if (pragma(s->db, "PRAGMA auto_vacuum") == 0 &&
	    pragma(s->db, "PRAGMA page_count") <= REWRITE_PAGES_MAX)
		/* without room for a copy it stays as it is */
		(void)sqlite3_exec(s->db, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", NULL, NULL,
				   NULL);
	s->can_shrink = pragma(s->db, "PRAGMA auto_vacuum") == 2;
}

static int check_journal(struct store *s, struct err *e)
{
	sqlite3_stmt *st = NULL;
	bool wal = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode", -1, &st, NULL) == SQLITE_OK &&
		   sqlite3_step(st) == SQLITE_ROW &&
		   strcmp((const char *)sqlite3_column_text(st, 0), "wal") == 0;

	(void)sqlite3_finalize(st);
	if (!wal)
		return err_set(
			e, ERR_UNSUPPORTED,
			"store: this file system cannot hold a database with a shared journal");
	return 0;
}

static int prepare_all(struct store *s, struct err *e)
{
	for (int i = 0; i < SQL_COUNT; i++) {
		int code = sqlite3_prepare_v3(s->db, sql_text[i], -1, SQLITE_PREPARE_PERSISTENT,
					      &s->statements[i], NULL);

		if (code == SQLITE_ERROR) /* the statement does not fit the schema */
			return err_set(e, ERR_SYSTEM, "store: statement %d: %s", i,
				       sqlite3_errmsg(s->db));
		if (code != SQLITE_OK)
			return sql_error(s->db, code, "statements", "", e);
	}
	return 0;
}

/* Makes the file, so that its mode does not depend on SQLite; the journal gets the same mode. */
static int make_file(const char *path, struct err *e)
{
	OWN_FD fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, "store: open %s", path) : 0;
}

static int open_database(struct store *s, const char *path, struct err *e)
{
	int stays = 1; /* the journal, with its room, when the store is closed */
	int code = sqlite3_open_v2(path, &s->db,
				   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
					   SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
				   journal_vfs_name());

	if (s->db == NULL)
		return err_set(e, ERR_SYSTEM, "store: out of memory");
	if (code != SQLITE_OK)
		return sql_error(s->db, code, "open", "", e);
	(void)sqlite3_busy_timeout(s->db, OPEN_BUSY_MS);
	if (set_up(s, e) < 0 || migrate_run(s->db, sql_schema_steps, STORE_VERSION, e) < 0 ||
	    check_journal(s, e) < 0)
		return -1;
	make_shrinkable(s);
	if (prepare_all(s, e) < 0)
		return -1;
	(void)sqlite3_wal_hook(s->db, on_commit, s);
	(void)sqlite3_file_control(s->db, NULL, SQLITE_FCNTL_PERSIST_WAL, &stays);
	(void)sqlite3_busy_timeout(s->db, BUSY_MS);
	return 0;
}

static int open_at(struct store **ret, const char *path, struct err *e)
{
	struct store *s;

	if (make_file(path, e) < 0)
		return -1;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return err_sys(e, "store");
	if (open_database(s, path, e) < 0) {
		store_close(s);
		return -1;
	}
	store_room_keep(path);
	*ret = s;
	return 0;
}

int store_open(struct store **ret, const char *dir, struct err *e)
{
	char path[512];

	if ((size_t)snprintf(path, sizeof(path), "%s/" STORE_FILE, dir) >= sizeof(path))
		return err_set(e, ERR_INVALID, "store: %.80s...: path too long", dir);
	if (open_at(ret, path, e) == 0)
		return 0;
	if (e->reason != REASON_STORAGE_FULL || !store_room_give_up(path))
		return -1;
	return open_at(ret, path, e);
}

void store_keep_room(struct store *s)
{
	store_room_keep(sqlite3_db_filename(s->db, NULL));
}

void store_close(struct store *s)
{
	if (s == NULL)
		return;
	checkpointer_stop(s->checkpointer);
	for (int i = 0; i < SQL_COUNT; i++)
		(void)sqlite3_finalize(s->statements[i]);
	/* Else the journal would be cut, and lose its room. */
	(void)sqlite3_exec(s->db, "PRAGMA journal_size_limit = -1", NULL, NULL, NULL);
	if (sqlite3_close(s->db) != SQLITE_OK)
		assert(false && "store: a statement was left open");
	free(s);
}

int store_begin(struct store *s, struct err *e)
{
	struct stmt q;

	assert(sqlite3_get_autocommit(s->db) && "transactions do not nest");
	stmt_open(&q, s, SQL_BEGIN);
	return stmt_run(&q, false, "begin", "", e);
}

int store_commit(struct store *s, struct err *e)
{
	struct stmt q;

	if (sqlite3_get_autocommit(s->db))
		return err_set(e, ERR_CONFLICT, "store: commit: there is no transaction any more");
	stmt_open(&q, s, SQL_COMMIT);
	return stmt_run(&q, false, "commit", "", e);
}

void store_rollback(struct store *s)
{
	s->records.known = false;
	if (sqlite3_get_autocommit(s->db))
		return; /* none is open, or SQLite has rolled it back */
	(void)sqlite3_step(s->statements[SQL_ROLLBACK]); /* its result cannot be acted on */
	(void)sqlite3_reset(s->statements[SQL_ROLLBACK]);
}

int store_join(struct store *s, bool *ret_own, struct err *e)
{
	*ret_own = sqlite3_get_autocommit(s->db) != 0;
	return *ret_own ? store_begin(s, e) : 0;
}

int store_leave(struct store *s, bool own, struct err *e)
{
	if (!own)
		return 0;
	if (store_commit(s, e) == 0)
		return 0;
	store_rollback(s);
	return -1;
}

int store_checkpoint_in_thread(struct store *s, struct err *e)
{
	return checkpointer_start(&s->checkpointer, sqlite3_db_filename(s->db, NULL), e);
}

static int read_pages(struct store *s, enum sql sql, uint64_t *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, sql);
	got = stmt_step(&q, "pages", "", e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

#define SHRINK_MIN 1024 /* free pages that are not worth the work */

int store_shrink(struct store *s, unsigned pages, struct err *e)
{
	uint64_t all = 0, unused = 0;
	char text[64];
	int code;

	if (!s->can_shrink)
		return 0;
	if (read_pages(s, SQL_FREE_PAGES, &unused, e) < 0 || read_pages(s, SQL_PAGES, &all, e) < 0)
		return -1;
	if (unused < SHRINK_MIN || unused < all / 4)
		return 0;
	(void)snprintf(text, sizeof(text), "PRAGMA incremental_vacuum(%u)", pages);
	code = sqlite3_exec(s->db, text, NULL, NULL, NULL);
	return code == SQLITE_OK ? (int)pages : sql_error(s->db, code, "shrink", "", e);
}

bool store_can_shrink(const struct store *s)
{
	return s->can_shrink;
}

unsigned store_journal_pages(const struct store *s)
{
	return s->journal_pages;
}

int store_meta_set(struct store *s, const char *key, const char *value, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_META_SET);
	stmt_text(&q, key);
	stmt_text(&q, value);
	return stmt_run(&q, false, "meta", key, e);
}

int store_meta_get(struct store *s, const char *key, char *ret_value, size_t cap, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_META_GET);
	stmt_text(&q, key);
	got = stmt_step(&q, "meta", key, e);
	if (got > 0) {
		const char *value = stmt_get_text(&q);

		if (strlen(value) >= cap)
			got = err_set(e, ERR_LIMIT, "store: meta %s: longer than %zu bytes", key,
				      cap - 1);
		else
			memcpy(ret_value, value, strlen(value) + 1);
	} else if (got == 0) {
		got = err_set(e, ERR_NOT_FOUND, "store: meta %s: not found", key);
	}
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

/* With secure_delete what is deleted is overwritten with zeros. The journal has the page as it was:
 * it is moved into the database and cut. */
int store_meta_wipe(struct store *s, const char *key, struct err *e)
{
	struct stmt q;
	int done, code;

	(void)sqlite3_exec(s->db, "PRAGMA secure_delete = ON", NULL, NULL, NULL);
	stmt_open(&q, s, SQL_META_DELETE);
	stmt_text(&q, key);
	done = stmt_run(&q, false, "meta", key, e);
	(void)sqlite3_exec(s->db, "PRAGMA secure_delete = OFF", NULL, NULL, NULL);
	if (done < 0 || sqlite3_changes(s->db) == 0)
		return done;
	if (s->checkpointer != NULL) /* a checkpoint under way has the lock that this needs */
		checkpointer_wait(s->checkpointer);
	code = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return code == SQLITE_OK ? 0 : sql_error(s->db, code, "wipe", key, e);
}
