/* Goal: every asynchronous request of the core ends exactly once, or not at all if it was
 * cancelled, whatever order its answers come in: before, with and after the end of its input; with
 * its owner or its session gone in between; from a keeper or a PID 1 that is late, silent, refuses
 * or dies. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/execution/dial.h"
#include "ends.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/execution/file_op.h"
#include "daemon/session/session_pause.h"
#include "daemon/session/session_suspend.h"
#include "daemon/store/store_audit.h"
#include "daemon/store/store_event.h"
#include "lib/base/str.h"
static bool stop_inside; /* the callback ends the session */

/* ---- making, pausing */

static void on_state(struct completion *c, const struct err *e)
{
	note(e);
}

static struct completion state = { .on_done = on_state };

static void begin_session(enum bed_way way, unsigned timeout_ms)
{
	struct session_spec spec = { .profile = -1 };
	unsigned retry;
	struct err e;

	bed_make(timeout_ms);
	bed.way[KEEPER_CREATE] = way;
	CHECK(session_create(bed.core, bed.tenant, &spec, &state, &bed.session, &retry, &e) == 0);
	CHECK(ends == 0);
}

static bool is_asked_create(void)
{
	return bed.asked[KEEPER_CREATE] > 0;
}

static bool is_hung(void)
{
	return bed.hung > 0;
}

static void a_cell_is_refused(void)
{
	begin_session(BED_REFUSE, 30000);
	bed_until(has_ended);
	CHECK(last.code == ERR_LIMIT);
	check_once(1);
}

static void the_next_keeper_makes_the_cell(void)
{
	begin_session(BED_DIE, 30000);
	bed_until(is_asked_create);
	bed_turn(10);
	bed.way[KEEPER_CREATE] = BED_ANSWER;
	bed_keeper();
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE);
	bed_delete();
	check_once(1);
}

static void a_silent_keeper_is_replaced(void)
{
	const char *why;

	begin_session(BED_HOLD, 50);
	bed_until(is_hung);
	CHECK(!core_ready(bed.core, &why) && strstr(why, "does not answer") != NULL);
	bed.way[KEEPER_CREATE] = BED_ANSWER;
	bed_keeper();
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE && core_ready(bed.core, &why));
	check_once(1);
}

static bool is_asked_again(void)
{
	return bed.hung == 2;
}

/* The supervisor did not take the first request: it is asked a second time, and no third. */
static void another_keeper_is_asked_for_until_it_is_heard(void)
{
	begin_session(BED_HOLD, 50);
	bed.unheard = 1;
	bed_until(is_asked_again);
	bed_turn(1200);
	CHECK(bed.hung == 2);
	bed_keeper();
	bed_until(has_ended);
	check_once(1);
}

static bool is_cleared(void)
{
	return bed.core->cells.ending == 0;
}

static void no_keeper_ever_comes(void)
{
	begin_session(BED_HOLD, 50);
	bed_until(is_hung);
	bed_until(has_ended);
	CHECK(last.code == ERR_SYSTEM && last.reason == REASON_TIMEOUT);
	bed_keeper(); /* late, but what was left of the cell goes */
	bed_until(is_cleared);
	check_once(1);
}

static void begin_pause(enum bed_way way, unsigned timeout_ms)
{
	bed_make(timeout_ms);
	bed_session();
	bed.way[KEEPER_FREEZE] = way;
	session_pause(bed.session, NULL, &state);
	CHECK(ends == 0);
}

static bool is_asked_freeze(void)
{
	return bed.asked[KEEPER_FREEZE] > 0;
}

static void paused_and_paused_again(void)
{
	begin_pause(BED_ANSWER, 30000);
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE);
	session_pause(bed.session, NULL, &state);
	CHECK(ends == 1); /* known at once, told from the loop */
	bed_turn(5);
	CHECK(ends == 2);
	check_once(2);
}

static void deleted_while_it_is_paused(void)
{
	begin_pause(BED_HOLD, 30000);
	bed_until(is_asked_freeze);
	bed_delete();
	bed_until(has_ended);
	CHECK(last.reason == REASON_GONE);
	bed_keeper_answers(true);
	check_once(1);
}

