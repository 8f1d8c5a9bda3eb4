/* Goal: a PID 1 that reads nothing costs the server little: requests to it are refused as soon as
 * AGENT_OUT_BUSY wait, those that end something are not, all is counted for the tenant, and when
 * PID 1 reads again everything that was accepted arrives. A kill is answered as done only when
 * nothing of the program runs, also if PID 1 could not be told or says nothing. */
#include "bed.h"
#include "daemon/node/core_private.h"
#include "daemon/execution/dial.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_adopt.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/cells/live_cell.h"
#include "daemon/session/session_lifecycle.h"

#define LARGE (64U << 10)

static struct completion killed;
static unsigned ends;
static struct err last;

static void note(const struct err *e)
{
	ends++;
	last = e == NULL ? (struct err){ 0 } : *e;
}

static bool has_ended(void)
{
	return ends > 0;
}

static void on_killed(struct completion *c, const struct err *e)
{
	note(e);
}

static void on_dialed(struct dial *d, int fd, const struct err *e)
{
	CHECK(fd < 0);
	note(e);
}

static struct execution *start_large(struct err *e)
{
	static char strings[2 + LARGE];
	const struct execution_spec spec = {
		.argc = 1, .envc = 1, .strings = strings, .strings_len = sizeof(strings)
	};

	memset(strings, 'x', sizeof(strings) - 1);
	strings[1] = '\0';
	strings[3] = '=';
	return execution_start(bed.session, &spec, e);
}

static bool has_read_all(void)
{
	bed_pid1_reads();
	return bed.session->cell->agent.out == NULL;
}

static void requests_are_refused_while_many_wait(void)
{
	const struct agent *a;
	struct execution *first;
	struct dial dial = { .on_done = on_dialed };
	unsigned started = 1;
	struct err e = { 0 };

	bed_make(30000);
	bed_session();
	a = &bed.session->cell->agent;
	bed.deaf = true;
	first = start_large(&e);
	CHECK(first != NULL);
	while (start_large(&e) != NULL)
		CHECK(++started < 100);
	CHECK(e.reason == REASON_UNAVAILABLE && started >= 4);
	CHECK(a->out_bytes >= AGENT_OUT_BUSY && a->out_bytes < AGENT_OUT_BUSY + 2 * LARGE);
	CHECK(bed.session->tenant->orders.bytes == a->out_bytes);
	dial_start(bed.session, 80, &dial);
	bed_until(has_ended);
	CHECK(last.reason == REASON_UNAVAILABLE);
	CHECK(execution_signal(first, 1, &e) == -1 && e.reason == REASON_UNAVAILABLE);
	killed = (struct completion){ .on_done = on_killed };
	execution_kill(first, &killed); /* accepted: it ends something */
	bed_turn(5);
	CHECK(ends == 1);
	bed.deaf = false;
	bed_until(has_read_all);
	CHECK(bed.session->tenant->orders.bytes == 0);
	CHECK(bed.ordered[AGENT_SPAWN] == started && bed.ordered[AGENT_KILL_TREE] == 1);
	CHECK(start_large(&e) != NULL);
	bed_delete();
	bed_end();
}

/* The end of the session takes what waits along. */
static void a_deaf_pid_1_ends_with_its_session(void)
{
	struct tenant *t;
	struct err e = { 0 };

	bed_make(30000);
	bed_session();
	t = bed.session->tenant;
	bed.deaf = true;
	while (start_large(&e) != NULL)
		;
	CHECK(t->orders.bytes > 0);
	bed_begin_delete();
	bed_turn(1000);
	CHECK(t->orders.bytes == 0);
	bed_end();
}

/* ---- kills that PID 1 does not follow */

static struct execution *x;

static void begin_one(bool started)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .stdin_open = true
	};
	struct err e;

	execution_slack_ms = execution_tick_ms = 50;
	bed_make(30000);
	bed_session();
	ends = 0;
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	bed_turn(5);
	if (started) {
		bed_started();
		bed_turn(5);
	} else {
		bed.deaf = true;
	}
	CHECK(x->started == started);
	killed = (struct completion){ .on_done = on_killed };
}

