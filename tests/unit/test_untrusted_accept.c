/* Goal: a process that shares a listening socket with ours can neither hold it up at accept(2) nor
 * at the close of what we accepted. */
#include "lib/base/untrusted_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "lib/base/clock.h"
#include "support.h"

static struct sockaddr_in at;

static int make_listener(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(at);

	at = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CHECK(bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 1024) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
	return fd;
}

static int call(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	return fd;
}

static int take(int listener)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);

	return untrusted_accept(listener, &from, &len);
}

static void no_timer_is_left(void)
{
	struct itimerval left = { { 1, 1 }, { 1, 1 } };

	CHECK(getitimer(ITIMER_REAL, &left) == 0);
	CHECK(left.it_value.tv_sec == 0 && left.it_value.tv_usec == 0);
}

static void a_connection_is_accepted(void)
{
	const struct linger long_time = { 1, 20 };
	struct sockaddr_storage from = { 0 };
	struct linger linger = { 1, 1 };
	socklen_t len = sizeof(from), linger_len = sizeof(linger);
	int before = count_fds(), listener = make_listener(), caller, fd;

	CHECK(setsockopt(listener, SOL_SOCKET, SO_LINGER, &long_time, sizeof(long_time)) == 0);
	CHECK(take(listener) == -1 && errno == EAGAIN);
	no_timer_is_left();
	caller = call();
	fd = untrusted_accept(listener, &from, &len);
	CHECK(fd >= 0 && from.ss_family == AF_INET && len == sizeof(struct sockaddr_in));
	no_timer_is_left();
	CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &linger_len) == 0);
	CHECK(linger.l_onoff == 0);
	CHECK(take(-1) == -1 && errno == EBADF);
	(void)close(fd);
	(void)close(caller);
	(void)close(listener);
	CHECK(count_fds() == before);
}

/* Nobody is there, and it blocks. SIGALRM was blocked by whoever started us. */
static void one_that_blocks_is_given_up(void)
{
	int listener = make_listener();
	uint64_t begun;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGALRM);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(fcntl(listener, F_SETFL, O_RDWR) == 0);
	for (int i = 0; i < 3; i++) {
		begun = clock_now_ns();
		CHECK(take(listener) == -1 && errno == EDEADLK);
		CHECK(clock_now_ns() - begun >= 15 * CLOCK_MS);
		CHECK(clock_now_ns() - begun < 5000 * CLOCK_MS);
		no_timer_is_left();
	}
	(void)close(listener);
}

/* Another process with the same open file clears the flag and takes connections as fast as it can,
 * while we believe poll(2). Every call ends, and soon, also one that finds nothing and blocks. */
static void a_thief_does_not_hold_us_up(void)
{
	int listener = make_listener(), ours = 0, stolen = 0, given_up = 0;
	uint64_t begun = clock_now_ns();
	pid_t thief = fork();

	CHECK(thief >= 0);
	while (thief == 0) {
		(void)fcntl(listener, F_SETFL, O_RDWR);
		(void)close(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	}
	for (int i = 0; i < 400 || given_up == 0; i++) {
		struct pollfd p = { .fd = listener, .events = POLLIN };
		int caller = call(), fd;

		(void)poll(&p, 1, 1);
		fd = take(listener);
		ours += fd >= 0;
		stolen += fd < 0;
		given_up += fd < 0 && errno == EDEADLK;
		CHECK(fd >= 0 || errno == EDEADLK || errno == EAGAIN);
		(void)close(fd);
		(void)close(caller);
		if (i % 2 == 0)
			(void)fcntl(listener, F_SETFL, O_RDWR | O_NONBLOCK);
		CHECK(clock_now_ns() - begun < 25000 * CLOCK_MS);
	}
	CHECK(kill(thief, SIGKILL) == 0 && waitpid(thief, NULL, 0) == thief);
	printf("# ours %d, stolen %d, given up %d\n", ours, stolen, given_up);
	(void)close(listener);
}

TEST_MAIN({ "a connection is accepted", a_connection_is_accepted },
	  { "one that blocks is given up", one_that_blocks_is_given_up },
	  { "a thief does not hold us up", a_thief_does_not_hold_us_up })