static void the_next_keeper_pauses(void)
{
	begin_pause(BED_DIE, 30000);
	bed_until(is_asked_freeze);
	bed_turn(10);
	CHECK(ends == 0);
	bed.way[KEEPER_FREEZE] = BED_ANSWER;
	bed_keeper();
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE);
	check_once(1);
}

static void a_pause_is_refused(void)
{
	begin_pause(BED_REFUSE, 30000);
	bed_until(has_ended);
	CHECK(last.code == ERR_LIMIT);
	check_once(1);
}

/* One of its programs is in a system call. No program runs, so it is paused. */
static void a_pause_holds_a_program_in_a_call(void)
{
	(void)err_set_reason(&bed.refusal, REASON_NOT_FROZEN, "a program is in a system call");
	begin_pause(BED_REFUSE, 30000);
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE);
	CHECK(session_row(bed.session)->state == SESSION_PAUSED && bed.session->cell->in_call);
	CHECK(bed.asked[KEEPER_FREEZE] == 1); /* not thawed */
	check_once(1);
}

static bool is_settled(void)
{
	return session_row(bed.session)->state == SESSION_RUNNING &&
	       bed.session->cell->call == NULL;
}

static bool is_over(void)
{
	return bed.core->live == 0;
}

/* No client has asked: nobody would stop its programs. */
static void a_session_ends_that_cannot_be_paused(void)
{
	bed_make(30000);
	bed_session();
	bed.way[KEEPER_FREEZE] = BED_REFUSE;
	bed.session->row.timeout_ms = 1000;
	for (unsigned i = 0; i < 4; i++) {
		bed.session->row.deadline_ms = 1;
		session_pause_by_itself(bed.session, false);
		bed_until(is_settled);
	}
	session_pause(bed.session, NULL, &state); /* a client is told, and may ask again */
	bed_until(has_ended);
	bed_until(is_settled);
	CHECK(last.code == ERR_LIMIT);
	bed.session->row.deadline_ms = 1;
	session_pause_by_itself(bed.session, false);
	bed_until(is_over);
	check_once(1);
}

static void an_alarm_ends_what_it_cannot_pause(void)
{
	bed_make(30000);
	bed_session();
	bed.way[KEEPER_FREEZE] = BED_REFUSE;
	CHECK(session_pause_for_alarm(bed.session, "alarm"));
	bed_until(is_over);
	check_once(0);
}

static bool is_without_a_cell(void)
{
	return session_is_cold(&bed.session->row) && bed.core->live == 0;
}

/* For lack of room: a persistent session keeps its disk, any other ends. */
static void a_growing_session_that_cannot_be_paused(void)
{
	for (unsigned kept = 0; kept < 2; kept++) {
		bed_make(30000);
		bed_session();
		bed.way[KEEPER_FREEZE] = BED_REFUSE;
		bed.session->row.keep_ms = kept;
		bed.session->row.room = ROOM_PAUSED;
		session_pause(bed.session, NULL, NULL);
		bed_until(kept ? is_without_a_cell : is_over);
		check_once(0);
	}
}

/* ---- file operations */

static struct file_op *op;
static int status;

static size_t on_output(struct file_op *o, const uint8_t *data, size_t len)
{
	return len;
}

static void on_op_end(struct file_op *o, int exit_status, const struct err *e)
{
	CHECK(o == op);
	note(e);
	status = exit_status;
	if (stop_inside)
		bed_begin_delete();
	op = NULL;
}

static const struct file_op_events op_events = { .on_output = on_output, .on_end = on_op_end };
static const struct agent_event exited = { .exit_code = 3 };

static bool is_spawned(void)
{
	return bed.ordered[AGENT_SPAWN] > 0;
}

static void begin_op(void)
{
	static const char *const argv[] = { "list", "/" };
	struct err e;

	bed_make(30000);
	bed_session();
	op = file_op_start(bed.session, "user", argv, 2, false, &op_events, NULL, &e);
	CHECK(op != NULL);
	bed_until(is_spawned);
}

static void op_output_ends_then_it_exits(void)
{
	begin_op();
	bed_started();
	bed_turn(5);
	bed_close_output();
	bed_turn(5);
	CHECK(ends == 0);
	bed_says(AGENT_EXITED, &exited);
	bed_until(has_ended);
	CHECK(status == 3 && last.code == ERR_NONE);
	check_once(1);
}

