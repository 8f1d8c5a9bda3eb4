/* session_pause.c - freezes and thaws a session's cell, as a client asks, at its timeout, and at
 * the next use. A keeper does it. If that keeper ends before it has answered, another one is asked,
 * since both requests can be repeated. */
#include "daemon/session/session_pause.h"

#include <errno.h>
#include <string.h>

#include "daemon/cells/keeper_link.h"
#include "daemon/cells/live_cell.h"
#include "daemon/guest/guest_reader.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_states.h"
#include "daemon/session/session_stop.h"
#include "daemon/session/session_suspend.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#define PAUSE_AGAIN_MS 1000
#define PAUSE_TRIES 5 /* at the end of its time, if the keeper refuses to freeze it */
#define WAIT_MS 90000 /* for waiting requests: longer than a keeper or PID 1 may take */

void session_ask_freeze(struct session *s, bool on, keeper_done_fn *on_done)
{
	struct keeper_named r = { .op = KEEPER_FREEZE,
				  .pid = (uint32_t)s->cell->pid,
				  .on = on ? 1 : 0 };

	memcpy(r.id, s->row.id, sizeof(r.id));
	s->cell->call = keeper_link_ask(&s->core->cells.keeper, s->row.tenant, &r, sizeof(r), -1,
					KEEPER_URGENT, on_done, s->cell);
}

struct session *session_freeze_answered(struct live_cell *cell, bool frozen)
{
	struct session *s = cell->owner;

	cell->call = NULL;
	if (s == NULL)
		return NULL; /* the cell was given up: live_cell_abandon() */
	if (s->cell == cell && s->row.state != SESSION_ENDING)
		return s;
	cell->frozen = frozen;
	live_cell_end_now(cell); /* live_cell_end() has waited for this answer */
	return NULL;
}

static void on_thawed(void *arg, const struct keeper_reply *reply, int fd, const struct err *e);

static bool pause_is_by_time(const struct session *s)
{
	return s->row.deadline_ms == 0 && s->row.timeout_ms > 0;
}

/* The keeper has refused a pause. If no client has asked for the pause, nothing else would stop
 * the programs. At the end of its time it is tried again a few times, then the session ends. */
static bool pause_end_instead(struct session *s)
{
	if (s->row.room == ROOM_ALARM) {
		session_stop(s, SESSION_ALARM,
			     "an alarm pauses it, but its programs could not be stopped");
		return true;
	}
	if (s->pause_asked || (s->row.room != ROOM_PAUSED &&
			       (!pause_is_by_time(s) || ++s->pause_refused < PAUSE_TRIES)))
		return false;
	if (session_is_kept(&s->row))
		session_cold_lost(s, "its programs could not be stopped for a pause");
	else if (s->row.room == ROOM_PAUSED)
		session_stop(s, SESSION_STORAGE_FULL,
			     "its disk or volumes have grown into the storage folder's reserve, "
			     "and its programs could not be stopped");
	else
		session_stop(s, SESSION_EXPIRED,
			     "timeout reached, and its programs could not be stopped for a pause");
	return true;
}

/* Frozen, or its programs are held (REASON_NOT_FROZEN): paused. After another failure the session
 * is running again and the cell thawed, even if the keeper did freeze it. Recovery makes the same
 * choice. */
static void on_frozen(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	bool holds = live_cell_holds(arg, e);
	struct session *s = session_freeze_answered(arg, holds);
	struct err why = { 0 };

	if (s == NULL)
		return;
	if (e != NULL && e->reason == REASON_PEER_DIED) {
		session_ask_freeze(s, true, on_frozen); /* from another keeper */
		return;
	}
	if (holds) {
		s->cell->frozen = true;
		s->pause_refused = 0;
		if (s->cell->in_call)
			log_info("a session is paused while one of its programs is in a system "
				 "call",
				 "session_id=%s", s->row.id);
		if (session_save(s, SESSION_PAUSED, SESSION_NO_REASON, &why) == 0) {
			session_plan_timer(s);
			completions_end_all(&s->when_paused, NULL);
			if (s->when_running.first != NULL) /* a client has used it since */
				session_resume(s, &s->waker, NULL);
			return;
		}
		e = &why;
	} else if (pause_end_instead(s)) {
		return;
	}
	struct err failure = *e;

	s->row.paused_since_ms = 0;
	IGNORED(session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &why),
		"running is what recovery makes of pausing, too");
	s->row.state = SESSION_RUNNING;
	if (pause_is_by_time(s))
		s->row.deadline_ms = core_now_ms() + PAUSE_AGAIN_MS;
	session_ask_freeze(s, false, on_thawed);
	session_touch(s);
	completions_end_all(&s->when_paused, &failure);
	loop_defer(s->core->loop, &s->notify_running); /* a client may have used it since */
}

