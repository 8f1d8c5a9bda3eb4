/* session_lifecycle.c - a session from its admission to the end of its cell. Every step is: write
 * the state, act, and when the action is done, the next step. A daemon killed in between finds the
 * state and repeats the action (core_run.c), so each action can be repeated.
 *
 * Other files have the steps in between: session_pause.c freezes and thaws, session_stop.c ends a
 * session for its clients and writes its last record.
 */
#include "daemon/session/session_lifecycle.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cell/cellctl/usage.h"
#include "daemon/cells/live_cell.h"
#include "daemon/execution/code_execution.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_adopt.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/execution/file_op.h"
#include "daemon/guest/guest_reader.h"
#include "daemon/guest/memory_images.h"
#include "daemon/guest/session_guest.h"
#include "daemon/guest/session_memory.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_alloc.h"
#include "daemon/session/session_capture.h"
#include "daemon/session/session_diff.h"
#include "daemon/session/session_disk.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_pause.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_settings.h"
#include "daemon/session/session_watch.h"
#include "daemon/session/session_service.h"
#include "daemon/session/session_spec.h"
#include "daemon/session/session_states.h"
#include "daemon/session/session_stop.h"
#include "daemon/session/session_suspend.h"
#include "daemon/session/session_volume.h"
#include "daemon/store/store_layer.h"
#include "daemon/store/store_once.h"
#include "daemon/template/pool_boot.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/quota.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/session_id.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

static_assert(SESSION_ENDING == STORE_SESSION_ENDING, "queries of the store have the number");

static void on_timer(struct loop_timer *t);

/* ---- the begin */

/* The session's timer, and a program that outlives its timeout, call this file from now on. */
static void session_take_over(struct session *s)
{
	s->timer.on_expire = on_timer;
	s->on_unresponsive = session_end_unresponsive;
}

#define LIFECYCLE_FACTS 512

/* A session's first limits and policy, for its audit record. */
static void lifecycle_facts(const struct session *s, char ret[LIFECYCLE_FACTS])
{
	const struct store_session *row = &s->row;
	char hex[2 * SHA256_SIZE + 1];

	session_policy_hash(row, hex);
	(void)snprintf(ret, LIFECYCLE_FACTS,
		       "template_version\t%llu\nmemory\t%llu\ncpu_millis\t%llu\npids\t%llu\n"
		       "disk\t%llu\ntimeout_ms\t%llu\npolicy_sha256\t%s\n",
		       s->template == NULL ? 0 : (unsigned long long)s->template->row.version,
		       (unsigned long long)row->limits.memory_bytes,
		       (unsigned long long)row->limits.cpu_millis,
		       (unsigned long long)row->limits.pids,
		       (unsigned long long)row->limits.disk_bytes,
		       (unsigned long long)row->timeout_ms, hex);
}

static int insert_once(struct session *s, struct err *e)
{
	if (s->once == NULL)
		return 0;
	str_copy(s->once->object, s->row.id);
	return store_once_insert(s->core->store, s->once, e);
}

/* Insert the row and its event. *ret_claimed: a program that runs in its cell already, as an
 * execution, or NULL. */
static int lifecycle_insert(struct session *s, enum session_state state,
			    struct execution **ret_claimed, struct err *e)
{
	const struct template_stack *own = s->own;
	char facts[LIFECYCLE_FACTS];
	const struct event_more more = { .facts = facts };
	struct core *c = s->core;

	lifecycle_facts(s, facts);
	s->row.state = state;
	/* No two sessions have the same time of creation, because lists are in this order. */
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
	*ret_claimed = NULL;
	if (store_begin(c->store, e) == 0 && store_session_insert(c->store, &s->row, e) == 0 &&
	    (s->cell == NULL ||
	     (pool_boot_record(s, ret_claimed, e) == 0 && session_guest_claim(s, e) == 0)) &&
	    (own == NULL || store_layer_use(c->store, STORE_LAYER_OF_SESSION, s->row.id,
					    own->layers, own->nlayers, e) == 0) &&
	    volume_mount_add_uses(c, &s->row, e) == 0 && insert_once(s, e) == 0 &&
	    event_log_append_more(
		    c, &s->actor, s->row.tenant, s->row.id, "", "session.created", &more, e,
		    "template\t%s\nlevel\t%s\nto\t%s\n%s%s%s", s->row.template,
		    session_level(s)->name, session_state_name(state),
		    s->row.traceparent[0] == '\0' ? "" : "traceparent\t", s->row.traceparent,
		    s->row.traceparent[0] == '\0' ? "" : "\n") == 0 &&
	    store_commit(c->store, e) == 0)
		return 0;
	store_rollback(c->store);
	if (*ret_claimed != NULL)
		execution_free(*ret_claimed);
	return err_wrap(e, "record session");
}

