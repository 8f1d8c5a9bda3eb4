/* Goal: a side that is slow, or blocks, loses no bytes and does not stop the relay. */
#include "relay_bed.h"

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

/* Unless the program is gone: then it is dropped. */
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

/* Poll may report bytes that another reader has taken: nothing happens then. */
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

TEST_MAIN({ "slow readers lose nothing", slow_readers_lose_nothing },
	  { "held back input survives its end", held_back_input_survives_its_end },
	  { "held back input is dropped in the end", held_back_input_is_dropped_in_the_end },
	  { "waits for the slow side", waits_for_the_slow_side },
	  { "false alarms do nothing", false_alarms_do_nothing },
	  { "writes no more than is safe", writes_no_more_than_is_safe },
	  { "a blocking stdout does not block us", a_blocking_stdout_does_not_block_us })
