/* session_lifecycle.c - a session from its admission to the end of its cell. Every step is: write
 * the state, act, and when the action is done, the next step. A daemon that is killed in between
 * finds the state and does the action again (core_recover.c), so each action can be repeated.
 *
 * The steps in between are elsewhere: session_pause.c (freeze and thaw), session_stop.c (the end as
 * clients see it) and session_stopped.c (the last record). */
#include "session_lifecycle.h"

#include <errno.h>
#include <assert.h>
#include <string.h>

#include "clock.h"
#include "core_private.h"
#include "event_log.h"
#include "execution.h"
#include "execution_adopt.h"
#include "code_execution.h"
#include "execution_kill.h"
#include "execution_limits.h"
#include "file_op.h"
#include "guest_reader.h"
#include "kept_diff.h"
#include "memory_images.h"
#include "live_cell.h"
#include "log.h"
#include "pool_boot.h"
#include "quota.h"
#include "session_alloc.h"
#include "session_capture.h"
#include "session_cold.h"
#include "session_disk.h"
#include "session_guest.h"
#include "session_id.h"
#include "session_memory.h"
#include "session_parts.h"
#include "session_pause.h"
#include "session_save.h"
#include "session_service.h"
#include "session_spec.h"
#include "session_stop.h"
#include "session_stopped.h"
#include "session_timer.h"
#include "store_layer.h"
#include "template_stack.h"
#include "templates.h"
#include "usage.h"
#include "volume_mount.h"

static_assert(SESSION_STOPPING == STORE_SESSION_STOPPING, "queries of the store have the number");

static void on_timer(struct loop_timer *t);

/* ---- beginning */

/* *ret_claimed: a program that runs in its cell already, as an execution; or NULL. */
static int insert(struct session *s, enum session_state state, struct execution **ret_claimed,
		  struct err *e)
{
	const struct template_stack *own = s->own;
	struct core *c = s->core;

	s->row.state = state;
	/* No two sessions have the same time of creation, which is the order of lists. */
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
	    volume_mount_add_uses(c, &s->row, e) == 0 &&
	    event_log_append(c, &s->actor, s->row.tenant, s->row.id, "", "session.created", e,
			     "template\t%s\nlevel\t%s\nto\t%s\n", s->row.template,
			     session_level(s)->name, session_state_name(state)) == 0 &&
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
	session_touch(s);
	session_parts_started(s);
	if (s->row.state < SESSION_STOPPING) /* no part has failed */
		loop_defer(s->core->loop, &s->notify_running);
}

/* Nothing of the session is in the store, and nothing will be: those that wait get the error. */
static void drop_unrecorded(struct session *s, const struct err *e)
{
	if (s->cell != NULL) {
		live_cell_abandon(s->cell);
		s->cell = NULL;
	}
	quota_release(s);
	session_free_for(s, e);
}

void session_begin(struct session *s)
{
	struct core *c = s->core;
	struct execution *claimed;
	struct keeper_create plan;
	struct err e;

	loop_timer_cancel(c->loop, &s->timer);
	s->timer.on_expire = on_timer;
	if (s->when_running.first == NULL) {
		(void)err_set(&e, ERR_CONFLICT, "the client disconnected");
		drop_unrecorded(s, &e); /* while the session was queued */
		return;
	}
	s->cell = s->own == NULL && !s->goes_on ? templates_claim(s) : NULL;
	if (s->cell != NULL) {
		s->from_pool = true;
		memcpy(s->row.id, s->cell->id, sizeof(s->row.id));
		if (insert(s, SESSION_RUNNING, &claimed, &e) < 0) {
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
	    insert(s, SESSION_CREATING, &claimed, &e) < 0) {
		drop_unrecorded(s, &e);
		return;
	}
	session_list_in(s);
	session_make_cell(s, &plan);
}

static void boot_failed(struct session *s, const struct err *e)
{
	struct err why = *e;

	memory_image_tried(s->core, s->clone_of, false);
	if (s->row.state == SESSION_RESUMING && session_is_cold(&s->row)) {
		session_cold_up(s, e);
		return;
	}
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
}

static void on_guest_ready(struct session *s, const struct keeper_create *plan,
			   const struct boot_request *r, int *fds, const struct err *e)
{
	if (e != NULL) {
		boot_failed(s, e);
		return;
	}
	s->cell = live_cell_make(&s->core->cells, plan, true, &session_cell_events, s);
	live_guest_set(s->cell, r, fds);
}

static void on_disk_ready(struct session *s, const struct keeper_create *plan, const struct err *e)
{
	if (e != NULL)
		boot_failed(s, e);
	else if (session_guest_is_needed(s))
		session_guest_prepare(s, plan, on_guest_ready);
	else
		s->cell = live_cell_make(&s->core->cells, plan, true, &session_cell_events, s);
}

void session_make_cell(struct session *s, const struct keeper_create *plan)
{
	/* Programs that go on are reported, and write, before the cell is up. */
	if (s->goes_on || s->row.state == SESSION_RESUMING)
		session_parts_making(s);
	session_disk_prepare(s, plan, on_disk_ready);
}

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
	memory_image_tried(s->core, s->clone_of, true);
	s->row.pid = cell->pid;
	s->row.started_ms = core_now_ms();
	s->row.deadline_ms = s->row.timeout_ms == 0 ? 0 : s->row.started_ms + s->row.timeout_ms;
	if (session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &why) < 0) {
		completions_end_all(&s->when_running, &why);
		session_stop(s, SESSION_CRASHED, "the start of the session could not be recorded");
		return;
	}
	if (s->goes_on) {
		session_guest_went_on(s);
		session_service_recover(s);
	}
	s->starting = true;
	session_start_parts(s);
}

