/* session_save.c - see session_save.h.
 *
 * Deadlines of sessions are in terms of the wall clock, since they are shown to clients and outlive
 * a daemon. Timers are in terms of the monotonic clock.
 */
#include "daemon/session/session_save.h"

#include <assert.h>

#include "daemon/audit/audit.h"
#include "daemon/cells/live_cell.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_states.h"
#include "daemon/store/store_layer.h"
#include "daemon/tenant/event_log.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

int session_save_event(struct session *s, const char *from, struct err *e)
{
	return event_log_append(s->core, &s->actor, s->row.tenant, s->row.id, "", "session.state",
				e, "from\t%s\nto\t%s\nreason\t%s\n", from,
				session_shown_name(&s->row),
				session_reason_name((enum session_reason)s->row.reason));
}

/* Its duration, its usage, and the result of the cleanup. The record has the time at which it is
 * written: times of a log do not run backwards, also if an end is written late. */
static int save_ended(const struct session *s, struct err *e)
{
	const struct store_session *row = &s->row;
	const struct audit_record record = { .tenant = row->tenant,
					     .session = row->id,
					     .type = "session.ended",
					     .actor = &s->actor };
	uint64_t from = row->started_ms > 0 ? row->started_ms : row->created_ms;

	return audit_append(s->core->audit, &record, e,
			    "reason\t%s\nduration_ms\t%llu\ncpu_us\t%llu\nmemory_peak\t%llu\n"
			    "cleanup\t%s\n",
			    session_reason_name((enum session_reason)row->reason),
			    (unsigned long long)(row->ended_ms > from ? row->ended_ms - from : 0),
			    (unsigned long long)row->usage.cpu_us,
			    (unsigned long long)row->usage.memory_peak_bytes,
			    s->cell == NULL ? "done" : "cell_left");
}

void session_save_log(const struct session *s, const char *from)
{
	log_info("session state changed", "session_id=%s tenant=%s from=%s to=%s reason=%s",
		 s->row.id, s->row.tenant, from, session_shown_name(&s->row),
		 session_reason_name((enum session_reason)s->row.reason));
}

/* An ending session's usage and an ended session's layer uses change with its state, in the same
 * transaction: a layer must not be collected while a row still needs it. */
int session_save(struct session *s, enum session_state to, enum session_reason reason,
		 struct err *e)
{
	struct store_session before = s->row;
	struct core *c = s->core;
	bool own = false;
	const char *from = session_shown_name(&before);

	if (!session_states_allow((enum session_state)before.state, to))
		return err_set(e, ERR_CONFLICT, "session %s is %s, it cannot become %s", s->row.id,
			       from, session_state_name(to));
	s->row.state = to;
	if (reason != SESSION_NO_REASON)
		s->row.reason = reason;
	if (to == SESSION_ENDED && s->row.ended_ms == 0) /* else this is tried again */
		s->row.ended_ms = core_now_ms();
	if (store_join(c->store, &own, e) == 0 &&
	    (to == SESSION_ENDING || to == SESSION_ENDED
		     ? store_session_update_end(c->store, &s->row, e)
		     : store_session_update_state(c->store, &s->row, e)) == 0 &&
	    (to != SESSION_ENDED || session_parts_finish(s, e) == 0) &&
	    session_save_event(s, from, e) == 0 && (to != SESSION_ENDED || save_ended(s, e) == 0) &&
	    (to != SESSION_ENDED || s->own == NULL ||
	     store_layer_unuse(c->store, STORE_LAYER_OF_SESSION, s->row.id, e) == 0) &&
	    (to != SESSION_ENDED || !session_has_guest(s) ||
	     store_layer_unuse(c->store, STORE_LAYER_GUEST_OF_SESSION, s->row.id, e) == 0) &&
	    store_leave(c->store, own, e) == 0) {
		s->unsaved = false;
		if (to == SESSION_ENDED && (s->own != NULL || session_has_guest(s)))
			layers_collect(&c->layers, false, NULL);
		session_save_log(s, from);
		return 0;
	}
	store_rollback(
		c->store); /* the caller's transaction, too: a part of it is no transaction */
	s->row = before;
	return -1;
}

