/* Goal: whatever happens to the one who asked, a cell that lingers loses nothing: programs run on,
 * output stays where it is, ends are told until they are known. And a cell that was not told to
 * linger, or is told nonsense, ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "held.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "test.h"

static struct err e;

static void output_and_end_wait_for_the_next(void)
{
	struct agent_event v;
	int fds[3];

	held_make_cell(256);
	held_linger();
	(void)held_spawn(5, "echo one; read x; echo got $x; echo bad >&2; exit 7", AGENT_HOLD, 0,
			 NULL);
	held_reconnect(); /* nobody has read a byte yet */
	v = held_hear(AGENT_HELD);
	CHECK(v.handle == 5 && v.flags == (AGENT_IS_HELD | AGENT_HAS_STDIN) && v.mark != 0);
	held_take_fds(fds, 3);
	(void)held_hear(AGENT_SYNCED);
	held_expect(fds[1], "one\n");
	held_type(fds[0], "two\n");
	v = held_hear(AGENT_EXITED);
	CHECK(v.handle == 5 && v.exit_code == 7 && v.signal == 0 && v.timed_out == 0);
	io_close_all(fds, 3);
	for (int i = 0; i < 2; i++) { /* told again until forgotten; output too */
		held_reconnect();
		v = held_hear(AGENT_HELD);
		CHECK(v.flags == (AGENT_IS_HELD | AGENT_HAS_STDIN | AGENT_HAS_EXITED));
		CHECK(v.handle == 5 && v.exit_code == 7 && v.pid > 1);
		held_take_fds(fds, 3);
		(void)held_hear(AGENT_SYNCED);
		if (i == 1) {
			held_expect(fds[1], "got two\n");
			held_expect(fds[2], "bad\n");
		}
		io_close_all(fds, 3);
	}
	CHECK(agent_send_forget(&agent, 5, &e) == 0);
	held_reconnect();
	(void)held_hear(AGENT_SYNCED);
	held_end_cell();
}

static void an_end_while_nobody_is_there(void)
{
	struct agent_event v;
	int fds[2];

	held_make_cell(256);
	held_linger();
	(void)held_spawn(1, "sleep 0.2; echo late; kill -9 $$", AGENT_HOLD | AGENT_NO_STDIN, 0,
			 NULL);
	held_disconnect();
	held_sleep(600);
	held_connect(NULL);
	(void)held_hear(AGENT_READY);
	v = held_hear(AGENT_HELD);
	CHECK(v.flags == (AGENT_IS_HELD | AGENT_HAS_EXITED) && v.signal == 9);
	held_take_fds(fds, 2);
	(void)held_hear(AGENT_SYNCED);
	held_expect(fds[0], "late\n");
	held_end_cell();
}

static void a_new_connection_replaces_the_old(void)
{
	int old = -1;
	char byte;

	held_make_cell(256);
	held_linger();
	(void)held_spawn(1, "sleep 100", AGENT_HOLD, 0, NULL);
	held_connect(&old);
	(void)held_hear(AGENT_READY);
	CHECK(held_hear(AGENT_HELD).handle == 1);
	(void)held_hear(AGENT_SYNCED);
	CHECK(recv(old, &byte, 1, 0) == 0);
	(void)close(old);
	CHECK(!held_is_over(0));
	held_end_cell();
}

static void what_is_not_held_ends_with_the_connection(void)
{
	int fds[3];

	held_make_cell(256);
	held_linger();
	(void)held_spawn(1, "trap '' HUP PIPE TERM; while :; do sleep 0.1; done", 0, 0, fds);
	held_wait_processes(3);
	held_reconnect();
	(void)held_hear(AGENT_SYNCED); /* nothing is held */
	held_wait_processes(1);
	(void)held_spawn(1, "exit 3", 0, 0, NULL); /* its handle is free */
	CHECK(held_hear(AGENT_EXITED).exit_code == 3);
	held_end_cell();
}

static void without_lingering_the_cell_ends(void)
{
	held_make_cell(256);
	(void)held_spawn(1, "sleep 100", AGENT_HOLD, 0, NULL);
	held_disconnect();
	CHECK(held_is_over(WAIT_MS));
	held_end_cell();
}

static void told_to_end_it_ends(void)
{
	held_make_cell(256);
	held_linger();
	(void)held_spawn(1, "sleep 100", AGENT_HOLD, 0, NULL);
	CHECK(agent_send_end(&agent, &e) == 0);
	CHECK(held_is_over(WAIT_MS));
	held_end_cell();
}

static void send_raw(unsigned type, uint32_t len, const void *body, size_t n)
{
	uint8_t head[FRAME_HEAD];

	frame_head(head, (uint16_t)type, len);
	CHECK(send(agent.sock, head, sizeof(head), MSG_NOSIGNAL) == sizeof(head));
	if (n > 0)
		CHECK(send(agent.sock, body, n, MSG_NOSIGNAL) == (ssize_t)n);
}

