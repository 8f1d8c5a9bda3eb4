/* Goal: servers come and go, and programs of a guest are started, killed and timed out exactly
 * once: what happens without a server is told to the next one. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "lib/base/io.h"
#include "shim_bed.h"

static struct err e;

static void a_second_server_finds_held_programs(void)
{
	struct agent_event v, exited = { .handle = 2, .signal = 9 };
	char bytes[16];
	int a[3], b[3], again[3];
	struct agent_order o;
	struct frame f;

	bed_begin();
	bed_start_program(1, 1, a);
	bed_start_program(2, 7, b);
	bed_spawn(3, "x", 0, 0); /* not held */
	CHECK(guest_start_program(13, AGENT_HAS_STDIN) == 3);
	(void)bed_hear(AGENT_STARTED);
	guest_say_data(3, "before", 6);
	guest_say_event(AGENT_EXITED, &exited, NULL, 0);
	(void)bed_hear(AGENT_EXITED);
	io_close_all(a, 3);
	io_close_all(b, 3);
	bed_reconnect();
	v = bed_hear(AGENT_HELD);
	CHECK(v.handle == 1 && v.flags == (AGENT_IS_HELD | AGENT_HAS_STDIN) && v.mark == 1234);
	bed_take_fds(again, 3);
	CHECK(bed_read(again[1], bytes, 6) == 6 && memcmp(bytes, "before", 6) == 0);
	v = bed_hear(AGENT_HELD);
	CHECK(v.handle == 2 && (v.flags & AGENT_HAS_EXITED) != 0 && v.signal == 9);
	(void)bed_hear(AGENT_SYNCED);
	/* The one that was not held is killed. */
	f = guest_find(AGENT_SIGNAL);
	memcpy(&o, f.body, sizeof(o));
	CHECK(o.handle == 3 && o.sig == SIGKILL);
	guest_say_data(3, "after", 5);
	CHECK(bed_read(again[1], bytes, 5) == 5 && memcmp(bytes, "after", 5) == 0);
	exited.handle = 3;
	guest_say_event(AGENT_EXITED, &exited, NULL, 0);
	CHECK(bed_is_silent(50)); /* the second server knows nothing of it */
	bed_end();
}

/* Answered only when the shim has read all that the guest said before: 127.0.0.1 is refused. */
static void guest_sync(uint16_t stream)
{
	const uint8_t o[MUX_OPEN_SIZE] = { MUX_TCP, 4, 80, [6] = 4, [16] = 127, [19] = 1 };

	guest_say(MUX_OPEN, stream, o, sizeof(o));
	CHECK(guest_find(MUX_RESET).stream == stream);
	guest_say(MUX_RESET, stream, &(uint32_t){ 0 }, 4);
}

/* While there is no server one held program fails to start and another one starts: the next server
 * gets FAILED for the one, and one event for the other. */
static void starts_end_without_a_server(void)
{
	const uint16_t streams[] = { 1, 3, 5 };
	struct agent_event v = { .handle = 1, .stage = AGENT_AT_EXEC, .sys = ENOENT };

	bed_begin();
	bed_spawn(1, "x", AGENT_HOLD, 0);
	bed_spawn(2, "x", AGENT_HOLD, 0);
	bed_spawn(3, "x", 0, 0); /* not held: killed when the shim has seen the end of the server */
	(void)guest_hear(AGENT_SPAWN);
	(void)guest_hear(AGENT_SPAWN);
	CHECK(guest_start_program(13, AGENT_HAS_STDIN) == 3);
	(void)bed_hear(AGENT_STARTED);
	CHECK(shutdown(agent.sock, SHUT_RDWR) == 0);
	(void)guest_find(AGENT_SIGNAL);
	guest_say_event(AGENT_FAILED, &v, NULL, 0);
	v = (struct agent_event){ .handle = 2, .pid = 9, .flags = BED_PIPES };
	guest_say_event(AGENT_STARTED, &v, streams, 3);
	guest_sync(21);
	bed_reconnect();
	v = bed_hear(AGENT_FAILED);
	CHECK(v.handle == 1 && v.sys == ENOENT);
	v = bed_hear(AGENT_HELD);
	CHECK(v.handle == 2 && v.pid == 9 && agent.nfds == 3);
	(void)bed_hear(AGENT_SYNCED);
	bed_end();
}

/* The shim has the whole request, the guest a part of it, when the server dies: the guest gets the
 * rest, unchanged by what the next server sends. */