/* ---- time */

/* What runs in the background, such as the start command, does not keep a persistent session from
 * its rest: it is started again. An interpreter that waits for code keeps no session from it. */
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

/* The end of its cell is not the end of a session that is kept. */
static void cell_ended(struct session *s, enum session_reason reason, const char *why)
{
	if (session_is_kept(&s->row))
		session_cold_lost(s, why);
	else
		session_stop(s, reason, why);
}

void session_end_unresponsive(struct session *s)
{
	log_warn("a cell is ended because a program outlives its timeout", "session_id=%s",
		 s->row.id);
	cell_ended(s, SESSION_UNRESPONSIVE,
		   "a program outlived its timeout, and could not be ended");
}

static void on_cell_dead(struct live_cell *cell)
{
	struct session *s = cell->owner;
	struct usage now;

	kept_diff_cell_died(s);
	/* By the kernel's count: PID 1 is killed when the cell is out of memory and no other
	 * process is left. */
	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_ALL, &now);
	if (now.oom_kills > s->oom_seen)
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

/* The cell's memory and files are free; the keeper removes the rest later. */
static void on_cell_exited(struct live_cell *cell)
{
	quota_release(cell->owner);
}

static void on_cell_gone(struct live_cell *cell)
{
	struct session *s = cell->owner;

	s->cell = NULL;
	if (session_is_kept(&s->row)) {
		session_cold_lost(s, "the cell is gone");
		return;
	}
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
	else if (s->goes_on && cell->state == LIVE_BOOTING &&
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

/* An execution that PID 1 does not hold has ended, and its outcome is lost. */
static void on_cell_synced(struct live_cell *cell)
{
	struct session *s = cell->owner;

	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next; /* alone: an execution that is lost is freed from the loop */
		if (x->program.handle == 0 && !execution_is_call(x))
			execution_lost(x);
	}
	execution_kills_synced(s);
	execution_limits_synced(s);
	session_parts_resumed(s);
	session_service_recover(s);
	loop_defer(s->core->loop, &s->notify_running);
}

static void on_cell_egress_listens(struct live_cell *cell, const struct agent_event *v)
{
	session_parts_egress_listens(cell->owner, cell, v);
}

/* Its end, if it has one, follows: on_cell_dead(). */
static void on_cell_guest(struct live_cell *cell, const struct agent_event *v)
{
	struct session *s = cell->owner;
	struct err e;

	if (s->row.state >= SESSION_STOPPING)
		return;
	if (event_log_append(s->core, NULL, s->row.tenant, s->row.id, "", "session.guest", &e,
			     "state\t%s\n", boot_guest_word(v->stage)) < 0)
		log_warn("event could not be written", "session_id=%s error=%s", s->row.id, e.msg);
}

static void on_cell_stopped(struct live_cell *cell)
{
	struct session *s = cell->owner;

	if (s->row.state < SESSION_STOPPING && s->cell == cell)
		session_memory_go_on(s);
}

const struct live_cell_events session_cell_events = {
	.on_up = on_cell_up,
	.on_dead = on_cell_dead,
	.on_exited = on_cell_exited,
	.on_gone = on_cell_gone,
	.on_held = on_cell_held,
	.on_failed = on_cell_failed,
	.on_synced = on_cell_synced,
	.on_egress_listens = on_cell_egress_listens,
	.on_guest = on_cell_guest,
	.on_stopped = on_cell_stopped,
};

void session_adopted_cold(struct session *s)
{
	s->timer.on_expire = on_timer;
}

void session_adopted(struct session *s)
{
	struct err e;

	s->timer.on_expire = on_timer;
	agent_count_for(&s->cell->agent, &s->tenant->orders);
	session_touch(s);
	execution_call_end_old(s);
	if (s->row.state < SESSION_STOPPING)
		session_parts_adopted(s);
	switch ((enum session_state)s->row.state) {
	case SESSION_RUNNING:
		session_capture_recover(s);
		break;
	case SESSION_CREATING: /* lingering, so it was finished, unless it has a guest */
		if (session_guest_is_needed(s))
			cell_ended(s, SESSION_CRASHED,
				   "the server ended while the guest was started");
		else
			on_cell_up(s->cell, NULL);
		break;
	case SESSION_PAUSING: /* maybe frozen, maybe not: freezing is repeatable */
		if (s->row.cold == COLD_TO_MEMORY)
			session_memory_go_on(s); /* it may be stopped; the pause did not come */
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
		s->row.cold = COLD_NO; /* it was to be booted again, and is not */
		break;
	case SESSION_STOPPING:
		/* Maybe; then it reads no request. A diff of a guest is read by its agent: no cell
		 * was frozen for that. */
		s->cell->frozen =
			s->row.keep_diff != KEPT_DIFF_WANTED || !guest_reader_is_needed(s);
		if (!kept_diff_start(s))
			live_cell_end(s->cell);
		break;
	case SESSION_STOPPED:
	case SESSION_STATES:
		break;
	}
}
