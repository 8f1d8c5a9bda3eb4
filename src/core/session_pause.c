/* session_pause.c - freezes and thaws a session's cell, as a client asks, at its timeout, and at
 * the next use. A keeper does it; if that keeper ends before it has answered, another one is asked,
 * since both requests can be repeated. */
#include "session_pause.h"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "core.h"
#include "core_private.h"
#include "guest_reader.h"
#include "keeper_link.h"
#include "live_cell.h"
#include "log.h"
#include "session.h"
#include "session_cold.h"
#include "session_parts.h"
#include "session_save.h"
#include "session_timer.h"

#define PAUSE_AGAIN_MS 1000
#define WAIT_MS 90000 /* for those that wait: longer than a keeper or PID 1 may take */

void session_ask_freeze(struct session *s, bool on, keeper_done_fn *on_done)
{
	struct keeper_named r = { .op = KEEPER_FREEZE,
				  .pid = (uint32_t)s->cell->pid,
				  .on = on ? 1 : 0 };

	memcpy(r.id, s->row.id, sizeof(r.id));
	s->cell->call = keeper_link_ask(&s->core->cells.keeper, &r, sizeof(r), -1, KEEPER_URGENT,
					on_done, s->cell);
}

struct session *session_freeze_answered(struct live_cell *cell, bool frozen)
{
	struct session *s = cell->owner;

	cell->call = NULL;
	if (s == NULL)
		return NULL; /* the cell was given up: live_cell_abandon() */
	if (s->cell == cell && s->row.state != SESSION_STOPPING)
		return s;
	cell->frozen = frozen;
	live_cell_end_now(cell); /* live_cell_end() has waited for this answer */
	return NULL;
}

static void on_thawed(void *arg, const struct keeper_reply *reply, int fd, const struct err *e);

static void on_frozen(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct session *s = session_freeze_answered(arg, e == NULL);
	struct err why = { 0 };

	(void)reply;
	(void)fd;
	if (s == NULL)
		return;
	if (e != NULL && e->reason == REASON_PEER_DIED) {
		session_ask_freeze(s, true, on_frozen); /* of another keeper */
		return;
	}
	if (e == NULL) {
		s->cell->frozen = true;
		if (session_save(s, SESSION_PAUSED, SESSION_NO_REASON, &why) == 0) {
			session_plan_timer(s);
			completions_end_all(&s->when_paused, NULL);
			if (s->when_running.first != NULL) /* a client has used it meanwhile */
				session_resume(s, &s->waker, NULL);
			return;
		}
		e = &why;
	}
	struct err failure = *e;

	s->row.paused_since_ms = 0;
	IGNORED(session_save(s, SESSION_RUNNING, SESSION_NO_REASON, &why),
		"running is what recovery makes of pausing, too");
	s->row.state = SESSION_RUNNING;
	if (s->row.deadline_ms == 0 && s->row.timeout_ms > 0) /* its time was over */
		s->row.deadline_ms = core_now_ms() + PAUSE_AGAIN_MS;
	session_ask_freeze(s, false, on_thawed);
	session_touch(s);
	completions_end_all(&s->when_paused, &failure);
	loop_defer(s->core->loop, &s->notify_running); /* a client may have used it meanwhile */
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
	if (s->row.state != SESSION_RUNNING || s->cell->call != NULL || s->capturing != NULL)
		return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			       s->capturing != NULL ? "being captured"
						    : session_shown_name(&s->row));
	return 0;
}

void session_pause(struct session *s, const struct store_actor *who, struct completion *w)
{
	struct err e;

	if (s->row.state == SESSION_PAUSED) {
		if (w != NULL)
			completion_end_soon(w, s->core->loop, NULL);
		return;
	}
	if (s->row.state == SESSION_PAUSING) {
		if (w != NULL)
			wait_for(s, w, &s->when_paused);
		return;
	}
	if (cell_level_can(session_level(s), CELL_CAN_KEEP_MEMORY) &&
	    (!s->cannot_save || w != NULL)) {
		session_cold_pause(s, COLD_KEEP, who, w);
		return;
	}
	if (check_pause(s, &e) == 0) {
		session_timer_check_clock(s->core);
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
	/* Paused time does not count; a session that was paused because its time was over gets its
	 * whole timeout again. */
	if (s->row.deadline_ms > 0)
		s->row.deadline_ms += slept;
	else if (s->row.timeout_ms > 0)
		s->row.deadline_ms = now + s->row.timeout_ms;
}

static void on_thawed(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct session *s = session_freeze_answered(arg, e != NULL);
	struct err why;

	(void)reply;
	(void)fd;
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
	s->cannot_save = false; /* the next pause tries again */
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

void session_resume(struct session *s, const struct store_actor *who, struct completion *w)
{
	struct err e;
	uint64_t slept;

	if (session_is_usable(s)) {
		if (w != NULL)
			completion_end_soon(w, s->core->loop, NULL);
		return;
	}
	if (w != NULL)
		wait_for(s, w, &s->when_running);
	/* creating, pausing, resuming, just adopted: w ends when the session is running */
	if (s->row.state != SESSION_PAUSED || s->cooling != NULL || s->capturing != NULL) {
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
	/* Sent before the cell runs again: else the deadlines that PID 1 keeps would be over. */
	slept = core_now_ms() - s->row.paused_since_ms;
	if (s->cell->connected && slept > 0 && slept < AGENT_TIME_MAX_MS &&
	    agent_send_paused(&s->cell->agent, slept, &e) == 0)
		live_cell_flush(s->cell);
	session_ask_freeze(s, false, on_thawed);
}

bool session_use(struct session *s, const struct store_actor *who, struct completion *w)
{
	session_touch(s);
	if (session_is_usable(s))
		return true;
	session_resume(s, who, w);
	return false;
}

void session_pause_by_itself(struct session *s, bool without_memory)
{
	uint64_t deadline = s->row.deadline_ms;

	if (deadline > 0 && deadline <= core_now_ms())
		s->row.deadline_ms = 0; /* its whole timeout counts again when it is resumed */
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
	guest_reader_free(s->still);
	s->still = NULL;
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