static void op_exits_then_its_output_ends(void)
{
	begin_op();
	bed_started();
	bed_says(AGENT_EXITED, &exited);
	bed_turn(5);
	CHECK(ends == 0);
	bed_close_output();
	bed_until(has_ended);
	check_once(1);
}

static void op_all_at_once(void)
{
	begin_op();
	bed_started();
	bed_close_output();
	bed_says(AGENT_EXITED, &exited);
	bed_says(AGENT_EXITED, &exited); /* PID 1 lies */
	bed_until(has_ended);
	check_once(1);
}

static void op_fails_to_start(void)
{
	begin_op();
	bed_says(AGENT_FAILED, &(struct agent_event){ .stage = AGENT_AT_USER, .sys = ENOENT });
	bed_until(has_ended);
	CHECK(last.code == ERR_INVALID);
	check_once(1);
}

static void op_whose_end_ends_its_session(void)
{
	stop_inside = true;
	begin_op();
	bed_started();
	bed_close_output();
	bed_says(AGENT_EXITED, &exited);
	bed_until(has_ended);
	check_once(1);
}

static void op_whose_failure_ends_its_session(void)
{
	stop_inside = true;
	begin_op();
	bed_says(AGENT_FAILED, &(struct agent_event){ .stage = AGENT_AT_SYSTEM, .sys = EAGAIN });
	bed_until(has_ended);
	check_once(1);
}

static void op_cancelled(void)
{
	begin_op();
	file_op_cancel(op);
	bed_started(); /* it comes too late: nothing of it is kept */
	bed_says(AGENT_EXITED, &exited);
	bed_turn(5);
	CHECK(bed.ordered[AGENT_SIGNAL] == 1);
	check_once(0);
}

static void op_and_the_end_of_its_session(void)
{
	begin_op();
	bed_delete();
	bed_until(has_ended);
	CHECK(last.reason == REASON_GONE);
	check_once(1);
}

static struct err reset_end;

static bool is_reset_over(void)
{
	return reset_end.code != ERR_NONE && bed.core->cells.ending == 0;
}

static void on_reset(struct completion *c, const struct err *e)
{
	CHECK(e != NULL && reset_end.code == ERR_NONE);
	reset_end = *e;
}

/* The request ends with the cell of a session that is reset, and its callback ends the session. */
static void op_whose_end_ends_a_session_that_is_reset(void)
{
	struct completion reset = { .on_done = on_reset };

	stop_inside = true;
	begin_op();
	bed_started();
	bed_turn(5);
	session_cold_reset(bed.session, NULL, &reset);
	bed_until(has_ended);
	bed_until(is_reset_over);
	CHECK(reset_end.reason == REASON_GONE && bed.ordered[AGENT_SPAWN] == 1);
	check_once(1);
}

static void op_and_the_death_of_pid_1(void)
{
	begin_op();
	bed_started();
	bed_turn(5);
	bed_pid1_dies();
	bed_until(has_ended);
	check_once(1);
}

/* ---- executions */

static struct execution *x;
static struct completion awaited = { .on_done = on_state }, input = { .on_done = on_state };

static void begin_execution(void)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .stdin_open = true
	};
	struct err e;

	bed_make(30000);
	bed_session();
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	execution_wait(x, &awaited);
	bed_until(is_spawned);
	CHECK(ends == 0);
}

static void execution_exits(void)
{
	begin_execution();
	bed_started();
	bed_close_output();
	bed_says(AGENT_EXITED, &exited);
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE);
	check_once(1);
}

static bool is_forgotten(void)
{
	return bed.ordered[AGENT_FORGET] == 1;
}

static bool is_spawned_again(void)
{
	return bed.ordered[AGENT_SPAWN] == 2;
}

/* PID 1 is not woken up for it: it comes with the next request, or later. */
static void execution_is_forgotten_later(void)
{
	const struct execution_spec spec = { .argc = 1, .strings = "a", .strings_len = 2 };
	struct err e;

	begin_execution();
	bed_started();
	bed_close_output();
	bed_says(AGENT_EXITED, &exited);
	bed_until(has_ended);
	bed_pid1_reads();
	CHECK(bed.ordered[AGENT_FORGET] == 0);
	bed_until(is_forgotten);
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	execution_wait(x, &awaited);
	bed_until(is_spawned_again);
	bed_says(AGENT_EXITED, &exited);
	bed_end();
}

