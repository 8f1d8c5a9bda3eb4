/* Goal: a process that has used up its descriptors can still receive some over a socket, as many as
 * the reserve holds, and gets its reserve back when others are closed. */
#include "lib/base/fd_reserve.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "lib/base/io.h"
#include "support.h"

#define FILES 128

static int ends[2];

static int open_one(void)
{
	return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
}

/* Leaves none; returns the last. */
static int use_up(void)
{
	int fd = -1, last;

	while ((last = open_one()) >= 0)
		fd = last;
	return fd;
}

static struct rlimit before_begin;

static void begin(struct fd_reserve *r)
{
	struct rlimit files;
	int both[2] = { STDOUT_FILENO, STDOUT_FILENO };
	struct err e;

	CHECK(getrlimit(RLIMIT_NOFILE, &before_begin) == 0);
	files = (struct rlimit){ FILES, before_begin.rlim_max };
	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(io_send(ends[1], "x", 1, both, 2, &e) == 0);
	fd_reserve_fill(r);
	CHECK(fd_reserve_left(r) == FD_RESERVE_MAX);
}

/* A sanitizer opens files when the process exits. */
static void end(void)
{
	CHECK(setrlimit(RLIMIT_NOFILE, &before_begin) == 0);
}

static void what_was_lent_is_there_for_a_message(void)
{
	struct fd_reserve r = FD_RESERVE_INIT;
	int got[2], last;
	size_t n = 0;
	struct err e;
	char byte;

	begin(&r);
	last = use_up();
	fd_reserve_lend(&r, 2);
	CHECK(io_recv(ends[0], &byte, 1, got, 2, &n, &e) == 1 && n == 2);
	fd_reserve_fill(&r);
	CHECK(fd_reserve_left(&r) == FD_RESERVE_MAX - 2);
	(void)close(last);
	(void)close(got[0]);
	fd_reserve_fill(&r);
	CHECK(fd_reserve_left(&r) == FD_RESERVE_MAX);
	end();
}

static void without_it_the_descriptors_are_lost(void)
{
	struct fd_reserve r = FD_RESERVE_INIT;
	bool lost = false;
	size_t n = 0;
	struct err e;
	int got[2];
	char byte;

	begin(&r);
	(void)use_up();
	CHECK(io_recv(ends[0], &byte, 1, got, 2, &n, &e) == -1 && e.code == ERR_LIMIT);
	fd_reserve_lend(&r, 1);
	CHECK(io_recv_lossy(ends[0], &byte, 1, got, 2, &n, &lost, &e) == 1 && lost && n == 0);
	fd_reserve_fill(&r);
	CHECK(fd_reserve_left(&r) == FD_RESERVE_MAX);
	end();
}

static void it_can_be_lent_and_released_whole(void)
{
	struct fd_reserve r = FD_RESERVE_INIT;
	int before = count_fds();

	fd_reserve_fill(&r);
	CHECK(count_fds() == before + FD_RESERVE_MAX);
	fd_reserve_lend(&r, FD_RESERVE_MAX + 1);
	CHECK(fd_reserve_left(&r) == 0 && count_fds() == before);
	fd_reserve_fill(&r);
	fd_reserve_release(&r);
	CHECK(count_fds() == before);
}

TEST_MAIN({ "what_was_lent_is_there_for_a_message", what_was_lent_is_there_for_a_message },
	  { "without_it_the_descriptors_are_lost", without_it_the_descriptors_are_lost },
	  { "it_can_be_lent_and_released_whole", it_can_be_lent_and_released_whole })
