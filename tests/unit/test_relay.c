/* Goal: bytes pass in order and whole, end of file and broken pipes reach the other side, and
 * output is cut exactly at its limit.
 *
 * Both sides are played by the test: the user's end of the three streams and the program's. */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "support.h"

static struct relay r;
static int user_in, user_out, user_err; /* we write to the first and read from the others */
static int program_in, program_out, program_err; /* the other way round */
static int at_start;

static void make_pipe(int *ret_read, int *ret_write, int flags)
{
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC | flags) == 0);
	*ret_read = ends[0];
	*ret_write = ends[1];
}

/* Pipes on both sides; our own streams are replaced after init, so that the test can still talk. */
static void begin(uint64_t limit)
{
	int in, out, err;

	(void)signal(SIGPIPE, SIG_IGN);
	at_start = count_fds();
	make_pipe(&program_in, &in, O_NONBLOCK);
	make_pipe(&out, &program_out, O_NONBLOCK);
	make_pipe(&err, &program_err, O_NONBLOCK);
	relay_init(&r, in, out, err, limit);
	make_pipe(&r.in.from, &user_in, O_NONBLOCK);
	make_pipe(&user_out, &r.out.to, O_NONBLOCK);
	make_pipe(&user_err, &r.err.to, O_NONBLOCK);
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* Releases the relay; what it does not own is closed here. Whatever is open then has leaked. */
static void end(void)
{
	int ours[] = { user_in,	    user_out,	 user_err, program_in,
		       program_out, program_err, r.out.to, r.err.to };

	relay_release(&r);
	for (size_t i = 0; i < COUNT(ours); i++)
		close_if_open(ours[i]);
}

/* Our stdin is never closed by the relay: the test keeps its number. */
static void finish(int relay_stdin)
{
	end();
	close_if_open(relay_stdin);
	CHECK(count_fds() == at_start);
}

static bool turn(void)
{
	struct pollfd fds[RELAY_POLLS];
	size_t n = relay_wants(&r, fds);

	CHECK(n == RELAY_POLLS);
	if (poll(fds, n, 0) <= 0)
		return false;
	relay_turn(&r, fds, n);
	return true;
}

/* Until nothing more can be done. */
static void settle(void)
{
	for (int i = 0; turn(); i++)
		CHECK(i < 100000);
}

static void give(int fd, const char *text)
{
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Exactly this is there, and nothing more; at_end: and then the end of file. */
static void expect(int fd, const char *text, bool at_end)
{
	char got[4096];
	ssize_t n = read(fd, got, sizeof(got) - 1);

	if (*text != '\0') {
		CHECK(n >= 0);
		got[n] = '\0';
		CHECK_STR(got, text);
		n = read(fd, got, sizeof(got) - 1);
	}
	CHECK(at_end ? n == 0 : n == -1 && errno == EAGAIN);
}

static void close_end(int *fd)
{
	CHECK(close(*fd) == 0);
	*fd = -1;
}

static void passes_all_three(void)
{
	begin(0);
	int in = r.in.from;

	give(user_in, "question");
	give(program_out, "answer");
	give(program_err, "complaint");
	settle();
	expect(program_in, "question", false);
	expect(user_out, "answer", false);
	expect(user_err, "complaint", false);
	CHECK(r.output_bytes == 15 && !r.truncated);
	finish(in);
}

static void the_end_of_input_reaches_the_program(void)
{
	begin(0);
	int in = r.in.from;

	give(user_in, "last words");
	close_end(&user_in);
	settle();
	expect(program_in, "last words", true);
	CHECK(r.in.from == -1 && r.in.to == -1);
	CHECK(fcntl(in, F_GETFD) >= 0); /* our stdin is not ours to close */
	give(program_out, "still here");
	settle();
	expect(user_out, "still here", false);
	finish(in);
}

static void the_end_of_output_ends_its_stream_only(void)
{
	begin(0);
	int in = r.in.from;

	give(program_out, "done");
	close_end(&program_out);
	settle();
	expect(user_out, "done", false); /* our stdout stays open */
	CHECK(r.out.from == -1 && r.err.from >= 0 && r.in.to >= 0);
	give(program_err, "not quite");
	give(user_in, "go on");
	settle();
	expect(user_err, "not quite", false);
	expect(program_in, "go on", false);
	finish(in);
}

/* A reader that has gone: the program gets SIGPIPE or EPIPE, as it would without us. */
static void a_broken_stdout_reaches_the_program(void)
{
	begin(0);
	int in = r.in.from;

	close_end(&user_out);
	give(program_out, "for nobody");
	settle();
	CHECK(r.out.from == -1 && r.out.have == 0);
	CHECK(write(program_out, "x", 1) == -1 && errno == EPIPE);
	give(program_err, "but");
	settle();
	expect(user_err, "but", false);
	CHECK(!r.truncated);
	finish(in);
}

static void a_program_that_closes_stdin_is_left_alone(void)
{
	begin(0);
	int in = r.in.from;

	close_end(&program_in);
	give(user_in, "for nobody");
	settle();
	CHECK(r.in.to == -1 && r.in.from == -1 && r.in.have == 0);
	give(user_in, "stays unread");
	settle();
	expect(in, "stays unread", false);
	finish(in);
}

static void a_program_without_stdin_leaves_ours_alone(void)
{
	int out, err, saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);

	begin(0);
	end();
	close_if_open(r.in.from);
	make_pipe(&out, &program_out, O_NONBLOCK);
	make_pipe(&err, &program_err, O_NONBLOCK);
	relay_init(&r, -1, out, err, 0);
	CHECK(r.in.from == -1 && r.in.to == -1);
	close_end(&program_out);
	close_end(&program_err);
	settle();
	CHECK(r.out.from == -1 && r.err.from == -1);
	relay_release(&r);
	CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	(void)close(saved);
}

static const struct {
	uint64_t limit;
	const char *out, *err, *want_out, *want_err;
	bool truncated;
} cuts[] = {
	{ 10, "123456789", "", "123456789", "", false },
	{ 10, "1234567890", "", "1234567890", "", false },
	{ 10, "1234567890x", "", "1234567890", "", true },
	{ 10, "1234567890xyz and more", "", "1234567890", "", true },
	{ 1, "ab", "", "a", "", true },
	{ 10, "", "1234567890x", "", "1234567890", true },
	{ 10, "12345", "67890", "12345", "67890", false },
	{ 10, "12345", "67890x", "12345", "67890", true },
	{ 10, "12345678", "9abc", "12345678", "9a", true },
	{ 10, "1234567890", "x", "1234567890", "", true },
	{ 0, "without any limit", "none", "without any limit", "none", false },
	{ UINT64_MAX, "a limit that is none", "", "a limit that is none", "", false },
};

static void cuts_exactly(void)
{
	for (size_t i = 0; i < COUNT(cuts); i++) {
		begin(cuts[i].limit);
		int in = r.in.from;

		give(program_out, cuts[i].out);
		settle();
		give(program_err, cuts[i].err);
		settle();
		expect(user_out, cuts[i].want_out, false);
		expect(user_err, cuts[i].want_err, false);
		CHECK_CASE(cuts[i].out, r.truncated == cuts[i].truncated);
		CHECK_CASE(cuts[i].out,
			   r.output_bytes == strlen(cuts[i].want_out) + strlen(cuts[i].want_err));
		if (r.truncated) {
			CHECK(write(program_out, "x", 1) == -1 && errno == EPIPE);
			CHECK(write(program_err, "x", 1) == -1 && errno == EPIPE);
			expect(program_in, "", true);
		}
		finish(in);
	}
}

/* One byte at a time, the limit is the same. */
static void cuts_a_slow_stream_exactly(void)
{
	begin(5);
	int in = r.in.from;

	for (int i = 0; i < 5; i++) {
		give(program_out, "x");
		settle();
	}
	CHECK(r.output_bytes == 5 && !r.truncated && r.out.from >= 0);
	give(program_out, "y");
	settle();
	CHECK(r.output_bytes == 5 && r.truncated && r.out.from == -1 && r.err.from == -1 &&
	      r.in.to == -1);
	expect(user_out, "xxxxx", false);
	finish(in);
}

static void the_end_at_the_limit_is_no_cut(void)
{
	begin(4);
	int in = r.in.from;

	give(program_out, "four");
	close_end(&program_out);
	close_end(&program_err);
	settle();
	expect(user_out, "four", false);
	CHECK(!r.truncated && r.output_bytes == 4 && r.out.from == -1);
	finish(in);
}

static size_t fill_pipe(int fd)
{
	static const char block[4096];
	size_t total = 0;
	ssize_t n;

	while ((n = write(fd, block, sizeof(block))) > 0)
		total += (size_t)n;
	CHECK(errno == EAGAIN);
	return total;
}

static size_t empty_pipe(int fd)
{
	char block[4096];
	size_t total = 0;
	ssize_t n;

	while ((n = read(fd, block, sizeof(block))) > 0)
		total += (size_t)n;
	return total;
}

/* What was taken from the program before the cut is still passed on after it. */
static void a_cut_loses_nothing_before_it(void)
{
	begin(20);
	int in = r.in.from;
	size_t filler = fill_pipe(r.out.to); /* nobody reads stdout for now */

	give(program_out, "held back");
	settle();
	CHECK(r.out.have == 9);
	give(program_err, "elevenbytesandmore");
	settle();
	expect(user_err, "elevenbytes", false);
	CHECK(r.truncated && r.output_bytes == 20 && r.out.have == 9);
	CHECK(empty_pipe(user_out) == filler);
	settle();
	expect(user_out, "held back", false);
	finish(in);
}

static char pattern(size_t i)
{
	return (char)('a' + (i * 7 + i / 1001) % 26);
}

/* More than all buffers hold, both ways, with readers that are slow: order and number stay. */
static void slow_readers_lose_nothing(void)
{
	const size_t total = 400000;
	size_t gave_in = 0, gave_out = 0, got_in = 0, got_out = 0, most = 0;

	begin(0);
	int in = r.in.from;

	for (int i = 0; (got_in < total || got_out < total) && i < 1000000; i++) {
		char block[3001];
		size_t n = 0;
		ssize_t done;

		for (n = 0; n < sizeof(block) && gave_in + n < total; n++)
			block[n] = pattern(gave_in + n);
		done = write(user_in, block, n);
		gave_in += done > 0 ? (size_t)done : 0;
		for (n = 0; n < sizeof(block) && gave_out + n < total; n++)
			block[n] = pattern(gave_out + n);
		done = write(program_out, block, n);
		gave_out += done > 0 ? (size_t)done : 0;
		(void)turn();
		most = r.in.have > most ? r.in.have : most;
		done = read(program_in, block, 501); /* slower than it comes */
		for (ssize_t k = 0; k < done; k++)
			CHECK(block[k] == pattern(got_in++));
		done = read(user_out, block, 777);
		for (ssize_t k = 0; k < done; k++)
			CHECK(block[k] == pattern(got_out++));
	}
	CHECK(got_in == total && got_out == total && r.output_bytes == total);
	CHECK(most > 0); /* so it was held up at all */
	finish(in);
}

static void held_back_input_survives_its_end(void)
{
	begin(0);
	int in = r.in.from;
	size_t filler = fill_pipe(r.in.to);

	give(user_in, "late");
	close_end(&user_in);
	settle();
	CHECK(r.in.have == 4 && r.in.to >= 0);
	CHECK(empty_pipe(program_in) == filler);
	settle();
	expect(program_in, "late", true);
	finish(in);
}

/* Unless the program is gone: then nobody waits for them. */
static void held_back_input_is_dropped_in_the_end(void)
{
	struct pollfd fds[RELAY_POLLS];

	begin(0);
	int in = r.in.from;

	(void)fill_pipe(r.in.to);
	give(user_in, "late");
	settle();
	CHECK(r.in.have == 4);
	relay_drain(&r);
	CHECK(r.in.have == 0 && r.in.to == -1);
	(void)relay_wants(&r, fds);
	CHECK(fds[0].fd == -1 && fds[1].fd == -1 && fds[2].fd == -1);
	finish(in);
}

/* While bytes wait for a reader, no more are taken, and we wait for the reader alone. */
static void waits_for_the_slow_side(void)
{
	struct pollfd fds[RELAY_POLLS];

	begin(0);
	int in = r.in.from;

	CHECK(relay_wants(&r, fds) == RELAY_POLLS);
	CHECK(fds[0].fd == r.in.from && fds[0].events == POLLIN);
	CHECK(fds[1].fd == r.out.from && fds[1].events == POLLIN);
	CHECK(fds[2].fd == r.err.from && fds[2].events == POLLIN);
	(void)fill_pipe(r.out.to);
	give(program_out, "x");
	settle();
	(void)relay_wants(&r, fds);
	CHECK(fds[1].fd == r.out.to && fds[1].events == POLLOUT);
	give(program_out, "y");
	settle();
	CHECK(r.out.have == 1);
	finish(in);
}

/* Poll may say what is not so (another reader took it): nothing happens then. */
static void false_alarms_do_nothing(void)
{
	struct pollfd fds[RELAY_POLLS];

	begin(0);
	int in = r.in.from;

	(void)relay_wants(&r, fds);
	for (size_t i = 0; i < RELAY_POLLS; i++)
		fds[i].revents = POLLIN;
	relay_turn(&r, fds, RELAY_POLLS);
	CHECK(r.in.from >= 0 && r.out.from >= 0 && r.err.from >= 0 && r.output_bytes == 0);
	(void)fill_pipe(r.out.to);
	give(program_out, "x");
	settle();
	(void)relay_wants(&r, fds);
	fds[1].revents = POLLOUT;
	relay_turn(&r, fds, RELAY_POLLS);
	CHECK(r.out.have == 1 && r.out.from >= 0);
	finish(in);
}

static void drains_what_is_left(void)
{
	begin(0);
	int in = r.in.from;

	give(program_out, "buffered");
	CHECK(turn()); /* taken, not yet passed on */
	CHECK(r.out.have == 8);
	give(program_out, " and waiting");
	give(program_err, "both");
	give(user_in, "too late");
	relay_drain(&r);
	expect(user_out, "buffered and waiting", false);
	expect(user_err, "both", false);
	expect(program_in, "", true);
	CHECK(r.out.from == -1 && r.err.from == -1 && r.in.to == -1 && r.output_bytes == 24);
	relay_drain(&r); /* twice is harmless */
	finish(in);
}

static void drains_up_to_the_limit(void)
{
	begin(6);
	int in = r.in.from;

	give(program_out, "123456789");
	give(program_err, "x");
	relay_drain(&r);
	expect(user_out, "123456", false);
	expect(user_err, "", false);
	CHECK(r.truncated && r.output_bytes == 6);
	finish(in);
}

static void drains_to_nobody(void)
{
	begin(0);
	int in = r.in.from;

	close_end(&user_out);
	close_end(&user_err);
	(void)fill_pipe(program_out);
	(void)fill_pipe(program_err);
	relay_drain(&r);
	CHECK(r.out.from == -1 && r.err.from == -1);
	finish(in);
}

/* A PTY has one master: when its last user is gone, reading fails with EIO, which is the end. */
static void a_terminal_s_end_is_the_end(void)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), unlock = 0,
	    slave;

	if (master < 0)
		SKIP("no PTY to be had here");
	begin(0);
	int in = r.in.from;

	relay_release(&r);
	CHECK(ioctl(master, TIOCSPTLCK, &unlock) == 0);
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(slave >= 0);
	r.out.from = master;
	give(slave, "bye");
	(void)close(slave);
	settle();
	expect(user_out, "bye", false);
	CHECK(r.out.from == -1);
	end();
	close_if_open(in);
	CHECK(count_fds() == at_start - 1); /* the master was there at the start */
}