void session_save_anyway(struct session *s, enum session_state to, enum session_reason reason)
{
	struct err e;

	if (session_save(s, to, reason, &e) == 0)
		return;
	log_error("session state could not be written", "session_id=%s to=%s error=%s", s->row.id,
		  session_state_name(to), e.msg);
	s->row.state = to;
	s->row.reason = reason == SESSION_NO_REASON ? s->row.reason : reason;
	if (to == SESSION_ENDED && s->row.ended_ms == 0)
		s->row.ended_ms = core_now_ms();
	s->unsaved = true;
}

void session_set_actor(struct session *s, const struct store_actor *who)
{
	s->actor = store_actor_copy(who);
}

#define CLOCK_JUMP_MS 2000

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

uint64_t session_kept_until(const struct session *s)
{
	const struct config *g = s->core->o.config;
	const struct store_session *row = &s->row;
	uint64_t keep = row->keep_ms > 0				   ? row->keep_ms
			: session_is_cold(row) && row->cold != COLD_MEMORY ? g->cold_keep_ms
									   : g->pause_keep_ms;

	return row->state != SESSION_PAUSED || keep == 0 ? 0 : row->paused_since_ms + keep;
}

bool session_timer_is_unused(const struct session *s)
{
	uint64_t until = session_kept_until(s);

	return until > 0 && until <= core_now_ms();
}

bool session_timer_ends_cell(const struct session *s)
{
	return s->row.on_timeout == SESSION_KILL && s->row.deadline_ms > 0 &&
	       s->row.deadline_ms <= core_now_ms();
}

/* Set the timer to the session's deadline or to the end of its idle time, the earlier one. The wall
 * clock may be set, so the remaining time is computed again at least every minute. */
void session_plan_timer(struct session *s)
{
	uint64_t now = clock_now_ns(), at = UINT64_MAX, until = session_kept_until(s);

	if (s->row.id[0] == '\0')
		return; /* it is queued: the timer belongs to its place in the queue */
	if (until > 0) {
		uint64_t left = until > core_now_ms() ? until - core_now_ms() : 0;

		loop_timer_set(s->core->loop, &s->timer,
			       now + (left < 60000 ? left : 60000) * CLOCK_MS);
		return;
	}
	if (s->row.state != SESSION_RUNNING) {
		loop_timer_cancel(s->core->loop, &s->timer);
		return;
	}
	/* Pausing at the deadline needs a server, so PID 1 gets no deadline then. */
	if (s->cell != NULL)
		live_cell_lease_set_deadline(
			s->cell, s->row.on_timeout != SESSION_KILL ? 0 : s->row.deadline_ms);
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

/* ---- the wall clock */

/* A failed write is harmless: the next change of state writes the moved times. */
static void shift_one(struct session *s, void *arg)
{
	const int64_t *jump = arg;
	uint64_t *times[] = { &s->row.deadline_ms, &s->row.paused_since_ms };
	struct err e;

	for (size_t i = 0; i < COUNT(times); i++)
		if (*times[i] != 0)
			*times[i] = (uint64_t)((int64_t)*times[i] + *jump);
	if (s->row.deadline_ms == 0 && s->row.paused_since_ms == 0)
		return;
	IGNORED(store_session_update_state(s->core->store, &s->row, &e),
		"written with its next change of state, then");
	session_plan_timer(s);
}

void session_timer_check_clock(struct core *c)
{
	int64_t ahead = (int64_t)core_now_ms() - (int64_t)(clock_now_ns() / CLOCK_MS);
	int64_t jump = ahead - c->clock_ahead_ms;

	c->clock_ahead_ms = ahead;
	if (jump > -CLOCK_JUMP_MS && jump < CLOCK_JUMP_MS)
		return; /* a slewed clock is followed: it is the better one */
	log_warn("the wall clock was set", "by_ms=%lld", (long long)jump);
	session_each(c, NULL, shift_one, &jump);
}
