/* Goal: a guest is saved whole, however busy it is, goes on when that fails, and a clone of it
 * waits for its identity. */
#include <errno.h>
#include <sys/stat.h>

#include "shim_bed.h"

static struct err e;

static void snapshots_are_taken(void)
{
	uint8_t body[GUEST_READY_SIZE];
	struct guest_hello before, h;
	struct agent_event v;
	struct frame f;
	struct stat st;

	bed_start();
	bed_boot("");
	f = guest_hear(GUEST_HELLO);
	CHECK(guest_hello_read(&f, &before, &e) == 0);
	guest_ready_write(
		&(struct guest_ready){ .generation = before.generation, .version = GUEST_VERSION },
		body);
	guest_say(GUEST_READY, 0, body, sizeof(body));
	guest_say_event(AGENT_SYNCED, &bed_nothing, NULL, 0);
	(void)bed_hear(AGENT_BOOTED);
	CHECK(agent_send_snapshot(&agent, false, 0, &e) == 0);
	(void)guest_hear(GUEST_QUIESCE);
	CHECK(agent_send_stat(&agent, &e) == 0); /* waits until it is over */
	CHECK(guest_is_silent(50));
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
	/* A copy has its generator and its clock: it gets others before it goes on. */
	f = guest_hear(GUEST_HELLO);
	CHECK(guest_hello_read(&f, &h, &e) == 0 && h.generation == before.generation &&
	      h.wall_ns != 0);
	CHECK(memcmp(h.entropy, before.entropy, sizeof(h.entropy)) != 0);
	v = bed_hear(AGENT_SNAPSHOT_DONE);
	CHECK(v.sys == 0 && agent.nfds == 2);
	CHECK(fstat(agent.fds[0], &st) == 0 && st.st_size == 6);
	CHECK(fstat(agent.fds[1], &st) == 0 && st.st_size == 7);
	CHECK(guest_is_silent(50));
	guest_say(GUEST_READY, 0, body, sizeof(body));
	(void)guest_hear(AGENT_STAT);
	guest_say_event(AGENT_STATED, &bed_nothing, NULL, 0);
	(void)bed_hear(AGENT_STATED);
	/* And one after which it stays stopped, until RESUME. */
	CHECK(agent_send_snapshot(&agent, true, 0, &e) == 0);
	(void)guest_hear(GUEST_QUIESCE);
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
	CHECK(bed_hear(AGENT_SNAPSHOT_DONE).sys == 0);
	bed_spawn(1, "x", AGENT_HOLD, 0);
	CHECK(bed_hear(AGENT_FAILED).sys == EAGAIN);
	CHECK(guest_is_silent(50));
	bed_end();
}

/* What the server wrote before SNAPSHOT is with the guest when it is saved. */
static void input_goes_with_a_snapshot(void)
{
	static char bytes[40000];
	size_t came = 0;
	int fds[3];

	bed_begin();
	bed_start_program(1, 1, fds);
	bed_write(fds[0], bytes, sizeof(bytes));
	CHECK(agent_send_snapshot(&agent, true, 0, &e) == 0);
	while (came < sizeof(bytes))
		came += guest_hear(MUX_DATA).len;
	(void)guest_hear(GUEST_QUIESCE);
	bed_end();
}

/* There are always bytes on their way to a busy guest, and a slow one: it is saved all the same. */
static void a_busy_guest_is_saved(void)
{
	static char bytes[MUX_WINDOW / 2];
	int a[3], b[3];

	bed_begin();
	bed_start_program(1, 1, a);
	bed_start_program(2, 7, b);
	bed_write(a[0], bytes, sizeof(bytes)); /* both together are more than the socket takes */
	bed_write(b[0], bytes, sizeof(bytes));
	CHECK(agent_send_snapshot(&agent, true, 0, &e) == 0);
	CHECK(bed_is_silent(6000)); /* the shim waits for five seconds */
	(void)guest_find(GUEST_QUIESCE);
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
	CHECK(bed_hear(AGENT_SNAPSHOT_DONE).sys == 0);
	bed_end();
}

static void a_snapshot_that_fails_lets_the_guest_go_on(void)
{
	struct agent_event v;

	bed_start();
	bed_boot("S");
	(void)guest_greet();
	guest_say_event(AGENT_SYNCED, &bed_nothing, NULL, 0);
	(void)bed_hear(AGENT_BOOTED);
	CHECK(agent_send_snapshot(&agent, true, 0, &e) == 0);
	(void)guest_hear(GUEST_QUIESCE);
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
	v = bed_hear(AGENT_SNAPSHOT_DONE);
	CHECK(v.sys == ENOSPC && v.stage == BOOT_AT_SNAPSHOT && agent.nfds == 0);
	(void)guest_greet();
	bed_end();
}

/* The failure is that of its engine, which has ended: that is told, not what failed by it. */
static void an_engine_that_ends_while_it_saves(void)
{
	struct agent_event v;

	bed_start();
	bed_boot("D");
	(void)guest_greet();
	guest_say_event(AGENT_SYNCED, &bed_nothing, NULL, 0);
	(void)bed_hear(AGENT_BOOTED);
	CHECK(agent_send_snapshot(&agent, true, 0, &e) == 0);
	(void)guest_hear(GUEST_QUIESCE);
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
	v = bed_hear(AGENT_SNAPSHOT_DONE);
	CHECK(v.sys == BOOT_SYS_ENDED && agent.nfds == 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_EXITED);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* A clone waits until RESUME, with which it gets its identity; its programs are reported before. */
static void a_paused_clone_is_resumed(void)
{
	const uint16_t streams[] = { 1, 3, 5 };
	struct boot_request r;
	struct agent_event v = { .handle = 11, .pid = 5, .mark = 8, .flags = BED_PIPES };
	struct guest_hello h;
	struct frame f;
	uint64_t first;

	bed_request.flags = BOOT_RESTORE | BOOT_PAUSED;
	bed_request.fds |= BOOT_FD_RAM | BOOT_FD_DEVICES;
	bed_start();
	bed_boot("");
	CHECK(bed_hear(AGENT_BOOTED).sys == 0);
	CHECK(guest_is_silent(50));
	r = bed_request;
	r.flags = r.fds = 0;
	(void)snprintf(r.hostname, sizeof(r.hostname), "child");
	CHECK(agent_send_resume(&agent, &r, &e) == 0);
	first = guest_greet();
	guest_say_event(AGENT_HELD, &v, streams, 3);
	guest_say_event(AGENT_SYNCED, &bed_nothing, NULL, 0);
	v = bed_hear(AGENT_HELD);
	CHECK(v.handle == 11 && v.pid == 5 && v.mark == 8 && agent.nfds == 3);
	CHECK(bed_hear(AGENT_BOOTED).sys == 0);
	/* Once more while it runs: another identity, the same streams. */
	(void)snprintf(r.hostname, sizeof(r.hostname), "other");
	CHECK(agent_send_resume(&agent, &r, &e) == 0);
	f = guest_hear(GUEST_HELLO);
	CHECK(guest_hello_read(&f, &h, &e) == 0 && h.generation == first);
	CHECK_STR(h.hostname, "other");
	bed_end();
}

TEST_MAIN({ "snapshots are taken", snapshots_are_taken },
	  { "input goes with a snapshot", input_goes_with_a_snapshot },
	  { "a busy guest is saved", a_busy_guest_is_saved },
	  { "a snapshot that fails lets the guest go on",
	    a_snapshot_that_fails_lets_the_guest_go_on },
	  { "an engine that ends while it saves", an_engine_that_ends_while_it_saves },
	  { "a paused clone is resumed", a_paused_clone_is_resumed })
