/* Goal: a server sees a guest's programs as those of any cell, through a shim whose guest is played
 * by this test: pipes, exits after all output, back pressure, adoption, timeouts, snapshots. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "io.h"
#include "shim_bed.h"

static struct err e;
static const struct agent_event none;

#define PIPES (AGENT_IS_HELD | AGENT_HAS_STDIN)

/* A held program with streams 1 (stdin), 3, 5; its pipes. */
static void start(uint32_t handle, uint16_t first, int fds[3])
{
	bed_spawn(handle, "x", AGENT_HOLD, 0);
	CHECK(guest_start_program(first, PIPES) == handle);
	CHECK(bed_hear(AGENT_STARTED).pid == 77);
	bed_take_fds(fds, 3);
}

static void say_data(uint16_t stream, const void *bytes, size_t n)
{
	guest_say(MUX_DATA, stream, bytes, n);
}

static void a_guest_boots(void)
{
	struct guest_hello h;
	struct frame f;

	bed_start();
	bed_boot("");
	f = guest_hear(GUEST_HELLO);
	CHECK(guest_hello_read(&f, &h, &e) == 0);
	CHECK(h.generation != 0 && h.wall_ns > 1600000000ULL * 1000000000 && h.pids == 100);
	CHECK(h.flags == GUEST_EGRESS);
	CHECK_STR(h.hostname, "bed");
	CHECK(memcmp(h.entropy, (uint8_t[GUEST_ENTROPY]){ 0 }, GUEST_ENTROPY) != 0);
	CHECK(bed_is_silent(50)); /* nothing is reported before the guest answers */
	bed_end();
}

static void a_failed_start_says_what_was_printed(void)
{
	struct agent_event v;
	char text[256];

	bed_start();
	bed_boot("F for failed");
	v = bed_hear(AGENT_BOOTED);
	CHECK(v.sys == ENOEXEC && v.stage == BOOT_AT_ENGINE && (v.flags & AGENT_HAS_TEXT) != 0);
	agent_read_text(&agent, &v, text, sizeof(text));
	CHECK(strstr(text, "F for failed") != NULL && strstr(text, "does not start") != NULL);
	bed_spawn(1, "x", AGENT_HOLD, 0);
	v = bed_hear(AGENT_FAILED);
	CHECK(v.handle == 1 && v.sys == EAGAIN && v.stage == AGENT_AT_SYSTEM);
	bed_end();
}

static void bytes_go_both_ways(void)
{
	char bytes[64];
	struct frame f;
	int fds[3];

	bed_start();
	bed_boot_ready();
	start(7, 1, fds);
	bed_write(fds[0], "input", 5);
	f = guest_hear(MUX_DATA);
	CHECK(f.stream == 1 && f.len == 5 && memcmp(f.body, "input", 5) == 0);
	say_data(3, "output", 6);
	say_data(5, "error", 5);
	CHECK(bed_read(fds[1], bytes, 6) == 6 && memcmp(bytes, "output", 6) == 0);
	CHECK(bed_read(fds[2], bytes, 5) == 5 && memcmp(bytes, "error", 5) == 0);
	/* End of input: when the server and the shim have closed it. */
	(void)close(fds[0]);
	CHECK(guest_is_silent(50));
	CHECK(agent_send_close_stdin(&agent, 7, &e) == 0);
	CHECK(guest_hear(MUX_EOF).stream == 1);
	/* End of output. */
	CHECK(guest_hear(MUX_RESET).stream == 1);
	guest_say(MUX_EOF, 3, NULL, 0);
	CHECK(guest_hear(MUX_RESET).stream == 3);
	CHECK(agent_send_forget(&agent, 7, &e) == 0); /* with the shim's copy of the pipe */
	CHECK(bed_read(fds[1], bytes, 1) == 0);
	(void)guest_find(GUEST_PING);
	bed_end();
}

