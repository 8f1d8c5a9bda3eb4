/* channel.c - theory of operation
 *
 * Requests are collected in one large mapping, mostly untouched: memory is taken only by what a
 * request needs, and given back. The holder of the other end made this cell, so a malformed request
 * ends it: that is not the peer it should be.
 *
 * A daemon that dies leaves requests behind that it has already promised to clients. So a
 * connection to which nothing can be written any more is broken, and read to its end before it is
 * dropped.
 *
 * The listening socket came from outside, and its name is outside; no process of the cell can see
 * it. Should a mount ever show it to a cell, then a process of the cell is refused because it has a
 * number here: those outside have none. */
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "io.h"

#define CHANNEL_FD 3
/* While a cell is frozen, each daemon that connects and dies leaves one behind that cannot be
 * accepted. */
#define BACKLOG 4096
#define BUFFER_CAP ((size_t)FRAME_HEAD + AGENT_REQUEST_MAX)
#define KEPT 65536 /* bytes of the buffer that are not given back */

static int channel = -1;
static int listener = -1;
static int next_channel = -1; /* the connection that will replace the one on the channel */
static bool broken;	      /* writing fails for good, but there may be requests to read */
static int passed_fd = -1; /* a descriptor that came with a request that is still in the buffer */
static bool full;	   /* the kernel said it takes no more */
static bool out_of_memory; /* it said so for lack of something else than room in the socket */

static uint8_t *buffer;
static size_t have, at; /* buffer[at .. have) was not looked at yet */
static size_t touched;	/* largest have since memory was given back */

int channel_init(void)
{
	channel = CHANNEL_FD;
	if (fcntl(channel, F_SETFD, FD_CLOEXEC) < 0)
		return -1;
	return fcntl(channel, F_SETFL, O_RDWR | O_NONBLOCK);
}

bool channel_is_open(void)
{
	return channel >= 0;
}

bool channel_is_broken(void)
{
	return channel < 0 || broken;
}

void channel_poll_fds(struct pollfd *ret_fds)
{
	ret_fds[0] = (struct pollfd){ channel, full ? POLLOUT : POLLIN, 0 };
	if (out_of_memory)
		ret_fds[0].fd = -1;
	ret_fds[1] = (struct pollfd){ listener, POLLIN, 0 };
}

bool channel_needs_retry(void)
{
	return out_of_memory;
}

static void drop(void)
{
	io_close_all(&channel, 1);
	io_close_all(&passed_fd, 1);
	full = out_of_memory = broken = false;
	have = at = 0;
	if (listener < 0)
		_exit(0); /* the other end is closed: the cell is over */
}

bool channel_send(enum agent_type type, const struct agent_event *v, const int *fds, size_t nfds)
{
	uint8_t bytes[FRAME_HEAD + sizeof(*v)];
	struct err e;

	if (channel_is_broken())
		return false;
	frame_head(bytes, (uint16_t)type, sizeof(*v));
	memcpy(bytes + FRAME_HEAD, v, sizeof(*v));
	full = out_of_memory = false;
	if (io_send(channel, bytes, sizeof(bytes), fds, nfds, &e) == 0)
		return true;
	if (e.sys == EAGAIN)
		full = true;
	else if (e.sys == ENOBUFS || e.sys == ENOMEM || e.sys == ETOOMANYREFS)
		full = out_of_memory = true;
	else
		broken = true;
	return false;
}

bool channel_receive(void)
{
	size_t nfds = 0;
	struct err e;
	ssize_t n;
	int fd = -1;

	if (channel < 0)
		return false;
	if (buffer == NULL) {
		buffer = mmap(NULL, BUFFER_CAP, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (buffer == MAP_FAILED)
			_exit(1);
	}
	if (have == BUFFER_CAP)
		return false; /* whole requests wait in it */
	n = io_recv(channel, buffer + have, BUFFER_CAP - have, &fd, 1, &nfds, &e);
	if (n < 0 && e.code == ERR_SYSTEM && e.sys == EAGAIN)
		return false;
	if (n <= 0) {
		drop();
		return false;
	}
	if (nfds > 0) {
		io_close_all(&passed_fd, 1);
		passed_fd = fd;
	}
	have += (size_t)n;
	if (have > touched)
		touched = have;
	return true;
}

/* Nothing whole is left: what is there of the next request moves to the front. */
static void compact(void)
{
	memmove(buffer, buffer + at, have - at);
	have -= at;
	at = 0;
	if (have > 0 || touched <= KEPT)
		return;
	(void)madvise(buffer, BUFFER_CAP, MADV_DONTNEED);
	touched = 0;
}

bool channel_next(struct frame *ret)
{
	struct err e;
	int took;

	if (have == 0)
		return false;
	took = frame_read(buffer + at, have - at, AGENT_REQUEST_MAX, ret, &e);
	if (took < 0)
		_exit(1);
	if (took == 0) {
		compact();
		return false;
	}
	at += (size_t)took;
	return true;
}

int channel_linger(void)
{
	if (passed_fd < 0)
		return EBADF;
	if (listen(passed_fd, BACKLOG) < 0 || fcntl(passed_fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return errno;
	io_close_all(&listener, 1);
	listener = TAKE_FD(passed_fd);
	return 0;
}

/* Numbers of processes that are not of this cell show as 0. */
static bool is_outside(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid == 0;
}

bool channel_accept(void)
{
	OWN_FD fd = listener < 0 ? -1 : accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 || !is_outside(fd))
		return false;
	io_close_all(&next_channel, 1);
	next_channel = TAKE_FD(fd);
	broken = true;
	full = out_of_memory = false;
	return true;
}

void channel_replace(void)
{
	drop();
	channel = TAKE_FD(next_channel);
}
