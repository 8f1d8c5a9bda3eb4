/* relay_bed.h - what the tests of cmd/base/relay.c share: a relay between pipes. The test is both
 * sides: the user's end of the three streams, and the program's. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "cmd/base/relay.h"
#include "support.h"

static struct relay r;
static int user_in, user_out, user_err; /* we write to the first and read from the others */
static int program_in, program_out, program_err; /* the other way round */
static int at_start;

static inline void make_pipe(int *ret_read, int *ret_write, int flags)
{
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC | flags) == 0);
	*ret_read = ends[0];
	*ret_write = ends[1];
}

/* Pipes on both sides; our own streams are replaced after init, so that the test can still talk. */
static inline void begin(uint64_t limit)
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

static inline void close_if_open(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* Releases the relay; what it does not own is closed here. Whatever is open then has leaked. */
static inline void end(void)
{
	int ours[] = { user_in,	    user_out,	 user_err, program_in,
		       program_out, program_err, r.out.to, r.err.to };

	relay_release(&r);
	for (size_t i = 0; i < COUNT(ours); i++)
		close_if_open(ours[i]);
}

/* Our stdin is never closed by the relay: the test keeps its number. */
static inline void finish(int relay_stdin)
{
	end();
	close_if_open(relay_stdin);
	CHECK(count_fds() == at_start);
}

static inline bool turn(void)
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
static inline void settle(void)
{
	for (int i = 0; turn(); i++)
		CHECK(i < 100000);
}

static inline void give(int fd, const char *text)
{
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Exactly this is there, and nothing more; at_end: and then the end of file. */
static inline void expect(int fd, const char *text, bool at_end)
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

static inline void close_end(int *fd)
{
	CHECK(close(*fd) == 0);
	*fd = -1;
}

static inline size_t fill_pipe(int fd)
{
	static const char block[4096];
	size_t total = 0;
	ssize_t n;

	while ((n = write(fd, block, sizeof(block))) > 0)
		total += (size_t)n;
	CHECK(errno == EAGAIN);
	return total;
}

static inline size_t empty_pipe(int fd)
{
	char block[4096];
	size_t total = 0;
	ssize_t n;

	while ((n = read(fd, block, sizeof(block))) > 0)
		total += (size_t)n;
	return total;
}