static void execution_is_forgotten_with_the_next_request(void)
{
	const struct execution_spec spec = { .argc = 1, .strings = "a", .strings_len = 2 };
	struct err e;

	begin_execution();
	bed_started();
	bed_close_output();
	bed_says(AGENT_EXITED, &exited);
	bed_until(has_ended);
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	bed_pid1_reads();
	CHECK(is_spawned_again() && is_forgotten());
	bed_end();
}

static void execution_exits_with_its_output_open(void)
{
	begin_execution();
	bed_started();
	bed_says(AGENT_EXITED, &exited);
	bed_until(has_ended);
	bed_close_output();
	check_once(1);
}

static void execution_and_the_end_of_its_session(void)
{
	begin_execution();
	bed_delete();
	bed_until(has_ended);
	check_once(1);
}

static void execution_and_the_death_of_pid_1(void)
{
	begin_execution();
	bed_started();
	bed_turn(5);
	bed_pid1_dies();
	bed_until(has_ended);
	check_once(1);
}

static void execution_no_longer_waited_for(void)
{
	begin_execution();
	completion_cancel(&awaited);
	bed_started();
	bed_close_output();
	bed_says(AGENT_EXITED, &exited);
	check_once(0);
}

static void execution_given_up(void)
{
	begin_execution();
	CHECK(execution_input(x, "x", 1, &input, &last) ==
	      0); /* told when there is room, or never */
	execution_give_up(x, "test");
	bed_turn(5);
	CHECK(ends == 2 && last.code == ERR_CONFLICT && bed.ordered[AGENT_KILL_TREE] == 1);
	bed_started(); /* too late */
	bed_says(AGENT_EXITED, &exited);
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ 0 });
	check_once(2);
}

static bool is_killed(void)
{
	return bed.ordered[AGENT_KILL_TREE] > 0;
}

static void begin_kill(void)
{
	begin_execution();
	completion_cancel(&awaited);
	bed_started();
	bed_turn(5);
	execution_kill(x, &awaited);
	bed_until(is_killed);
	CHECK(ends == 0);
}

static void a_tree_dies(void)
{
	begin_kill();
	bed_says(AGENT_EXITED, &(struct agent_event){ .signal = SIGKILL });
	bed_says(AGENT_TREE_DEAD, &(struct agent_event){ 0 });
	bed_until(has_ended);
	check_once(1);
}

static void a_session_ends_over_a_tree(void)
{
	begin_kill();
	bed_delete();
	bed_until(has_ended);
	check_once(1);
}

/* ---- connections */

static void on_dial(struct dial *d, int fd, const struct err *e)
{
	CHECK(fd < 0);
	note(e);
}

static struct dial dial = { .on_done = on_dial };

static bool is_dialled(void)
{
	return bed.ordered[AGENT_DIAL] > 0;
}

static void begin_dial(uint16_t port)
{
	bed_make(30000);
	bed_session();
	dial_start(bed.session, port, &dial);
	CHECK(ends == 0);
}

static void a_port_is_closed(void)
{
	begin_dial(80);
	bed_until(is_dialled);
	bed_says(AGENT_DIALED, &(struct agent_event){ .sys = ECONNREFUSED });
	bed_until(has_ended);
	CHECK(last.code == ERR_NOT_FOUND);
	check_once(1);
}

static void the_door_is_a_closed_port(void)
{
	begin_dial(AGENT_EGRESS_PORT);
	bed_until(has_ended);
	CHECK(last.code == ERR_NOT_FOUND && bed.ordered[AGENT_DIAL] == 0);
	check_once(1);
}

static void a_session_ends_over_a_connection(void)
{
	begin_dial(80);
	bed_until(is_dialled);
	bed_delete();
	bed_until(has_ended);
	CHECK(last.reason == REASON_GONE);
	check_once(1);
}

static void a_connection_is_cancelled(void)
{
	begin_dial(80);
	bed_until(is_dialled);
	dial_cancel(&dial);
	bed_says(AGENT_DIALED, &(struct agent_event){ .sys = ECONNREFUSED });
	check_once(0);
}

/* ---- the end of a session */

static void what_waits_for_the_end_of_a_session(void)
{
	bed_make(30000);
	bed_session();
	session_when_over(bed.session, &state);
	bed_turn(5);
	CHECK(ends == 0);
	bed_delete();
	bed_until(has_ended);
	check_once(1);
}

