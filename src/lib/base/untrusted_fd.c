/* untrusted_fd.c - theory of operation
 *
 * The kernel closes descriptors that do not fit into the control buffer, and may block in that. So
 * the buffer has room for as many as a message can have. SO_LINGER is cleared before each is
 * closed. Another process with the socket may set it again: so a socket with unsent bytes is
 * disconnected first. Without unsent bytes close(2) does not wait.
 *
 * Whether accept(2) blocks is a flag of the open file, which another process may share and change
 * between any check and the call. So a timer runs during each call: its signal ends a blocking call
 * with EINTR. The timer repeats, because the first signal might arrive before the call blocks. */
#include "lib/base/untrusted_fd.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <linux/sockios.h>

#include "lib/base/io.h"

#define SENT_MAX 253 /* SCM_MAX_FD of the kernel */
#define ACCEPT_US 20000

static void untrusted_stop_lingering(int fd)
{
	const struct linger no = { 0 };
	const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	int unsent = 0, listens = 0;
	socklen_t len = sizeof(listens);

	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &no, sizeof(no)) < 0)
		return; /* not a socket */
	/* A listening socket has no unsent bytes, and must keep listening for other holders. */
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens != 0)
		return;
	if (ioctl(fd, SIOCOUTQ, &unsent) < 0 || unsent > 0)
		(void)connect(fd, &nowhere, sizeof(nowhere));
}

void untrusted_close(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			untrusted_stop_lingering(fds[i]);
	io_close_all(fds, n);
}

/* As recvmsg(2): up to cap descriptors are given out, the others closed. *ret_nfds is how many came
 * in all. *ret_lost: some found no room in this process. */
static ssize_t untrusted_receive(int sock, void *data, size_t len, int flags, int *ret_fds,
				 size_t cap, size_t *ret_nfds, bool *ret_lost)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SENT_MAX * sizeof(int))];
	} space;
	struct iovec iov = { .iov_base = data, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = space.bytes,
			    .msg_controllen = sizeof(space.bytes) };
	int fds[SENT_MAX];
	size_t n = 0, given;
	ssize_t got = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | flags);
	const struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&m);

	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	if (n > 0)
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	given = n < cap ? n : cap;
	if (given > 0)
		memcpy(ret_fds, fds, given * sizeof(int));
	untrusted_close(fds + given, n - given);
	*ret_nfds = n;
	*ret_lost = got >= 0 && (m.msg_flags & MSG_CTRUNC) != 0;
	return got;
}

ssize_t untrusted_recv_fds(int sock, void *data, size_t len, int *ret_fds, size_t cap,
			   size_t *ret_nfds, struct err *e)
{
	size_t nfds;
	bool lost;
	ssize_t n;

	do
		n = untrusted_receive(sock, data, len, MSG_DONTWAIT, ret_fds, cap, &nfds, &lost);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) { /* often, and no text of it is read */
		*e = (struct err){ .code = ERR_SYSTEM,
				   .sys = EAGAIN,
				   .msg = "receive: nothing yet" };
		return -1;
	}
	if (n < 0)
		return err_sys(e, "receive");
	if (nfds > cap || lost) {
		untrusted_close(ret_fds, nfds < cap ? nfds : cap);
		if (nfds > cap)
			return err_set(e, ERR_INVALID, "receive: too many descriptors");
		return err_set(e, ERR_LIMIT, "receive: descriptors lost: too many are open");
	}
	*ret_nfds = nfds;
	return n;
}

ssize_t untrusted_recv(int sock, void *data, size_t len)
{
	size_t nfds;
	bool lost;

	return untrusted_receive(sock, data, len, 0, NULL, 0, &nfds, &lost);
}

void untrusted_drain(int sock)
{
	char bytes[4096];
	ssize_t n;

	(void)shutdown(sock, SHUT_RD); /* so that this ends */
	do
		n = untrusted_recv(sock, bytes, sizeof(bytes));
	while (n > 0 || (n < 0 && errno == EINTR));
}

static void on_alarm(int sig)
{
	(void)sig; /* the signal only has to interrupt */
}

static int untrusted_take_alarm(void)
{
	static bool taken;
	struct sigaction action = { .sa_handler = on_alarm }; /* no SA_RESTART */
	sigset_t set;

	if (taken)
		return 0;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGALRM);
	if (sigaction(SIGALRM, &action, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &set, NULL) < 0)
		return -1;
	taken = true;
	return 0;
}

int untrusted_accept(int listener, struct sockaddr_storage *ret, socklen_t *len)
{
	const struct itimerval soon = { { 0, ACCEPT_US }, { 0, ACCEPT_US } }, never = { 0 };
	const struct linger no = { 0 };
	int fd, why;

	if (untrusted_take_alarm() < 0 || setitimer(ITIMER_REAL, &soon, NULL) < 0)
		return -1;
	fd = accept4(listener, (struct sockaddr *)ret, len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	why = errno;
	(void)setitimer(ITIMER_REAL, &never, NULL);
	errno = why == EINTR ? EDEADLK : why;
	/* It inherited the options of the listener. No other process can change them now. */
	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &no, sizeof(no));
	return fd;
}