static void nonsense_ends_the_cell(void)
{
	static const uint8_t zeros[sizeof(struct agent_order)];
	const struct agent_order no_signal = { .sig = 65 };
	const struct {
		unsigned type;
		uint32_t len;
		const void *body;
		size_t n;
	} cases[] = { { 0, 0, NULL, 0 },
		      { AGENT_READY, sizeof(zeros), zeros, sizeof(zeros) },
		      { AGENT_REQUESTS_END, sizeof(zeros), zeros, sizeof(zeros) },
		      { AGENT_STAT, 0, NULL, 0 },
		      { AGENT_SPAWN, sizeof(zeros), zeros, sizeof(zeros) },
		      { AGENT_SPAWN, AGENT_REQUEST_MAX + 1, NULL, 0 },
		      { AGENT_SIGNAL, sizeof(no_signal), &no_signal, sizeof(no_signal) } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		held_make_cell(256);
		if (i % 2 == 0)
			held_linger();
		send_raw(cases[i].type, cases[i].len, cases[i].body, cases[i].n);
		if (!held_is_over(WAIT_MS))
			printf("# case %zu\n", i);
		CHECK(held_is_over(0));
		held_end_cell();
	}
}

static void half_a_request_is_no_request(void)
{
	held_make_cell(256);
	held_linger();
	send_raw(AGENT_END, sizeof(struct agent_order), "\0\0\0", 3);
	held_reconnect();
	(void)held_hear(AGENT_SYNCED);
	CHECK(held_processes() == 1);
	held_end_cell();
}

static void a_terminal_is_held(void)
{
	struct agent_event v;
	int fds[2];

	held_make_cell(256);
	held_linger();
	held_ask_spawn(1, "stty -echo; stty size; exec bash --norc -i", AGENT_HOLD | AGENT_TTY, 0);
	v = held_hear(AGENT_STARTED);
	CHECK(v.flags == (AGENT_IS_HELD | AGENT_IS_TTY | AGENT_HAS_STDIN));
	held_take_fds(fds, 2);
	held_expect(fds[1], "24 80");
	held_type(fds[0], "echo $((6 * 7)); sleep 0.3; echo w''hile away\n");
	held_expect(fds[1], "42");
	io_close_all(fds, 2);
	held_disconnect();
	held_sleep(700);
	held_connect(NULL);
	(void)held_hear(AGENT_READY);
	v = held_hear(AGENT_HELD);
	CHECK(v.flags == (AGENT_IS_HELD | AGENT_IS_TTY | AGENT_HAS_STDIN));
	held_take_fds(fds, 2);
	(void)held_hear(AGENT_SYNCED);
	held_expect(fds[1], "while away");
	CHECK(agent_send_resize(&agent, 1, 50, 132, &e) == 0);
	held_type(fds[0], "stty size\n");
	held_expect(fds[1], "50 132");
	held_type(fds[0], "exit 4\n");
	CHECK(held_hear(AGENT_EXITED).exit_code == 4);
	held_expect(fds[1], NULL); /* ends */
	CHECK(read(fds[1], &v, 1) == 0);
	held_end_cell();
}

/* More than any pipe or terminal holds, through PID 1, without loss. */
static void a_terminal_gives_all_its_output(void)
{
	struct agent_event v;
	char got[4096];
	size_t sum = 0;
	int fds[2];

	held_make_cell(256);
	held_linger();
	(void)held_spawn(1, "stty raw; head -c 3000000 /dev/zero | tr '\\0' x",
			 AGENT_HOLD | AGENT_TTY, 0, fds);
	io_close_all(fds, 2);
	held_reconnect(); /* while it is at it */
	v = held_hear(AGENT_HELD);
	held_take_fds(fds, 2);
	for (uint64_t end = clock_now_ns() + WAIT_MS * CLOCK_MS; clock_now_ns() < end;) {
		ssize_t n = read(fds[1], got, sizeof(got));

		if (n == 0)
			break;
		sum += n > 0 ? (size_t)n : 0;
	}
	if (sum != 3000000)
		printf("# %zu bytes\n", sum);
	CHECK(v.handle == 1 && sum == 3000000);
	held_end_cell();
}

static void input_ends_when_both_close_it(void)
{
	int fds[3];

	held_make_cell(256);
	(void)held_spawn(1, "cat; echo end", AGENT_HOLD, 0, fds);
	held_type(fds[0], "word\n");
	held_expect(fds[1], "word\n");
	io_close_all(fds, 1);
	CHECK(held_is_silent(200)); /* PID 1 holds it too */
	CHECK(agent_send_close_stdin(&agent, 1, &e) == 0);
	(void)held_hear(AGENT_EXITED);
	held_expect(fds[1], "end\n");
	held_end_cell();
}