/* A program's output is complete when its end is reported, however slowly it is read. */
static void an_exit_waits_for_the_output(void)
{
	static char bytes[MUX_WINDOW], got[MUX_WINDOW];
	struct agent_event v = { .handle = 9, .exit_code = 3 };
	int fds[3];

	bed_start();
	bed_boot_ready();
	start(9, 1, fds);
	CHECK(fcntl(fds[1], F_SETPIPE_SZ, 4096) == 4096); /* less than is written */
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + i / 251);
	for (size_t at = 0; at < sizeof(bytes); at += MUX_DATA_MAX)
		say_data(3, bytes + at, MUX_DATA_MAX);
	guest_say_event(AGENT_EXITED, &v, NULL, 0);
	CHECK(bed_is_silent(100));
	CHECK(bed_read(fds[1], got, sizeof(got)) == sizeof(got));
	CHECK(memcmp(bytes, got, sizeof(got)) == 0);
	v = bed_hear(AGENT_EXITED);
	CHECK(v.handle == 9 && v.exit_code == 3 && v.timed_out == 0);
	bed_end();
}

/* Credit comes back only for what was read: a reader that stalls stops its stream, and no other. */
static void a_stalled_reader_stops_its_stream_only(void)
{
	static char bytes[MUX_DATA_MAX], got[MUX_WINDOW];
	int a[3], b[3];

	bed_start();
	bed_boot_ready();
	start(1, 1, a);
	start(2, 7, b);
	CHECK(fcntl(a[1], F_SETPIPE_SZ, 4096) == 4096);
	for (size_t at = 0; at < MUX_WINDOW; at += sizeof(bytes))
		say_data(3, bytes, sizeof(bytes));
	CHECK(guest_is_silent(100)); /* no credit */
	say_data(9, "b", 1);
	CHECK(bed_read(b[1], got, 1) == 1 && got[0] == 'b');
	CHECK(bed_read(a[1], got, MUX_WINDOW) == MUX_WINDOW);
	CHECK(guest_hear(MUX_CREDIT).stream == 3);
	bed_end();
}

/* Nothing is sent without the guest's credit. */
static void input_waits_for_credit(void)
{
	static char bytes[MUX_WINDOW * 2];
	size_t came = 0;
	uint32_t more = 1000;
	struct frame f;
	int fds[3];

	bed_start();
	bed_boot_ready();
	start(1, 1, fds);
	for (size_t at = 0; at < MUX_WINDOW; at += 4096)
		bed_write(fds[0], bytes, 4096);
	while (came < MUX_WINDOW) {
		f = guest_hear(MUX_DATA);
		came += f.len;
	}
	bed_write(fds[0], bytes, 5000);
	CHECK(guest_is_silent(100));
	guest_say(MUX_CREDIT, 1, &more, sizeof(more));
	f = guest_hear(MUX_DATA);
	CHECK(f.len == 1000);
	bed_end();
}