static void a_request_outlives_its_server(void)
{
	static char strings[3U << 20];
	struct agent_spawn s = { .handle = 5,
				 .flags = AGENT_HOLD,
				 .argc = 1,
				 .user = "u",
				 .cwd = "",
				 .strings = strings,
				 .strings_len = sizeof(strings) };
	struct agent_spawn got;
	struct agent_event v;
	struct frame f;

	memset(strings, 'y', sizeof(strings) - 1);
	bed_begin();
	CHECK(agent_send_spawn(&agent, &s, &e) == 0);
	while (agent_flush(&agent, &e) == 1)
		CHECK(bed_is_silent(5));
	bed_reconnect();
	v = bed_hear(AGENT_HELD);
	CHECK(v.handle == 5 && (v.flags & AGENT_IS_STARTING) != 0);
	(void)bed_hear(AGENT_SYNCED);
	memset(strings, 'z', sizeof(strings) - 1);
	s.handle = 6;
	CHECK(agent_send_spawn(&agent, &s, &e) == 0);
	for (int i = 0; i < WAIT_MS && agent_flush(&agent, &e) == 1; i++) {
		CHECK(bed_is_silent(0));
		(void)guest_is_silent(1);
	}
	for (uint32_t handle = 5; handle <= 6; handle++) {
		f = guest_hear(AGENT_SPAWN);
		CHECK(agent_spawn_read(f.body, f.len, &got, &e) == 0 && got.handle == handle);
		for (size_t i = 0; i < sizeof(strings) - 1; i++)
			CHECK(got.strings[i] == (handle == 5 ? 'y' : 'z'));
	}
	bed_end();
}

/* A guest gives one answer to all requests that come while it kills. */
static void a_kill_while_one_is_under_way(void)
{
	struct agent_event v = { .handle = 4, .signal = 9 };

	bed_begin();
	bed_spawn(4, "x", AGENT_HOLD, 100);
	CHECK(guest_start_program(1, BED_PIPES) == 4);
	(void)bed_hear(AGENT_STARTED);
	(void)guest_hear(AGENT_KILL_TREE); /* its time is over */
	CHECK(agent_send_kill_tree(&agent, 4, 0, &e) == 0 && agent_send_stat(&agent, &e) == 0);
	(void)guest_hear(AGENT_STAT); /* and no second KILL_TREE before it */
	guest_say_event(AGENT_EXITED, &v, NULL, 0);
	guest_say_event(AGENT_TREE_DEAD, &(struct agent_event){ .handle = 4 }, NULL, 0);
	CHECK(bed_hear(AGENT_EXITED).handle == 4);
	CHECK(bed_hear(AGENT_TREE_DEAD).handle == 4);
	CHECK(agent_send_kill_tree(&agent, 4, 0, &e) == 0);
	(void)guest_hear(AGENT_KILL_TREE); /* a new one is sent */
	bed_end();
}

static void the_shim_enforces_timeouts(void)
{
	struct agent_event v = { .handle = 4, .signal = 9 };
	struct agent_order o;
	struct frame f;

	bed_begin();
	bed_spawn(4, "x", AGENT_HOLD, 100);
	CHECK(guest_start_program(1, BED_PIPES) == 4);
	(void)bed_hear(AGENT_STARTED);
	f = guest_hear(AGENT_KILL_TREE);
	memcpy(&o, f.body, sizeof(o));
	CHECK(o.handle == 4 && o.ms == 0);
	guest_say_event(AGENT_EXITED, &v, NULL, 0);
	v = bed_hear(AGENT_EXITED);
	CHECK(v.timed_out == 1 && v.signal == 9);
	guest_say_event(AGENT_TREE_DEAD, &(struct agent_event){ .handle = 4 }, NULL, 0);
	CHECK(bed_is_silent(50)); /* it was not the server that asked */
	bed_end();
}

/* A guest that does not end a program whose time is over is ended as a whole: it says nothing, or
 * that the program has exited and nothing of its tree. */
static void a_program_does_not_outlive_its_timeout(void)
{
	for (int exits = 0; exits < 2; exits++) {
		bed_begin();
		bed_spawn(4, "x", AGENT_HOLD, 100);
		CHECK(guest_start_program(1, BED_PIPES) == 4);
		(void)bed_hear(AGENT_STARTED);
		(void)guest_hear(AGENT_KILL_TREE);
		if (exits) {
			guest_say_event(AGENT_EXITED,
					&(struct agent_event){ .handle = 4, .signal = 9 }, NULL, 0);
			CHECK(bed_hear(AGENT_EXITED).timed_out == 1);
		}
		CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_OVERDUE);
		CHECK(bed_is_over(WAIT_MS));
		bed_end();
	}
}

/* While the cell was frozen no time has passed: PAUSED comes before the deadline is looked at. */
static void paused_time_does_not_count(void)
{
	bed_begin();
	bed_spawn(4, "x", AGENT_HOLD, 300);
	CHECK(guest_start_program(1, BED_PIPES) == 4);
	(void)bed_hear(AGENT_STARTED);
	CHECK(agent_send_paused(&agent, 3600000, &e) == 0);
	CHECK(guest_is_silent(600));
	bed_end();
}

TEST_MAIN({ "a second server finds held programs", a_second_server_finds_held_programs },
	  { "starts end without a server", starts_end_without_a_server },
	  { "a request outlives its server", a_request_outlives_its_server },
	  { "a kill while one is under way", a_kill_while_one_is_under_way },
	  { "the shim enforces timeouts", the_shim_enforces_timeouts },
	  { "a program does not outlive its timeout", a_program_does_not_outlive_its_timeout },
	  { "paused time does not count", paused_time_does_not_count })
