/* Goal: a list of changes ends exactly once, or not at all if it was cancelled, in whatever order
 * the keeper's answer and the end of the list come; and with its session or the keeper gone in
 * between. */
#include "daemon/tenant/tenant.h"
#include "ends.h"

static bool is_asked_diff(void)
{
	return bed.asked[KEEPER_DIFF] > 0;
}

/* Freed in its own callback. */
static struct session_diff *diff;

static void on_data(struct session_diff *d, const uint8_t *data, size_t len)
{
	CHECK(d == diff && len > 0);
}

static void on_diff(struct session_diff *d, const struct err *e)
{
	note(e);
	session_diff_cancel(d);
	memset(d, 0xa5, sizeof(*d));
	free(d);
	diff = NULL;
}

static void begin_diff(enum bed_way way, unsigned timeout_ms)
{
	bed_make(timeout_ms);
	bed_session();
	bed.way[KEEPER_DIFF] = way;
	diff = calloc(1, sizeof(*diff));
	CHECK(diff != NULL);
	diff->on_data = on_data;
	diff->on_done = on_diff;
	session_diff(bed.session, diff);
	CHECK(ends == 0);
}

static void list_then_answer(void)
{
	begin_diff(BED_HOLD, 30000);
	bed_until(is_asked_diff);
	CHECK(write(bed.list, "x", 1) == 1);
	bed_close_list();
	bed_turn(10);
	CHECK(ends == 0);
	bed_keeper_answers(true);
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE);
	bed_delete();
	check_once(1);
}

static void answer_then_list(void)
{
	begin_diff(BED_ANSWER, 30000);
	bed_until(is_asked_diff);
	bed_turn(10);
	CHECK(ends == 0 && write(bed.list, "x", 1) == 1);
	bed_close_list();
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE);
	check_once(1);
}

static void answer_and_list_together(void)
{
	begin_diff(BED_HOLD, 30000);
	bed_until(is_asked_diff);
	bed_close_list();
	bed_keeper_answers(true);
	bed_until(has_ended);
	CHECK(last.code == ERR_NONE);
	check_once(1);
}

static void refused_after_the_end_of_the_list(void)
{
	begin_diff(BED_HOLD, 30000);
	bed_until(is_asked_diff);
	bed_close_list();
	bed_turn(10);
	bed_keeper_answers(false);
	bed_until(has_ended);
	CHECK(last.code == ERR_LIMIT);
	check_once(1);
}

static void refused_before_the_end_of_the_list(void)
{
	begin_diff(BED_HOLD, 30000);
	bed_until(is_asked_diff);
	bed_keeper_answers(false);
	bed_until(has_ended);
	bed_close_list();
	CHECK(last.code == ERR_LIMIT);
	check_once(1);
}

static void keeper_dies_over_a_list(void)
{
	begin_diff(BED_DIE, 30000);
	bed_until(has_ended);
	CHECK(last.code == ERR_SYSTEM && last.reason == REASON_PEER_DIED);
	check_once(1);
}

static void keeper_is_silent_over_a_list(void)
{
	begin_diff(BED_HOLD, 50);
	bed_until(has_ended);
	CHECK(last.code == ERR_SYSTEM && last.reason == REASON_PEER_DIED && bed.hung == 1);
	check_once(1);
}

static void list_cancelled(void)
{
	begin_diff(BED_HOLD, 30000);
	bed_until(is_asked_diff);
	session_diff_cancel(diff);
	session_diff_cancel(diff);
	bed_close_list();
	bed_keeper_answers(false);
	check_once(0);
	free(diff);
}

static void list_cancelled_at_once(void)
{
	begin_diff(BED_ANSWER, 30000);
	session_diff_cancel(diff);
	check_once(0);
	free(diff);
}

static void list_cancelled_between_end_and_answer(void)
{
	begin_diff(BED_HOLD, 30000);
	bed_until(is_asked_diff);
	bed_close_list();
	bed_turn(10);
	session_diff_cancel(diff);
	bed_keeper_answers(true);
	check_once(0);
	free(diff);
}

static void session_deleted_over_a_list(void)
{
	begin_diff(BED_HOLD, 30000);
	bed_until(is_asked_diff);
	bed_delete();
	bed_close_list();
	bed_turn(10);
	bed_keeper_answers(false);
	bed_until(has_ended);
	check_once(1);
}

static void more_lists_than_there_may_be(void)
{
	static struct session_diff many[5];

	bed_make(30000);
	bed_session();
	bed.way[KEEPER_DIFF] = BED_HOLD;
	for (unsigned i = 0; i < 5; i++) {
		many[i].on_data = on_data;
		many[i].on_done = on_diff;
		session_diff(bed.session, &many[i]);
	}
	CHECK(ends == 0); /* never from inside */
	for (unsigned i = 0; i < 4; i++)
		session_diff_cancel(&many[i]);
	diff = calloc(1, sizeof(*diff));
	CHECK(diff != NULL);
	session_diff_cancel(&many[4]); /* refused already, and not told yet */
	check_once(0);
	free(diff);
}

static unsigned refused;

static void on_refused(struct session_diff *d, const struct err *e)
{
	CHECK(e->reason == REASON_CAPACITY_DIFFS);
	refused++;
}

/* Two tenants read as many lists as there may be. A third one gets its list, but only one. */
static void two_tenants_leave_room_for_lists(void)
{
	static const unsigned lists[] = { 4, 4, 2 };
	static struct session_diff many[10];
	const struct store_actor who = { 0 };
	struct session *of[COUNT(lists)];
	unsigned n = 0;
	struct err e;

	bed_make(30000);
	bed.many = true;
	for (unsigned t = 0; t < COUNT(lists); t++) {
		struct store_tenant row = { 0 };

		(void)snprintf(row.name, sizeof(row.name), "tenant-%u", t);
		CHECK(tenant_create(bed.core, &row, &who, &e) == 0);
		bed.tenant = tenant_find(bed.core, row.id);
		bed_session();
		of[t] = bed.session;
	}
	bed.way[KEEPER_DIFF] = BED_HOLD;
	for (unsigned t = 0; t < COUNT(lists); t++)
		for (unsigned i = 0; i < lists[t]; i++, n++) {
			many[n].on_done = on_refused;
			session_diff(of[t], &many[n]);
		}
	bed_turn(20);
	CHECK(refused == 1 && many[8].core != NULL && many[9].core == NULL);
	for (unsigned i = 0; i < COUNT(many); i++)
		session_diff_cancel(&many[i]);
	check_once(0);
}

TEST_MAIN(T(list_then_answer), T(answer_then_list), T(answer_and_list_together),
	  T(refused_after_the_end_of_the_list), T(refused_before_the_end_of_the_list),
	  T(keeper_dies_over_a_list), T(keeper_is_silent_over_a_list), T(list_cancelled),
	  T(list_cancelled_at_once), T(list_cancelled_between_end_and_answer),
	  T(session_deleted_over_a_list), T(more_lists_than_there_may_be),
	  T(two_tenants_leave_room_for_lists))
