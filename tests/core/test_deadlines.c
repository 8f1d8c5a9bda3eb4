/* Goal: PID 1 knows the deadline of its session at every moment at which this daemon could end:
 * before a client that has changed it is answered, and when the daemon ends. And a keeper that
 * cannot work is reported as such only if none ever could. */
#include "bed.h"
#include "core_private.h"
#include "core_run.h"
#include "execution_deadline.h"
#include "live_cell.h"
#include "session_timer.h"

#define HOUR_MS 3600000U

static void a_new_timeout_is_sent_at_once(void)
{
	unsigned before;
	struct err e;

	bed_make(30000);
	bed_session();
	bed_pid1_reads();
	before = bed.ordered[AGENT_DEADLINE];
	CHECK(session_set_timeout(bed.session, HOUR_MS, NULL, &e) == 0);
	bed_pid1_reads(); /* no turn of the loop: it is in the socket already */
	CHECK(bed.ordered[AGENT_DEADLINE] == before + 1);
	CHECK(bed.deadline_ms > HOUR_MS / 2 && bed.deadline_ms <= HOUR_MS);
	bed_delete();
	bed_end();
}

static void the_last_deadline_is_sent_when_the_daemon_ends(void)
{
	unsigned before;

	bed_make(30000);
	bed_session();
	bed_turn(5);
	bed_pid1_reads();
	before = bed.ordered[AGENT_DEADLINE];
	bed.session->row.deadline_ms += HOUR_MS;
	session_plan_timer(bed.session);
	bed_pid1_reads();
	CHECK(bed.ordered[AGENT_DEADLINE] == before); /* queued, which is why the end sends it */
	core_free(bed.core);
	bed.core = NULL;
	bed_pid1_reads();
	CHECK(bed.ordered[AGENT_DEADLINE] == before + 1 && bed.deadline_ms > HOUR_MS);
	bed_end();
}

static void a_keeper_that_never_could_work_is_reported(void)
{
	const char *why;

	bed_make_core(30000);
	bed_keeper_refuses();
	CHECK(bed.refused == 1 && !core_ready(bed.core, &why));
	bed_keeper();
	CHECK(core_ready(bed.core, &why));
	bed_keeper_dies();
	bed_turn(5);
	bed_keeper_refuses();
	CHECK(bed.refused == 1);
	bed_end();
}

/* ---- programs that PID 1 does not end */

static struct execution *x;

static bool is_told_to_kill(void)
{
	return bed.ordered[AGENT_KILL_TREE] > 0;
}

static bool is_stopped(void)
{
	return bed.session->row.state >= SESSION_STOPPING;
}

static struct completion over;

static void on_over(struct completion *c, const struct err *e)
{
	(void)c;
	(void)e;
	CHECK(x->row.timed_out && x->row.state == EXECUTION_KILLED);
	CHECK(x->row.exit_code == 124 && strcmp(x->row.limit, "timeout") == 0);
	x = NULL;
}

static bool has_ended(void)
{
	return x == NULL;
}

static void begin_overdue(void)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .timeout_ms = 50
	};
	struct err e;

	execution_slack_ms = 50;
	execution_tick_ms = 50;
	bed_make(30000);
	bed_session();
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	over = (struct completion){ .on_done = on_over };
	execution_wait(x, &over);
	bed_turn(5);
	bed_started();
	bed_until(is_told_to_kill);
	CHECK(!x->ended && x->row.state == EXECUTION_RUNNING);
}

/* It runs until PID 1 says that it does not. */
static void a_late_kill_counts_as_a_timeout(void)
{
	begin_overdue();
	bed_says(AGENT_EXITED, &(struct agent_event){ .signal = 9 });
	bed_close_output();
	bed_until(has_ended);
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ 0 });
	bed_turn(800);
	CHECK(!is_stopped());
	bed_delete();
	bed_end();
}

static void a_dead_tree_is_the_end(void)
{
	begin_overdue();
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ .flags = AGENT_SOME_REMAIN });
	bed_turn(120);
	CHECK(x != NULL && bed.ordered[AGENT_KILL_TREE] > 1); /* tried again */
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ 0 });
	bed_until(has_ended);
	bed_delete();
	bed_end();
}

/* Nothing of it runs: the session stays. */
static void a_program_that_was_not_started_is_over(void)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .timeout_ms = 50
	};
	struct err e;

	execution_slack_ms = execution_tick_ms = 50;
	bed_make(30000);
	bed_session();
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	over = (struct completion){ .on_done = on_over };
	execution_wait(x, &over);
	bed_until(has_ended);
	bed_turn(1000);
	CHECK(bed.ordered[AGENT_KILL_TREE] == 1 && !is_stopped());
	bed_delete();
	bed_end();
}

/* PID 1 says nothing: the cell is ended, and that is the end of the program. */
static void a_silent_pid_1_is_ended(void)
{
	begin_overdue();
	bed_turn(300);
	CHECK(x != NULL && x->row.state == EXECUTION_RUNNING && !is_stopped());
	bed_until(is_stopped);
	CHECK(bed.session->row.reason == SESSION_UNRESPONSIVE && x == NULL);
	bed_end();
}

/* While something holds the cell still, PID 1 cannot answer. */
static void a_cell_that_stands_still_is_not_blamed(void)
{
	begin_overdue();
	bed.session->cell->frozen = true;
	bed_turn(1500);
	CHECK(x != NULL && !is_stopped());
	bed.session->cell->frozen = false;
	bed_until(is_stopped);
	bed_end();
}

TEST_MAIN({ "a new timeout is sent at once", a_new_timeout_is_sent_at_once },
	  { "the last deadline is sent when the daemon ends",
	    the_last_deadline_is_sent_when_the_daemon_ends },
	  { "a keeper that never could work is reported",
	    a_keeper_that_never_could_work_is_reported },
	  { "a late kill counts as a timeout", a_late_kill_counts_as_a_timeout },
	  { "a dead tree is the end", a_dead_tree_is_the_end },
	  { "a program that was not started is over", a_program_that_was_not_started_is_over },
	  { "a silent PID 1 is ended", a_silent_pid_1_is_ended },
	  { "a cell that stands still is not blamed", a_cell_that_stands_still_is_not_blamed })
