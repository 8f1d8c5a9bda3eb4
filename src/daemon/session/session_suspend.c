/* session_suspend.c - a session becomes cold, and gets a cell again (session_suspend.h).
 *
 * The steps of a suspend: write the way in which it becomes cold, capture the files if they are
 * kept, write that the session is cold, with its layers, in one transaction, and end the cell. So
 * the row says cold before its cell is ended.
 *
 * The next resume makes a cell of the template and the session's own layers or disk, as for a new
 * session. The start command of the template follows.
 */
#include "daemon/session/session_suspend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/disk/layers.h"
#include "daemon/execution/dial.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_adopt.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/execution/file_op.h"
#include "daemon/guest/guest_reader.h"
#include "daemon/guest/session_guest.h"
#include "daemon/guest/session_memory.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_boot.h"
#include "daemon/session/session_capture.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_lifecycle.h"
#include "daemon/session/session_op.h"
#include "daemon/session/session_pause.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_service.h"
#include "daemon/session/session_spec.h"
#include "daemon/session/session_states.h"
#include "daemon/session/session_stop.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/quota.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

static struct suspend *suspend_find(const struct session *s)
{
	return (struct suspend *)session_op_find(s, SESSION_OP_SUSPEND);
}

/* A session after a reset, or without files of its own, begins as its template does: from a
 * snapshot with memory it continues. */
static void set_beginning(struct session *s)
{
	if (s->row.cold == COLD_MEMORY)
		return;
	s->guest.from_memory =
		s->own == NULL && s->template != NULL && template_has_memory(s->template);
	if (s->guest.from_memory)
		memcpy(s->guest.source, s->template->row.source, sizeof(s->guest.source));
}

void session_cold_wake(struct session *s, const struct store_actor *who)
{
	struct core *c = s->core;
	struct keeper_create plan;
	unsigned retry_s;
	struct err e;

	if (suspend_find(s) != NULL)
		return; /* the cell is not gone yet: on_gone() calls again */
	session_timer_check_clock(c);
	session_set_actor(s, who);
	if (core_level_check(c, session_level(s), &e) < 0 ||
	    session_spec_plan(c, s->template, &s->row, s->own, &plan, &e) < 0 ||
	    (!s->quota.live && quota_fits(s, &retry_s, &e) < 0) ||
	    session_save(s, SESSION_RESUMING, SESSION_NO_REASON, &e) < 0) {
		session_cold_not_woken(s, &e);
		completions_end_all(&s->when_running, &e);
		return;
	}
	if (!s->quota.live)
		quota_take(s);
	set_beginning(s);
	session_make_cell(s, &plan);
}

static void not_up(struct session *s, const struct err *e)
{
	struct err why = *e, ignored;

	/* The guest may have reported its programs before it failed. They wait for the next try. */
	if (s->row.cold == COLD_MEMORY && s->cell != NULL)
		execution_detach_all(s);
	s->cell = NULL; /* it ends without an owner */
	quota_uncount(s);
	IGNORED(session_save(s, SESSION_PAUSED, SESSION_NO_REASON, &ignored),
		"the next start makes paused of resuming, too");
	s->row.state = SESSION_PAUSED;
	session_plan_timer(s);
	session_cold_not_woken(s, &why);
	completions_end_all(&s->when_running, &why);
}

/* The guest runs with its programs, so the saved memory is not needed any more. */
static void went_on(struct session *s)
{
	char root[STORE_ID_MAX];
	struct err e;

	s->guest.cannot_save = false;
	execution_lose_detached(s);
	session_service_recover(s);
	if (session_guest_root(s, root, &e) < 0 ||
	    store_layer_use(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id,
			    (const char(*)[STORE_ID_MAX])root, 1, &e) < 0)
		log_warn("a memory image stays until the session ends", "session_id=%s error=%s",
			 s->row.id, e.msg);
	layers_collect(&s->core->layers, false, NULL);
}

void session_cold_up(struct session *s, const struct err *e)
{
	bool goes_on = s->row.cold == COLD_MEMORY;
	struct err why;

	if (e != NULL) {
		not_up(s, e);
		return;
	}
	s->row.pid = s->cell->pid;
	memcpy(s->row.boot_id, s->core->boot_id, sizeof(s->row.boot_id));
	s->row.cold = COLD_NO;
	s->cpu_before_us = s->row.usage.cpu_us;
	s->meter.seen_ns = clock_now_ns(); /* nothing was held while it had no cell */
	s->seen.oom_last = s->seen.pids_last = s->seen.oom = s->seen.pids = s->seen.disk =
		s->seen.inodes = 0;
	session_pause_over(s);
	if (session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &why) < 0) {
		completions_end_all(&s->when_running, &why);
		session_stop(s, SESSION_CRASHED, "the start of the session could not be recorded");
		return;
	}
	if (goes_on)
		went_on(s);
	else if (s->guest.from_memory)
		session_service_recover(s);
	else
		session_reboot_begin(s);
	session_start_parts(s);
}

