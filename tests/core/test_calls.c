/* Goal: a call of code ends exactly once, with the outcome of its code, and with the limits that
 * PID 1 counted while it ran; whether PID 1 answers, is silent or dies, and whatever ends the
 * session or the request in the meantime. */
#include "bed.h"
#include "daemon/execution/code_execution.h"
#include "daemon/node/core_private.h"
#include "lib/base/str.h"

#define SIZE (1U << 20)

static struct execution *call;
static struct execution_follower follower;
static unsigned cuts;
static char id[STORE_ID_MAX], session[STORE_ID_MAX];

static void on_progress(struct execution_follower *f)
{
}

static void on_cut(void *arg)
{
	cuts++;
	CHECK(execution_call_end(call, EXECUTION_CALL_CUT, "ended by a request"));
}

static void begin(void)
{
	static const uint8_t hash[32];
	const struct execution_spec spec = {
		.kind = EXECUTION_CALL, .hash = hash, .language = "python", .context = ""
	};
	struct err e;

	call = execution_call_start(bed.session, &spec, on_cut, NULL, &e);
	CHECK(call != NULL);
	follower = (struct execution_follower){ .on_progress = on_progress };
	execution_follow(call, &follower);
	str_copy(id, execution_row(call)->id);
	str_copy(session, session_row(bed.session)->id);
	bed_pid1_reads();
}

/* PID 1 has been asked so many times what the cell uses. */
static void check_asked(unsigned n)
{
	bed_pid1_reads();
	CHECK(bed.ordered[AGENT_STAT] == n);
}

static void says(uint64_t filled, uint64_t inodes_filled, uint64_t used)
{
	const struct agent_event v = { .disk_full = filled,
				       .inodes_full = inodes_filled,
				       .disk_bytes = used,
				       .disk_limit_bytes = SIZE,
				       .inodes = 5,
				       .inodes_limit = 10 };

	bed_says(AGENT_STATED, &v);
}

static bool call_has_ended(void)
{
	return execution_ended(call);
}

/* By its record, which is in the store. */
static void check_record(int exit_code, const char *limits_hit)
{
	struct store_execution row;
	struct err e;

	CHECK(execution_get(bed.core, session, id, &row, &e) == 0);
	CHECK(row.state == (exit_code == 137 ? EXECUTION_KILLED : EXECUTION_EXITED));
	CHECK(row.exit_code == exit_code && row.ended_ms > 0);
	CHECK_STR(row.limits_hit, limits_hit);
	store_execution_release(&row);
}

static void finish(void)
{
	execution_unfollow(&follower);
	bed_delete();
	bed_end();
}

static void limits_are_compared(void)
{
	static const struct {
		uint64_t filled, inodes_filled, used;
		enum execution_call_outcome how;
		int code;
		const char *hit;
	} rows[] = {
		{ 3, 1, 0, EXECUTION_CALL_DONE, 0, "" },
		{ 4, 1, 0, EXECUTION_CALL_DONE, 0, "disk" },
		{ 3, 2, 0, EXECUTION_CALL_ERROR, 1, "inodes" },
		{ 9, 9, SIZE, EXECUTION_CALL_ERROR, 1, "disk,inodes" },
		{ 3, 1, SIZE, EXECUTION_CALL_DONE, 0, "" }, /* it was full before */
		{ 3, 1, SIZE, EXECUTION_CALL_ERROR, 1, "disk" },
		{ 3, 1, SIZE - SIZE / 2, EXECUTION_CALL_ERROR, 1, "" },
		{ 0, 0, 0, EXECUTION_CALL_DONE, 0, "" }, /* of another guest */
	};

	bed_make(30000);
	bed_session();
	for (unsigned i = 0; i < COUNT(rows); i++) {
		begin();
		check_asked(2 * i + 1);
		says(3, 1, 0);
		bed_turn(5);
		CHECK(!execution_call_end(call, rows[i].how, NULL));
		check_asked(2 * i + 2);
		bed_turn(5);
		CHECK(!execution_ended(call));
		says(rows[i].filled, rows[i].inodes_filled, rows[i].used);
		bed_until(call_has_ended);
		check_record(rows[i].code, rows[i].hit);
		execution_unfollow(&follower);
		bed_turn(5);
	}
	bed_delete();
	bed_end();
}

