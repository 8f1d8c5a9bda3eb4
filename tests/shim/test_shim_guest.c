/* Goal: a server sees a guest's programs as those of any cell, through a shim whose guest is played
 * by this test: pipes, exits after all output, back pressure, large requests, ports. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "shim_bed.h"

#define DIALS (2 * AGENT_DIALS_MAX)

static struct err e;

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

	bed_begin();
	bed_start_program(7, 1, fds);
	bed_write(fds[0], "input", 5);
	f = guest_hear(MUX_DATA);
	CHECK(f.stream == 1 && f.len == 5 && memcmp(f.body, "input", 5) == 0);
	guest_say_data(3, "output", 6);
	guest_say_data(5, "error", 5);
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

	bed_begin();
	bed_start_program(9, 1, fds);
	CHECK(fcntl(fds[1], F_SETPIPE_SZ, 4096) == 4096); /* less than is written */
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + i / 251);
	for (size_t at = 0; at < sizeof(bytes); at += MUX_DATA_MAX)
		guest_say_data(3, bytes + at, MUX_DATA_MAX);
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

	bed_begin();
	bed_start_program(1, 1, a);
	bed_start_program(2, 7, b);
	CHECK(fcntl(a[1], F_SETPIPE_SZ, 4096) == 4096);
	for (size_t at = 0; at < MUX_WINDOW; at += sizeof(bytes))
		guest_say_data(3, bytes, sizeof(bytes));
	CHECK(guest_is_silent(100)); /* no credit */
	guest_say_data(9, "b", 1);
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

	bed_begin();
	bed_start_program(1, 1, fds);
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
	bed_begin();
	CHECK(agent_send_spawn(&agent, &s, &e) == 0);
	CHECK(agent_send_kill_all(&agent, &e) == 0); /* behind it */
	for (int i = 0; i < 1000 && agent_flush(&agent, &e) == 1; i++) {
		CHECK(bed_is_silent(5));
		(void)guest_is_silent(5);
	}
	f = guest_hear(AGENT_SPAWN);
	CHECK(agent_spawn_read(f.body, f.len, &got, &e) == 0);
	CHECK(got.handle == 5 && got.strings_len == sizeof(strings));
	CHECK(memcmp(got.strings, strings, sizeof(strings)) == 0);
	(void)guest_hear(AGENT_KILL_ALL);
	bed_end();
}

static void a_port_of_the_guest_is_dialed(void)
{
	struct frame f;
	char bytes[8];
	uint32_t window = MUX_WINDOW, refused = ECONNREFUSED;
	int fd;

	bed_begin();
	CHECK(agent_send_dial(&agent, 21, 8080, &e) == 0);
	f = guest_hear(MUX_OPEN);
	CHECK(f.stream == 2 && f.len == MUX_OPEN_SIZE);
	guest_say(MUX_CREDIT, 2, &window, sizeof(window));
	CHECK(bed_hear(AGENT_DIALED).sys == 0);
	bed_take_fds(&fd, 1);
	bed_write(fd, "get", 3);
	f = guest_hear(MUX_DATA);
	CHECK(f.stream == 2 && f.len == 3);
	guest_say_data(2, "page", 4);
	CHECK(bed_read(fd, bytes, 4) == 4 && memcmp(bytes, "page", 4) == 0);
	CHECK(agent_send_dial(&agent, 22, 1, &e) == 0);
	CHECK(guest_hear(MUX_OPEN).stream == 4);
	guest_say(MUX_RESET, 4, &refused, sizeof(refused));
	CHECK(bed_hear(AGENT_DIALED).sys == ECONNREFUSED);
	bed_end();
}

/* The guest shares the cell's network, as gVisor does: the shim connects, but to the interpreter.
 */
static void the_interpreter_is_dialed_inside(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
	bed_request.engine = BOOT_GVISOR;
	bed_request.fds = BOOT_FD_ENGINE;
	bed_request.vcpus = 0;
	bed_begin();
	CHECK(agent_send_dial(&agent, 21, ntohs(at.sin_port), &e) == 0);
	CHECK(bed_hear(AGENT_DIALED).sys == 0);
	CHECK(guest_is_silent(50));
	CHECK(agent_send_dial(&agent, 22, AGENT_CODE_PORT, &e) == 0);
	CHECK(guest_hear(MUX_OPEN).stream == 2);
	bed_end();
}

