/* session_timer.c - see session_timer.h. Deadlines of sessions are in terms of the wall clock,
 * since they are shown to clients and outlive a daemon; timers are in terms of the monotonic clock.
 */
#include "session_timer.h"

#include <assert.h>

#include "clock.h"
#include "core_private.h"
#include "live_cell.h"
#include "log.h"
#include "session_states.h"

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

/* The timer fires at the session's deadline or at the end of its idle time, whichever is first. The
 * wall clock may be set, so the time that is left is computed again at least every minute. */
void session_plan_timer(struct session *s)
{
	uint64_t now = clock_now_ns(), at = UINT64_MAX, until = session_kept_until(s);

	if (s->row.id[0] == '\0')
		return; /* it is queued: the timer is that of its place in the queue */
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
	/* A session that is to be paused then needs a server for that, so PID 1 gets no deadline.
	 */
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
		return; /* a clock that is being slewed is followed: it is the better one */
	log_warn("the wall clock was set", "by_ms=%lld", (long long)jump);
	session_each(c, NULL, shift_one, &jump);
}
