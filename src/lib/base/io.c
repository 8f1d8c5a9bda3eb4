#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

ssize_t io_read_file(int dir_fd, const char *path, char *ret_text, size_t cap, struct err *e)
{
	OWN_FD fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;

	if (fd < 0)
		return err_sys(e, "open %s", path);
	for (;;) {
		ssize_t n = read(fd, ret_text + got, cap - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read %s", path);
		if (n == 0)
			break;
		got += (size_t)n;
		if (got == cap)
			return err_set(e, ERR_LIMIT, "%s: larger than %zu bytes", path, cap - 1);
	}
	ret_text[got] = '\0';
	return (ssize_t)got;
}

int io_write_file(int dir_fd, const char *path, const char *text, struct err *e)
{
	OWN_FD fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t len = strlen(text);

	if (fd < 0)
		return err_sys(e, "open %s", path);
	errno = EIO; /* a short write, which such files do not do */
	if (write(fd, text, len) != (ssize_t)len)
		return err_sys(e, "write %s", path);
	return 0;
}

typedef __typeof__(((struct cmsghdr *)NULL)->cmsg_len) cmsg_len; /* differs between libcs */

union fd_space {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(IO_FDS_MAX * sizeof(int))];
};

int io_send(int sock, const void *data, size_t len, const int *fds, size_t nfds, struct err *e)
{
	const char *p = data;
	union fd_space space;

	memset(&space, 0, sizeof(space));
	if (nfds > IO_FDS_MAX)
		return err_set(e, ERR_LIMIT, "send: %zu descriptors, at most %d", nfds, IO_FDS_MAX);
	/* At least once: an empty message is a message too. */
	for (bool more = true; more;) {
		struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = len };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n;

		if (nfds > 0) {
			m.msg_control = space.bytes;
			m.msg_controllen = (cmsg_len)CMSG_SPACE(nfds * sizeof(int));
			struct cmsghdr *c = &space.align;

			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = (cmsg_len)CMSG_LEN(nfds * sizeof(int));
			memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
		}
		n = sendmsg(sock, &m, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "send");
		nfds = 0; /* they were sent with the first bytes */
		p += n;
		len -= (size_t)n;
		more = len > 0;
	}
	return 0;
}

/* Take the descriptors out of one control message. Those beyond cap are closed. */
static void io_collect(struct cmsghdr *c, int *ret_fds, size_t cap, size_t *nfds, bool *over)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
		if (*nfds < cap) {
			ret_fds[(*nfds)++] = fd;
		} else {
			fd_close(fd);
			*over = true;
		}
	}
}

ssize_t io_recv_lossy(int sock, void *data, size_t len, int *ret_fds, size_t cap, size_t *ret_nfds,
		      bool *ret_lost, struct err *e)
{
	union fd_space space;
	struct iovec iov = { .iov_base = data, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = space.bytes,
			    .msg_controllen = sizeof(space.bytes) };
	size_t nfds = 0;
	bool over = false;
	ssize_t n;

	memset(&space, 0, sizeof(space));
	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "receive");
	/* The kernel puts all descriptors of a message into one header, and no other kind of header
	 * was requested. */
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		io_collect(c, ret_fds, cap, &nfds, &over);
	/* The message is complete, but some of its descriptors are lost. */
	*ret_lost = !over && (m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == MSG_CTRUNC;
	if (over || (m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0)
		io_close_all(ret_fds, nfds);
	if (over || (m.msg_flags & MSG_TRUNC) != 0)
		return err_set(e, ERR_INVALID, "receive: too long, or too many descriptors");
	*ret_nfds = *ret_lost ? 0 : nfds;
	return n;
}

ssize_t io_recv(int sock, void *data, size_t len, int *ret_fds, size_t cap, size_t *ret_nfds,
		struct err *e)
{
	bool lost = false;
	ssize_t n = io_recv_lossy(sock, data, len, ret_fds, cap, ret_nfds, &lost, e);

	if (n >= 0 && lost)
		return err_set(e, ERR_LIMIT, "receive: descriptors lost: too many are open");
	return n;
}

void io_close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fd_close(fds[i]);
		fds[i] = -1;
	}
}
