/* execution_deadline.c - ends executions whose PID 1 does not keep their time.
 *
 * PID 1 starts executions and enforces their timeouts. A PID 1 that is stopped or starved does
 * neither: an execution that it has not started within START_MS fails, and one that runs SLACK_MS
 * longer than its timeout has timed out. Its processes are killed when PID 1 reads requests again.
 * Time in which the session is paused does not count; after a restart of this daemon the time
 * counts from that restart. */
#include "execution_deadline.h"

#include <signal.h>
#include <stdio.h>

#include "clock.h"
#include "core_private.h"
#include "execution.h"
#include "execution_io.h"
#include "execution_prepare.h"
#include "live_cell.h"
#include "log.h"
#include "exit_codes.h"

#define START_MS 60000
#define SLACK_MS 5000

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

void execution_give_up(struct execution *x, bool timed_out, const char *why)
{
	if (x->ended || x->exiting)
		return;
	log_warn("execution ended by the daemon", "session_id=%s execution_id=%s why=%s",
		 x->row.session, x->row.id, timed_out ? "PID 1 did not enforce the timeout" : why);
	execution_drain_last(x);
	execution_close_fds(x);
	kill_tree(x);
	x->row.timed_out = timed_out;
	x->row.signal = timed_out ? SIGKILL : 0;
	x->row.exit_code = timed_out ? EXIT_TIMEOUT : EXIT_NOT_EXECUTABLE;
	x->row.state = timed_out ? EXECUTION_KILLED : EXECUTION_FAILED;
	if (timed_out) {
		(void)snprintf(x->row.limit, sizeof(x->row.limit), "timeout");
	} else {
		x->fault = EXECUTION_NO_PROCESS;
		x->row.error_code = ERR_SYSTEM;
		x->row.error = why;
	}
	execution_finish(x);
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
		end = x->row.timeout_ms + SLACK_MS;
	if (!x->started && end > START_MS)
		end = START_MS;
	return end == UINT64_MAX ? end : end > ran ? end - ran : 0;
}

static void plan(struct execution *x, uint64_t ms)
{
	loop_timer_set(x->session->core->loop, &x->late, clock_now_ns() + ms * CLOCK_MS);
}

static void on_late(struct loop_timer *t)
{
	struct execution *x = t->arg;
	uint64_t left = left_ms(x);

	if (x->ended || left == UINT64_MAX)
		return;
	if (x->session->row.state != SESSION_RUNNING)
		plan(x, SLACK_MS);
	else if (left > 0)
		plan(x, left);
	else if (x->row.timeout_ms > 0 && ran_ms(x) >= x->row.timeout_ms + SLACK_MS)
		execution_give_up(x, true, "");
	else
		execution_give_up(x, false, "PID 1 of the session did not start the program");
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
