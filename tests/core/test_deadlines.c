/* Goal: PID 1 knows the deadline of its session at every moment at which this daemon could end:
 * before a client that has changed it is answered, and when the daemon ends. And a keeper that
 * cannot work is reported as such only if none ever could. */
#include "bed.h"
#include "core_private.h"
#include "core_run.h"
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

TEST_MAIN({ "a new timeout is sent at once", a_new_timeout_is_sent_at_once },
	  { "the last deadline is sent when the daemon ends",
	    the_last_deadline_is_sent_when_the_daemon_ends },
	  { "a keeper that never could work is reported",
	    a_keeper_that_never_could_work_is_reported })
