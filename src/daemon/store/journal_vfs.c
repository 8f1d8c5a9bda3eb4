/* journal_vfs.c - theory of operation
 *
 * All files but the journal are opened by SQLite's VFS in the memory that it gave, and are not seen
 * here again. The journal has methods of its own in front of SQLite's.
 *
 * An append is recognized by its place: the head of a frame begins where the last write has ended,
 * and its page follows. Everything else (the head of the journal, a page written a second time,
 * checksums computed again) is not held: held frames are written first, then that. The order of
 * bytes in the file is therefore that of SQLite's calls.
 *
 * At the end of a step nothing is held if it committed. If it failed, held frames belong to no
 * transaction, and are dropped: another process may write at the same place next. */
#include "daemon/store/journal_vfs.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/own.h"

#define FRAME_HEAD 24
#define COMMITS_AT 4 /* in the head: four bytes, not zero in the last frame of a transaction */
#define HELD_MAX (128 << 10)

struct journal {
	sqlite3_file file;  /* must be the first: what SQLite knows */
	sqlite3_file *real; /* follows this structure */
	bool hold;
	bool head_held;	    /* the head of a frame is held whose page has not come */
	bool last;	    /* that frame ends the transaction */
	int failed;	    /* SQLite's code of a write in this step, or SQLITE_OK */
	sqlite3_int64 next; /* where the last write has ended. -1: not known */
	sqlite3_int64 at;   /* where the held bytes belong */
	int n;
	uint8_t *held; /* owned: HELD_MAX bytes. NULL until needed */
};

static struct journal *journal_vfs_of(sqlite3_file *f)
{
	return (struct journal *)f;
}

static int journal_vfs_pass(struct journal *j, const void *data, int n, sqlite3_int64 at)
{
	int code = j->failed != SQLITE_OK ? j->failed
					  : j->real->pMethods->xWrite(j->real, data, n, at);

	if (code != SQLITE_OK && j->hold)
		j->failed = code;
	return code;
}

static int journal_vfs_flush(struct journal *j)
{
	int n = j->n;

	j->n = 0;
	return n == 0 ? j->failed : journal_vfs_pass(j, j->held, n, j->at);
}

/* Room for n bytes after the held ones. */
static bool has_room(struct journal *j, int n)
{
	if (j->held == NULL)
		j->held = malloc(HELD_MAX);
	return j->held != NULL && n <= HELD_MAX - j->n;
}

static void journal_vfs_keep(struct journal *j, const void *data, int n, sqlite3_int64 at)
{
	if (j->n == 0)
		j->at = at;
	memcpy(j->held + j->n, data, (size_t)n);
	j->n += n;
}

static int journal_vfs_put(struct journal *j, const void *data, int n, sqlite3_int64 at)
{
	static const uint8_t none[4];
	bool is_head = j->hold && !j->head_held && n == FRAME_HEAD && at == j->next;
	bool is_page = j->head_held && at == j->next;
	int code;

	if (is_head)
		j->last = memcmp((const uint8_t *)data + COMMITS_AT, none, sizeof(none)) != 0;
	j->head_held = is_head;
	if ((is_head || is_page) && has_room(j, n)) {
		journal_vfs_keep(j, data, n, at);
		return is_page && j->last ? journal_vfs_flush(j) : j->failed;
	}
	code = journal_vfs_flush(j);
	return code == SQLITE_OK ? journal_vfs_pass(j, data, n, at) : code;
}

static int on_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
	struct journal *j = journal_vfs_of(f);
	int code = journal_vfs_put(j, data, n, at);

	j->next = code == SQLITE_OK ? at + n : -1;
	return code;
}

static int on_read(sqlite3_file *f, void *ret, int n, sqlite3_int64 at)
{
	struct journal *j = journal_vfs_of(f);
	int code = journal_vfs_flush(j);

	return code == SQLITE_OK ? j->real->pMethods->xRead(j->real, ret, n, at) : code;
}

static int on_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	struct journal *j = journal_vfs_of(f);
	int code = journal_vfs_flush(j);

	j->next = -1;
	return code == SQLITE_OK ? j->real->pMethods->xTruncate(j->real, size) : code;
}

