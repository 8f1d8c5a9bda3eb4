/* checkpointer.c - see checkpointer.h. */
#include "daemon/store/checkpointer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/store/stmt.h"
#include "lib/base/fd.h"

#define ROUNDS_MAX 8 /* of one checkpoint */

struct checkpointer {
	sqlite3 *db; /* owned, used by the thread only */
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	bool wanted, busy, end;
	unsigned moved;
	int journal_fd;		      /* owned: for fdatasync(2) only */
	uint64_t sync_wanted, synced; /* numbers */
	uint64_t sync_failed;	      /* the last number that failed */
	int sync_errno;
};

/* After an error everything is still in the journal, where it is as safe. The next commit asks
 * again. */
static unsigned checkpointer_move(sqlite3 *db)
{
	int moved = 0, before = 0;

	for (int i = 0; i < ROUNDS_MAX; i++) {
		if (sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, &moved) !=
		    SQLITE_OK)
			return 0;
		if (moved - before < CHECKPOINTER_REST)
			break;
		before = moved;
	}
	return moved < 0 ? 0 : (unsigned)moved;
}

/* Frames leave the journal for the database only after a sync of the journal. Called with the
 * lock. */
static void sync_journal(struct checkpointer *c)
{
	uint64_t number = c->sync_wanted;
	int failed;

	(void)pthread_mutex_unlock(&c->lock);
	failed = fdatasync(c->journal_fd) < 0 ? errno : 0;
	(void)pthread_mutex_lock(&c->lock);
	c->synced = number;
	if (failed != 0) {
		c->sync_failed = number;
		c->sync_errno = failed;
	}
}

static void *checkpointer_run(void *arg)
{
	struct checkpointer *c = arg;
	unsigned moved;

	(void)pthread_mutex_lock(&c->lock);
	while (!c->end) {
		if (c->synced < c->sync_wanted) {
			sync_journal(c);
			continue;
		}
		if (!c->wanted) {
			(void)pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		c->wanted = false;
		c->busy = true;
		(void)pthread_mutex_unlock(&c->lock);
		moved = checkpointer_move(c->db);
		(void)pthread_mutex_lock(&c->lock);
		c->busy = false;
		c->moved = moved;
		(void)pthread_cond_broadcast(&c->changed);
	}
	(void)pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* The thread gets no signals: the loop of the process handles them. */
static int start_thread(struct checkpointer *c)
{
	sigset_t all, before;
	int code;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&c->thread, NULL, checkpointer_run, c);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code;
}

static void checkpointer_release(struct checkpointer *c)
{
	(void)sqlite3_close(c->db);
	fd_close(c->journal_fd);
	(void)pthread_mutex_destroy(&c->lock);
	(void)pthread_cond_destroy(&c->changed);
	free(c);
}

int checkpointer_start(struct checkpointer **ret, const char *path, struct err *e)
{
	struct checkpointer *c = calloc(1, sizeof(*c));
	char journal[PATH_MAX];
	int code;

	if (c == NULL)
		return err_sys(e, "store: checkpoints");
	c->journal_fd = -1;
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_cond_init(&c->changed, NULL);
	code = sqlite3_open_v2(path, &c->db,
			       SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
				       SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
			       NULL);
	/* Reads a page: the files are open before the process confines itself. */
	if (code == SQLITE_OK)
		code = sqlite3_exec(c->db,
				    "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;"
				    "PRAGMA user_version",
				    NULL, NULL, NULL);
	if (code != SQLITE_OK) {
		code = sql_error(c->db, code, "checkpoints", "", e);
		checkpointer_release(c);
		return code;
	}
	/* SQLite has no locks on the journal's own file, so that it may be closed here. The file
	 * stays as long as the store is open. */
	if ((size_t)snprintf(journal, sizeof(journal), "%s-wal", path) >= sizeof(journal)) {
		checkpointer_release(c);
		return err_set(e, ERR_INVALID, "store: path too long");
	}
	c->journal_fd = open(journal, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (c->journal_fd < 0) {
		code = err_sys(e, "store: open %s", journal);
		checkpointer_release(c);
		return code;
	}
	errno = start_thread(c);
	if (errno != 0) {
		code = err_sys(e, "store: thread of checkpoints");
		checkpointer_release(c);
		return code;
	}
	*ret = c;
	return 0;
}

bool checkpointer_ask(struct checkpointer *c)
{
	bool idle;

	(void)pthread_mutex_lock(&c->lock);
	idle = !c->busy && !c->wanted;
	if (idle) {
		c->wanted = true;
		(void)pthread_cond_broadcast(&c->changed);
	}
	(void)pthread_mutex_unlock(&c->lock);
	return idle;
}

bool checkpointer_is_idle(struct checkpointer *c, unsigned *ret_moved)
{
	bool idle;

	(void)pthread_mutex_lock(&c->lock);
	idle = !c->busy && !c->wanted;
	*ret_moved = c->moved;
	(void)pthread_mutex_unlock(&c->lock);
	return idle;
}

uint64_t checkpointer_sync(struct checkpointer *c)
{
	uint64_t number;

	(void)pthread_mutex_lock(&c->lock);
	number = ++c->sync_wanted;
	(void)pthread_cond_broadcast(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
	return number;
}

int checkpointer_synced(struct checkpointer *c, uint64_t number, struct err *e)
{
	int done;

	(void)pthread_mutex_lock(&c->lock);
	done = c->synced >= number;
	if (done && c->sync_failed >= number) {
		errno = c->sync_errno;
		done = err_sys(e, "store: fdatasync");
	}
	(void)pthread_mutex_unlock(&c->lock);
	return done;
}

void checkpointer_wait(struct checkpointer *c)
{
	(void)pthread_mutex_lock(&c->lock);
	while (c->busy || c->wanted)
		(void)pthread_cond_wait(&c->changed, &c->lock);
	(void)pthread_mutex_unlock(&c->lock);
}

void checkpointer_stop(struct checkpointer *c)
{
	if (c == NULL)
		return;
	(void)pthread_mutex_lock(&c->lock);
	c->end = true;
	(void)pthread_cond_broadcast(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
	(void)pthread_join(c->thread, NULL);
	checkpointer_release(c);
}
