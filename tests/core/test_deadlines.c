/* Goal: PID 1 knows the deadline of its session at every moment at which this daemon could end:
 * before a client that has changed it is answered, and when the daemon ends. And a keeper that
 * cannot work is reported as such only if none ever could. */
#include "bed.h"
#include "daemon/execution/execution.h"
#include "daemon/node/core.h"
#include "daemon/session/session.h"
#include "daemon/session/session_lifecycle.h"
#include "daemon/node/core_private.h"
#include "daemon/node/core_run.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/cells/live_cell.h"
#include "daemon/session/session_save.h"

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
	return bed.session->row.state >= SESSION_ENDING;
}

static struct completion over;

static void on_over(struct completion *c, const struct err *e)
{
	CHECK(x->row.timed_out && x->row.state == EXECUTION_KILLED);
	CHECK(x->row.exit_code == 124 && strcmp(x->row.limit, "timeout") == 0);
	x = NULL;
}

static bool has_ended(void)
{
	return x == NULL;
}

/* The cell is ended ten ticks after the slack: a busy machine does not run the test for a while. */
#define TICK_MS 200
#define LONGER_MS 2300

static bool is_told_again(void)
{
	return bed.ordered[AGENT_KILL_TREE] > 1;
}

static void begin_overdue(void)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .timeout_ms = 50
	};
	struct err e;

	execution_slack_ms = 50;
	execution_tick_ms = TICK_MS;
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
	bed_turn(LONGER_MS);
	CHECK(!is_stopped());
	bed_delete();
	bed_end();
}

static void a_dead_tree_is_the_end(void)
{
	begin_overdue();
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ .flags = AGENT_SOME_REMAIN });
	bed_until(is_told_again);
	CHECK(x != NULL);
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ 0 });
	bed_until(has_ended);
	bed_delete();
	bed_end();
}

/* ---- what a program left behind when its time was over */

static struct execution *left;

/* The program ends at its timeout, which PID 1 has kept. */
static void begin_leftovers(void)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .timeout_ms = 60000
	};
	struct err e;

	execution_slack_ms = 50;
	execution_tick_ms = TICK_MS;
	bed_make(30000);
	bed_session();
	left = x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	over = (struct completion){ .on_done = on_over };
	execution_wait(x, &over);
	bed_turn(5);
	bed_started();
	bed_says(AGENT_EXITED, &(struct agent_event){ .signal = 9, .timed_out = 1 });
	bed_close_output();
	bed_until(has_ended);
	bed_until(is_told_to_kill);
	CHECK(bed.ordered[AGENT_KILL_TREE] == 1 && bed.ordered[AGENT_FORGET] == 0);
	CHECK(!execution_complete(left) && left->row.output_open);
}

static bool is_told_to_forget(void)
{
	return bed.ordered[AGENT_FORGET] > 0;
}

/* PID 1 is asked again until nothing is left, and forgets the program then. */
static void leftovers_are_killed_until_none_is_left(void)
{
	begin_leftovers();
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ .flags = AGENT_SOME_REMAIN });
	bed_until(is_told_again);
	CHECK(bed.ordered[AGENT_FORGET] == 0 && !is_stopped());
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ 0 });
	bed_until(is_told_to_forget);
	bed_turn(LONGER_MS);
	CHECK(!is_stopped());
	bed_delete();
	bed_end();
}

/* The same of a kill that this daemon began. */
static void leftovers_of_a_late_kill_are_killed(void)
{
	begin_overdue();
	bed_says(AGENT_EXITED, &(struct agent_event){ .signal = 9 });
	bed_close_output();
	bed_until(has_ended);
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ .flags = AGENT_SOME_REMAIN });
	bed_until(is_told_again);
	CHECK(bed.ordered[AGENT_FORGET] == 0);
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ 0 });
	bed_until(is_told_to_forget);
	bed_delete();
	bed_end();
}

static void leftovers_that_stay_end_the_cell(void)
{
	unsigned answered = 0;

	begin_leftovers();
	for (int i = 0; i < 2000 && !is_stopped(); i++) {
		/* one answer to each order: PID 1 says nothing unasked */
		if (bed.ordered[AGENT_KILL_TREE] > answered) {
			answered++;
			bed_says(AGENT_TREE_DEAD,
				 &(struct agent_event){ .flags = AGENT_SOME_REMAIN });
		}
		bed_turn(10);
	}
	CHECK(is_stopped());
	CHECK_STR(session_reason_name(bed.session->row.reason), "unresponsive");
	bed_end();
}