void session_start_parts(struct session *s)
{
	agent_count_for(&s->cell->agent, &s->tenant->orders);
	live_cell_charge(s->cell, s->row.tenant);
	session_parts_started(s);
	session_touch(s);		   /* its deadline goes to PID 1 with the next request */
	if (s->row.state < SESSION_ENDING) /* no part has failed */
		loop_defer(s->core->loop, &s->notify_running);
}

/* Drop a session before its row is written: all who wait get the error. */
static void drop_unrecorded(struct session *s, const struct err *e)
{
	if (s->cell != NULL) {
		live_cell_abandon(s->cell);
		s->cell = NULL;
	}
	quota_release(s);
	session_free_for(s, e);
}

/* A pool cell is up already, so its session begins as running. All others begin as creating. */
void session_begin(struct session *s)
{
	struct core *c = s->core;
	struct execution *claimed;
	struct keeper_create plan;
	struct err e;

	loop_timer_cancel(c->loop, &s->timer);
	session_take_over(s);
	/* a queued client may have gone */
	if (s->when_running.first == NULL) {
		(void)err_set(&e, ERR_CONFLICT, "the client disconnected");
		drop_unrecorded(s, &e); /* while the session was queued */
		return;
	}
	/* Cells of pools are not traced. */
	if (s->own == NULL && !s->guest.from_memory && session_watch_flags(&s->row) == 0)
		s->cell = templates_claim(s);
	if (s->cell != NULL) {
		s->from_pool = true;
		memcpy(s->row.id, s->cell->id, sizeof(s->row.id));
		if (lifecycle_insert(s, SESSION_RUNNING, &claimed, &e) < 0) {
			pool_boot_hand_over(s, NULL);
			drop_unrecorded(s, &e);
			return;
		}
		live_cell_own(s->cell, &session_cell_events, s);
		s->prepared = s->cell->prepared != NULL;
		pool_boot_hand_over(s, claimed);
		session_list_in(s);
		s->starting = true;
		session_start_parts(s);
		return;
	}
	session_id_make(c->o.config->node_name, s->row.id);
	if (session_spec_plan(c, s->template, &s->row, s->own, &plan, &e) < 0 ||
	    lifecycle_insert(s, SESSION_CREATING, &claimed, &e) < 0) {
		drop_unrecorded(s, &e);
		return;
	}
	session_list_in(s);
	session_make_cell(s, &plan);
}

/* The next use of a cold session tries again. A new session ends, with a record that says why. */
static void boot_failed(struct session *s, const struct err *e)
{
	struct err why = *e;

	memory_image_tried(s->core, s->guest.clone_of, false);
	if (s->row.state == SESSION_RESUMING && session_is_cold(&s->row)) {
		session_cold_up(s, e);
		return;
	}
	s->cell = NULL;	       /* it ends without an owner */
	execution_lose_all(s); /* programs of a saved memory, reported before it failed */
	if (s->row.state == SESSION_CREATING) {
		session_save_anyway(s, SESSION_ENDING, SESSION_CRASHED);
		s->row.detail = "the cell could not be made";
		session_save_anyway(s, SESSION_ENDED, SESSION_CRASHED);
	}
	completions_end_all(&s->when_running, &why);
	quota_release(s);
	if (!s->unsaved)
		session_free(s);
}

