/* session_cold.c - a session becomes cold (session_cold.h); session_cold_row.c writes the row, and
 * session_cold_wake.c makes a cell again. The steps: write how; capture, if the files are kept;
 * write that it is cold, with its layers, in one transaction; end the cell. */
#include "session_cold.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "dial.h"
#include "event_log.h"
#include "execution_adopt.h"
#include "execution_kill.h"
#include "guest_reader.h"
#include "layer_fold.h"
#include "layers.h"
#include "log.h"
#include "quota.h"
#include "session_capture.h"
#include "session_cold_row.h"
#include "session_lifecycle.h"
#include "session_memory.h"
#include "session_parts.h"
#include "session_pause.h"
#include "session_save.h"
#include "session_spec.h"
#include "session_stop.h"
#include "session_stopped.h"
#include "session_timer.h"
#include "template_stack.h"
#include "templates.h"

#define WAIT_MS 660000 /* for those that wait: longer than a capture may take */

struct cooling {
	struct session *session;
	enum cold_how how;
	struct session_capture capture;
	struct session_memory memory;
	struct template_stack own;   /* the layers that it will have */
	struct template_stack whole; /* those of its template below them, while they are folded */
	struct layer_fold fold;
	struct live_cell *cell; /* owned: being ended; NULL: not yet, or gone */
};

bool session_is_kept(const struct store_session *row)
{
	return row->keep_ms > 0 && row->state >= SESSION_RUNNING && row->state < SESSION_STOPPING;
}

static void release(struct cooling *k)
{
	session_capture_cancel(&k->capture);
	session_memory_release(&k->memory);
	layer_fold_release(&k->fold);
	k->session->cooling = NULL;
	free(k);
}

/* ---- without a cell */

static void on_end_event(struct live_cell *cell)
{
	(void)cell;
}

/* Nothing of the cell is left. */
static void on_gone(struct live_cell *cell)
{
	struct session *s = cell->owner;
	struct cooling *k = s->cooling;

	k->cell = NULL;
	release(k);
	if (s->row.state >= SESSION_STOPPING) {
		session_stopped_soon(s);
		return;
	}
	quota_uncount(s);
	session_plan_timer(s);
	completions_end_all(&s->when_paused, NULL);
	if (s->row.state == SESSION_PAUSED && s->when_running.first != NULL)
		session_resume(s, &s->waker, NULL); /* a client has used it meanwhile */
}

static void on_late_event(struct live_cell *cell, const struct agent_event *v)
{
	(void)cell;
	(void)v;
}

static const struct live_cell_events ending_events = { .on_dead = on_end_event,
						       .on_gone = on_gone,
						       .on_held = on_late_event,
						       .on_failed = on_late_event,
						       .on_synced = on_end_event };

/* What needs a process of the cell is over; programs go on later if its memory was saved. */
static void lose_cell_users(struct session *s)
{
	bool goes_on = s->row.cold == COLD_MEMORY;
	struct err e;

	(void)err_set_reason(&e, REASON_GONE, "session %s was paused%s", s->row.id,
			     goes_on ? "" : " without its memory");
	if (goes_on)
		execution_detach_all(s);
	else
		session_lose_executions(s);
	while (s->file_ops != NULL)
		file_op_lost(s->file_ops);
	session_memory_lost(s, &e); /* a copy that waits is one of this cell */
	guest_readers_lost(s, &e);
	guest_reader_free(s->still); /* it ends with the cell */
	s->still = NULL;
	execution_kills_lost(s);
	dial_all_lost(s, &e);
	session_parts_cell_gone(s, &e);
}