/* Record the intent before anything is done: the session pauses, or is paused already, and will
 * become cold. cold: COLD_TO_CAPTURE, COLD_TO_DISK or COLD_TO_RESET. A daemon that starts again
 * continues from there (session_cold_again()). */
static int session_cold_write_going(struct session *s, uint32_t cold, const struct store_actor *who,
				    struct err *e)
{
	uint32_t before = s->row.cold;

	session_timer_check_clock(s->core);
	session_set_actor(s, who);
	s->row.cold = cold;
	if (s->row.state == SESSION_RUNNING) {
		s->row.paused_since_ms = core_now_ms();
		if (session_save(s, SESSION_PAUSING, SESSION_NO_REASON, e) == 0)
			return 0;
		s->row.paused_since_ms = 0;
	} else if (store_session_update_state(s->core->store, &s->row, e) == 0) {
		return 0;
	}
	s->row.cold = before;
	return -1;
}

static int write_layers(struct session *s, const struct template_stack *own, struct err *e)
{
	/* Not the images of its guest: they have other files. */
	if (store_layer_unuse(s->core->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id, e) < 0)
		return -1;
	return store_layer_use(s->core->store, STORE_LAYER_OF_SESSION, s->row.id, own->layers,
			       own->nlayers, e);
}

/* from: the state shown before. The state of a session paused with its memory does not change, but
 * the shown one does. */
static int write_state(struct session *s, const char *from, struct err *e)
{
	bool changes = strcmp(from, session_shown_name(&s->row)) != 0;

	if (s->row.state == SESSION_PAUSING)
		return session_save(s, SESSION_PAUSED, SESSION_NO_REASON, e);
	if (store_session_update_state(s->core->store, &s->row, e) < 0 ||
	    (changes && session_save_event(s, from, e) < 0))
		return -1;
	if (changes)
		session_save_log(s, from);
	return 0;
}

/* Write the cold state and the session's layers in one transaction. own: the layers of its files,
 * NULL with COLD_MEMORY. guest: then the root image and the memory of its guest. */
static int cold_write(struct session *s, enum session_cold cold, const struct template_stack *own,
		      const char (*guest)[STORE_ID_MAX], struct err *e)
{
	const char *from = session_shown_name(&s->row);
	struct store *store = s->core->store;
	uint32_t before = s->row.cold;
	bool joined;

	s->row.cold = cold;
	if (store_join(store, &joined, e) == 0 &&
	    (own != NULL ? write_layers(s, own, e)
			 : store_layer_use(store, STORE_LAYER_GUEST_OF_SESSION, s->row.id, guest, 2,
					   e)) == 0 &&
	    write_state(s, from, e) == 0 && store_leave(store, joined, e) == 0)
		return 0;
	store_rollback(store);
	s->row.cold = before;
	return -1;
}

/* The session has lost its cell, and is cold in any case. If the row cannot be written, the next
 * start finds no cell and comes here again. */
static void session_cold_write_lost(struct session *s, const char *why)
{
	enum session_cold cold =
		s->row.cold == COLD_BLANK || s->row.cold == COLD_TO_RESET ? COLD_BLANK : COLD_YES;
	struct template_stack none = { 0 };
	struct err e = { 0 };

	session_set_actor(s, NULL);
	s->row.detail = why;
	if (s->row.paused_since_ms == 0)
		s->row.paused_since_ms = core_now_ms();
	if (s->row.state == SESSION_RUNNING)
		session_save_anyway(s, SESSION_PAUSING, SESSION_NO_REASON);
	if (s->row.state == SESSION_RESUMING)
		session_save_anyway(s, SESSION_PAUSED, SESSION_NO_REASON);
	if (cold_write(s, cold, s->own == NULL ? &none : s->own, NULL, &e) < 0)
		log_error("session state could not be written", "session_id=%s error=%s", s->row.id,
			  e.msg);
	s->row.cold = cold;
	s->row.state = SESSION_PAUSED;
}

#define WAIT_MS 660000 /* for waiting requests: longer than a capture may take */