static void silence_about_leftovers_ends_the_cell(void)
{
	begin_leftovers();
	bed_until(is_stopped);
	CHECK_STR(session_reason_name(bed.session->row.reason), "unresponsive");
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

/* ---- clients end programs that executions left behind */

#define ENDED_MAX 64 /* KILLS_MAX of execution_deadline.c */

static unsigned waits_ended, waits_refused;

static void on_tree(struct completion *c, const struct err *e)
{
	waits_ended++;
	waits_refused += e != NULL && e->reason == REASON_QUOTA_EXECUTIONS;
}

static bool one_is_refused(void)
{
	return waits_ended > 0;
}

/* PID 1 does not answer. One more than may wait is refused, a second request for the same is not.
 */
static void so_many_trees_are_ended_at_once(void)
{
	static struct completion waits[ENDED_MAX + 2];

	waits_ended = waits_refused = 0;
	bed_make(30000);
	bed_session();
	for (unsigned i = 0; i < COUNT(waits); i++)
		waits[i] = (struct completion){ .on_done = on_tree };
	for (unsigned i = 0; i < ENDED_MAX; i++)
		execution_kill_ended(bed.session, 1000 + i, &waits[i]);
	execution_kill_ended(bed.session, 1000, &waits[ENDED_MAX]);
	bed_turn(5);
	CHECK(waits_ended == 0 && bed.ordered[AGENT_KILL_TREE] > 0);
	execution_kill_ended(bed.session, 1000 + ENDED_MAX, &waits[ENDED_MAX + 1]);
	bed_until(one_is_refused);
	CHECK(waits_ended == 1 && waits_refused == 1);
	bed_delete();
	bed_turn(50);
	CHECK(waits_ended == COUNT(waits) && waits_refused == 1);
	bed_end();
}

/* PID 1 reads nothing, and its queue takes nothing more: KILL_TREE is refused. */
static void begin_deaf(uint64_t timeout_ms)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .timeout_ms = timeout_ms
	};
	struct err e;

	execution_slack_ms = execution_tick_ms = 50;
	execution_start_ms = timeout_ms == 0 ? 50 : 60000;
	bed_make(30000);
	bed_session();
	bed_turn(5);
	bed_pid1_reads();
	bed.deaf = true;
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	over = (struct completion){ .on_done = on_over };
	if (timeout_ms > 0)
		execution_wait(x, &over);
	while (agent_send_kill_tree(&bed.session->cell->agent, 9999, 0, &e) == 0)
		;
	live_cell_flush(bed.session->cell);
	bed_turn(5);
	while (agent_send_kill_tree(&bed.session->cell->agent, 9999, 0, &e) == 0)
		; /* the socket has taken some */
	live_cell_flush(bed.session->cell);
}

static bool has_read_all(void)
{
	bed_pid1_reads();
	return x == NULL && bed.session->cell->agent.out == NULL;
}

/* Its SPAWN is in the queue, and nothing behind it ends it: the record says that it waits, until
 * PID 1 reads and KILL_TREE follows, */
static void one_that_waits_for_its_kill_is_not_over(void)
{
	begin_deaf(50);
	execution_tick_ms = 500; /* the queue is long */
	bed_turn(250);
	CHECK(x != NULL && !x->ended && !x->row.timed_out && !is_stopped());
	bed.deaf = false;
	bed_until(has_read_all);
	CHECK(bed.ordered[AGENT_SPAWN] == 1 && !is_stopped());
	bed_delete();
	bed_end();
}

/* or until the cell is ended. */
static void a_refused_kill_ends_the_cell(void)
{
	begin_deaf(50);
	bed_until(is_stopped);
	CHECK_STR(session_reason_name(bed.session->row.reason), "unresponsive");
	CHECK(x == NULL);
	bed_end();
}

/* The same of one without a timeout, which was not started in time. */
static void a_refused_kill_of_a_start_ends_the_cell(void)
{
	begin_deaf(0);
	bed_until(is_stopped);
	CHECK_STR(session_reason_name(bed.session->row.reason), "unresponsive");
	x = NULL;
	bed_end();
}

/* PID 1 says nothing: the cell is ended, and that is the end of the program. */
static void a_silent_pid_1_is_ended(void)
{
	begin_overdue();
	bed_turn(300);
	CHECK(x != NULL && x->row.state == EXECUTION_RUNNING && !is_stopped());
	bed_until(is_stopped);
	CHECK_STR(session_reason_name(bed.session->row.reason), "unresponsive");
	CHECK(x == NULL);
	bed_end();
}

static bool has_no_cell(void)
{
	return bed.session->cell == NULL;
}

/* The shim has ended the guest before this daemon counted a second of it. A session that is kept
 * goes on without its cell, and with no reason of an end: the record is the same. */
static void a_guest_that_was_ended_has_a_timeout(void)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .timeout_ms = 50
	};
	struct err e;

	for (int kept = 0; kept < 2; kept++) {
		execution_slack_ms = 60000;
		bed_make(30000);
		bed_session();
		bed.session->row.keep_ms = kept ? 3600000 : 0;
		x = execution_start(bed.session, &spec, &e);
		CHECK(x != NULL);
		over = (struct completion){ .on_done = on_over };
		execution_wait(x, &over);
		bed_turn(5);
		bed_started();
		bed_turn(100);
		CHECK(x != NULL && x->overdue == 0);
		session_end_unresponsive(bed.session);
		bed_until(has_ended);
		if (kept)
			bed_until(has_no_cell);
		bed_end();
	}
}

/* While something holds the cell still, PID 1 cannot answer. */
static void a_cell_that_stands_still_is_not_blamed(void)
{
	begin_overdue();
	bed.session->cell->frozen = true;
	bed_turn(LONGER_MS);
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
	  { "leftovers are killed until none is left", leftovers_are_killed_until_none_is_left },
	  { "leftovers of a late kill are killed", leftovers_of_a_late_kill_are_killed },
	  { "leftovers that stay end the cell", leftovers_that_stay_end_the_cell },
	  { "silence about leftovers ends the cell", silence_about_leftovers_ends_the_cell },
	  { "so many trees are ended at once", so_many_trees_are_ended_at_once },
	  { "a program that was not started is over", a_program_that_was_not_started_is_over },
	  { "one that waits for its kill is not over", one_that_waits_for_its_kill_is_not_over },
	  { "a refused kill ends the cell", a_refused_kill_ends_the_cell },
	  { "a refused kill of a start ends the cell", a_refused_kill_of_a_start_ends_the_cell },
	  { "a silent PID 1 is ended", a_silent_pid_1_is_ended },
	  { "a guest that was ended has a timeout", a_guest_that_was_ended_has_a_timeout },
	  { "a cell that stands still is not blamed", a_cell_that_stands_still_is_not_blamed })