/* DIAL for so many ports at a time; none is answered before all are asked for. */
static void dial_many(uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		CHECK(agent_send_dial(&agent, first + i, (uint16_t)(1 + i), &e) == 0);
		CHECK(guest_hear(MUX_OPEN).stream == 2 * (i + 1));
	}
}

/* What the server gets of a dial: one byte of the guest, to know whose end it is. */
static void expect_own_end(uint32_t first, const struct agent_event *v)
{
	char byte = 0;
	int fd;

	CHECK(v->sys == 0);
	bed_take_fds(&fd, 1);
	CHECK(bed_read(fd, &byte, 1) == 1 && byte == (char)(v->handle - first));
	(void)close(fd);
}

/* As many as a server has at a time, and as many again that it has given up. */
static void many_ports_are_dialed_at_a_time(void)
{
	const struct rlimit files = { 4 * DIALS, 4 * DIALS };
	const uint32_t window = MUX_WINDOW, first = 100, last = first + DIALS;
	struct agent_event v;

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	bed_begin();
	dial_many(first, DIALS);
	for (uint32_t i = 0; i < 2; i++) { /* too many: each is refused, and none is forgotten */
		CHECK(agent_send_dial(&agent, last + i, 80, &e) == 0);
		v = bed_hear(AGENT_DIALED);
		CHECK(v.handle == last + i && v.sys == EAGAIN);
	}
	for (uint32_t i = 0; i < DIALS; i++) {
		const char byte = (char)i;

		guest_say(MUX_CREDIT, (uint16_t)(2 * (i + 1)), &window, sizeof(window));
		guest_say_data((uint16_t)(2 * (i + 1)), &byte, 1);
	}
	for (uint32_t i = 0; i < DIALS; i++) {
		v = bed_hear(AGENT_DIALED);
		expect_own_end(first, &v);
	}
	CHECK(agent_send_dial(&agent, last + 2, 80, &e) == 0);
	(void)guest_find(MUX_OPEN); /* there is room again */
	bed_end();
}

/* Starts a program whose time is over after 100 ms. */
static void start_late(uint32_t flags)
{
	bed_spawn(4, "x", flags, 100);
	CHECK(guest_start_program(1, (flags & AGENT_HOLD) != 0 ? BED_PIPES : AGENT_HAS_STDIN) == 4);
	(void)bed_hear(AGENT_STARTED);
}

/* The guest answers neither the SIGNAL for a program that is not held nor KILL_TREE for one that
 * is: it is ended, but not before it had five seconds. */
static void a_guest_that_ends_nothing_is_ended(void)
{
	const uint32_t flags[] = { 0, AGENT_HOLD };

	for (unsigned i = 0; i < COUNT(flags); i++) {
		bed_begin();
		start_late(flags[i]);
		(void)guest_hear(flags[i] == 0 ? AGENT_SIGNAL : AGENT_KILL_TREE);
		CHECK(bed_is_silent(3000));
		CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_OVERDUE);
		CHECK(bed_is_over(WAIT_MS));
		bed_end();
	}
}

/* While it is quiesced for a snapshot it answers nothing, and none of that time counts. */
static void a_quiesced_guest_is_not_overdue(void)
{
	bed_begin();
	start_late(AGENT_HOLD);
	(void)guest_hear(AGENT_KILL_TREE);
	CHECK(agent_send_snapshot(&agent, false, 0, &e) == 0);
	(void)guest_hear(GUEST_QUIESCE);
	CHECK(bed_is_silent(7000));
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
	(void)guest_greet();
	CHECK(bed_hear(AGENT_SNAPSHOT_DONE).sys == 0);
	CHECK(bed_is_silent(3000)); /* its seconds begin now */
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_OVERDUE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

TEST_MAIN({ "a guest boots", a_guest_boots },
	  { "a failed start says what was printed", a_failed_start_says_what_was_printed },
	  { "bytes go both ways", bytes_go_both_ways },
	  { "an exit waits for the output", an_exit_waits_for_the_output },
	  { "a stalled reader stops its stream only", a_stalled_reader_stops_its_stream_only },
	  { "input waits for credit", input_waits_for_credit },
	  { "a large request arrives whole", a_large_request_arrives_whole },
	  { "a port of the guest is dialed", a_port_of_the_guest_is_dialed },
	  { "the interpreter is dialed inside", the_interpreter_is_dialed_inside },
	  { "many ports are dialed at a time", many_ports_are_dialed_at_a_time },
	  { "a guest that ends nothing is ended", a_guest_that_ends_nothing_is_ended },
	  { "a quiesced guest is not overdue", a_quiesced_guest_is_not_overdue })