static void on_guest_ready(struct session *s, const struct keeper_create *plan,
			   const struct boot_request *r, int *fds, const struct err *e)
{
	if (e != NULL) {
		boot_failed(s, e);
		return;
	}
	s->cell =
		live_cell_make(&s->core->cells, plan, s->row.tenant, true, &session_cell_events, s);
	live_guest_set(s->cell, r, fds);
}

static void on_disk_ready(struct session *s, const struct keeper_create *plan, const struct err *e)
{
	if (e != NULL)
		boot_failed(s, e);
	else if (session_has_guest(s))
		session_guest_prepare(s, plan, on_guest_ready);
	else
		s->cell = live_cell_make(&s->core->cells, plan, s->row.tenant, true,
					 &session_cell_events, s);
}

void session_make_cell(struct session *s, const struct keeper_create *plan)
{
	/* Continued programs are reported, and write, before the cell is up. */
	if (s->guest.from_memory || s->row.state == SESSION_RESUMING)
		session_parts_making(s);
	session_disk_prepare(s, plan, on_disk_ready);
}

/* The cell is up, or could not be made (e). session_adopted() calls this, too, for a cell made
 * before the restart. */
static void on_cell_up(struct live_cell *cell, const struct err *e)
{
	struct session *s = cell->owner;
	struct err why;

	if (s->row.state == SESSION_RESUMING && session_is_cold(&s->row)) {
		session_cold_up(s, e);
		return;
	}
	if (e != NULL && e->code == ERR_SYSTEM && e->sys == EROFS) {
		(void)err_set(&why, ERR_INVALID,
			      "%.160s: the root is read-only; name a directory that the template "
			      "has, or one below /tmp or /home/user",
			      e->msg);
		boot_failed(s, &why);
		return;
	}
	if (e != NULL) {
		boot_failed(s, e);
		return;
	}
	memory_image_tried(s->core, s->guest.clone_of, true);
	s->row.pid = cell->pid;
	s->row.started_ms = core_now_ms();
	s->row.deadline_ms = s->row.timeout_ms == 0 ? 0 : s->row.started_ms + s->row.timeout_ms;
	if (session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &why) < 0) {
		completions_end_all(&s->when_running, &why);
		session_stop(s, SESSION_CRASHED, "the start of the session could not be recorded");
		return;
	}
	if (s->guest.from_memory) {
		session_guest_went_on(s);
		session_service_recover(s);
	}
	s->starting = true;
	session_start_parts(s);
}

/* ---- time */

/* Background programs, such as the start command, do not keep a persistent session from its rest:
 * they are started again. A waiting interpreter keeps no session from it. */
static bool runs_something(const struct session *s)
{
	for (const struct execution *x = s->executions; x != NULL; x = x->next)
		if (!x->ended && x->row.kind != EXECUTION_INTERPRETER &&
		    (s->row.keep_ms == 0 || !x->background))
			return true;
	return false;
}

static bool is_busy(const struct session *s)
{
	return s->holds > 0 || runs_something(s) || file_op_is_busy(s);
}

static void on_timer(struct loop_timer *t)
{
	struct session *s = t->arg;

	session_timer_check_clock(s->core);
	bool over = s->row.deadline_ms > 0 && s->row.deadline_ms <= core_now_ms();
	bool idle = s->row.idle_ms > 0 && !is_busy(s) &&
		    s->used_ns + s->row.idle_ms * CLOCK_MS <= clock_now_ns();

	if (session_timer_is_unused(s))
		session_stop(s, SESSION_EXPIRED, "not used for the time that it is kept");
	else if (s->row.state == SESSION_PAUSED)
		session_plan_timer(s);
	if (s->row.state != SESSION_RUNNING)
		return;
	live_cell_flush(s->cell); /* a queued deadline, if no other request was sent since */
	if (is_busy(s))
		s->used_ns = clock_now_ns(); /* idle time starts when the last user leaves */
	uint32_t action = over ? s->row.on_timeout : s->row.on_idle;

	if ((over || idle) && action != SESSION_KILL) {
		session_pause_by_itself(s, action == SESSION_PAUSE_FILES);
	} else if (over) {
		session_stop(s, SESSION_EXPIRED, "timeout reached");
	} else if (idle) {
		session_stop(s, SESSION_EXPIRED, "idle timeout reached");
	} else {
		session_plan_timer(s);
	}
}

