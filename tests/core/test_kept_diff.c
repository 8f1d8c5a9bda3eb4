/* Goal: the list of changes that a session keeps at its end is whole, or there is none and the
 * record says so; the cell is frozen before it is read, and ends in any case: if the keeper
 * refuses, is silent or dies, if the list is cut short or malformed, and if PID 1 dies meanwhile.
 */
#include "bed.h"
#include "daemon/session/session.h"
#include "daemon/node/core_private.h"
#include "lib/base/io.h"
#include "daemon/session/session_diff.h"

#define WHOLE "A\t644\t1\t/tmp/new\0E\t0\t0\t/"

static char id[STORE_ID_MAX];

static bool is_asked_freeze(void)
{
	return bed.asked[KEEPER_FREEZE] > 0;
}

static bool is_asked_diff(void)
{
	return bed.asked[KEEPER_DIFF] > 0;
}

static bool is_asked_again(void)
{
	return bed.asked[KEEPER_DIFF] > 1;
}

static bool is_dead(void)
{
	return bed.session->cell == NULL || bed.session->cell->dead;
}

static bool is_over(void)
{
	return bed.core->live == 0 && bed.core->cells.ending == 0;
}

/* A session that keeps its diff is deleted; the keeper answers FREEZE and DIFF so. */
static void begin(enum bed_way freeze, enum bed_way diff, unsigned keeper_timeout_ms)
{
	bed.keep_diff = true;
	bed_make(keeper_timeout_ms);
	bed_session();
	(void)snprintf(id, sizeof(id), "%s", session_row(bed.session)->id);
	bed.way[KEEPER_FREEZE] = freeze;
	bed.way[KEEPER_DIFF] = diff;
	bed_begin_delete();
}

/* The cell has ended, and the record has this outcome. */
static void check_outcome(enum kept_diff want)
{
	struct store_session row;
	struct err e;

	bed_until(is_over);
	CHECK(store_session_get(bed.core->store, id, &row, &e) == 0);
	CHECK(row.keep_diff == want && (want == KEPT_DIFF_KEPT) == (row.diff_why[0] == '\0'));
	store_session_release(&row);
	bed_end();
}

static void write_list(const char *text, size_t len)
{
	struct err e;

	CHECK(io_write_all(bed.list, text, len, &e) == 0);
	bed_close_list();
}

static void a_whole_list_is_kept(void)
{
	begin(BED_ANSWER, BED_ANSWER, 30000);
	bed_until(is_asked_diff);
	CHECK(bed.asked[KEEPER_FREEZE] == 1);
	write_list(WHOLE, sizeof(WHOLE));
	check_outcome(KEPT_DIFF_KEPT);
}

static void a_list_without_its_end_is_not(void)
{
	begin(BED_ANSWER, BED_ANSWER, 30000);
	bed_until(is_asked_diff);
	write_list(WHOLE, strlen(WHOLE) + 1);
	check_outcome(KEPT_DIFF_FAILED);
}

static void nor_is_a_malformed_one(void)
{
	begin(BED_ANSWER, BED_ANSWER, 30000);
	bed_until(is_asked_diff);
	write_list("nothing of it", 14);
	check_outcome(KEPT_DIFF_FAILED);
}

static void without_a_freezer_nothing_is_read(void)
{
	bed.no_freezer = true;
	begin(BED_ANSWER, BED_ANSWER, 30000);
	bed_until(is_over);
	CHECK(bed.asked[KEEPER_FREEZE] == 0 && bed.asked[KEEPER_DIFF] == 0);
	check_outcome(KEPT_DIFF_FAILED);
}

static void nor_if_the_freeze_is_refused(void)
{
	begin(BED_REFUSE, BED_ANSWER, 30000);
	bed_until(is_over);
	CHECK(bed.asked[KEEPER_FREEZE] == 1 && bed.asked[KEEPER_DIFF] == 0);
	check_outcome(KEPT_DIFF_FAILED);
}

/* The keeper reads so many at a time. */
static void a_refused_list_is_asked_for_again(void)
{
	begin(BED_ANSWER, BED_REFUSE, 30000);
	bed_until(is_asked_diff);
	bed.way[KEEPER_DIFF] = BED_ANSWER;
	bed_until(is_asked_again);
	write_list(WHOLE, sizeof(WHOLE));
	check_outcome(KEPT_DIFF_KEPT);
}

static void pid1_dies_over_the_freeze(void)
{
	begin(BED_HOLD, BED_ANSWER, 30000);
	bed_until(is_asked_freeze);
	bed_pid1_dies();
	bed_until(is_dead);
	bed_keeper_answers(true);
	bed_turn(10);
	CHECK(bed.asked[KEEPER_DIFF] == 0);
	check_outcome(KEPT_DIFF_FAILED);
}

static void pid1_dies_over_the_list(void)
{
	begin(BED_ANSWER, BED_ANSWER, 30000);
	bed_until(is_asked_diff);
	bed_pid1_dies();
	bed_turn(10);
	bed_close_list();
	check_outcome(KEPT_DIFF_FAILED);
}

static void the_keeper_dies_over_the_freeze(void)
{
	begin(BED_DIE, BED_ANSWER, 30000);
	bed_until(is_asked_freeze);
	bed_turn(10);
	bed.way[KEEPER_FREEZE] = BED_ANSWER;
	bed_keeper();
	check_outcome(KEPT_DIFF_FAILED);
}

static void the_daemon_ends_over_the_list(void)
{
	begin(BED_ANSWER, BED_ANSWER, 30000);
	bed_until(is_asked_diff);
	bed_end();
}

TEST_MAIN({ "a whole list is kept", a_whole_list_is_kept },
	  { "a list without its end is not", a_list_without_its_end_is_not },
	  { "nor is a malformed one", nor_is_a_malformed_one },
	  { "without a freezer nothing is read", without_a_freezer_nothing_is_read },
	  { "nor if the freeze is refused", nor_if_the_freeze_is_refused },
	  { "a refused list is asked for again", a_refused_list_is_asked_for_again },
	  { "PID 1 dies over the freeze", pid1_dies_over_the_freeze },
	  { "PID 1 dies over the list", pid1_dies_over_the_list },
	  { "the keeper dies over the freeze", the_keeper_dies_over_the_freeze },
	  { "the daemon ends over the list", the_daemon_ends_over_the_list })