struct suspend {
	struct session_op op; /* first */
	enum cold_how how;
	struct session_capture capture;
	struct session_memory memory;
	struct template_stack own;   /* the layers that it will have */
	struct template_stack whole; /* those of its template below them, while they are folded */
	struct layer_fold fold;
	struct live_cell *cell; /* owned: being ended. NULL: not yet, or gone */
};

bool session_is_kept(const struct store_session *row)
{
	return row->keep_ms > 0 && row->state >= SESSION_RUNNING && row->state < SESSION_ENDING;
}

static void suspend_release(struct suspend *k)
{
	session_capture_cancel(&k->capture);
	session_memory_release(&k->memory);
	layer_fold_release(&k->fold);
	session_op_end(&k->op);
	free(k);
}

/* The cell is still ended: on_gone() follows. */
static void on_lost(struct session_op *op, const struct err *why)
{
	struct suspend *k = (struct suspend *)op;

	if (k->cell == NULL)
		suspend_release(k);
}

/* The next daemon ends the cell. */
static void on_free(struct session_op *op, const struct err *why)
{
	struct suspend *k = (struct suspend *)op;

	if (k->cell != NULL)
		live_cell_detach(k->cell);
	suspend_release(k);
}

static const struct session_op_calls suspend_calls = { .kind = SESSION_OP_SUSPEND,
						       .on_lost = on_lost,
						       .on_free = on_free };

static struct suspend *suspend_new(struct session *s, enum cold_how how)
{
	struct suspend *k = calloc(1, sizeof(*k));

	assert(k != NULL);
	k->how = how;
	k->fold.job.fd = k->memory.job.fd = -1;
	session_op_begin(&k->op, s, &suspend_calls);
	return k;
}

/* ---- without a cell */

static void on_end_event(struct live_cell *cell)
{
}

/* Nothing of the cell is left. */
static void on_gone(struct live_cell *cell)
{
	struct session *s = cell->owner;
	struct suspend *k = suspend_find(s);

	k->cell = NULL;
	suspend_release(k);
	if (s->row.state >= SESSION_ENDING) {
		session_ended_soon(s);
		return;
	}
	quota_uncount(s);
	session_plan_timer(s);
	completions_end_all(&s->when_paused, NULL);
	if (s->row.state == SESSION_PAUSED && s->when_running.first != NULL)
		session_resume(s, &s->waker, NULL); /* a client has used it since */
}

static void on_late_event(struct live_cell *cell, const struct agent_event *v)
{
}

static const struct live_cell_events ending_events = { .on_dead = on_end_event,
						       .on_gone = on_gone,
						       .on_held = on_late_event,
						       .on_failed = on_late_event,
						       .on_synced = on_end_event };

/* End all users of the cell's processes. Programs continue later if the memory was saved. */
static void lose_cell_users(struct session *s)
{
	bool goes_on = s->row.cold == COLD_MEMORY;
	struct err e;

	(void)err_set_reason(&e, REASON_GONE, "session %s was paused%s", s->row.id,
			     goes_on ? "" : " without its memory");
	if (goes_on)
		execution_detach_all(s);
	else
		execution_lose_all(s);
	while (s->file_ops != NULL)
		file_op_lost(s->file_ops);
	session_ops_lost(s, &e);
	guest_readers_lost(s, &e);
	guest_reader_free(s->guest.still); /* it ends with the cell */
	s->guest.still = NULL;
	execution_kills_lost(s);
	dial_all_lost(s, &e);
	session_parts_cell_gone(s, &e);
}

/* End the cell: the row says that the session is cold. */
static void end_cell(struct suspend *k)
{
	struct session *s = k->op.session;
	struct live_cell *cell = s->cell;

	session_note_usage(s);
	k->cell = cell; /* from here on the suspend is not lost with the cell */
	lose_cell_users(s);
	/* Executions that wait for something else stay, but not in the list of a cell that the
	 * session has lost. */
	while (cell->programs != NULL)
		live_cell_remove(cell, cell->programs);
	loop_timer_cancel(s->core->loop, &s->timer);
	s->cell = NULL;
	s->memory_bytes = 0;
	live_cell_own(cell, &ending_events, s);
	live_cell_end(cell);
}

/* ---- the files are kept */

static void set_own(struct session *s, const struct template_stack *own)
{
	free(s->own);
	s->own = NULL;
	if (own->nlayers == 0)
		return;
	s->own = malloc(sizeof(*s->own));
	assert(s->own != NULL);
	*s->own = *own;
}