/* A terminal does not end by closing: the end is typed, twice where a line is unfinished. */
static void the_end_of_input_is_typed_into_a_terminal(void)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "", "\4" },
		{ "line\n", "line\n\4" },
		{ "unfinished", "unfinished\4\4" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct pollfd fds[RELAY_POLLS];

		begin(0);
		int in = r.in.from;

		r.in.tty = true;
		give(user_in, cases[i].text);
		settle();
		close_end(&user_in);
		settle();
		expect(program_in, cases[i].want, false);
		(void)relay_wants(&r, fds);
		CHECK(r.in.from == -1 && r.in.have == 0 && fds[0].fd == -1);
		finish(in);
	}
}

static void a_terminal_has_no_stderr(void)
{
	int out, in;

	begin(0);
	end();
	close_if_open(r.in.from);
	make_pipe(&program_in, &in, O_NONBLOCK);
	make_pipe(&out, &program_out, O_NONBLOCK);
	relay_init_tty(&r, in, out, 7);
	CHECK(r.in.tty && r.in.to == in && r.out.from == out && r.err.from == -1 && r.limit == 7);
	relay_release(&r);
	(void)close(program_in);
	(void)close(program_out);
}

/* Lost output is told, unless nobody wanted it. */
static void lost_output_is_remembered(void)
{
	begin(0);
	int in = r.in.from;

	(void)close(r.out.to);
	r.out.to = open("/dev/full", O_WRONLY | O_CLOEXEC);
	CHECK(r.out.to >= 0);
	close_end(&user_err);
	give(program_err, "for nobody");
	settle();
	CHECK(r.err.from == -1 && r.write_error == 0);
	give(program_out, "for a full disk");
	settle();
	CHECK(r.out.from == -1 && r.write_error == ENOSPC);
	finish(in);
}

