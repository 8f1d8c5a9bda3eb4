/* execution_deadline.c - ends executions whose PID 1 does not keep their time.
 *
 * PID 1 starts executions and enforces their timeouts. A PID 1 that is stopped or starved does
 * neither. An execution that it has not started within START_MS fails. Of one that runs
 * execution_slack_ms longer than its timeout PID 1 is told to kill the tree; if it has not done
 * that after ANSWER_TICKS more, the cell is ended. Until one of both the record says that the
 * execution runs, as it may. Of one that PID 1 has not started nothing runs: its time is over at
 * once. Time in which the session is paused does not count; after a restart of this daemon the time
 * counts from that restart. The wait for PID 1 is counted in ticks in which nothing holds the cell
 * still. */
#include "execution_deadline.h"

#include <signal.h>
#include <stdio.h>

#include "clock.h"
#include "core_private.h"
#include "execution.h"
#include "execution_io.h"
#include "execution_limits.h"
#include "execution_prepare.h"
#include "live_cell.h"
#include "log.h"
#include "exit_codes.h"

#define START_MS 60000
#define ANSWER_TICKS 10

unsigned execution_slack_ms = 5000;
unsigned execution_tick_ms = 1000;

static void kill_tree(struct execution *x)
{
	struct live_cell *c = x->session->cell;
	struct err e;

	if (c == NULL || !c->connected || x->program.handle == 0 || execution_is_preparing(x) ||
	    agent_send_kill_tree(&c->agent, x->program.handle, 0, &e) < 0)
		return;
	x->killing = true;
	live_cell_flush(c);
}

void execution_give_up(struct execution *x, const char *why)
{
	if (x->ended || x->exiting)
		return;
	log_warn("execution ended by the daemon", "session_id=%s execution_id=%s why=%s",
		 x->row.session, x->row.id, why);
	execution_drain_last(x);
	execution_close_fds(x);
	kill_tree(x);
	x->row.exit_code = EXIT_NOT_EXECUTABLE;
	x->row.state = EXECUTION_FAILED;
	x->fault = EXECUTION_NO_PROCESS;
	x->row.error_code = ERR_SYSTEM;
	x->row.error = why;
	execution_finish(x);
}

void execution_set_timed_out(struct execution *x)
{
	x->row.timed_out = true;
	x->row.signal = SIGKILL;
	x->row.exit_code = EXIT_TIMEOUT;
	x->row.state = EXECUTION_KILLED;
	(void)snprintf(x->row.limit, sizeof(x->row.limit), "timeout");
	execution_limits_add(x, "timeout");
}

static void end_timed_out(struct execution *x)
{
	execution_drain_last(x);
	execution_close_fds(x);
	execution_set_timed_out(x);
	execution_finish(x);
}

void execution_on_tree_dead(struct execution *x, bool some_remain)
{
	if (x->overdue > 0 && !x->ended && !x->exiting && !some_remain)
		end_timed_out(x); /* PID 1 did not say that it has exited */
}

static uint64_t ran_ms(const struct execution *x)
{
	uint64_t paused_ms = x->session->row.paused_total_ms - x->paused_before_ms;
	uint64_t ms = (clock_now_ns() - x->started_ns) / CLOCK_MS;

	return ms > paused_ms ? ms - paused_ms : 0;
}

/* The time that is left; UINT64_MAX: there is no limit, 0: it is over. */
static uint64_t left_ms(const struct execution *x)
{
	uint64_t ran = ran_ms(x), end = UINT64_MAX;

	if (x->row.timeout_ms > 0)
		end = x->row.timeout_ms + execution_slack_ms;
	if (!x->started && end > START_MS)
		end = START_MS;
	return end == UINT64_MAX ? end : end > ran ? end - ran : 0;
}

static void plan(struct execution *x, uint64_t ms)
{
	loop_timer_set(x->session->core->loop, &x->late, clock_now_ns() + ms * CLOCK_MS);
}

bool execution_is_over(const struct execution *x)
{
	return x->overdue > 0 || (x->row.timeout_ms > 0 && ran_ms(x) >= x->row.timeout_ms);
}

/* Does PID 1 stand still for a pause, a capture or a snapshot? */
static bool is_still(const struct session *s)
{
	return s->row.state != SESSION_RUNNING || s->cell == NULL || s->cell->frozen ||
	       s->capturing != NULL || s->remembering != NULL || s->still != NULL;
}

/* It runs although its time is over. */
static void on_overdue(struct execution *x)
{
	if (x->overdue++ == 0)
		log_warn("PID 1 did not enforce the timeout of an execution",
			 "session_id=%s execution_id=%s", x->row.session, x->row.id);
	if (x->overdue > ANSWER_TICKS) {
		session_end_unresponsive(x->session);
		return;
	}
	if (!x->killing)
		kill_tree(x);
	if (!x->started) /* nothing of it runs, and nothing will: KILL_TREE follows its SPAWN */
		end_timed_out(x);
	else
		plan(x, execution_tick_ms);
}

static void on_late(struct loop_timer *t)
{
	struct execution *x = t->arg;
	uint64_t left = left_ms(x);

	if (x->ended || x->exiting || left == UINT64_MAX)
		return;
	if (is_still(x->session))
		plan(x, execution_slack_ms);
	else if (left > 0)
		plan(x, left);
	else if (x->row.timeout_ms > 0 && ran_ms(x) >= x->row.timeout_ms + execution_slack_ms)
		on_overdue(x);
	else
		execution_give_up(x, "PID 1 of the session did not start the program");
}

void execution_expect(struct execution *x)
{
	uint64_t left;

	if (x->late.on_expire == NULL) {
		x->late = (struct loop_timer){ .on_expire = on_late, .arg = x };
		x->paused_before_ms = x->session->row.paused_total_ms;
	}
	left = left_ms(x);
	if (left == UINT64_MAX || x->ended)
		loop_timer_cancel(x->session->core->loop, &x->late);
	else
		plan(x, left);
}
