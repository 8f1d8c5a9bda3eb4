/* Goal: bytes pass in order and whole, and end of file, broken pipes and the end of a terminal
 * reach the other side. */
#include "relay_bed.h"

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
	give(program_out, "unread");
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
	give(user_in, "unread");
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

static void drains_without_readers(void)
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

/* Lost output is reported, unless its reader has closed its end. */
static void lost_output_is_remembered(void)
{
	begin(0);
	int in = r.in.from;

	(void)close(r.out.to);
	r.out.to = open("/dev/full", O_WRONLY | O_CLOEXEC);
	CHECK(r.out.to >= 0);
	close_end(&user_err);
	give(program_err, "unread");
	settle();
	CHECK(r.err.from == -1 && r.write_error == 0);
	give(program_out, "for a full disk");
	settle();
	CHECK(r.out.from == -1 && r.write_error == ENOSPC);
	finish(in);
}

/* The terminal hangs up when its output has no reader: both ways are closed. */
static void a_terminal_hangs_up_without_a_reader(void)
{
	begin(0);
	int in = r.in.from;

	r.in.tty = true;
	close_end(&user_out);
	give(program_out, "unread");
	settle();
	CHECK(r.in.to == -1 && r.out.from == -1 && !r.truncated && r.write_error == 0);
	finish(in);
}

/* Output of a terminal in a guest is read to its end: PID 1 waits for that. */
static void held_output_is_read_on(void)
{
	for (int limited = 0; limited < 2; limited++) {
		begin(limited ? 3 : 0);
		int in = r.in.from;

		r.in.tty = r.held = true;
		if (!limited)
			close_end(&user_out);
		give(program_out, "12345");
		settle();
		if (limited)
			expect(user_out, "123", false);
		CHECK(r.unread && r.in.to == -1 && r.out.from >= 0);
		CHECK(r.truncated == limited && r.output_bytes == (limited ? 3 : 5));
		for (int i = 0; i < 3; i++) {
			CHECK(fill_pipe(program_out) >= 65536);
			settle();
		}
		CHECK(r.output_bytes == (limited ? 3 : 5));
		if (limited)
			expect(user_out, "", false);
		close_end(&program_out);
		settle();
		CHECK(r.out.from == -1);
		finish(in);
	}
}

TEST_MAIN(
	{ "a terminal hangs up without a reader", a_terminal_hangs_up_without_a_reader },
	{ "held output is read on", held_output_is_read_on },
	{ "passes all three", passes_all_three },
	{ "the end of input reaches the program", the_end_of_input_reaches_the_program },
	{ "the end of output ends its stream only", the_end_of_output_ends_its_stream_only },
	{ "a broken stdout reaches the program", a_broken_stdout_reaches_the_program },
	{ "a program that closes stdin is left alone", a_program_that_closes_stdin_is_left_alone },
	{ "a program without stdin leaves ours alone", a_program_without_stdin_leaves_ours_alone },
	{ "drains what is left", drains_what_is_left },
	{ "drains without readers", drains_without_readers },
	{ "a terminal's end is the end", a_terminal_s_end_is_the_end },
	{ "the end of input is typed into a terminal", the_end_of_input_is_typed_into_a_terminal },
	{ "a terminal has no stderr", a_terminal_has_no_stderr },
	{ "lost output is remembered", lost_output_is_remembered })
