/* store.c - theory of operation
 *
 * One connection in WAL mode with synchronous=NORMAL: a commit is one write(2) into the journal
 * (journal_vfs.h) and no fsync(2), so it takes microseconds. It survives the death of this process,
 * since the kernel has it, and after a power cut the database is as it was at some earlier commit.
 * Foreign keys are on, the schema is STRICT, and the connection is DEFENSIVE: a bug of ours cannot
 * write data outside the schema. All statements are prepared once. They share a view of the
 * database for some milliseconds (stmt_view()).
 *
 * A statement that fails rolls an open transaction back (stmt.c), so that no caller has to. */
#include "daemon/store/store.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/store/checkpointer.h"
#include "daemon/store/journal_vfs.h"
#include "daemon/store/schema.h"
#include "daemon/store/stmt.h"
#include "daemon/store/store_records.h"

#define OPEN_BUSY_MS 2000 /* an earlier daemon may still be ending */
#define BUSY_MS 20	  /* no other process should use it, and the loop waits for that time */

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* Runs after each commit, with the pages that the journal has then. The thread moves most of them.
 * A small rest is moved here, so that SQLite begins the journal again. Without a thread (at the
 * start), or if it cannot keep up, everything is moved here. A failed checkpoint leaves everything
 * in the journal, just as safe. The next one will do it. */
static int on_commit(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *s = arg;
	unsigned in_journal = (unsigned)pages, moved = 0;
	bool idle = s->checkpointer != NULL && checkpointer_is_idle(s->checkpointer, &moved);

	s->journal_pages = in_journal;
	if (in_journal >= STORE_CHECKPOINT_PAGES)
		stmt_view_end(s);
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
				      "PRAGMA secure_delete = FAST;" /* store_audit.c */
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

static int64_t store_pragma(sqlite3 *db, const char *text)
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
	if (store_pragma(s->db, "PRAGMA auto_vacuum") == 0 &&
	    store_pragma(s->db, "PRAGMA page_count") <= REWRITE_PAGES_MAX)
		/* without room for a copy it stays as it is */
		(void)sqlite3_exec(s->db, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", NULL, NULL,
				   NULL);
	s->can_shrink = store_pragma(s->db, "PRAGMA auto_vacuum") == 2;
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

/* ---- room on disk that the store has for itself, so that a file system which sessions have filled
 * does not stop the server: ends of sessions are recorded, reads and deletions work, and cordond
 * starts.
 *
 * The journal keeps blocks behind its end (fallocate(2)), more than it uses between checkpoints. No
 * other file gets these blocks, and commits need no others. The first connection makes the index of
 * the journal. The blocks of the index come from a small file beside the store. It is given up when
 * the store cannot be opened, and made again when there is room. SQLite has no locks on the
 * journal's own file, so it may be opened and closed here. */

#define ROOM_JOURNAL (24U << 20)
#define ROOM_START (1U << 20)

/* At most a thirty-second part of a small file system. 0: there is little room. */
static off_t store_room_part(int fd, off_t bytes)
{
	struct statvfs fs;
	uint64_t part, left;

	if (fstatvfs(fd, &fs) < 0)
		return 0;
	part = (uint64_t)fs.f_blocks * fs.f_frsize / 32;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (part > (uint64_t)bytes)
		part = (uint64_t)bytes;
	return left / 2 < part ? 0 : (off_t)part;
}

static void store_take_room(const char *path, const char *end, int flags, off_t bytes)
{
	char name[PATH_MAX];
	off_t part;

	if ((size_t)snprintf(name, sizeof(name), "%s%s", path, end) >= sizeof(name))
		return;
	OWN_FD fd = open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	part = fd < 0 ? 0 : store_room_part(fd, bytes);
	if (part > 0) /* a file system may not have the call: then there is no room */
		(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, part);
}

/* Take the missing part of both, as far as there is room. */
static void store_room_keep(const char *path)
{
	store_take_room(path, "-wal", 0, ROOM_JOURNAL);
	store_take_room(path, "-reserve", O_CREAT, ROOM_START);
}

/* Give the file beside the store up. False: there was none. */
static bool store_room_give_up(const char *path)
{
	char name[PATH_MAX];

	return (size_t)snprintf(name, sizeof(name), "%s-reserve", path) < sizeof(name) &&
	       unlink(name) == 0;
}

/* ---- */

/* Make the file, so that its mode does not depend on SQLite. The journal gets the same mode. */
static int make_file(const char *path, struct err *e)
{
	OWN_FD fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, "store: open %s", path) : 0;
}