static void wait_for(struct session *s, struct completion *w, struct completions *list)
{
	completion_begin(w, s->core->loop, list);
	completion_set_deadline(w, WAIT_MS, "change of the session's state");
}

static int check_pause(const struct session *s, struct err *e)
{
	if (session_level_check(s, CELL_CAN_PAUSE, "pause", e) < 0)
		return -1;
	if (s->core->cells.keeper.restrictions.freezer == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "pause needs cgroup v2, which this machine does not have");
	bool captured = session_op_find(s, SESSION_OP_CAPTURE) != NULL;

	if (s->row.state != SESSION_RUNNING || s->cell->call != NULL || captured)
		return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			       captured ? "being captured" : session_shown_name(&s->row));
	return 0;
}

/* A client pauses a session already paused for lack of room: it stays so when there is some. */
static void pause_keep(struct session *s)
{
	if (s->row.room != ROOM_PAUSED)
		return;
	s->row.room = ROOM_KEPT;
	s->unsaved = true;
}

/* A guest with saveable memory is suspended instead, which frees its memory. w == NULL means a
 * pause by timeout: after one failed save it freezes the guest, so that it cannot run on. */
void session_pause(struct session *s, const struct store_actor *who, struct completion *w)
{
	struct err e;

	if (s->row.state == SESSION_PAUSED) {
		if (w != NULL) {
			pause_keep(s);
			completion_end_soon(w, s->core->loop, NULL);
		}
		return;
	}
	if (s->row.state == SESSION_PAUSING) {
		if (w != NULL)
			wait_for(s, w, &s->when_paused);
		s->pause_asked |= w != NULL;
		return;
	}
	if (cell_level_can(session_level(s), CELL_CAN_KEEP_MEMORY) &&
	    (!s->guest.cannot_save || w != NULL)) {
		session_cold_pause(s, COLD_KEEP, who, w);
		return;
	}
	if (check_pause(s, &e) == 0) {
		session_timer_check_clock(s->core);
		s->pause_asked = w != NULL;
		s->row.paused_since_ms = core_now_ms();
		session_set_actor(s, who);
		if (session_save(s, SESSION_PAUSING, SESSION_NO_REASON, &e) == 0) {
			if (w != NULL)
				wait_for(s, w, &s->when_paused);
			session_ask_freeze(s, true, on_frozen);
			return;
		}
		s->row.paused_since_ms = 0;
	}
	if (w != NULL)
		completion_end_soon(w, s->core->loop, &e);
}

void session_pause_over(struct session *s)
{
	uint64_t now = core_now_ms();
	uint64_t slept = s->row.paused_since_ms == 0 || now < s->row.paused_since_ms
				 ? 0
				 : now - s->row.paused_since_ms;

	s->row.paused_total_ms += slept;
	s->row.paused_since_ms = 0;
	/* Paused time does not count. A session paused at the end of its time gets its whole
	 * timeout again. */
	if (s->row.deadline_ms > 0)
		s->row.deadline_ms += slept;
	else if (s->row.timeout_ms > 0)
		s->row.deadline_ms = now + s->row.timeout_ms;
}

/* A session whose cell stays frozen goes back to paused, and the next use tries again. */
static void on_thawed(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct session *s = session_freeze_answered(arg, e != NULL);
	struct err why;

	if (s == NULL)
		return;
	if (e != NULL && e->reason == REASON_PEER_DIED) {
		session_ask_freeze(s, false, on_thawed);
		return;
	}
	if (e == NULL)
		s->cell->frozen = false;
	if (s->row.state != SESSION_RESUMING)
		return;
	if (e != NULL) {
		why = *e;
		IGNORED(session_save(s, SESSION_PAUSED, SESSION_NO_REASON, &(struct err){ 0 }),
			"it is paused; recovery makes paused of resuming, too");
		s->row.state = SESSION_PAUSED;
		session_cold_not_woken(s, &why);
		completions_end_all(&s->when_running, &why);
		return;
	}
	s->guest.cannot_save = false; /* the next pause tries again */
	session_pause_over(s);
	if (session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &why) < 0) {
		log_warn("session state could not be written", "session_id=%s error=%s", s->row.id,
			 why.msg);
		s->row.state = SESSION_RUNNING;
		s->unsaved = true;
	}
	session_touch(s);
	session_parts_resumed(s);
	loop_defer(s->core->loop, &s->notify_running);
}