/* Write the outcome: the files are in their final place. */
static int suspend_settle(struct suspend *k, struct err *e)
{
	struct session *s = k->op.session;
	char images[2][STORE_ID_MAX];

	if (k->how == COLD_KEEP) {
		str_copy(images[0], k->memory.root);
		str_copy(images[1], k->memory.layer);
		if (cold_write(s, COLD_MEMORY, NULL, (const char(*)[STORE_ID_MAX])images, e) < 0)
			return -1;
		session_memory_release(&k->memory);
		return 0;
	}
	if (cold_write(s, k->how == COLD_RESET ? COLD_BLANK : COLD_YES, &k->own, NULL, e) < 0)
		return -1;
	set_own(s, &k->own);
	session_capture_release(s->core, &k->capture);
	layer_fold_release(&k->fold);
	layers_collect(&s->core->layers, false, NULL);
	return 0;
}

/* The session's time has ended, but it runs again. Its code could make a capture fail on purpose
 * and must gain no time by that: so it is paused with its memory. */
static void end_time(struct session *s)
{
	if (s->row.room == ROOM_ALARM) /* the same holds for an alarm */
		session_pause(s, NULL, NULL);
	if (s->row.room == ROOM_ALARM || s->row.deadline_ms > 0 || s->row.timeout_ms == 0)
		return;
	s->row.deadline_ms = core_now_ms();
	if (s->when_running.first == NULL) {
		session_pause_by_itself(s, false);
		return;
	}
	s->row.deadline_ms += s->row.timeout_ms; /* a client has used it since */
	session_plan_timer(s);
}

/* Return to the former state: running, or paused with its memory. */
static void give_up(struct suspend *k, const struct err *e)
{
	struct session *s = k->op.session;
	struct err why = *e, ignored;

	/* A client is told, and may try again. A pause by its timeout freezes it instead. */
	s->guest.cannot_save =
		k->how == COLD_KEEP && (s->when_paused.first == NULL || s->row.room == ROOM_ALARM);
	session_capture_release(s->core, &k->capture);
	suspend_release(k);
	s->row.cold = COLD_NO;
	if (s->row.state == SESSION_PAUSING) {
		s->row.paused_since_ms = 0;
		IGNORED(session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &ignored),
			"running is what the next start makes of it, too");
		s->row.state = SESSION_RUNNING;
		session_pause_thaw(s);
		session_touch(s);
		end_time(s);
		loop_defer(s->core->loop, &s->notify_running);
	} else {
		IGNORED(store_session_update_state(s->core->store, &s->row, &ignored),
			"tried again at the next start");
		completions_end_all(&s->when_running, &why);
	}
	completions_end_all(&s->when_paused, &why);
}

/* The memory image was written, but not its row: the guest is still stopped for that image. */
static void give_up_settled(struct suspend *k, const struct err *e)
{
	struct session *s = k->op.session;
	bool stopped = k->how == COLD_KEEP;

	give_up(k, e);
	if (stopped)
		session_memory_go_on(s);
}

static void go_on(struct suspend *k)
{
	struct err e;

	if (suspend_settle(k, &e) < 0)
		give_up_settled(k, &e);
	else
		end_cell(k);
}

static void on_folded(struct completion *c, const struct err *e)
{
	struct suspend *k = c->arg;

	template_stack_above(&k->whole, k->fold.stay, &k->own);
	go_on(k);
}

static void on_captured(struct completion *c, const struct err *e)
{
	struct suspend *k = c->arg;
	const struct session *s = k->op.session;
	size_t stay;
	struct err why;

	if (e != NULL) {
		give_up(k, e);
	} else if (session_spec_stack(s->template, &s->row, s->own, &k->whole, &stay, &why) < 0 ||
		   template_stack_push(&k->whole, (const char(*)[STORE_ID_MAX])k->capture.layer, 1,
				       &why) < 0) {
		give_up(k, &why);
	} else {
		k->fold.done = (struct completion){ .on_done = on_folded, .arg = k };
		layer_fold(s->core, s->row.tenant, &k->whole, stay, &k->fold);
	}
}

static void on_remembered(struct completion *c, const struct err *e)
{
	struct suspend *k = c->arg;

	if (e != NULL)
		give_up(k, e);
	else
		go_on(k);
}

/* ---- the begin */

static const uint32_t going[] = {
	[COLD_CAPTURE] = COLD_TO_CAPTURE,
	[COLD_DISK] = COLD_TO_DISK,
	[COLD_RESET] = COLD_TO_RESET,
	[COLD_KEEP] = COLD_TO_MEMORY,
};