/* ---- the end */

/* A kept session survives the end of its cell. */
static void cell_ended(struct session *s, enum session_reason reason, const char *why)
{
	if (session_is_kept(&s->row))
		session_cold_lost(s, why);
	else
		session_stop(s, reason, why);
}

void session_end_unresponsive(struct session *s)
{
	log_warn("a cell is ended because a program outlives its timeout or its kill",
		 "session_id=%s", s->row.id);
	session_parts_fault(
		s, "a program outlived its timeout, and PID 1 or the guest did not end it");
	execution_mark_overdue(s);
	cell_ended(s, SESSION_UNRESPONSIVE,
		   "a program outlived its timeout or its kill, and could not be ended");
}

/* PID 1 has died. The most specific known cause becomes the reason. */
static void on_cell_dead(struct live_cell *cell)
{
	struct session *s = cell->owner;
	struct usage now;

	kept_diff_cell_died(s);
	if (cell->guest_state == BOOT_GUEST_BROKE || cell->broken)
		session_parts_fault(s, cell->broken ? "PID 1 broke the protocol"
						    : "the guest broke the protocol");
	/* By the kernel's count: PID 1 is killed when the cell is out of memory and no other
	 * process is left. */
	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_ALL, &now);
	if (now.oom_kills > s->seen.oom)
		cell_ended(s, SESSION_OOM, "the cell ran out of memory");
	else if (cell->guest_state == BOOT_GUEST_PANICKED)
		cell_ended(s, SESSION_GUEST_PANICKED, "the kernel of the guest has ended");
	else if (cell->guest_state == BOOT_GUEST_EXITED)
		cell_ended(s, SESSION_ENGINE_EXITED, "the engine of the guest has ended");
	else if (cell->guest_state == BOOT_GUEST_OVERDUE)
		session_end_unresponsive(s);
	else if (cell->guest_state == BOOT_GUEST_BROKE)
		cell_ended(s, SESSION_CRASHED, "the guest broke the protocol and was ended");
	else if (cell->broken)
		cell_ended(s, SESSION_CRASHED, "internal protocol error");
	else if (session_timer_ends_cell(s)) /* in the moment in which this server connected */
		cell_ended(s, SESSION_EXPIRED, "timeout reached");
	else
		cell_ended(s, SESSION_KILLED, "PID 1 of the cell was killed");
}

/* The cell's memory and files are free. The keeper removes the rest later. */
static void on_cell_exited(struct live_cell *cell)
{
	quota_release(cell->owner);
}

/* Nothing of the cell is left, so the session's last record can be written. */
static void on_cell_gone(struct live_cell *cell)
{
	struct session *s = cell->owner;

	s->cell = NULL;
	if (session_is_kept(&s->row)) {
		session_cold_lost(s, "the cell is gone");
		return;
	}
	if (s->row.state < SESSION_ENDING)
		session_save_anyway(s, SESSION_ENDING, SESSION_CRASHED);
	session_ended_soon(s);
}

/* PID 1 reports a program after a reconnect, or the guest does after it continued a saved memory. A
 * program of no execution is forgotten, or PID 1 would hold it forever. */
