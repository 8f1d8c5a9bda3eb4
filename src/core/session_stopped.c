/* session_stopped.c - the last record of a session: that nothing of its cell is left.
 *
 * No answer waits for it, and recovery writes it again if this daemon ends before: it finds a
 * stopping session without a cell. So the records of all sessions whose cells went within
 * STOPPED_MS are one transaction, which under load is a fifth of all transactions less. Until then
 * a session is stopping. */
#include "clock.h"
#include "core_private.h"
#include "execution.h"
#include "kept_diff.h"
#include "log.h"
#include "quota.h"
#include "session_lifecycle.h"

#define STOPPED_MS 5

/* Nothing but its records is left. While one of them is not written, it stays in memory. */
static void forget(struct session *s)
{
	for (const struct execution *x = s->executions; x != NULL; x = x->next)
		if (x->unsaved)
			return;
	if (!s->unsaved)
		session_free(s);
}

void session_retry_save(struct session *s)
{
	struct err e;

	if (s->unsaved && store_session_update_state(s->core->store, &s->row, &e) == 0)
		s->unsaved = false;
	if (s->row.state == SESSION_STOPPED)
		forget(s);
}

void session_stopped(struct session *s)
{
	kept_diff_settle(s);
	session_lose_executions(s); /* those that an earlier daemon left, too */
	session_save_anyway(s, SESSION_STOPPED, SESSION_NO_REASON);
	quota_release(s);
	forget(s);
}

/* All of them or none. */
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
		next = s->next_stopped;
		if (!written) {
			s->row.state = SESSION_STOPPING;
			session_save_anyway(s, SESSION_STOPPED, SESSION_NO_REASON);
		}
		forget(s);
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
