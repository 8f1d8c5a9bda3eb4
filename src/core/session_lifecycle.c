/* session_lifecycle.c - a session's way through its states. Every step is: journal, act, and when
 * the action is done, the next step. A daemon that is killed in between finds the state and does
 * the action again (recover.c), so each action can be repeated. */
#include "session_lifecycle.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allow.h"
#include "clock.h"
#include "core_metrics.h"
#include "core_private.h"
#include "dial.h"
#include "event_log.h"
#include "execution.h"
#include "execution_kill.h"
#include "file_op.h"
#include "kept_diff.h"
#include "live_cell.h"
#include "meter.h"
#include "log.h"
#include "quota.h"
#include "session.h"
#include "session_id.h"
#include "session_parts.h"
#include "session_pause.h"
#include "session_spec.h"
#include "session_states.h"
#include "templates.h"
#include "usage.h"

static void on_timer(struct loop_timer *t);

/* Moves the row to a state and writes it with its event, both or none. */
int session_save(struct session *s, enum session_state to, enum session_reason reason,
		 struct err *e)
{
	struct store_session before = s->row;
	struct core *c = s->core;
	bool own = false;
	enum session_state from = (enum session_state)s->row.state;

	if (!session_states_allow(from, to))
		return err_set(e, ERR_CONFLICT, "session %s is %s, it cannot become %s", s->row.id,
			       session_state_name(from), session_state_name(to));
	s->row.state = to;
	if (reason != SESSION_NO_REASON)
		s->row.reason = reason;
	if (to == SESSION_STOPPED)
		s->row.ended_ms = core_now_ms();
	if (store_join(c->store, &own, e) == 0 &&
	    store_session_update_state(c->store, &s->row, e) == 0 &&
	    ((to != SESSION_STOPPING && to != SESSION_STOPPED) ||
	     store_session_update_usage(c->store, s->row.id, &s->row.usage, e) == 0) &&
	    event_log_append(c, &s->actor, s->row.tenant, s->row.id, "", "session.state", e,
			     "from\t%s\nto\t%s\nreason\t%s\n", session_state_name(from),
			     session_state_name(to),
			     session_reason_name((enum session_reason)s->row.reason)) == 0 &&
	    store_leave(c->store, own, e) == 0) {
		s->unsaved = false;
		log_info("session state changed", "session_id=%s tenant=%s from=%s to=%s reason=%s",
			 s->row.id, s->row.tenant, session_state_name(from), session_state_name(to),
			 session_reason_name((enum session_reason)s->row.reason));
		return 0;
	}
	store_rollback(c->store); /* of the caller, too: a part of it is no transaction */
	s->row = before;
	return -1;
}

/* What happens whether or not it can be written: the end of a session. Written later, then. */
void session_save_anyway(struct session *s, enum session_state to, enum session_reason reason)
{
	struct err e;

	if (session_save(s, to, reason, &e) == 0)
		return;
	log_error("session state could not be written", "session_id=%s to=%s error=%s", s->row.id,
		  session_state_name(to), e.msg);
	s->row.state = to;
	s->row.reason = reason == SESSION_NO_REASON ? s->row.reason : reason;
	if (to == SESSION_STOPPED)
		s->row.ended_ms = core_now_ms();
	s->unsaved = true;
}

/* ---- beginning */

static int insert(struct session *s, enum session_state state, struct err *e)
{
	struct core *c = s->core;

	s->row.state = state;
	/* No two have the same: lists are in the order of creation. */
	s->row.created_ms = core_now_ms();
	if (s->row.created_ms <= c->created_ms && c->created_ms - s->row.created_ms < 60000)
		s->row.created_ms = c->created_ms + 1;
	c->created_ms = s->row.created_ms;
	memcpy(s->row.boot_id, c->boot_id, sizeof(s->row.boot_id));
	if (state == SESSION_RUNNING) {
		s->row.started_ms = s->row.created_ms;
		s->row.pid = s->cell->pid;
		s->row.deadline_ms =
			s->row.timeout_ms == 0 ? 0 : s->row.created_ms + s->row.timeout_ms;
	}
	if (store_begin(c->store, e) == 0 && store_session_insert(c->store, &s->row, e) == 0 &&
	    event_log_append(c, &s->actor, s->row.tenant, s->row.id, "", "session.created", e,
			     "template\t%s\nto\t%s\n", s->row.template,
			     session_state_name(state)) == 0 &&
	    store_commit(c->store, e) == 0)
		return 0;
	store_rollback(c->store);
	return err_wrap(e, "record session");
}

