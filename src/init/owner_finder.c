/* owner_finder.c - theory of operation
 *
 * The child is a copy of PID 1 that keeps two descriptors: the socket for questions and the netlink
 * socket of the keeper (INIT_FD_DIAG). Programs of the cell may stop or kill it if their user is
 * root: then cordon-egress gets no answers, and records say so. PID 1 starts a new one for the next
 * question, at most every START_MS.
 *
 * PID 1 itself never reads the socket. It closes it when the other end is closed. */
#include "owner_finder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "io.h"
#include "keeper_msg.h"
#include "kernel.h"
#include "owner_diag.h"
#include "owner_walk.h"

#define START_MS 100
#define IDLE_MS 2000 /* the child exits after that */

static int sock = -1;
static pid_t finder; /* 0: none runs */
static uint64_t next_start_ns;

/* ---- the child */

static struct owner_answer answer_to(int diag, const struct owner_question *q)
{
	struct owner_answer a = { .id = q->id };
	uint32_t inode, uid;

	a.result = owner_diag_find(diag, q, &inode, &uid);
	if (a.result == OWNER_FOUND)
		owner_walk_find(inode, uid, &a);
	return a;
}

static void NORETURN serve(int in, int diag)
{
	struct pollfd p = { .fd = in, .events = POLLIN };
	struct owner_question q;
	struct owner_answer a;
	uint8_t bytes[sizeof(q) + 1]; /* a longer one is seen as such */
	struct err e;
	ssize_t n;

	for (;;) {
		n = recv(in, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN && poll(&p, 1, IDLE_MS) > 0)
			continue;
		if (n <= 0 || owner_question_read(bytes, (size_t)n, &q, &e) < 0)
			_exit(0);
		a = answer_to(diag, &q);
		/* If egress does not read, the answer is dropped. */
		(void)send(in, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

/* Without one of the keeper, the number may have been given to another descriptor. */
static bool is_netlink(int fd)
{
	int family = -1;
	socklen_t len = sizeof(family);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 && family == AF_NETLINK;
}

/* No other descriptor of PID 1 may stay open in it. */
static void NORETURN run(void)
{
	enum { IN = 3, DIAG, FREE };
	int in = fcntl(sock, F_DUPFD, FREE);
	int diag = is_netlink(INIT_FD_DIAG) ? fcntl(INIT_FD_DIAG, F_DUPFD, FREE) : -1;

	(void)prctl(PR_SET_NAME, "cordon-owners", 0, 0, 0);
	if (in < 0 || dup2(in, IN) < 0 || (diag >= 0 && dup2(diag, DIAG) < 0) ||
	    kernel_close_range(diag >= 0 ? FREE : DIAG, ~0U) < 0)
		_exit(1);
	serve(IN, diag >= 0 ? DIAG : -1);
}

/* ---- PID 1 */

void owner_finder_listen(int fd)
{
	io_close_all(&sock, 1);
	sock = fd;
	if (finder > 0)
		(void)kill(finder, SIGKILL); /* it has the earlier socket */
}

static bool may_start(uint64_t now_ns)
{
	return sock >= 0 && finder == 0 && now_ns >= next_start_ns;
}

struct pollfd owner_finder_poll_fd(uint64_t now_ns)
{
	return (struct pollfd){ may_start(now_ns) ? sock : -1, POLLIN, 0 };
}

uint64_t owner_finder_wake_ns(uint64_t now_ns)
{
	return sock < 0 || finder > 0 || may_start(now_ns) ? 0 : next_start_ns;
}

void owner_finder_on_ready(short revents, uint64_t now_ns)
{
	pid_t pid;

	if ((revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
		io_close_all(&sock, 1);
		return;
	}
	if (revents == 0 || !may_start(now_ns))
		return;
	next_start_ns = now_ns + START_MS * CLOCK_MS;
	pid = fork();
	if (pid == 0)
		run();
	if (pid > 0)
		finder = pid;
}

void owner_finder_on_exit(pid_t pid)
{
	if (pid == finder)
		finder = 0;
}