/* Its socket and its queue are full. */
static void fill(void)
{
	struct agent *a = &bed.session->cell->agent;
	struct err e;

	bed_pid1_reads();
	bed.deaf = true;
	for (unsigned i = 0; i < 2; i++) {
		while (agent_send_kill_tree(a, 9999, 0, &e) == 0)
			;
		CHECK(e.reason == REASON_UNAVAILABLE);
		live_cell_flush(bed.session->cell);
		bed_turn(5);
	}
	CHECK(agent_send_kill_tree(a, 9999, 0, &e) == -1);
}

static bool is_stopped(void)
{
	return bed.session->row.state >= SESSION_ENDING;
}

static void check_killed(void)
{
	const struct store_execution *row = execution_row(x);

	CHECK(row->state == EXECUTION_KILLED && row->exit_code == 137 && !row->timed_out);
	CHECK_STR(row->limit, "killed");
}

static void on_over(struct completion *c, const struct err *e)
{
	check_killed();
	x = NULL;
}

/* The cell is ended, and then the answer is true. */
static void a_refused_kill_is_not_answered_as_done(void)
{
	struct completion over = { .on_done = on_over };

	begin_one(true);
	execution_wait(x, &over);
	fill();
	execution_kill(x, &killed);
	bed_turn(200);
	CHECK(ends == 0 && !is_stopped() && x->row.state == EXECUTION_RUNNING && !x->killing);
	bed_until(has_ended);
	CHECK(is_stopped() && bed.session->row.reason == SESSION_UNRESPONSIVE);
	CHECK(last.code == ERR_NONE && x == NULL);
	bed_end();
}

static bool is_told(void)
{
	bed_pid1_reads();
	return x != NULL && x->killing && bed.session->cell->agent.out == NULL;
}

/* PID 1 reads again before that. */
static void a_refused_kill_is_sent_again(void)
{
	struct completion over = { .on_done = on_over };

	begin_one(true);
	fill();
	execution_tick_ms = 500; /* the queue is long */
	execution_wait(x, &over);
	execution_kill(x, &killed);
	bed_turn(100);
	bed.deaf = false;
	bed_until(is_told);
	CHECK(bed.handle == x->program.handle && ends == 0);
	bed_says(AGENT_EXITED, &(struct agent_event){ .signal = 9 });
	bed_close_output();
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ 0 });
	bed_until(has_ended);
	execution_tick_ms = 50;
	bed_turn(800);
	CHECK(last.code == ERR_NONE && ends == 1 && x == NULL && !is_stopped());
	bed_delete();
	bed_end();
}

static void a_kill_without_an_answer_ends_the_cell(void)
{
	struct completion over = { .on_done = on_over };

	begin_one(true);
	execution_wait(x, &over);
	execution_kill(x, &killed);
	bed_turn(200);
	CHECK(ends == 0 && x->killing && !is_stopped());
	bed_until(has_ended);
	CHECK(is_stopped() && bed.session->row.reason == SESSION_UNRESPONSIVE);
	CHECK(last.code == ERR_NONE && x == NULL);
	bed_end();
}

/* Nothing of it runs, or will: the session stays. */
static void a_kill_before_the_start_ends_the_execution_only(void)
{
	struct completion over = { .on_done = on_over };

	begin_one(false);
	execution_wait(x, &over);
	execution_kill(x, &killed);
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE && x == NULL);
	bed_turn(800);
	CHECK(!is_stopped());
	bed_delete();
	bed_end();
}

static void processes_that_remain_are_an_error(void)
{
	begin_one(true);
	execution_kill(x, &killed);
	bed_turn(5);
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ .flags = AGENT_SOME_REMAIN });
	bed_until(has_ended);
	CHECK(last.code == ERR_LIMIT && !x->ended);
	bed_until(is_stopped); /* it still runs after the time of its kill */
	bed_end();
}