/* Its cell is up. It is usable, and those that wait are called, when all parts are ready. */
static void start_parts(struct session *s)
{
	session_touch(s);
	s->starting = true;
	session_parts_started(s);
	if (s->row.state < SESSION_STOPPING) /* no part has failed */
		loop_defer(s->core->loop, &s->tell);
}

/* Nothing of it is in the store, and nothing will be: told, then forgotten. */
static void drop_unrecorded(struct session *s, const struct err *e)
{
	struct completions told = { 0 };

	completions_move(&s->when_running, &told);
	if (s->cell != NULL) {
		live_cell_abandon(s->cell);
		s->cell = NULL;
	}
	quota_release(s);
	session_free(s);
	completions_end_all(&told, e);
}

void session_begin(struct session *s)
{
	struct core *c = s->core;
	struct keeper_create plan;
	struct err e;

	loop_timer_cancel(c->loop, &s->timer);
	s->timer.on_expire = on_timer;
	if (s->when_running.first == NULL) {
		(void)err_set(&e, ERR_CONFLICT, "the client disconnected");
		drop_unrecorded(s, &e); /* its client left while it was queued */
		return;
	}
	s->cell = templates_claim(s);
	if (s->cell != NULL) {
		s->from_pool = true;
		memcpy(s->row.id, s->cell->id, sizeof(s->row.id));
		live_cell_own(s->cell, &session_cell_events, s);
		if (insert(s, SESSION_RUNNING, &e) < 0) {
			drop_unrecorded(s, &e);
			return;
		}
		session_list_in(s);
		start_parts(s);
		return;
	}
	session_id_make(c->o.config->node_name, s->row.id);
	if (session_spec_plan(c, s->template, &s->row, &plan, &e) < 0 ||
	    insert(s, SESSION_CREATING, &e) < 0) {
		drop_unrecorded(s, &e);
		return;
	}
	session_list_in(s);
	s->cell = live_cell_make(&c->cells, &plan, true, &session_cell_events, s);
}

static void on_cell_up(struct live_cell *cell, const struct err *e)
{
	struct session *s = cell->owner;
	struct err why;

	if (e != NULL) {
		why = *e;
		s->cell = NULL; /* ends by itself */
		if (s->row.state == SESSION_CREATING) {
			session_save_anyway(s, SESSION_STOPPING, SESSION_CRASHED);
			s->row.detail = "the cell could not be made";
			session_save_anyway(s, SESSION_STOPPED, SESSION_CRASHED);
		}
		completions_end_all(&s->when_running, &why);
		quota_release(s);
		if (!s->unsaved)
			session_free(s);
		return;
	}
	s->row.pid = cell->pid;
	s->row.started_ms = core_now_ms();
	s->row.deadline_ms = s->row.timeout_ms == 0 ? 0 : s->row.started_ms + s->row.timeout_ms;
	if (session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &why) < 0) {
		completions_end_all(&s->when_running, &why);
		session_stop(s, SESSION_CRASHED, "the start of the session could not be recorded");
		return;
	}
	start_parts(s);
}

/* ---- time */

void session_touch(struct session *s)
{
	s->used_ns = clock_now_ns();
	session_plan_timer(s);
}

void session_hold(struct session *s)
{
	s->holds++;
}

void session_unhold(struct session *s)
{
	assert(s->holds > 0);
	s->holds--;
	session_touch(s);
}

static bool busy(const struct session *s)
{
	return s->holds > 0 || s->running > 0 || file_op_is_busy(s);
}