static void on_cell_held(struct live_cell *cell, const struct agent_event *v)
{
	struct session *s = cell->owner;
	struct execution *x = execution_by_handle(s, v->handle);
	struct err e;

	if (x != NULL)
		execution_adopt(x, cell, v);
	else if (s->guest.from_memory && cell->state == LIVE_BOOTING &&
		 (s->row.state == SESSION_CREATING || s->row.cold == COLD_BLANK))
		execution_continue(s, cell, v);
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

/* An execution unknown to PID 1 has ended, and its outcome is lost. */
static void on_cell_synced(struct live_cell *cell)
{
	struct session *s = cell->owner;

	LIST_WALK_ENDING(struct execution, x, s->executions) {
		/* alone: the loop frees a lost execution later */
		if (x->program.handle == 0 && !execution_is_call(x))
			execution_lost(x);
	}
	execution_kills_synced(s);
	execution_limits_synced(s);
	session_parts_resumed(s);
	session_service_recover(s);
	loop_defer(s->core->loop, &s->notify_running);
}

static void on_cell_stated(struct live_cell *cell, const struct agent_event *v)
{
	execution_call_on_stated(cell->owner, v);
}

static void on_cell_egress_listens(struct live_cell *cell, const struct agent_event *v)
{
	session_parts_egress_listens(cell->owner, cell, v);
}

/* A guest's state has changed. If the guest has ended, on_cell_dead() follows. */
static void on_cell_guest(struct live_cell *cell, const struct agent_event *v)
{
	struct session *s = cell->owner;
	struct err e;

	if (s->row.state >= SESSION_ENDING)
		return;
	if (event_log_append(s->core, NULL, s->row.tenant, s->row.id, "", "session.guest", &e,
			     "state\t%s\n", boot_guest_word(v->stage)) < 0)
		log_warn("event could not be written", "session_id=%s error=%s", s->row.id, e.msg);
	if (v->stage == BOOT_GUEST_UNRESPONSIVE)
		session_parts_fault(s, "the guest does not answer");
}

static void on_cell_stopped(struct live_cell *cell)
{
	struct session *s = cell->owner;

	if (s->row.state < SESSION_ENDING && s->cell == cell)
		session_memory_go_on(s);
}

static bool on_cell_watch(struct live_cell *c, int fd)
{
	return session_watch_wish(&((struct session *)c->owner)->row, fd);
}

const struct live_cell_events session_cell_events = {
	.on_watch = on_cell_watch,
	.on_up = on_cell_up,
	.on_dead = on_cell_dead,
	.on_exited = on_cell_exited,
	.on_gone = on_cell_gone,
	.on_held = on_cell_held,
	.on_failed = on_cell_failed,
	.on_synced = on_cell_synced,
	.on_stated = on_cell_stated,
	.on_egress_listens = on_cell_egress_listens,
	.on_guest = on_cell_guest,
	.on_stopped = on_cell_stopped,
};

void session_adopted_cold(struct session *s)
{
	session_take_over(s);
}

void session_adopted(struct session *s)
{
	struct err e;

	session_take_over(s);
	agent_count_for(&s->cell->agent, &s->tenant->orders);
	live_cell_charge(s->cell, s->row.tenant);
	session_touch(s);
	execution_call_end_old(s);
	if (s->row.state < SESSION_ENDING)
		session_parts_adopted(s);
	switch ((enum session_state)s->row.state) {
	case SESSION_RUNNING:
		session_capture_recover(s);
		break;
	case SESSION_CREATING: /* lingering, so the cell was finished, unless it has a guest */
		if (session_has_guest(s))
			cell_ended(s, SESSION_CRASHED,
				   "the server ended while the guest was started");
		else
			on_cell_up(s->cell, NULL);
		break;
	case SESSION_PAUSING: /* maybe frozen, maybe not: freezing is repeatable */
		if (s->row.cold == COLD_TO_MEMORY)
			session_memory_go_on(
				s); /* it may be stopped, because the pause was not finished */
		if (s->row.cold == COLD_TO_MEMORY)
			session_cold_undo(s);
		else if (s->row.cold >= COLD_TO_CAPTURE)
			session_cold_again(s);
		else
			session_freeze_again(s);
		break;
	case SESSION_RESUMING:
		if (agent_send_paused(&s->cell->agent, core_now_ms() - s->row.paused_since_ms,
				      &e) == 0)
			live_cell_flush(s->cell);
		session_thaw_again(s);
		break;
	case SESSION_PAUSED:
		s->row.cold = COLD_NO; /* a reboot was planned and did not happen */
		break;
	case SESSION_ENDING:
		/* It may be frozen, and then it reads no request. A guest's diff is read by its
		 * agent, without a frozen cell. */
		s->cell->frozen =
			s->row.keep_diff != KEPT_DIFF_WANTED || !guest_reader_is_needed(s);
		if (!kept_diff_start(s))
			live_cell_end(s->cell);
		break;
	case SESSION_ENDED:
	case SESSION_STOPPED:
	case SESSION_STATES:
		break;
	}
}