static bool is_exited(void)
{
	return bed.core->live == 0;
}

/* What the tenant may have is given back when PID 1 has ended, although the keeper has not yet
 * removed what is left of the cell. */
static void quota_is_free_before_the_keeper_is_done(void)
{
	bed_make(30000);
	bed_session();
	bed.way[KEEPER_DESTROY] = BED_HOLD;
	bed_begin_delete();
	bed_until(is_exited);
	CHECK(bed.core->cells.ending == 1 && bed.tenant->sessions == 0 &&
	      bed.tenant->disk_bytes == 0);
	bed_end();
}

/* ---- an end that cannot be written */

/* No file can be written, as on a full disk. */
static void writing(bool can)
{
	const struct rlimit none = { can ? RLIM_INFINITY : 0, RLIM_INFINITY };

	CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &none) == 0);
}

static char session_id[STORE_ID_MAX];
static unsigned events, records; /* about its end */

static int see_event(const struct store_event *row, void *cookie)
{
	events +=
		strcmp(row->type, "session.state") == 0 && strstr(row->data, "to\tended\n") != NULL;
	return 0;
}

static int see_record(const struct store_audit *row, void *cookie)
{
	static const char type[] = "\"session.ended\"";

	records += memmem(row->leaf, row->leaf_len, type, sizeof(type) - 1) != NULL;
	return 0;
}

static bool is_forgotten_by_the_core(void)
{
	return session_by_id(bed.core, session_id) == NULL;
}

/* It is written later, with all that belongs to it. */
static void an_end_is_written_late(void)
{
	struct store_event_filter f = { .session = session_id };
	struct store_audit_filter of = { .session = session_id, .limit = 100 };
	struct store_audit_log log;
	struct err e;

	bed_make(30000);
	bed_session();
	str_copy(session_id, bed.session->row.id);
	writing(false);
	bed_begin_delete();
	bed_until(is_exited);
	bed_turn(50);
	CHECK(!is_forgotten_by_the_core());
	writing(true);
	bed_until(is_forgotten_by_the_core);
	CHECK(store_event_list(bed.core->store, &f, see_event, NULL, NULL, &e) == 0);
	CHECK(store_audit_log_get(bed.core->store, bed.tenant->row.id, 0, &log, &e) == 0);
	of.log = log.id;
	store_audit_log_release(&log);
	CHECK(store_audit_list(bed.core->store, &of, see_record, NULL, NULL, &e) == 0);
	CHECK(events == 1 && records == 1);
	bed_end();
}

TEST_MAIN(T(a_cell_is_refused), T(the_next_keeper_makes_the_cell), T(a_silent_keeper_is_replaced),
	  T(another_keeper_is_asked_for_until_it_is_heard), T(no_keeper_ever_comes),
	  T(paused_and_paused_again), T(deleted_while_it_is_paused), T(the_next_keeper_pauses),
	  T(a_pause_is_refused), T(a_pause_holds_a_program_in_a_call),
	  T(a_session_ends_that_cannot_be_paused), T(an_alarm_ends_what_it_cannot_pause),
	  T(a_growing_session_that_cannot_be_paused), T(op_output_ends_then_it_exits),
	  T(op_exits_then_its_output_ends), T(op_all_at_once), T(op_fails_to_start),
	  T(op_whose_end_ends_its_session), T(op_whose_failure_ends_its_session), T(op_cancelled),
	  T(op_and_the_end_of_its_session), T(op_whose_end_ends_a_session_that_is_reset),
	  T(op_and_the_death_of_pid_1), T(execution_exits), T(execution_is_forgotten_later),
	  T(execution_is_forgotten_with_the_next_request), T(execution_exits_with_its_output_open),
	  T(execution_and_the_end_of_its_session), T(execution_and_the_death_of_pid_1),
	  T(execution_no_longer_waited_for), T(execution_given_up), T(a_tree_dies),
	  T(a_session_ends_over_a_tree), T(a_port_is_closed), T(the_door_is_a_closed_port),
	  T(a_session_ends_over_a_connection), T(a_connection_is_cancelled),
	  T(what_waits_for_the_end_of_a_session), T(quota_is_free_before_the_keeper_is_done),
	  T(an_end_is_written_late))