static int open_database(struct store *s, const char *path, struct err *e)
{
	int stays = 1; /* the journal, with its room, when the store is closed */
	int code;

	/* Nothing reads SQLite's count of its memory, which takes a lock for each allocation. A
	 * second store of the process comes too late for it. */
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	code = sqlite3_open_v2(path, &s->db,
			       SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
				       SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
			       journal_vfs_name());

	if (s->db == NULL)
		return err_set(e, ERR_SYSTEM, "store: out of memory");
	if (code != SQLITE_OK)
		return sql_error(s->db, code, "open", "", e);
	(void)sqlite3_busy_timeout(s->db, OPEN_BUSY_MS);
	if (set_up(s, e) < 0 || schema_migrate(s->db, schema_steps, STORE_VERSION, e) < 0 ||
	    check_journal(s, e) < 0)
		return -1;
	make_shrinkable(s);
	if (stmt_prepare(s, e) < 0)
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
	stmt_finalize(s);
	/* Else the journal would be cut, and lose its room. */
	(void)sqlite3_exec(s->db, "PRAGMA journal_size_limit = -1", NULL, NULL, NULL);
	if (sqlite3_close(s->db) != SQLITE_OK)
		assert(false && "store: a statement was left open");
	free(s);
}

int store_begin(struct store *s, struct err *e)
{
	assert(sqlite3_get_autocommit(s->db) && "transactions do not nest");
	return stmt_run(s, "BEGIN IMMEDIATE", IN_NONE, "", e);
}

int store_commit(struct store *s, struct err *e)
{
	int done;

	if (sqlite3_get_autocommit(s->db))
		return err_set(e, ERR_CONFLICT, "store: commit: there is no transaction any more");
	if (store_records_write(s, e) < 0)
		return -1;
	journal_hold(s->db);
	done = stmt_run(s, "COMMIT", IN_NONE, "", e);
	journal_release(s->db);
	return done;
}

void store_rollback(struct store *s)
{
	struct stmt q;

	s->records.known = s->records_due.any = false;
	s->rollbacks++;
	if (sqlite3_get_autocommit(s->db))
		return; /* none is open, or SQLite has rolled it back */
	stmt_open(&q, s, SQL("ROLLBACK"), IN_NONE);
	(void)sqlite3_step(q.st); /* its result cannot be acted on */
	stmt_close(&q);
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

uint64_t store_sync(struct store *s)
{
	return s->checkpointer == NULL ? 0 : checkpointer_sync(s->checkpointer);
}

int store_synced(struct store *s, uint64_t number, struct err *e)
{
	sqlite3_file *journal = NULL;

	if (s->checkpointer != NULL)
		return checkpointer_synced(s->checkpointer, number, e);
	if (sqlite3_file_control(s->db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &journal) !=
		    SQLITE_OK ||
	    journal == NULL || journal->pMethods == NULL ||
	    journal->pMethods->xSync(journal, SQLITE_SYNC_NORMAL) != SQLITE_OK)
		return err_set(e, ERR_SYSTEM, "store: the journal cannot be synced");
	return 1;
}

#define SHRINK_MIN 1024 /* free pages not worth the work */

int store_shrink(struct store *s, unsigned pages, struct err *e)
{
	uint64_t all = 0, unused = 0;
	char text[64];
	int code;

	if (!s->can_shrink)
		return 0;
	if (stmt_number(s, "PRAGMA freelist_count", IN_NONE, "", &unused, e) < 0 ||
	    stmt_number(s, "PRAGMA page_count", IN_NONE, "", &all, e) < 0)
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
	return stmt_change(s,
			   "INSERT INTO meta (key, value) VALUES (?, ?)"
			   " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
			   IN(key, value), key, e);
}

int store_meta_get(struct store *s, const char *key, char *ret_value, size_t cap, struct err *e)
{
	const char *value;
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL("SELECT value FROM meta WHERE key = ?"), IN(key));
	got = stmt_step(&q, key, e);
	if (got == 0)
		(void)stmt_not_found(q.sql, key, e);
	if (got > 0) {
		value = stmt_get_text(&q);
		if (strlen(value) >= cap)
			got = err_set(e, ERR_LIMIT, "store: meta %s: longer than %zu bytes", key,
				      cap - 1);
		else
			memcpy(ret_value, value, strlen(value) + 1);
	}
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

/* With secure_delete deleted data is overwritten with zeros. The journal has the page as it was: it
 * is moved into the database and cut. */
int store_meta_wipe(struct store *s, const char *key, struct err *e)
{
	int deleted, code;

	(void)sqlite3_exec(s->db, "PRAGMA secure_delete = ON", NULL, NULL, NULL);
	deleted = stmt_run_counted(s, "DELETE FROM meta WHERE key = ?", IN(key), key, e);
	(void)sqlite3_exec(s->db, "PRAGMA secure_delete = FAST", NULL, NULL, NULL);
	if (deleted <= 0)
		return deleted;
	code = stmt_cut_journal(s);
	return code == SQLITE_OK ? 0 : sql_error(s->db, code, "wipe", key, e);
}