static void suspend_start(struct session *s, enum cold_how how)
{
	struct suspend *k = suspend_new(s, how);

	if (how != COLD_RESET && s->own != NULL)
		k->own = *s->own;
	k->capture.done = (struct completion){ .on_done = on_captured, .arg = k };
	k->memory.done = (struct completion){ .on_done = on_remembered, .arg = k };
	if (how == COLD_CAPTURE)
		session_capture(s, "pause", true, &k->capture);
	else if (how == COLD_KEEP)
		session_memory(s, "pause", SESSION_MEMORY_STAY | SESSION_MEMORY_SAVE, 0,
			       &k->memory);
	else
		go_on(k);
}

static int suspend_check(const struct session *s, enum cold_how how, struct err *e)
{
	bool live = s->row.state == SESSION_RUNNING || s->row.state == SESSION_PAUSED;
	bool captured = session_op_find(s, SESSION_OP_CAPTURE) != NULL;

	if (!live || s->cell == NULL || s->cell->call != NULL || captured ||
	    suspend_find(s) != NULL || (s->row.state == SESSION_RUNNING && !s->cell->synced))
		return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			       captured ? "being captured" : session_shown_name(&s->row));
	if (how == COLD_CAPTURE &&
	    (session_level_check(s, CELL_CAN_PAUSE, "pause", e) < 0 ||
	     session_level_check(s, CELL_CAN_DIFF, "pause without memory", e) < 0))
		return -1;
	return how == COLD_RESET ? 0 : quota_cold_fits(s, e);
}

static void wait_for(struct session *s, struct completion *w, struct completions *list)
{
	if (w == NULL)
		return;
	completion_begin(w, s->core->loop, list);
	completion_set_deadline(w, WAIT_MS, "change of the session's state");
}

/* A cold session: only a reset changes anything. */
static int suspend_again(struct session *s, enum cold_how how, struct err *e)
{
	struct template_stack none = { 0 };

	if (how != COLD_RESET)
		return 0;
	if (cold_write(s, COLD_BLANK, &none, NULL, e) < 0)
		return -1;
	set_own(s, &none);
	layers_collect(&s->core->layers, false, NULL);
	return 0;
}

/* The files of a virtual machine are in its memory, and its agent reads them. So a guest paused
 * with its memory has to run first. */
static bool must_wake(const struct session *s, enum cold_how how)
{
	return how == COLD_CAPTURE && guest_reader_is_needed(s) && suspend_find(s) == NULL &&
	       s->row.state == SESSION_PAUSED &&
	       (s->row.cold == COLD_MEMORY || !session_is_cold(&s->row));
}

static void on_woken(struct session *s);

/* on_woken() or session_cold_not_woken() follows. */
static void wake_to_cool(struct session *s, const struct store_actor *who)
{
	s->on_usable = on_woken;
	s->waker = store_actor_copy(who);
	session_resume(s, who, NULL);
}

/* 0: in progress or done. */
static int make_cold(struct session *s, enum cold_how how, const struct store_actor *who,
		     struct err *e)
{
	if (s->row.state == SESSION_PAUSED && session_is_cold(&s->row) && suspend_find(s) == NULL)
		return suspend_again(s, how, e);
	if (how == COLD_CAPTURE && s->row.storage == SESSION_DISK)
		how = COLD_DISK; /* the files are there already */
	if (suspend_check(s, how, e) < 0 || session_cold_write_going(s, going[how], who, e) < 0)
		return -1;
	suspend_start(s, how);
	return 0;
}

void session_cold_pause(struct session *s, enum cold_how how, const struct store_actor *who,
			struct completion *w)
{
	struct err e;

	if (must_wake(s, how)) {
		wait_for(s, w, &s->when_paused);
		wake_to_cool(s, who);
		return;
	}
	if (make_cold(s, how, who, &e) < 0) {
		if (w != NULL)
			completion_end_soon(w, s->core->loop, &e);
	} else if (suspend_find(s) != NULL) {
		wait_for(s, w, &s->when_paused);
	} else if (w != NULL) {
		completion_end_soon(w, s->core->loop, NULL);
	}
}

/* Record the reset. The changes of state look like a pause and a resume. */
static void record_reset(struct session *s, const struct store_actor *who)
{
	struct err e;

	if (event_log_append(s->core, who, s->row.tenant, s->row.id, "", "session.reset", &e,
			     "template\t%s\n", s->row.template) < 0)
		log_warn("event could not be written", "session_id=%s error=%s", s->row.id, e.msg);
}