static void as_many_as_allowed_are_held(void)
{
	int fds[3];

	held_make_cell(300);
	for (unsigned i = 0; i < AGENT_PROGRAMS_MAX; i++) {
		(void)held_spawn(i, "exit 0", AGENT_HOLD | AGENT_NO_STDIN, 0, NULL);
		CHECK(held_hear(AGENT_EXITED).handle == i);
	}
	held_ask_spawn(1000, "exit 0", AGENT_HOLD, 0);
	CHECK(held_hear(AGENT_FAILED).sys == EAGAIN);
	held_ask_spawn(1000, "exit 0", 0, 0);
	CHECK(held_hear(AGENT_FAILED).sys == EAGAIN);
	CHECK(agent_send_forget(&agent, 77, &e) == 0);
	(void)held_spawn(1000, "exit 9", AGENT_HOLD, 0, fds);
	CHECK(held_hear(AGENT_EXITED).exit_code == 9);
	held_ask_spawn(1000, "exit 9", AGENT_HOLD, 0); /* a handle is one program's */
	CHECK(held_hear(AGENT_FAILED).handle == 1000);
	held_end_cell();
}

/* The outside is alive but does not listen: deadlines are kept, and nothing is lost of what is
 * owed. */
static void nobody_listens(void)
{
	int fds[2];
	unsigned sent = 0, heard = 0, full = 0;
	char bytes[FRAME_HEAD + sizeof(struct agent_order)] = { 0 };
	bool exited = false;

	held_make_cell(256);
	(void)held_spawn(1, "sleep 100", AGENT_HOLD | AGENT_NO_STDIN, 1000, fds);
	frame_head((uint8_t *)bytes, AGENT_STAT, sizeof(struct agent_order));
	/* The socket is full for a moment where PID 1 is not scheduled, and for good when it reads
	 * no more. */
	while (sent < 100000 && full < 50) {
		if (send(agent.sock, bytes, sizeof(bytes), MSG_DONTWAIT) == sizeof(bytes)) {
			sent++;
			full = 0;
		} else {
			full++;
		}
		if (full > 0 || sent % 256 == 0)
			held_sleep(10);
	}
	CHECK(sent > 500);
	held_expect(fds[0], NULL); /* its output ends with it */
	for (enum agent_type type; heard < sent || !exited;) {
		struct agent_event v;

		CHECK(agent_next(&agent, WAIT_MS, &type, &v, &e) == 1);
		heard += type == AGENT_STATED;
		if (type == AGENT_EXITED) {
			CHECK(v.signal == SIGKILL && v.timed_out == 1);
			exited = true;
		}
	}
	held_end_cell();
}

static void time_in_the_freezer_does_not_count(void)
{
	struct agent_event v;

	held_make_cell(256);
	(void)held_spawn(1, "sleep 1; exit 5", AGENT_HOLD, 1500, NULL);
	/* PID 1 alone is enough: it is its clock that counts. */
	CHECK(kernel_pidfd_send_signal(pid1_fd, SIGSTOP) == 0);
	held_sleep(2000);
	CHECK(agent_send_paused(&agent, 2000, &e) == 0);
	CHECK(kernel_pidfd_send_signal(pid1_fd, SIGCONT) == 0);
	v = held_hear(AGENT_EXITED);
	CHECK(v.exit_code == 5 && v.timed_out == 0);
	(void)held_spawn(2, "sleep 100", AGENT_HOLD, 300, NULL);
	CHECK(agent_send_paused(&agent, 700, &e) == 0);
	CHECK(held_is_silent(800));
	CHECK(held_hear(AGENT_EXITED).timed_out == 1);
	held_end_cell();
}

static void says_how_full_it_is(void)
{
	struct agent_event before, after;

	held_make_cell(256);
	CHECK(agent_send_stat(&agent, &e) == 0);
	before = held_hear(AGENT_STATED);
	CHECK(before.processes == 1 && before.disk_limit_bytes == 64U << 20);
	(void)held_spawn(1, "head -c 10000000 /dev/zero > file; sleep 100; exit 1", AGENT_HOLD, 0,
			 NULL);
	held_sleep(500);
	CHECK(agent_send_stat(&agent, &e) == 0);
	after = held_hear(AGENT_STATED);
	CHECK(after.processes == 3 && after.inodes > before.inodes);
	CHECK(after.disk_bytes >= before.disk_bytes + 10000000 && after.disk_bytes < 12000000);
	held_end_cell();
}