/* The end of one is not the begin of the other. */
static void two_calls_have_their_own_answers(void)
{
	struct execution *first;
	struct execution_follower of_first;

	bed_make(30000);
	bed_session();
	begin();
	first = call;
	of_first = (struct execution_follower){ .on_progress = on_progress };
	execution_follow(first, &of_first);
	execution_unfollow(&follower);
	says(0, 0, 0);
	bed_turn(5);
	begin();
	says(1, 0, 0); /* before the second, while the first ran */
	bed_turn(5);
	CHECK(!execution_call_end(call, EXECUTION_CALL_DONE, NULL));
	CHECK(!execution_call_end(first, EXECUTION_CALL_DONE, NULL));
	check_asked(4);
	says(1, 0, 0);
	bed_until(call_has_ended);
	CHECK(!execution_ended(first));
	CHECK_STR(execution_row(call)->limits_hit, "");
	says(1, 0, 0);
	execution_unfollow(&follower);
	call = first;
	bed_until(call_has_ended);
	CHECK_STR(execution_row(first)->limits_hit, "disk");
	execution_unfollow(&of_first);
	bed_delete();
	bed_end();
}

static void a_silent_pid1_is_not_waited_for(void)
{
	bed_make(30000);
	bed_session();
	begin();
	says(0, 0, 0);
	bed_turn(5);
	CHECK(!execution_call_end(call, EXECUTION_CALL_DONE, NULL));
	bed_turn(200);
	CHECK(!execution_ended(call));
	bed_until(call_has_ended);
	check_record(0, "");
	says(5, 5, SIZE); /* too late */
	bed_turn(5);
	check_record(0, "");
	finish();
}

static void an_answer_that_was_not_asked_for_counts_for_nothing(void)
{
	bed_make(30000);
	bed_session();
	says(0, 0, 0);
	bed_turn(5);
	begin();
	says(0, 0, 0);
	says(7, 7, SIZE);
	bed_turn(5);
	CHECK(!execution_call_end(call, EXECUTION_CALL_ERROR, NULL));
	bed_turn(20);
	CHECK(!execution_ended(call));
	says(0, 0, 0);
	bed_until(call_has_ended);
	check_record(1, "");
	finish();
}

static void one_that_is_cut_waits_for_nothing(void)
{
	bed_make(30000);
	bed_session();
	begin();
	CHECK(execution_call_end(call, EXECUTION_CALL_CUT, "cut") && execution_ended(call));
	check_asked(1);
	check_record(137, "");
	CHECK_STR(execution_row(call)->limit, "killed");
	finish();
}

static void cut_while_it_waits(void)
{
	bed_make(30000);
	bed_session();
	begin();
	CHECK(!execution_call_end(call, EXECUTION_CALL_ERROR, NULL));
	CHECK(execution_call_end(call, EXECUTION_CALL_CUT, "cut"));
	check_record(1, ""); /* the code had ended */
	says(1, 1, SIZE);
	says(1, 1, SIZE);
	bed_turn(5);
	finish();
}

static bool is_killed;

static void on_killed(struct completion *w, const struct err *e)
{
	CHECK(e == NULL);
	is_killed = true;
}

static bool was_killed(void)
{
	return is_killed;
}

static void killed_while_it_waits(void)
{
	struct completion w = { .on_done = on_killed };

	bed_make(30000);
	bed_session();
	begin();
	CHECK(!execution_call_end(call, EXECUTION_CALL_DONE, NULL));
	execution_kill(call, &w);
	bed_until(was_killed);
	CHECK(cuts == 1);
	check_record(0, "");
	finish();
}

static void session_deleted_while_it_waits(void)
{
	bed_make(30000);
	bed_session();
	begin();
	CHECK(!execution_call_end(call, EXECUTION_CALL_DONE, NULL));
	bed_delete();
	check_record(0, "");
	CHECK(cuts == 0);
	bed_end();
}

static void pid1_dies_while_it_waits(void)
{
	bed_make(30000);
	bed_session();
	begin();
	CHECK(!execution_call_end(call, EXECUTION_CALL_DONE, NULL));
	bed_pid1_dies();
	bed_turn(50);
	check_record(0, "");
	/* The session has ended with its cell. */
	bed_end();
}

static void pid1_dies_before_its_end(void)
{
	bed_make(30000);
	bed_session();
	begin();
	bed_pid1_dies();
	bed_turn(50);
	check_record(137, "");
	/* The session has ended with its cell. */
	bed_end();
}

#define T(name)             \
	{                   \
#name, name \
	}

TEST_MAIN(T(limits_are_compared), T(two_calls_have_their_own_answers),
	  T(a_silent_pid1_is_not_waited_for),
	  T(an_answer_that_was_not_asked_for_counts_for_nothing),
	  T(one_that_is_cut_waits_for_nothing), T(cut_while_it_waits), T(killed_while_it_waits),
	  T(session_deleted_while_it_waits), T(pid1_dies_while_it_waits),
	  T(pid1_dies_before_its_end))