/* Make it cold and boot it: on_gone() finds a waiting request. */
static void boot_again(struct session *s, enum cold_how how, const struct store_actor *who,
		       struct completion *w)
{
	struct err e;

	if (must_wake(s, how)) {
		wait_for(s, w, &s->when_running);
		wake_to_cool(s, who);
		return;
	}
	if (make_cold(s, how, who, &e) < 0) {
		completion_end_soon(w, s->core->loop, &e);
		return;
	}
	if (how == COLD_RESET)
		record_reset(s, who);
	s->waker = store_actor_copy(who);
	if (suspend_find(s) == NULL)
		session_resume(s, who, w);
	else
		wait_for(s, w, &s->when_running);
}

void session_cold_reset(struct session *s, const struct store_actor *who, struct completion *w)
{
	boot_again(s, COLD_RESET, who, w);
}

void session_cold_reboot(struct session *s, const struct store_actor *who, struct completion *w)
{
	boot_again(s, COLD_CAPTURE, who, w);
}

/* Requests waiting for it to run wait for the next cell: on_gone() resumes it. */
static void on_woken(struct session *s)
{
	struct store_actor who = s->waker;
	struct err e;

	s->on_usable = NULL;
	if (make_cold(s, COLD_CAPTURE, &who, &e) == 0)
		return;
	completions_end_all(&s->when_paused, &e);
	completions_end_all(&s->when_running, NULL);
}

void session_cold_not_woken(struct session *s, const struct err *e)
{
	if (s->on_usable != NULL)
		completions_end_all(&s->when_paused, e);
	s->on_usable = NULL;
}

/* ---- restarts and the end */

bool session_cold_restore(struct session *s)
{
	struct suspend *k;
	struct err e;

	if (!session_is_cold(&s->row) || s->row.state >= SESSION_ENDING)
		return false;
	/* The next cell has the same name and waits for the end of this one: on_gone(). */
	k = suspend_new(s, COLD_DISK);
	k->cell = live_cell_end_unknown(&s->core->cells, s->row.id);
	live_cell_own(k->cell, &ending_events, s);
	session_adopted_cold(s); /* ended executions set its timer */
	if (s->row.cold == COLD_MEMORY)
		execution_detach_all(s);
	else
		execution_lose_all(s);
	quota_uncount(s);
	if (s->row.state == SESSION_RESUMING &&
	    session_save(s, SESSION_PAUSED, SESSION_NO_REASON, &e) < 0)
		s->row.state = SESSION_PAUSED;
	session_plan_timer(s);
	return true;
}

/* Is the cell of a cold session being ended? */
static bool is_ending_cell(const struct session *s)
{
	const struct suspend *k = suspend_find(s);

	return k != NULL && k->cell != NULL;
}

void session_cold_lost(struct session *s, const char *why)
{
	struct err e;

	(void)err_set_reason(&e, REASON_GONE, "session %s: %s", s->row.id, why);
	if (is_ending_cell(s))
		return;
	session_ops_lost(s, &e);
	session_cold_write_lost(s, why);
	if (s->cell != NULL) {
		end_cell(suspend_new(s, COLD_DISK));
		return;
	}
	lose_cell_users(s);
	quota_uncount(s);
	session_adopted_cold(s);
	session_plan_timer(s);
	completions_end_all(&s->when_paused, NULL);
}

void session_cold_again(struct session *s)
{
	enum cold_how how = s->row.cold == COLD_TO_CAPTURE  ? COLD_CAPTURE
			    : s->row.cold == COLD_TO_DISK   ? COLD_DISK
			    : s->row.cold == COLD_TO_MEMORY ? COLD_KEEP
							    : COLD_RESET;

	suspend_start(s, how);
}

void session_cold_undo(struct session *s)
{
	struct err e;

	s->row.cold = COLD_NO;
	s->row.paused_since_ms = 0;
	if (s->row.deadline_ms == 0 && s->row.timeout_ms > 0)
		s->row.deadline_ms = core_now_ms(); /* its time had ended */
	if (session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &e) < 0)
		s->unsaved = true;
	s->row.state = SESSION_RUNNING;
	session_touch(s);
}

bool session_cold_ending(struct session *s)
{
	if (is_ending_cell(s))
		return true;
	if (s->cell != NULL)
		return false;
	if (session_is_cold(&s->row)) {
		session_ended_soon(s);
		return true;
	}
	return false;
}
