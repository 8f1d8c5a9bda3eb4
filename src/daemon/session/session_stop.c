/* session_stop.c - the end of a session, and its last record: see session_stop.h. */
#include "daemon/session/session_stop.h"

#include "cell/cellctl/usage.h"
#include "daemon/cells/live_cell.h"
#include "daemon/execution/dial.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/execution/file_op.h"
#include "daemon/guest/guest_reader.h"
#include "daemon/guest/session_guest.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_alloc.h"
#include "daemon/session/session_diff.h"
#include "daemon/session/session_disk.h"
#include "daemon/session/session_history.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_op.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_suspend.h"
#include "daemon/tenant/meter.h"
#include "daemon/tenant/quota.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"

#define ENDED_MS 5

/* Free the session, unless a record of it or of an execution could not be written yet. Its disk is
 * removed in any case: the store may be on the full file system. */
static void free_if_saved(struct session *s)
{
	session_disk_free(s);
	for (const struct execution *x = s->executions; x != NULL; x = x->next)
		if (x->unsaved)
			return;
	if (!s->unsaved)
		session_free(s);
}

/* As a whole: its event, its record, and its layers' uses that end with it. */
static void retry_end(struct session *s)
{
	struct err e;

	s->row.state = SESSION_ENDING;
	if (session_save(s, SESSION_ENDED, SESSION_NO_REASON, &e) < 0)
		s->row.state = SESSION_ENDED;
}

void session_ended_retry(struct session *s)
{
	struct err e;

	if (s->unsaved && s->row.state == SESSION_ENDED)
		retry_end(s);
	else if (s->unsaved && store_session_update_state(s->core->store, &s->row, &e) == 0)
		s->unsaved = false;
	if (s->row.state == SESSION_ENDED)
		free_if_saved(s);
}

void session_ended(struct session *s)
{
	kept_diff_settle(s);
	execution_lose_all(s); /* also executions left by an earlier daemon */
	session_save_anyway(s, SESSION_ENDED, SESSION_NO_REASON);
	quota_release(s);
	free_if_saved(s);
}

/* Write all their records, or none. */
static int write_all(struct core *c, struct session *list, struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	/* alone: a record is written, which frees no session */
	LIST_WALK_BY(struct session, s, list, next_ended)
		if (session_save(s, SESSION_ENDED, SESSION_NO_REASON, e) < 0)
			return -1;
	return store_commit(c->store, e);
}

/* If the common transaction fails, each record is tried alone, so one bad row does not hold back
 * the others. */
void session_ended_write(struct core *c)
{
	struct session *list = c->ended;
	struct err e;
	bool written;

	loop_timer_cancel(c->loop, &c->write_ended);
	c->ended = NULL;
	if (list == NULL)
		return;
	written = write_all(c, list, &e) == 0;
	if (!written) {
		store_rollback(c->store);
		log_warn("ends of sessions are written one by one", "error=%s", e.msg);
	}
	LIST_WALK_ENDING_BY(struct session, s, list, next_ended) {
		/* alone: an ended session has no user to call */
		if (!written) {
			s->row.state = SESSION_ENDING;
			session_save_anyway(s, SESSION_ENDED, SESSION_NO_REASON);
		}
		free_if_saved(s);
	}
}

void session_ended_on_timer(struct loop_timer *t)
{
	session_ended_write(t->arg);
}

void session_ended_soon(struct session *s)
{
	struct core *c = s->core;

	kept_diff_settle(s);
	execution_lose_all(s);
	quota_release(s);
	s->next_ended = c->ended;
	if (c->ended == NULL)
		loop_timer_set(c->loop, &c->write_ended, clock_now_ns() + ENDED_MS * CLOCK_MS);
	c->ended = s;
}

void session_note_usage(struct session *s)
{
	struct usage now;

	if (s->cell == NULL && s->row.usage.cpu_us > 0)
		return; /* noted when the cell ended */

	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_KEPT, &now);
	s->row.usage.cpu_us = s->cpu_before_us + now.cpu_us;
	s->memory_bytes = now.memory_bytes;
	s->row.usage.memory_peak_bytes = now.memory_peak_bytes;
	s->row.usage.disk_bytes = s->cell == NULL ? 0 : s->cell->disk_bytes;
}

/* Write the state and the usage in one transaction. If that fails, each is tried for itself: the
 * state must not depend on the usage. */
static void save_ending(struct session *s, enum session_reason reason)
{
	struct store_session row = s->row;
	struct session_history history = s->history;
	struct meter meter = s->meter;
	struct core *c = s->core;
	bool own = false;
	struct err e;

	if (store_join(c->store, &own, &e) == 0 &&
	    session_save(s, SESSION_ENDING, reason, &e) == 0 && meter_end(s, &e) == 0 &&
	    session_history_end(s, &e) == 0 && store_leave(c->store, own, &e) == 0)
		return;
	store_rollback(c->store);
	s->row = row;
	s->meter = meter;
	s->history = history;
	session_save_anyway(s, SESSION_ENDING, reason);
	if (meter_end(s, &e) < 0 || session_history_end(s, &e) < 0)
		log_warn("usage of an ended session could not be written", "session_id=%s error=%s",
			 s->row.id, e.msg);
}

void session_stop(struct session *s, enum session_reason reason, const char *detail)
{
	session_stop_for(s, NULL, reason, detail);
}

/* The order matters: first the state is in the store, then all users of the cell get their error,
 * and the cell is ended last. */
void session_stop_for(struct session *s, const struct store_actor *who, enum session_reason reason,
		      const char *detail)
{
	struct err e;

	if (s->row.state >= SESSION_ENDING)
		return;
	session_set_actor(s, who);
	s->row.detail = detail; /* a constant */
	session_note_usage(s);
	save_ending(s, reason);
	(void)err_set_reason(&e, session_gone_reason(&s->row), "session %s has ended (%s)",
			     s->row.id, session_reason_name((enum session_reason)s->row.reason));
	loop_timer_cancel(s->core->loop, &s->timer);
	execution_lose_all(s);
	while (s->file_ops != NULL)
		file_op_lost(s->file_ops);
	execution_kills_lost(s);
	dial_all_lost(s, &e);
	session_parts_ending(s, &e);
	completions_end_all(&s->when_running, &e);
	completions_end_all(&s->when_paused, &e);
	completions_end_all(&s->when_over, &e);
	/* It waits for its cell to be made. */
	bool waits = session_op_find(s, SESSION_OP_DISK_BOOT) != NULL ||
		     session_op_find(s, SESSION_OP_GUEST_BOOT) != NULL;

	session_ops_lost(s, &e);
	if (session_cold_ending(s))
		return;
	guest_readers_lost(s, &e);
	if (waits)
		session_ended_soon(s);
	else if (s->cell != NULL && !kept_diff_start(s))
		live_cell_end(s->cell);
}

void session_fail(struct session *s, const struct err *why, const char *detail)
{
	struct err copy = *why;

	completions_end_all(&s->when_running, &copy);
	session_stop(s, SESSION_CRASHED, detail);
}
