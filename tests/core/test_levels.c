/* What the level of a session allows: read from its row, refused before any program is asked. */
#include "bed.h"
#include "lib/wire/cell_level.h"
#include "daemon/session/session.h"
#include "daemon/node/core_private.h"

#include <string.h>

#define NEWER 99 /* a level that only a newer version knows */

static int outcome; /* 0: not yet */
static struct err why;

static void take(const struct err *e)
{
	outcome = e == NULL ? 1 : -1;
	if (e != NULL)
		why = *e;
}

static void on_done(struct completion *c, const struct err *e)
{
	take(e);
}

static void on_diff_done(struct session_diff *d, const struct err *e)
{
	take(e);
}

static void on_diff_data(struct session_diff *d, const uint8_t *data, size_t len)
{
}

static bool has_ended(void)
{
	return outcome != 0;
}

static int pause_session(void)
{
	struct completion c = { .on_done = on_done };

	outcome = 0;
	session_pause(bed.session, NULL, &c);
	bed_until(has_ended);
	return outcome;
}

static int read_diff(void)
{
	struct session_diff d = { .on_data = on_diff_data, .on_done = on_diff_done };

	outcome = 0;
	bed.way[KEEPER_DIFF] = BED_REFUSE;
	session_diff(bed.session, &d);
	bed_until(has_ended);
	return outcome;
}

static void an_unknown_level_can_do_nothing(void)
{
	bed_make(30000);
	bed_session();
	CHECK(session_row(bed.session)->level == CELL_CONTAINER);
	bed.session->row.level = NEWER;
	CHECK_STR(session_level(bed.session)->name, "unknown");
	CHECK(pause_session() < 0 && why.code == ERR_UNSUPPORTED);
	CHECK(strstr(why.msg, "not possible at level unknown") != NULL);
	CHECK(bed.asked[KEEPER_FREEZE] == 0);
	CHECK(read_diff() < 0 && why.code == ERR_UNSUPPORTED);
	CHECK(bed.asked[KEEPER_DIFF] == 0);
	bed_delete();
	bed_end();
}

static void a_container_can_be_paused_and_read(void)
{
	bed_make(30000);
	bed_session();
	CHECK(read_diff() < 0 && why.code == ERR_LIMIT); /* by the keeper */
	CHECK(bed.asked[KEEPER_DIFF] == 1);
	CHECK(pause_session() > 0);
	CHECK(bed.asked[KEEPER_FREEZE] == 1);
	bed_delete();
	bed_end();
}

static void levels_by_number(void)
{
	for (size_t i = 0; cell_level_at(i) != NULL; i++)
		CHECK(cell_level_of((uint32_t)i) == cell_level_at(i));
	CHECK(cell_level_of(CELL_LEVELS)->abilities == 0);
	CHECK(cell_level_of(UINT32_MAX) == cell_level_of(CELL_LEVELS));
}

TEST_MAIN({ "an unknown level can do nothing", an_unknown_level_can_do_nothing },
	  { "a container can be paused and read", a_container_can_be_paused_and_read },
	  { "levels by number", levels_by_number })