static void a_second_server_finds_held_programs(void)
{
	struct agent_event v, exited = { .handle = 2, .signal = 9 };
	char bytes[16];
	int a[3], b[3], again[3];
	struct agent_order o;
	struct frame f;

	bed_start();
	bed_boot_ready();
	start(1, 1, a);
	start(2, 7, b);
	bed_spawn(3, "x", 0, 0); /* not held */
	CHECK(guest_start_program(13, AGENT_HAS_STDIN) == 3);
	(void)bed_hear(AGENT_STARTED);
	say_data(3, "before", 6);
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
	say_data(3, "after", 5);
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

	bed_start();
	bed_boot_ready();
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
	v = (struct agent_event){ .handle = 2, .pid = 9, .flags = PIPES };
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

/* A guest gives one answer to all requests that come while it kills. */
static void a_kill_while_one_is_under_way(void)
{
	struct agent_event v = { .handle = 4, .signal = 9 };

	bed_start();
	bed_boot_ready();
	bed_spawn(4, "x", AGENT_HOLD, 100);
	CHECK(guest_start_program(1, PIPES) == 4);
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

	bed_start();
	bed_boot_ready();
	bed_spawn(4, "x", AGENT_HOLD, 100);
	CHECK(guest_start_program(1, PIPES) == 4);
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

/* While the cell was frozen no time has passed: PAUSED comes before the deadline is looked at. */
static void paused_time_does_not_count(void)
{
	bed_start();
	bed_boot_ready();
	bed_spawn(4, "x", AGENT_HOLD, 300);
	CHECK(guest_start_program(1, PIPES) == 4);
	(void)bed_hear(AGENT_STARTED);
	CHECK(agent_send_paused(&agent, 3600000, &e) == 0);
	CHECK(guest_is_silent(600));
	bed_end();
}

static void a_large_request_arrives_whole(void)
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
	struct frame f;

	memset(strings, 'y', sizeof(strings) - 1);
	bed_start();
	bed_boot_ready();
	CHECK(agent_send_spawn(&agent, &s, &e) == 0);
	CHECK(agent_send_stat(&agent, &e) == 0); /* behind it */
	for (int i = 0; i < 1000 && agent_flush(&agent, &e) == 1; i++) {
		CHECK(bed_is_silent(5));
		(void)guest_is_silent(5);
	}
	f = guest_hear(AGENT_SPAWN);
	CHECK(agent_spawn_read(f.body, f.len, &got, &e) == 0);
	CHECK(got.handle == 5 && got.strings_len == sizeof(strings));
	CHECK(memcmp(got.strings, strings, sizeof(strings)) == 0);
	(void)guest_hear(AGENT_STAT);
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
	bed_start();
	bed_boot_ready();
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
	for (int i = 0; i < 1000 && agent_flush(&agent, &e) == 1; i++) {
		CHECK(bed_is_silent(5));
		(void)guest_is_silent(5);
	}
	for (uint32_t handle = 5; handle <= 6; handle++) {
		f = guest_hear(AGENT_SPAWN);
		CHECK(agent_spawn_read(f.body, f.len, &got, &e) == 0 && got.handle == handle);
		for (size_t i = 0; i < sizeof(strings) - 1; i++)
			CHECK(got.strings[i] == (handle == 5 ? 'y' : 'z'));
	}
	bed_end();
}

static void snapshots_are_taken(void)
{
	struct agent_event v;
	struct stat st;

	bed_start();
	bed_boot_ready();
	CHECK(agent_send_snapshot(&agent, false, &e) == 0);
	(void)guest_hear(GUEST_QUIESCE);
	CHECK(agent_send_stat(&agent, &e) == 0); /* waits until it is over */
	CHECK(guest_is_silent(50));
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
	(void)guest_hear(GUEST_GO_ON);
	v = bed_hear(AGENT_SNAPSHOT_DONE);
	CHECK(v.sys == 0 && agent.nfds == 2);
	CHECK(fstat(agent.fds[0], &st) == 0 && st.st_size == 6);
	CHECK(fstat(agent.fds[1], &st) == 0 && st.st_size == 7);
	(void)guest_hear(AGENT_STAT);
	guest_say_event(AGENT_STATED, &none, NULL, 0);
	(void)bed_hear(AGENT_STATED);
	/* And one after which it stays stopped, until RESUME. */
	CHECK(agent_send_snapshot(&agent, true, &e) == 0);
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

	bed_start();
	bed_boot_ready();
	start(1, 1, fds);
	bed_write(fds[0], bytes, sizeof(bytes));
	CHECK(agent_send_snapshot(&agent, true, &e) == 0);
	while (came < sizeof(bytes))
		came += guest_hear(MUX_DATA).len;
	(void)guest_hear(GUEST_QUIESCE);
	bed_end();
}

/* There are always bytes on their way to a busy guest, and a slow one: it is saved all the same. */
static void a_busy_guest_is_saved(void)
{
	static char bytes[MUX_WINDOW];
	int a[3], b[3];

	bed_start();
	bed_boot_ready();
	start(1, 1, a);
	start(2, 7, b);
	bed_write(a[0], bytes, sizeof(bytes)); /* both together are more than the socket takes */
	bed_write(b[0], bytes, sizeof(bytes));
	CHECK(agent_send_snapshot(&agent, true, &e) == 0);
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
	guest_say_event(AGENT_SYNCED, &none, NULL, 0);
	(void)bed_hear(AGENT_BOOTED);
	CHECK(agent_send_snapshot(&agent, true, &e) == 0);
	(void)guest_hear(GUEST_QUIESCE);
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
	v = bed_hear(AGENT_SNAPSHOT_DONE);
	CHECK(v.sys == ENOSPC && v.stage == BOOT_AT_SNAPSHOT && agent.nfds == 0);
	(void)guest_hear(GUEST_GO_ON);
	bed_end();
}

/* A clone waits until RESUME, with which it gets its identity; its programs are reported before. */
static void a_paused_clone_is_resumed(void)
{
	const uint16_t streams[] = { 1, 3, 5 };
	struct boot_request r;
	struct agent_event v = { .handle = 11, .pid = 5, .mark = 8, .flags = PIPES };
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
	guest_say_event(AGENT_SYNCED, &none, NULL, 0);
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

static void a_port_of_the_guest_is_dialed(void)
{
	struct frame f;
	char bytes[8];
	uint32_t window = MUX_WINDOW, refused = ECONNREFUSED;
	int fd;

	bed_start();
	bed_boot_ready();
	CHECK(agent_send_dial(&agent, 21, 8080, &e) == 0);
	f = guest_hear(MUX_OPEN);
	CHECK(f.stream == 2 && f.len == MUX_OPEN_SIZE);
	guest_say(MUX_CREDIT, 2, &window, sizeof(window));
	CHECK(bed_hear(AGENT_DIALED).sys == 0);
	bed_take_fds(&fd, 1);
	bed_write(fd, "get", 3);
	f = guest_hear(MUX_DATA);
	CHECK(f.stream == 2 && f.len == 3);
	say_data(2, "page", 4);
	CHECK(bed_read(fd, bytes, 4) == 4 && memcmp(bytes, "page", 4) == 0);
	CHECK(agent_send_dial(&agent, 22, 1, &e) == 0);
	CHECK(guest_hear(MUX_OPEN).stream == 4);
	guest_say(MUX_RESET, 4, &refused, sizeof(refused));
	CHECK(bed_hear(AGENT_DIALED).sys == ECONNREFUSED);
	bed_end();
}

/* Told when it does not answer, and when it does again; a server that comes in between is told,
 * too. */
static void a_guest_that_does_not_answer_is_told(void)
{
	bed_start();
	bed_boot("P");
	(void)guest_greet();
	guest_say_event(AGENT_SYNCED, &none, NULL, 0);
	(void)bed_hear(AGENT_BOOTED);
	for (int i = 0; i < 3; i++) {
		(void)guest_hear(GUEST_PING);
		guest_say(GUEST_PONG, 0, NULL, 0);
	}
	(void)guest_hear(GUEST_PING);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_UNRESPONSIVE);
	bed_reconnect();
	(void)bed_hear(AGENT_SYNCED);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_UNRESPONSIVE);
	guest_say(GUEST_PONG, 0, NULL, 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_ALIVE);
	(void)guest_hear(GUEST_PING);
	bed_end();
}