static int on_sync(sqlite3_file *f, int flags)
{
	struct journal *j = journal_vfs_of(f);
	int code = journal_vfs_flush(j);

	return code == SQLITE_OK ? j->real->pMethods->xSync(j->real, flags) : code;
}

static int on_size(sqlite3_file *f, sqlite3_int64 *ret)
{
	struct journal *j = journal_vfs_of(f);
	int code = journal_vfs_flush(j);

	return code == SQLITE_OK ? j->real->pMethods->xFileSize(j->real, ret) : code;
}

static int on_close(sqlite3_file *f)
{
	struct journal *j = journal_vfs_of(f);

	free(j->held);
	return j->real->pMethods->xClose(j->real);
}

static int on_lock(sqlite3_file *f, int level)
{
	return journal_vfs_of(f)->real->pMethods->xLock(journal_vfs_of(f)->real, level);
}

static int on_unlock(sqlite3_file *f, int level)
{
	return journal_vfs_of(f)->real->pMethods->xUnlock(journal_vfs_of(f)->real, level);
}

static int on_check_lock(sqlite3_file *f, int *ret)
{
	return journal_vfs_of(f)->real->pMethods->xCheckReservedLock(journal_vfs_of(f)->real, ret);
}

static int on_control(sqlite3_file *f, int op, void *arg)
{
	return journal_vfs_of(f)->real->pMethods->xFileControl(journal_vfs_of(f)->real, op, arg);
}

static int on_sector_size(sqlite3_file *f)
{
	return journal_vfs_of(f)->real->pMethods->xSectorSize(journal_vfs_of(f)->real);
}

static int on_characteristics(sqlite3_file *f)
{
	return journal_vfs_of(f)->real->pMethods->xDeviceCharacteristics(journal_vfs_of(f)->real);
}

static const sqlite3_io_methods journal_methods = {
	.iVersion = 1, /* shared memory belongs to the database's file */
	.xClose = on_close,
	.xRead = on_read,
	.xWrite = on_write,
	.xTruncate = on_truncate,
	.xSync = on_sync,
	.xFileSize = on_size,
	.xLock = on_lock,
	.xUnlock = on_unlock,
	.xCheckReservedLock = on_check_lock,
	.xFileControl = on_control,
	.xSectorSize = on_sector_size,
	.xDeviceCharacteristics = on_characteristics,
};

static sqlite3_vfs *base; /* SQLite's own */

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
	struct journal *j = journal_vfs_of(f);
	int code;

	if ((flags & SQLITE_OPEN_WAL) == 0)
		return base->xOpen(base, name, f, flags, ret_flags);
	*j = (struct journal){ .real = (sqlite3_file *)(j + 1), .next = -1 };
	code = base->xOpen(base, name, j->real, flags, ret_flags);
	if (code == SQLITE_OK)
		j->file.pMethods = &journal_methods;
	return code;
}

const char *journal_vfs_name(void)
{
	static sqlite3_vfs vfs;

	if (vfs.zName != NULL)
		return vfs.zName;
	base = sqlite3_vfs_find(NULL);
	if (base == NULL)
		return NULL;
	vfs = *base; /* the other methods do not look at the structure */
	vfs.pNext = NULL;
	vfs.szOsFile = (int)sizeof(struct journal) + base->szOsFile;
	vfs.xOpen = on_open;
	vfs.zName = "cordon";
	if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
		vfs.zName = NULL;
	return vfs.zName;
}

/* NULL: the connection has no journal, or another VFS. */
static struct journal *journal_vfs_find(sqlite3 *db)
{
	sqlite3_file *f = NULL;

	if (sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &f) != SQLITE_OK ||
	    f == NULL || f->pMethods != &journal_methods)
		return NULL;
	return journal_vfs_of(f);
}

void journal_hold(sqlite3 *db)
{
	struct journal *j = journal_vfs_find(db);

	if (j != NULL)
		j->hold = true;
}

void journal_release(sqlite3 *db)
{
	struct journal *j = journal_vfs_find(db);

	if (j == NULL)
		return;
	if (j->n > 0 || j->failed != SQLITE_OK)
		j->next = -1;
	j->hold = j->head_held = false;
	j->failed = SQLITE_OK;
	j->n = 0;
}