/* It has exited, and a process that it left behind has its output. */
static void a_refused_kill_of_what_is_left_is_an_error(void)
{
	begin_one(true);
	bed_says(AGENT_EXITED, &(struct agent_event){ 0 });
	bed_turn(5);
	CHECK(x->ended && !x->complete);
	fill();
	execution_kill(x, &killed);
	bed_until(has_ended);
	CHECK(last.reason == REASON_UNAVAILABLE && !x->killing);
	bed_delete();
	bed_end();
}

/* As after a restart of the daemon: killed before PID 1 has reported it. */
static void a_kill_that_is_refused_when_pid_1_reports_it(void)
{
	const struct agent_event starting = { .handle = 77, .flags = AGENT_IS_STARTING };

	begin_one(true);
	live_cell_remove(bed.session->cell, &x->program);
	x->program.handle = 0;
	execution_kill(x, &killed);
	CHECK(x->killing);
	fill();
	execution_adopt(x, bed.session->cell, &starting);
	CHECK(!x->killing && ends == 0);
	bed_until(has_ended);
	CHECK(is_stopped() && last.code == ERR_NONE);
	bed_end();
}

/* ---- other orders that are refused while a client is told that they are done */

static unsigned closes, forgets, deadlines; /* so far */

static void listen_again(void)
{
	closes = bed.ordered[AGENT_CLOSE_STDIN];
	forgets = bed.ordered[AGENT_FORGET];
	deadlines = bed.ordered[AGENT_DEADLINE];
	bed.deaf = false;
}

static bool is_closed(void)
{
	bed_pid1_reads();
	return bed.ordered[AGENT_CLOSE_STDIN] > closes;
}

static bool is_forgotten(void)
{
	bed_pid1_reads();
	return bed.ordered[AGENT_FORGET] > forgets;
}

static bool is_free(void)
{
	return bed.session->executions == NULL;
}

static bool is_put_off(void)
{
	bed_pid1_reads();
	return bed.ordered[AGENT_DEADLINE] > deadlines && bed.deadline_ms > 3000000;
}

/* PID 1 has the input open, too: its program would never see the end of it. */
static void a_refused_end_of_input_is_sent_again(void)
{
	begin_one(true);
	fill();
	execution_close_input(x);
	listen_again();
	bed_until(is_closed);
	CHECK(bed.ordered[AGENT_CLOSE_STDIN] == closes + 1);
	bed_delete();
	bed_end();
}

/* PID 1 would hold it until the session ends. */
static void a_refused_forget_is_sent_again(void)
{
	begin_one(true);
	fill();
	bed_close_output();
	bed_says(AGENT_EXITED, &(struct agent_event){ .handle = x->program.handle });
	bed_turn(100);
	CHECK(x->complete);
	listen_again();
	bed_until(is_forgotten);
	bed_until(is_free);
	CHECK(bed.ordered[AGENT_FORGET] == forgets + 1);
	bed_delete();
	bed_end();
}

static void a_refused_deadline_is_sent_again(void)
{
	struct err e;

	begin_one(true);
	fill();
	CHECK(session_set_timeout(bed.session, 3600000, NULL, &e) == 0);
	listen_again();
	bed_until(is_put_off);
	bed_delete();
	bed_end();
}

TEST_MAIN({ "requests are refused while many wait", requests_are_refused_while_many_wait },
	  { "a deaf PID 1 ends with its session", a_deaf_pid_1_ends_with_its_session },
	  { "a refused kill is not answered as done", a_refused_kill_is_not_answered_as_done },
	  { "a refused kill is sent again", a_refused_kill_is_sent_again },
	  { "a kill without an answer ends the cell", a_kill_without_an_answer_ends_the_cell },
	  { "a kill before the start ends the execution only",
	    a_kill_before_the_start_ends_the_execution_only },
	  { "processes that remain are an error", processes_that_remain_are_an_error },
	  { "a refused kill of what is left is an error",
	    a_refused_kill_of_what_is_left_is_an_error },
	  { "a kill that is refused when PID 1 reports it",
	    a_kill_that_is_refused_when_pid_1_reports_it },
	  { "a refused end of input is sent again", a_refused_end_of_input_is_sent_again },
	  { "a refused forget is sent again", a_refused_forget_is_sent_again },
	  { "a refused deadline is sent again", a_refused_deadline_is_sent_again })