static void a_built_in_runs_as_the_user(void)
{
	int fds[3];

	held_make_cell(256);
	(void)held_spawn(1, "mkdir /tmp/made 0750 -", AGENT_BUILTIN | AGENT_NO_STDIN, 0, fds);
	CHECK(held_hear(AGENT_EXITED).exit_code == 0);
	(void)held_spawn(2, "stat -c %U:%a /tmp/made", AGENT_HOLD, 0, fds);
	held_expect(fds[1], "user:750\n");
	CHECK(held_hear(AGENT_EXITED).exit_code == 0);
	(void)held_spawn(3, "mkdir /etc/made 0750 -", AGENT_BUILTIN | AGENT_NO_STDIN, 0, fds);
	CHECK(held_hear(AGENT_EXITED).exit_code == 1);
	held_end_cell();
}

static unsigned long switches(void)
{
	char path[64], text[8192];
	const char *at;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid1);
	CHECK(io_read_file(AT_FDCWD, path, text, sizeof(text), &e) > 0);
	at = strstr(text, "\nvoluntary_ctxt_switches:");
	CHECK(at != NULL);
	return strtoul(at + 25, NULL, 10);
}

static void idle_it_sleeps(void)
{
	unsigned long before;

	held_make_cell(256);
	held_linger();
	(void)held_spawn(1, "exit 0", AGENT_HOLD, 60000, NULL); /* ended and held is idle too */
	(void)held_hear(AGENT_EXITED);
	held_sleep(200); /* until it does */
	before = switches();
	held_sleep(2500);
	CHECK(switches() == before);
	(void)held_spawn(2, "sleep 100", AGENT_HOLD, 0, NULL);
	before = switches();
	held_sleep(2500);
	CHECK(switches() - before <= 120); /* looks at the disk often, and then less and less */
	held_sleep(11000);
	before = switches();
	held_sleep(3000);
	CHECK(switches() - before <= 5); /* each second */
	held_end_cell();
}

/* As a shell would take it, from any sender. */
static void directories_are_in_the_home(void)
{
	static const char *const wants[][2] = {
		{ "", "at /home/user\n" },	{ "~", "at /home/user\n" },
		{ "~/", "at /home/user\n" },	{ "~//a/b", "at /home/user/a/b\n" },
		{ "a", "at /home/user/a\n" },	{ "./a/b", "at /home/user/a/b\n" },
		{ "~x", "at /home/user/~x\n" }, { "../..", "at /\n" },
		{ "/usr", "at /usr\n" }
	};
	static const char *const missing[] = { "b", "~/none", "~user", "/none", "a/b/c" };
	struct agent_event v;
	int fds[2];

	held_make_cell(256);
	(void)held_spawn(1, "mkdir -p ~/a/b ~/'~x'", AGENT_NO_STDIN, 0, NULL);
	CHECK(held_hear(AGENT_EXITED).exit_code == 0);
	for (size_t i = 0; i < COUNT(wants); i++) {
		held_cwd = wants[i][0];
		(void)held_spawn(1, "echo at $(pwd -P)", AGENT_NO_STDIN, 0, fds);
		held_expect(fds[0], wants[i][1]);
		(void)held_hear(AGENT_EXITED);
		io_close_all(fds, 2);
	}
	for (size_t i = 0; i < COUNT(missing); i++) {
		held_cwd = missing[i];
		held_ask_spawn(1, "true", AGENT_NO_STDIN, 0);
		v = held_hear(AGENT_FAILED);
		CHECK(v.stage == AGENT_AT_CWD && v.sys == ENOENT);
	}
	held_end_cell();
}

TEST_MAIN({ "output and end wait for the next", output_and_end_wait_for_the_next },
	  { "an end while nobody is there", an_end_while_nobody_is_there },
	  { "a new connection replaces the old", a_new_connection_replaces_the_old },
	  { "what is not held ends with the connection",
	    what_is_not_held_ends_with_the_connection },
	  { "without lingering the cell ends", without_lingering_the_cell_ends },
	  { "told to end, it ends", told_to_end_it_ends },
	  { "nonsense ends the cell", nonsense_ends_the_cell },
	  { "half a request is no request", half_a_request_is_no_request },
	  { "a terminal is held", a_terminal_is_held },
	  { "a terminal gives all its output", a_terminal_gives_all_its_output },
	  { "input ends when both close it", input_ends_when_both_close_it },
	  { "as many as allowed are held", as_many_as_allowed_are_held },
	  { "nobody listens", nobody_listens },
	  { "time in the freezer does not count", time_in_the_freezer_does_not_count },
	  { "says how full it is", says_how_full_it_is },
	  { "a built-in runs as the user", a_built_in_runs_as_the_user },
	  { "idle, it sleeps", idle_it_sleeps },
	  { "directories are in the home", directories_are_in_the_home })
