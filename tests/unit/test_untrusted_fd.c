/* Goal: a process that sends descriptors over a Unix socket does not hold up its reader, however
 * it gets rid of them, and nothing leaks.
 *
 * Each case is given a TCP connection whose last close(2) would wait for 20 s. */
#include "lib/base/untrusted_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "support.h"

static int ends[2], peer, before;
static uint64_t begun;

/* Sends so many messages of three bytes, each with so many copies of it, and has none any more. */
static void begin(size_t messages, size_t copies)
{
	int fds[IO_FDS_MAX], fd;
	struct err e;

	before = count_fds();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	fd = make_lingering(20, &peer);
	for (size_t i = 0; i < copies; i++)
		fds[i] = fd;
	for (size_t i = 0; i < messages; i++)
		CHECK(io_send(ends[1], "abc", 3, fds, copies, &e) == 0);
	(void)close(fd);
	begun = clock_now_ns();
}

static void end(void)
{
	CHECK(clock_now_ns() - begun < 10000 * CLOCK_MS);
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)close(peer);
	CHECK(count_fds() == before);
}

static void bytes_come_without_them(void)
{
	char bytes[8];

	begin(1, IO_FDS_MAX);
	CHECK(untrusted_recv(ends[0], bytes, 2) == 2);
	CHECK(untrusted_recv(ends[0], bytes + 2, 6) == 1);
	CHECK(memcmp(bytes, "abc", 3) == 0);
	CHECK(send(ends[1], "d", 1, 0) == 1);
	CHECK(untrusted_recv(ends[0], bytes, 8) == 1 && bytes[0] == 'd');
	CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
	CHECK(untrusted_recv(ends[0], bytes, 8) == -1 && errno == EAGAIN);
	end();
}

static void a_socket_that_nobody_read_can_be_closed(void)
{
	char byte;

	begin(5, 2);
	CHECK(untrusted_recv(ends[0], &byte, 1) == 1);
	untrusted_drain(ends[0]);
	CHECK(send(ends[1], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
	CHECK(send(ends[0], "y", 1, MSG_NOSIGNAL) == 1); /* the other way is open */
	end();
}

static void too_many_are_refused(void)
{
	struct err e = { 0 };
	char bytes[8];
	size_t n = 7;
	int fds[3];

	begin(1, 4);
	CHECK(untrusted_recv_fds(ends[0], bytes, 8, fds, 3, &n, &e) == -1);
	CHECK(e.code == ERR_INVALID && n == 7);
	end();
}

static void some_are_taken(void)
{
	struct err e = { 0 };
	char bytes[8];
	size_t n = 0;
	int fds[3];

	begin(1, 3);
	CHECK(untrusted_recv_fds(ends[0], bytes, 8, fds, 3, &n, &e) == 3 && n == 3);
	CHECK((fcntl(fds[2], F_GETFD) & FD_CLOEXEC) != 0);
	untrusted_close(fds, n);
	CHECK(fds[0] == -1 && fds[2] == -1);
	end();
}

TEST_MAIN({ "bytes come without them", bytes_come_without_them },
	  { "a socket that nobody read can be closed", a_socket_that_nobody_read_can_be_closed },
	  { "too many are refused", too_many_are_refused }, { "some are taken", some_are_taken })