/* A file takes any amount at once, a pipe that polls writable takes PIPE_BUF without blocking. */
static void writes_no_more_than_is_safe(void)
{
	int file = memfd_create("stdout", MFD_CLOEXEC), saved, pipe_read, pipe_write;
	size_t chunks[2];

	CHECK(file >= 0);
	make_pipe(&pipe_read, &pipe_write, 0);
	(void)fflush(stdout);
	saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	CHECK(saved >= 0 && dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
	relay_init(&r, -1, -1, -1, 0);
	chunks[0] = r.out.chunk;
	(void)dup2(pipe_write, STDOUT_FILENO);
	relay_init(&r, -1, -1, -1, 0);
	chunks[1] = r.out.chunk;
	(void)dup2(saved, STDOUT_FILENO);
	CHECK(chunks[0] == RELAY_BUFFER && chunks[1] == PIPE_BUF);
}

/* Our stdout may block, and its pipe may have room for a page only: a turn must not get stuck. */
static void a_blocking_stdout_does_not_block_us(void)
{
	static char block[20000];
	size_t got = 0;

	begin(0);
	int in = r.in.from;

	r.out.chunk = PIPE_BUF;
	CHECK(fcntl(r.out.to, F_SETPIPE_SZ, 4096) > 0);
	CHECK(fcntl(r.out.to, F_SETFL, 0) == 0); /* blocking from now on */
	memset(block, 'b', sizeof(block));
	CHECK(write(program_out, block, sizeof(block)) == (ssize_t)sizeof(block));
	for (int i = 0; i < 100 && got < sizeof(block); i++) {
		settle(); /* would be stuck here */
		got += empty_pipe(user_out);
	}
	CHECK(got == sizeof(block));
	finish(in);
}

TEST_MAIN(
	{ "passes all three", passes_all_three },
	{ "the end of input reaches the program", the_end_of_input_reaches_the_program },
	{ "the end of output ends its stream only", the_end_of_output_ends_its_stream_only },
	{ "a broken stdout reaches the program", a_broken_stdout_reaches_the_program },
	{ "a program that closes stdin is left alone", a_program_that_closes_stdin_is_left_alone },
	{ "a program without stdin leaves ours alone", a_program_without_stdin_leaves_ours_alone },
	{ "cuts exactly", cuts_exactly },
	{ "cuts a slow stream exactly", cuts_a_slow_stream_exactly },
	{ "the end at the limit is no cut", the_end_at_the_limit_is_no_cut },
	{ "a cut loses nothing before it", a_cut_loses_nothing_before_it },
	{ "slow readers lose nothing", slow_readers_lose_nothing },
	{ "held back input survives its end", held_back_input_survives_its_end },
	{ "held back input is dropped in the end", held_back_input_is_dropped_in_the_end },
	{ "waits for the slow side", waits_for_the_slow_side },
	{ "false alarms do nothing", false_alarms_do_nothing },
	{ "drains what is left", drains_what_is_left },
	{ "drains up to the limit", drains_up_to_the_limit },
	{ "drains to nobody", drains_to_nobody },
	{ "a terminal's end is the end", a_terminal_s_end_is_the_end },
	{ "the end of input is typed into a terminal", the_end_of_input_is_typed_into_a_terminal },
	{ "a terminal has no stderr", a_terminal_has_no_stderr },
	{ "lost output is remembered", lost_output_is_remembered },
	{ "writes no more than is safe", writes_no_more_than_is_safe },
	{ "a blocking stdout does not block us", a_blocking_stdout_does_not_block_us })
