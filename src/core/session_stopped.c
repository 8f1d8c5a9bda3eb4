/* session_stopped.c - the last record of a session: that nothing of its cell is left.
 *
 * No request waits for this record, and if the daemon ends before it is written, recovery finds a
 * stopping session without a cell and writes it. So the records of all sessions whose cells went
 * within STOPPED_MS are written in one transaction, which under load saves a fifth of all
 * transactions. Until then a session is stopping. */
#include "session_stopped.h"

#include "clock.h"
#include "core_private.h"
#include "execution.h"
#include "kept_diff.h"
#include "log.h"
#include "quota.h"
#include "session_alloc.h"
#include "session_disk.h"
#include "session_save.h"

#define STOPPED_MS 5

/* Frees the session, unless a record of it or of an execution could not be written yet. Its disk
 * goes in any case: the store may be on the file system that it fills. */
static void free_if_saved(struct session *s)
{
	session_disk_free(s);
	for (const struct execution *x = s->executions; x != NULL; x = x->next)
		if (x->unsaved)
			return;
	if (!s->unsaved)
		session_free(s);
}

void session_stopped_retry(struct session *s)
{
	struct err e;

	if (s->unsaved && store_session_update_state(s->core->store, &s->row, &e) == 0)
		s->unsaved = false;
	if (s->row.state == SESSION_STOPPED)
		free_if_saved(s);
}

void session_stopped(struct session *s)
{
	kept_diff_settle(s);
	session_lose_executions(s); /* those that an earlier daemon left, too */
	session_save_anyway(s, SESSION_STOPPED, SESSION_NO_REASON);
	quota_release(s);
	free_if_saved(s);
}

/* Writes the records of all of them, or of none. */
static int write_all(struct core *c, struct session *list, struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	for (struct session *s = list; s != NULL; s = s->next_stopped)
		if (session_save(s, SESSION_STOPPED, SESSION_NO_REASON, e) < 0)
			return -1;
	return store_commit(c->store, e);
}

void session_stopped_write(struct core *c)
{
	struct session *list = c->stopped;
	struct err e;
	bool written;

	loop_timer_cancel(c->loop, &c->write_stopped);
	c->stopped = NULL;
	if (list == NULL)
		return;
	written = write_all(c, list, &e) == 0;
	if (!written) {
		store_rollback(c->store);
		log_warn("ends of sessions are written one by one", "error=%s", e.msg);
	}
	for (struct session *s = list, *next; s != NULL; s = next) {
		next = s->next_stopped; /* alone: a session that has ended has no user to call */
		if (!written) {
			s->row.state = SESSION_STOPPING;
			session_save_anyway(s, SESSION_STOPPED, SESSION_NO_REASON);
		}
		free_if_saved(s);
	}
}

void session_stopped_on_timer(struct loop_timer *t)
{
	session_stopped_write(t->arg);
}

void session_stopped_soon(struct session *s)
{
	struct core *c = s->core;

	kept_diff_settle(s);
	session_lose_executions(s);
	quota_release(s);
	s->next_stopped = c->stopped;
	if (c->stopped == NULL)
		loop_timer_set(c->loop, &c->write_stopped, clock_now_ns() + STOPPED_MS * CLOCK_MS);
	c->stopped = s;
}