/* The same if it stops reading in the middle of a request, so that no PING can be sent. */
static void a_guest_that_stops_reading_is_told(void)
{
	static char strings[1U << 20];
	struct pollfd begun = { .events = POLLIN };
	const struct agent_spawn s = { .handle = 50,
				       .flags = AGENT_HOLD,
				       .argc = 1,
				       .user = "u",
				       .cwd = "",
				       .strings = strings,
				       .strings_len = sizeof(strings) };

	memset(strings, 'x', sizeof(strings) - 1);
	bed_start();
	bed_boot("P");
	begun.fd = bed_guest;
	(void)guest_greet();
	guest_say_event(AGENT_SYNCED, &none, NULL, 0);
	(void)bed_hear(AGENT_BOOTED);
	(void)guest_hear(GUEST_PING);
	CHECK(agent_send_spawn(&agent, &s, &e) == 0);
	while (poll(&begun, 1, 0) == 0)
		CHECK(bed_is_silent(10)); /* sends the rest of it */
	guest_say(GUEST_PONG, 0, NULL, 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_UNRESPONSIVE);
	(void)close(bed_guest);
	bed_guest = -1;
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

static void the_end_of_a_guest_is_told(void)
{
	struct agent_event v;

	bed_start();
	bed_boot_ready();
	(void)close(bed_guest);
	bed_guest = -1;
	v = bed_hear(AGENT_GUEST);
	CHECK(v.stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* One that has run and ends while RESUME waits for it: the answer does not say that it is over. */
static void the_end_of_a_guest_that_is_resumed_is_told(void)
{
	struct boot_request r = bed_request;

	r.flags = r.fds = 0;
	bed_start();
	bed_boot_ready();
	CHECK(agent_send_resume(&agent, &r, &e) == 0);
	(void)guest_hear(GUEST_HELLO);
	(void)close(bed_guest);
	bed_guest = -1;
	CHECK(bed_hear(AGENT_BOOTED).sys != 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* An engine whose end takes no more bytes: nothing is tried again and again. */
static void an_end_that_does_not_read_is_over(void)
{
	bed_start();
	bed_boot_ready();
	CHECK(shutdown(bed_guest, SHUT_RD) == 0);
	CHECK(agent_send_stat(&agent, &e) == 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* Without a server: the shim keeps it until there is one. */
static void the_end_of_a_guest_is_told_later(void)
{
	int old;

	bed_start();
	bed_boot_ready();
	old = agent.sock;
	CHECK(shutdown(old, SHUT_RDWR) == 0);
	(void)close(bed_guest);
	bed_guest = -1;
	CHECK(!bed_is_over(3000));
	bed_reconnect();
	(void)bed_hear(AGENT_SYNCED);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

TEST_MAIN({ "a guest boots", a_guest_boots },
	  { "a failed start says what was printed", a_failed_start_says_what_was_printed },
	  { "bytes go both ways", bytes_go_both_ways },
	  { "an exit waits for the output", an_exit_waits_for_the_output },
	  { "a stalled reader stops its stream only", a_stalled_reader_stops_its_stream_only },
	  { "input waits for credit", input_waits_for_credit },
	  { "a second server finds held programs", a_second_server_finds_held_programs },
	  { "the shim enforces timeouts", the_shim_enforces_timeouts },
	  { "paused time does not count", paused_time_does_not_count },
	  { "a large request arrives whole", a_large_request_arrives_whole },
	  { "a request outlives its server", a_request_outlives_its_server },
	  { "snapshots are taken", snapshots_are_taken },
	  { "input goes with a snapshot", input_goes_with_a_snapshot },
	  { "a busy guest is saved", a_busy_guest_is_saved },
	  { "a snapshot that fails lets the guest go on",
	    a_snapshot_that_fails_lets_the_guest_go_on },
	  { "a paused clone is resumed", a_paused_clone_is_resumed },
	  { "a port of the guest is dialed", a_port_of_the_guest_is_dialed },
	  { "a guest that does not answer is told", a_guest_that_does_not_answer_is_told },
	  { "starts end without a server", starts_end_without_a_server },
	  { "a kill while one is under way", a_kill_while_one_is_under_way },
	  { "a guest that stops reading is told", a_guest_that_stops_reading_is_told },
	  { "the end of a guest that is resumed is told",
	    the_end_of_a_guest_that_is_resumed_is_told },
	  { "an end that does not read is over", an_end_that_does_not_read_is_over },
	  { "the end of a guest is told", the_end_of_a_guest_is_told },
	  { "the end of a guest is told later", the_end_of_a_guest_is_told_later })
