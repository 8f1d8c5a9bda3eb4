/* checkpointer.c - see checkpointer.h. */
#include "checkpointer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "sql_error.h"

#define ROUNDS_MAX 8 /* of one checkpoint */

struct checkpointer {
	sqlite3 *db; /* owned, used by the thread only */
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	bool wanted, busy, end;
	unsigned moved;
};

/* After an error everything is still in the journal, where it is as safe; the next commit asks
 * again. */
static unsigned move(sqlite3 *db)
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

static void *run(void *arg)
{
	struct checkpointer *c = arg;
	unsigned moved;

	(void)pthread_mutex_lock(&c->lock);
	while (!c->end) {
		if (!c->wanted) {
			(void)pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		c->wanted = false;
		c->busy = true;
		(void)pthread_mutex_unlock(&c->lock);
		moved = move(c->db);
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
	code = pthread_create(&c->thread, NULL, run, c);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code;
}

static void release(struct checkpointer *c)
{
	(void)sqlite3_close(c->db);
	(void)pthread_mutex_destroy(&c->lock);
	(void)pthread_cond_destroy(&c->changed);
	free(c);
}

int checkpointer_start(struct checkpointer **ret, const char *path, struct err *e)
{
	struct checkpointer *c = calloc(1, sizeof(*c));
	int code;

	if (c == NULL)
		return err_sys(e, "store: checkpoints");
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
		release(c);
		return code;
	}
	errno = start_thread(c);
	if (errno != 0) {
		code = err_sys(e, "store: thread of checkpoints");
		release(c);
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
	release(c);
}