/* Paused by session_room.c: may it run now? */
static int pause_check_room(const struct session *s, struct err *e)
{
	if (s->row.room == ROOM_FREE || s->row.room == ROOM_ALARM ||
	    !disk_room_is_missing(&s->core->room.storage))
		return 0;
	return err_set_reason(
		e, REASON_STORAGE_FULL,
		"session %s is paused: its disk or volumes have grown although the storage "
		"folder has no room above its reserve (storage_reserve); it continues when "
		"there is room",
		s->row.id);
}

/* A client resumes it: the alarm is settled. */
static void pause_settle_alarm(struct session *s)
{
	if (s->row.room != ROOM_ALARM)
		return;
	s->row.room = ROOM_FREE;
	s->unsaved = true;
}

void session_resume(struct session *s, const struct store_actor *who, struct completion *w)
{
	struct err e;
	uint64_t slept;

	pause_settle_alarm(s);
	if (session_is_usable(s)) {
		if (w != NULL)
			completion_end_soon(w, s->core->loop, NULL);
		return;
	}
	if (w != NULL)
		wait_for(s, w, &s->when_running);
	if (pause_check_room(s, &e) < 0) {
		completions_end_all(&s->when_running, &e);
		return;
	}
	/* creating, pausing, resuming, just adopted: w ends when the session is running */
	if (s->row.state != SESSION_PAUSED || session_op_find(s, SESSION_OP_SUSPEND) != NULL ||
	    session_op_find(s, SESSION_OP_CAPTURE) != NULL) {
		s->waker = store_actor_copy(who);
		return;
	}
	if (session_is_cold(&s->row)) {
		session_cold_wake(s, who);
		return;
	}
	session_timer_check_clock(s->core);
	session_set_actor(s, who);
	if (session_save(s, SESSION_RESUMING, SESSION_NO_REASON, &e) < 0) {
		session_cold_not_woken(s, &e);
		completions_end_all(&s->when_running, &e);
		return;
	}
	/* Sent before the cell runs again, or else the deadlines in PID 1 would have passed. */
	slept = core_now_ms() - s->row.paused_since_ms;
	if (s->cell->connected && slept > 0 && slept < AGENT_TIME_MAX_MS &&
	    agent_send_paused(&s->cell->agent, slept, &e) == 0)
		live_cell_flush(s->cell);
	session_ask_freeze(s, false, on_thawed);
}

bool session_use(struct session *s, const struct store_actor *who, struct completion *w)
{
	struct err e;

	session_touch(s);
	if (session_is_usable(s))
		return true;
	if (s->row.room == ROOM_ALARM) {
		(void)err_set(&e, ERR_CONFLICT,
			      "session %s was paused by an alarm (its events say which): it "
			      "continues when a client resumes it",
			      s->row.id);
		completion_end_soon(w, s->core->loop, &e);
		return false;
	}
	session_resume(s, who, w);
	return false;
}

bool session_pause_for_alarm(struct session *s, const char *detail)
{
	struct err e;

	if (s->row.state == SESSION_PAUSED) {
		s->row.room = ROOM_ALARM;
		s->unsaved = true;
		return true;
	}
	if (s->row.state != SESSION_RUNNING || session_op_find(s, SESSION_OP_CAPTURE) != NULL)
		return false;
	if (check_pause(s, &e) < 0) {
		session_stop(s, SESSION_ALARM, detail);
		return true;
	}
	s->row.room = ROOM_ALARM; /* written with the state */
	session_pause(s, NULL, NULL);
	if (s->row.state == SESSION_RUNNING)
		s->row.room = ROOM_FREE;
	return s->row.state != SESSION_RUNNING;
}

void session_pause_by_itself(struct session *s, bool without_memory)
{
	uint64_t deadline = s->row.deadline_ms;

	if (deadline > 0 && deadline <= core_now_ms())
		s->row.deadline_ms = 0; /* its whole timeout counts again after a resume */
	if (without_memory)
		session_cold_pause(s, COLD_CAPTURE, NULL, NULL);
	if (s->row.state == SESSION_RUNNING) /* also if the former is refused */
		session_pause(s, NULL, NULL);
	if (s->row.state != SESSION_RUNNING)
		return;
	s->row.deadline_ms = deadline;
	loop_timer_set(s->core->loop, &s->timer, clock_now_ns() + PAUSE_AGAIN_MS * CLOCK_MS);
}

void session_pause_thaw(struct session *s)
{
	guest_reader_free(s->guest.still);
	s->guest.still = NULL;
	if (s->cell->frozen && s->cell->call == NULL)
		session_ask_freeze(s, false, on_thawed);
}

void session_freeze_again(struct session *s)
{
	session_ask_freeze(s, true, on_frozen);
}

void session_thaw_again(struct session *s)
{
	session_ask_freeze(s, false, on_thawed);
}