/* When its time is over, when it will have been idle long enough. The wall clock may jump, so what
 * is left of the session's time is asked again at least every minute. */
void session_plan_timer(struct session *s)
{
	uint64_t now = clock_now_ns(), at = UINT64_MAX;

	if (s->row.state != SESSION_RUNNING) {
		loop_timer_cancel(s->core->loop, &s->timer);
		return;
	}
	/* One that is to be paused then needs a server for it. */
	if (s->cell != NULL)
		live_cell_set_deadline(s->cell,
				       s->row.on_timeout == SESSION_PAUSE ? 0 : s->row.deadline_ms);
	if (s->row.deadline_ms > 0) {
		uint64_t wall = core_now_ms();
		uint64_t left = s->row.deadline_ms > wall ? s->row.deadline_ms - wall : 0;

		at = now + (left < 60000 ? left : 60000) * CLOCK_MS;
	}
	if (s->row.idle_ms > 0 && s->used_ns + s->row.idle_ms * CLOCK_MS < at)
		at = s->used_ns + s->row.idle_ms * CLOCK_MS;
	if (at == UINT64_MAX)
		loop_timer_cancel(s->core->loop, &s->timer);
	else
		loop_timer_set(s->core->loop, &s->timer, at < now ? now : at);
}

static void on_timer(struct loop_timer *t)
{
	struct session *s = t->arg;

	core_check_clock(s->core);
	bool over = s->row.deadline_ms > 0 && s->row.deadline_ms <= core_now_ms();
	bool idle = s->row.idle_ms > 0 && !busy(s) &&
		    s->used_ns + s->row.idle_ms * CLOCK_MS <= clock_now_ns();

	if (s->row.state != SESSION_RUNNING)
		return;
	live_cell_flush(s->cell); /* the deadline, if nothing was said to the cell since */
	if (busy(s))
		s->used_ns = clock_now_ns(); /* idle time starts when the last user leaves */
	if ((over && s->row.on_timeout == SESSION_PAUSE) ||
	    (!over && idle && s->row.on_idle == SESSION_PAUSE)) {
		session_pause_by_itself(s);
	} else if (over) {
		session_stop(s, SESSION_EXPIRED, "timeout reached");
	} else if (idle) {
		session_stop(s, SESSION_EXPIRED, "idle timeout reached");
	} else {
		session_plan_timer(s);
	}
}

/* Writes settings and state, or takes all back. */
static int save_settings(struct session *s, const struct store_session *before, struct err *e)
{
	if (store_begin(s->core->store, e) == 0 &&
	    store_session_update_settings(s->core->store, &s->row, e) == 0 &&
	    store_session_update_state(s->core->store, &s->row, e) == 0 &&
	    store_commit(s->core->store, e) == 0)
		return 0;
	store_rollback(s->core->store);
	s->row = *before;
	return -1;
}

int session_set_timeout(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
			struct err *e)
{
	uint64_t max = 0;

	core_check_clock(s->core);
	struct store_session before = s->row;

	if (allow_timeout_max(s->core, s->tenant, who, &max, e) < 0)
		return -1;
	if (max > 0 && (timeout_ms > max || timeout_ms == 0))
		return err_set(e, ERR_INVALID, "timeout: at most %llu s",
			       (unsigned long long)max / 1000);
	s->row.timeout_ms = timeout_ms;
	s->row.deadline_ms = timeout_ms == 0 ? 0 : core_now_ms() + timeout_ms;
	/* A paused session's time starts when it goes on. */
	if (s->row.state != SESSION_RUNNING)
		s->row.deadline_ms = 0;
	if (save_settings(s, &before, e) < 0)
		return -1;
	session_touch(s);
	return 0;
}

int session_extend(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
		   struct err *e)
{
	core_check_clock(s->core);
	if (s->row.state == SESSION_RUNNING &&
	    (s->row.deadline_ms == 0 || s->row.deadline_ms >= core_now_ms() + timeout_ms)) {
		session_touch(s);
		return 0;
	}
	return session_set_timeout(s, timeout_ms, who, e);
}

