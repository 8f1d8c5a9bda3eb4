/* Goal: a lingering cell for which no server comes back ends by itself, at the end of its lease or
 * at its session's deadline, whichever is sooner; and never while a server is connected, nor
 * because it was frozen. */
#include <signal.h>

#include "held.h"
#include "test.h"

#define LONG_MS 3600000
#define SHORT_MS 300
#define STOP_MS 1000 /* enough to stop PID 1 in */

static struct err e;

static void make(void)
{
	held_make_cell(256);
	held_linger();
	(void)held_spawn(1, "sleep 1000", AGENT_HOLD | AGENT_NO_STDIN, 0, NULL);
}

static void without_a_connection_the_lease_ends_the_cell(void)
{
	make();
	CHECK(agent_send_lease(&agent, SHORT_MS, &e) == 0);
	held_disconnect();
	CHECK(held_is_over(WAIT_MS));
	held_end_cell();
}

static void while_connected_neither_time_counts(void)
{
	make();
	CHECK(agent_send_lease(&agent, SHORT_MS, &e) == 0);
	CHECK(agent_queue_deadline(&agent, SHORT_MS, &e) == 0);
	CHECK(agent_flush(&agent, &e) == 0);
	CHECK(!held_is_over(4 * SHORT_MS));
	CHECK(held_processes() == 2);
	held_end_cell();
}

static void a_connection_ends_the_count(void)
{
	make();
	CHECK(agent_send_lease(&agent, LONG_MS, &e) == 0);
	held_reconnect();
	(void)held_hear(AGENT_HELD);
	(void)held_hear(AGENT_SYNCED);
	CHECK(agent_send_lease(&agent, SHORT_MS, &e) == 0);
	CHECK(!held_is_over(4 * SHORT_MS));
	held_disconnect(); /* only now */
	CHECK(held_is_over(WAIT_MS));
	held_end_cell();
}

static void the_deadline_ends_it_sooner(void)
{
	make();
	CHECK(agent_send_lease(&agent, LONG_MS, &e) == 0);
	CHECK(agent_queue_deadline(&agent, SHORT_MS, &e) == 0);
	CHECK(agent_flush(&agent, &e) == 0);
	held_disconnect();
	CHECK(held_is_over(WAIT_MS));
	held_end_cell();
}

static void a_deadline_that_is_taken_back_does_not(void)
{
	make();
	CHECK(agent_queue_deadline(&agent, SHORT_MS, &e) == 0);
	CHECK(agent_queue_deadline(&agent, 0, &e) == 0);
	CHECK(agent_flush(&agent, &e) == 0);
	held_disconnect();
	CHECK(!held_is_over(4 * SHORT_MS));
	held_connect(NULL);
	(void)held_hear(AGENT_READY);
	held_end_cell();
}

static void a_connection_drops_the_deadline(void)
{
	make();
	CHECK(agent_queue_deadline(&agent, SHORT_MS, &e) == 0);
	CHECK(agent_flush(&agent, &e) == 0);
	held_reconnect();
	held_disconnect();
	CHECK(!held_is_over(4 * SHORT_MS));
	held_connect(NULL);
	(void)held_hear(AGENT_READY);
	held_end_cell();
}

/* Stopped instead of frozen: the same to PID 1, and needs no freezer. */
static void one_that_connects_to_a_stopped_cell_is_in_time(void)
{
	make();
	CHECK(agent_send_lease(&agent, STOP_MS, &e) == 0);
	held_disconnect();
	CHECK(kill(pid1, SIGSTOP) == 0);
	CHECK(!held_is_over(STOP_MS + SHORT_MS));
	held_connect(NULL);
	CHECK(kill(pid1, SIGCONT) == 0);
	(void)held_hear(AGENT_READY);
	CHECK(held_hear(AGENT_HELD).handle == 1);
	(void)held_hear(AGENT_SYNCED);
	CHECK(!held_is_over(STOP_MS + SHORT_MS));
	held_end_cell();
}

static void a_stopped_cell_ends_when_it_goes_on(void)
{
	make();
	CHECK(agent_send_lease(&agent, STOP_MS, &e) == 0);
	held_disconnect();
	CHECK(kill(pid1, SIGSTOP) == 0);
	CHECK(!held_is_over(STOP_MS + SHORT_MS));
	CHECK(kill(pid1, SIGCONT) == 0);
	CHECK(held_is_over(WAIT_MS));
	held_end_cell();
}

TEST_MAIN({ "without a connection the lease ends the cell",
	    without_a_connection_the_lease_ends_the_cell },
	  { "while connected neither time counts", while_connected_neither_time_counts },
	  { "a connection ends the count", a_connection_ends_the_count },
	  { "the deadline ends it sooner", the_deadline_ends_it_sooner },
	  { "a deadline that is taken back does not", a_deadline_that_is_taken_back_does_not },
	  { "a connection drops the deadline", a_connection_drops_the_deadline },
	  { "one that connects to a stopped cell is in time",
	    one_that_connects_to_a_stopped_cell_is_in_time },
	  { "a stopped cell ends when it goes on", a_stopped_cell_ends_when_it_goes_on })