/* The row says that it is cold: the cell goes. */
static void end_cell(struct cooling *k)
{
	struct session *s = k->session;
	struct live_cell *cell = s->cell;

	session_note_usage(s);
	lose_cell_users(s);
	/* Executions that wait for something else stay; they must not be in the list of a cell that
	 * the session does not have any more. */
	while (cell->programs != NULL)
		live_cell_remove(cell, cell->programs);
	loop_timer_cancel(s->core->loop, &s->timer);
	s->cell = NULL;
	s->memory_bytes = 0;
	k->cell = cell;
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

/* The files are where they will be. */
static int settle(struct cooling *k, struct err *e)
{
	struct session *s = k->session;

	if (k->how == COLD_KEEP) {
		if (session_cold_write_memory(s, k->memory.root, k->memory.layer, e) < 0)
			return -1;
		session_memory_release(&k->memory);
		return 0;
	}
	if (session_cold_write(s, &k->own, k->how == COLD_RESET, e) < 0)
		return -1;
	set_own(s, &k->own);
	session_capture_release(s->core, &k->capture);
	layer_fold_release(&k->fold);
	layers_collect(&s->core->layers, false, NULL);
	return 0;
}

/* Its time was over, and it runs again. What is in its files, and so whether they can be captured,
 * is the choice of its code, which must not run on for that: it is paused with its memory. */
static void end_time(struct session *s)
{
	if (s->row.deadline_ms > 0 || s->row.timeout_ms == 0)
		return;
	s->row.deadline_ms = core_now_ms();
	if (s->when_running.first == NULL) {
		session_pause_by_itself(s, false);
		return;
	}
	s->row.deadline_ms += s->row.timeout_ms; /* a client has used it meanwhile */
	session_plan_timer(s);
}

/* It stays as it was: running, or paused with its memory. */
static void give_up(struct cooling *k, const struct err *e)
{
	struct session *s = k->session;
	struct err why = *e, ignored;

	/* A client is told, and may try again; a pause by its timeout freezes it instead. */
	s->cannot_save = k->how == COLD_KEEP && s->when_paused.first == NULL;
	session_capture_release(s->core, &k->capture);
	release(k);
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

/* Its image was written, but not its row: the guest is still stopped for that image. */
static void give_up_settled(struct cooling *k, const struct err *e)
{
	struct session *s = k->session;
	bool stopped = k->how == COLD_KEEP;

	give_up(k, e);
	if (stopped)
		session_memory_go_on(s);
}

static void go_on(struct cooling *k)
{
	struct err e;

	if (settle(k, &e) < 0)
		give_up_settled(k, &e);
	else
		end_cell(k);
}

static void on_folded(struct completion *c, const struct err *e)
{
	struct cooling *k = c->arg;

	(void)e;
	template_stack_above(&k->whole, k->fold.stay, &k->own);
	go_on(k);
}

static void on_captured(struct completion *c, const struct err *e)
{
	struct cooling *k = c->arg;
	const struct session *s = k->session;
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
	struct cooling *k = c->arg;

	if (e != NULL)
		give_up(k, e);
	else
		go_on(k);
}

/* ---- the beginning */

static const uint32_t going[] = {
	[COLD_CAPTURE] = COLD_TO_CAPTURE,
	[COLD_DISK] = COLD_TO_DISK,
	[COLD_RESET] = COLD_TO_RESET,
	[COLD_KEEP] = COLD_TO_MEMORY,
};

static void start(struct session *s, enum cold_how how)
{
	struct cooling *k = calloc(1, sizeof(*k));

	assert(k != NULL);
	k->session = s;
	k->how = how;
	k->fold.job.fd = -1;
	s->cooling = k;
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

static int check(const struct session *s, enum cold_how how, struct err *e)
{
	bool live = s->row.state == SESSION_RUNNING || s->row.state == SESSION_PAUSED;

	if (!live || s->cell == NULL || s->cell->call != NULL || s->capturing != NULL ||
	    s->cooling != NULL || (s->row.state == SESSION_RUNNING && !s->cell->synced))
		return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			       s->capturing != NULL ? "being captured"
						    : session_shown_name(&s->row));
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

/* A session that is cold already: only a reset changes anything. */
static int again(struct session *s, enum cold_how how, struct err *e)
{
	struct template_stack none = { 0 };

	if (how != COLD_RESET)
		return 0;
	if (session_cold_write(s, &none, true, e) < 0)
		return -1;
	set_own(s, &none);
	layers_collect(&s->core->layers, false, NULL);
	return 0;
}

/* The files of a virtual machine are in its memory, and read by its agent. One that is paused with
 * its memory has to run for that. */
static bool must_wake(const struct session *s, enum cold_how how)
{
	return how == COLD_CAPTURE && guest_reader_is_needed(s) && s->cooling == NULL &&
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

/* 0: under way or done. */
static int make_cold(struct session *s, enum cold_how how, const struct store_actor *who,
		     struct err *e)
{
	if (s->row.state == SESSION_PAUSED && session_is_cold(&s->row) && s->cooling == NULL)
		return again(s, how, e);
	if (how == COLD_CAPTURE && s->row.storage == SESSION_DISK)
		how = COLD_DISK; /* they are there already */
	if (check(s, how, e) < 0 || session_cold_write_going(s, going[how], who, e) < 0)
		return -1;
	start(s, how);
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
	} else if (s->cooling != NULL) {
		wait_for(s, w, &s->when_paused);
	} else if (w != NULL) {
		completion_end_soon(w, s->core->loop, NULL);
	}
}

/* The changes of its state look like a pause and a resume. */
static void record_reset(struct session *s, const struct store_actor *who)
{
	struct err e;

	if (event_log_append(s->core, who, s->row.tenant, s->row.id, "", "session.reset", &e,
			     "template\t%s\n", s->row.template) < 0)
		log_warn("event could not be written", "session_id=%s error=%s", s->row.id, e.msg);
}

/* Makes it cold and boots it: on_gone() finds one that waits. */
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
	if (s->cooling == NULL)
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

/* Those that wait for it to run wait for the next cell then: on_gone() resumes it. */
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
	struct err e;

	if (!session_is_cold(&s->row) || s->row.state >= SESSION_STOPPING)
		return false;
	/* Its next cell, which has the same name, waits for the end of this one: on_gone(). */
	s->cooling = calloc(1, sizeof(*s->cooling));
	assert(s->cooling != NULL);
	*s->cooling = (struct cooling){ .session = s, .how = COLD_DISK, .fold.job.fd = -1 };
	s->cooling->cell = live_cell_end_unknown(&s->core->cells, s->row.id);
	live_cell_own(s->cooling->cell, &ending_events, s);
	session_adopted_cold(s); /* executions that end set its timer */
	if (s->row.cold == COLD_MEMORY)
		execution_detach_all(s);
	else
		session_lose_executions(s);
	quota_uncount(s);
	if (s->row.state == SESSION_RESUMING &&
	    session_save(s, SESSION_PAUSED, SESSION_NO_REASON, &e) < 0)
		s->row.state = SESSION_PAUSED;
	session_plan_timer(s);
	return true;
}

void session_cold_lost(struct session *s, const char *why)
{
	struct err e;

	(void)err_set_reason(&e, REASON_GONE, "session %s: %s", s->row.id, why);
	if (s->cooling != NULL && s->cooling->cell != NULL)
		return; /* its end is under way */
	if (s->cooling != NULL)
		release(s->cooling);
	session_capture_lost(s, &e);
	session_memory_lost(s, &e);
	session_cold_write_lost(s, why);
	if (s->cell != NULL) {
		s->cooling = calloc(1, sizeof(*s->cooling));
		assert(s->cooling != NULL);
		*s->cooling = (struct cooling){ .session = s, .how = COLD_DISK, .fold.job.fd = -1 };
		end_cell(s->cooling);
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

	start(s, how);
}

void session_cold_undo(struct session *s)
{
	struct err e;

	s->row.cold = COLD_NO;
	s->row.paused_since_ms = 0;
	if (s->row.deadline_ms == 0 && s->row.timeout_ms > 0)
		s->row.deadline_ms = core_now_ms(); /* its time was over */
	if (session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &e) < 0)
		s->unsaved = true;
	s->row.state = SESSION_RUNNING;
	session_touch(s);
}

bool session_cold_stopping(struct session *s, const struct err *why)
{
	if (s->cooling != NULL && s->cooling->cell != NULL)
		return true;
	if (s->cooling != NULL)
		release(s->cooling);
	session_capture_lost(s, why);
	session_memory_lost(s, why);
	if (s->cell != NULL)
		return false;
	if (session_is_cold(&s->row)) {
		session_stopped_soon(s);
		return true;
	}
	return false;
}

void session_cold_free(struct session *s)
{
	struct cooling *k = s->cooling;

	if (k == NULL)
		return;
	if (k->cell != NULL)
		live_cell_detach(k->cell); /* the daemon ends; the next one ends the cell */
	release(k);
}