int session_set_network(struct session *s, const char *network, struct err *e)
{
	struct store_session before = s->row;
	char *copy = strdup(network);

	if (copy == NULL)
		return err_sys(e, "allocate");
	s->row.network = copy;
	if (save_settings(s, &before, e) < 0) {
		free(copy);
		return -1;
	}
	free(s->network);
	s->network = copy;
	session_touch(s);
	return 0;
}

int session_save_policy(struct session *s, const char *document, const char *name,
			const struct store_actor *who, struct err *e)
{
	struct store_session before = s->row;
	struct core *c = s->core;
	char *copy = strdup(document);

	if (copy == NULL)
		return err_sys(e, "allocate");
	s->row.policy = copy;
	if (store_begin(c->store, e) < 0 ||
	    store_session_update_settings(c->store, &s->row, e) < 0 ||
	    event_log_append(c, who, s->row.tenant, s->row.id, "", "session.network", e,
			     "policy\t%s\n", name) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		s->row = before;
		free(copy);
		return -1;
	}
	free(s->policy);
	s->policy = copy;
	session_touch(s);
	return 0;
}

/* ---- the end */

/* Written with the state it ends in. */
static void note_usage(struct session *s)
{
	struct usage now;

	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_KEPT, &now);
	s->row.usage.cpu_us = now.cpu_us;
	s->memory_bytes = now.memory_bytes;
	s->row.usage.memory_peak_bytes = now.memory_peak_bytes;
	s->row.usage.disk_bytes = s->cell == NULL ? 0 : s->cell->disk_bytes;
}

/* The state and what was used are one transaction. If that cannot be written, each is tried for
 * itself: the state must not depend on the other. */
static void save_stopping(struct session *s, enum session_reason reason)
{
	struct store_session row = s->row;
	struct meter meter = s->meter;
	struct core *c = s->core;
	bool own = false;
	struct err e;

	if (store_join(c->store, &own, &e) == 0 &&
	    session_save(s, SESSION_STOPPING, reason, &e) == 0 && meter_end(s, &e) == 0 &&
	    store_leave(c->store, own, &e) == 0)
		return;
	store_rollback(c->store);
	s->row = row;
	s->meter = meter;
	session_save_anyway(s, SESSION_STOPPING, reason);
	if (meter_end(s, &e) < 0)
		log_warn("usage of an ended session not written", "session_id=%s error=%s",
			 s->row.id, e.msg);
}

void session_lose_executions(struct session *s)
{
	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next;
		execution_lost(x);
	}
}

void session_set_actor(struct session *s, const struct store_actor *who)
{
	s->actor = who == NULL ? (struct store_actor){ 0 } : *who;
}

void session_stop(struct session *s, enum session_reason reason, const char *detail)
{
	session_stop_for(s, NULL, reason, detail);
}

void session_stop_for(struct session *s, const struct store_actor *who, enum session_reason reason,
		      const char *detail)
{
	struct err e;

	if (s->row.state >= SESSION_STOPPING)
		return;
	session_set_actor(s, who);
	s->row.detail = detail; /* always a constant of ours */
	note_usage(s);
	save_stopping(s, reason);
	(void)err_set_reason(&e, REASON_GONE, "session %s was stopped (%s)", s->row.id,
			     session_reason_name((enum session_reason)s->row.reason));
	loop_timer_cancel(s->core->loop, &s->timer);
	session_lose_executions(s);
	while (s->file_ops != NULL)
		file_op_lost(s->file_ops);
	execution_kills_lost(s);
	dial_all_lost(s, &e);
	session_parts_ending(s, &e);
	completions_end_all(&s->when_running, &e);
	completions_end_all(&s->when_paused, &e);
	completions_end_all(&s->when_over, &e);
	if (s->cell != NULL && !kept_diff_start(s))
		live_cell_end(s->cell);
}

static void on_cell_dead(struct live_cell *cell)
{
	struct session *s = cell->owner;
	struct usage now;

	kept_diff_cell_died(s);
	/* The kernel's own count: a cell's PID 1 is killed with the rest when it is out of memory
	 * and no other process is left. */
	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_ALL, &now);
	if (now.oom_kills > s->oom_seen)
		session_stop(s, SESSION_OOM, "the cell ran out of memory");
	else if (cell->broken)
		session_stop(s, SESSION_CRASHED, "internal protocol error");
	else
		session_stop(s, SESSION_KILLED, "PID 1 of the cell was killed");
}

/* What the next session needs is free; the keeper removes the rest later. */
static void on_cell_exited(struct live_cell *cell)
{
	quota_release(cell->owner);
}

static void on_cell_gone(struct live_cell *cell)
{
	struct session *s = cell->owner;

	s->cell = NULL;
	if (s->row.state < SESSION_STOPPING)
		session_save_anyway(s, SESSION_STOPPING, SESSION_CRASHED);
	session_stopped_soon(s);
}

static void on_cell_held(struct live_cell *cell, const struct agent_event *v)
{
	struct session *s = cell->owner;
	struct execution *x = execution_by_handle(s, v->handle);
	struct err e;

	if (x != NULL)
		execution_adopt(x, cell, v);
	else if (agent_send_forget(&cell->agent, v->handle, &e) == 0)
		live_cell_flush(cell);
}

static void on_cell_failed(struct live_cell *cell, const struct agent_event *v)
{
	struct execution *x = execution_by_handle(cell->owner, v->handle);
	struct err e;

	if (x != NULL)
		execution_adopt_failed(x, cell, v);
	else if (agent_send_forget(&cell->agent, v->handle, &e) == 0)
		live_cell_flush(cell);
}

/* What PID 1 does not hold any more has ended without a record. */
static void on_cell_synced(struct live_cell *cell)
{
	struct session *s = cell->owner;
	struct usage now;

	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next;
		if (x->program.handle == 0)
			execution_lost(x);
	}
	execution_kills_synced(s);
	/* Hits of limits before this moment do not belong to what runs now. */
	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_ALL, &now);
	s->oom_seen = now.oom_kills;
	s->pids_seen = now.pids_refused;
	session_parts_resumed(s);
	loop_defer(s->core->loop, &s->tell);
}

static void on_cell_egress_listens(struct live_cell *cell, const struct agent_event *v)
{
	session_parts_egress_listens(cell->owner, cell, v);
}

const struct live_cell_events session_cell_events = {
	.up = on_cell_up,
	.dead = on_cell_dead,
	.exited = on_cell_exited,
	.gone = on_cell_gone,
	.held = on_cell_held,
	.failed = on_cell_failed,
	.synced = on_cell_synced,
	.egress_listens = on_cell_egress_listens,
};

/* Recovery found its cell alive: go on from the state that the store has. */
void session_adopted(struct session *s)
{
	struct err e;

	s->timer.on_expire = on_timer;
	session_touch(s);
	if (s->row.state < SESSION_STOPPING)
		session_parts_adopted(s);
	switch ((enum session_state)s->row.state) {
	case SESSION_RUNNING:
		break;
	case SESSION_CREATING: /* lingering, so it was finished */
		on_cell_up(s->cell, NULL);
		break;
	case SESSION_PAUSING: /* maybe frozen, maybe not: freezing is repeatable */
		session_freeze_again(s);
		break;
	case SESSION_RESUMING:
		if (agent_send_paused(&s->cell->agent, core_now_ms() - s->row.paused_since_ms,
				      &e) == 0)
			live_cell_flush(s->cell);
		session_thaw_again(s);
		break;
	case SESSION_PAUSED:
		break;
	case SESSION_STOPPING:
		s->cell->frozen = true; /* maybe; then it would not hear us */
		if (!kept_diff_start(s))
			live_cell_end(s->cell);
		break;
	case SESSION_STOPPED:
	case SESSION_STATES:
		break;
	}
}
