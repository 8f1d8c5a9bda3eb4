/* channel.c - theory of operation
 *
 * Requests are collected in one large mapping. Its pages take memory only once they are used, and
 * are given back. A malformed request ends the cell: the program at the other end made the cell and
 * is built together with this one.
 *
 * A daemon that dies may have sent requests whose results it has promised to clients. So a
 * connection to which nothing can be written (broken) is still read to its end.
 *
 * The listening socket was made outside, with a name outside that no process of the cell can see.
 * If a mount showed it to the cell, connections of the cell's processes would still be refused:
 * they have a process id in this pid namespace, and processes outside have none. */
#include "cell/init/base/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "lib/base/io.h"
#include "lib/wire/boot_msg.h"

#define CHANNEL_FD 3
/* While a cell is frozen, connections of daemons that died stay in the queue. */
#define BACKLOG 4096
#define BUFFER_CAP ((size_t)FRAME_HEAD + AGENT_REQUEST_MAX)
#define KEPT 65536 /* bytes of the buffer that stay */

static int channel = -1;
static int listener = -1;
static int next_channel = -1;	 /* the connection that will replace the one on the channel */
static bool broken;		 /* nothing can be written, but there may be requests to read */
static int passed[BOOT_FDS_MAX]; /* came with a request still in the buffer */
static size_t npassed;
static bool full;	   /* the kernel did not accept the last event */
static bool out_of_memory; /* for another reason than a full socket */

static uint8_t *buffer;
static size_t have, at; /* buffer[at .. have) was not parsed yet */
static size_t touched;	/* largest have since memory was given back */

static const struct channel_carrier *carrier; /* NULL: the channel */

void channel_use_carrier(const struct channel_carrier *c)
{
	carrier = c;
}

bool channel_has_carrier(void)
{
	return carrier != NULL;
}

int channel_init(void)
{
	channel = CHANNEL_FD;
	if (fcntl(channel, F_SETFD, FD_CLOEXEC) < 0)
		return -1;
	return fcntl(channel, F_SETFL, O_RDWR | O_NONBLOCK);
}

bool channel_is_open(void)
{
	return channel >= 0 || carrier != NULL;
}

bool channel_is_broken(void)
{
	return carrier != NULL ? carrier->is_broken() : channel < 0 || broken;
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

static void channel_drop_passed(void)
{
	io_close_all(passed, npassed);
	npassed = 0;
}

static void channel_drop(void)
{
	io_close_all(&channel, 1);
	channel_drop_passed();
	full = out_of_memory = broken = false;
	have = at = 0;
	if (listener < 0)
		_exit(0); /* the other end is closed, and the cell does not linger */
}

bool channel_send(enum agent_type type, const struct agent_event *v, const int *fds, size_t nfds)
{
	uint8_t bytes[FRAME_HEAD + sizeof(*v)];
	struct err e;

	if (channel_is_broken())
		return false;
	if (carrier != NULL)
		return carrier->send(type, v, fds, nfds);
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

bool channel_is_drained(uint32_t program)
{
	return carrier == NULL || carrier->is_drained(program);
}

bool channel_receive(void)
{
	size_t nfds = 0;
	bool lost; /* at the limit of descriptors: the request is handled without them */
	struct err e;
	ssize_t n;
	int fds[BOOT_FDS_MAX];

	if (carrier != NULL)
		return carrier->receive();
	if (channel < 0)
		return false;
	if (buffer == NULL) {
		buffer = mmap(NULL, BUFFER_CAP, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (buffer == MAP_FAILED)
			_exit(1);
	}
	if (have == BUFFER_CAP)
		return false; /* it holds whole requests */
	n = io_recv_lossy(channel, buffer + have, BUFFER_CAP - have, fds, BOOT_FDS_MAX, &nfds,
			  &lost, &e);
	if (n < 0 && e.code == ERR_SYSTEM && e.sys == EAGAIN)
		return false;
	if (n <= 0) {
		channel_drop();
		return false;
	}
	if (nfds > 0) {
		channel_drop_passed();
		memcpy(passed, fds, nfds * sizeof(int));
		npassed = nfds;
	}
	have += (size_t)n;
	if (have > touched)
		touched = have;
	return true;
}

/* No whole request is left: the bytes of the next one move to the front. */
static void channel_compact(void)
{
	if (at > 0) /* memmove(3) of musl would copy it all to where it is */
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

	if (carrier != NULL)
		return carrier->next(ret);
	if (have == 0)
		return false;
	took = frame_read(buffer + at, have - at, AGENT_REQUEST_MAX, ret, &e);
	if (took < 0)
		_exit(1);
	if (took == 0) {
		channel_compact();
		return false;
	}
	at += (size_t)took;
	return true;
}

int channel_linger(void)
{
	OWN_FD fd = channel_take_fd();

	if (fd < 0)
		return EBADF;
	if (listen(fd, BACKLOG) < 0 || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return errno;
	io_close_all(&listener, 1);
	listener = TAKE_FD(fd);
	return 0;
}

size_t channel_take_fds(int ret_fds[BOOT_FDS_MAX])
{
	size_t n = npassed;

	memcpy(ret_fds, passed, n * sizeof(int));
	npassed = 0;
	return n;
}

int channel_take_fd(void)
{
	int fds[BOOT_FDS_MAX];
	size_t n = channel_take_fds(fds);

	if (n == 0)
		return -1;
	io_close_all(fds + 1, n - 1);
	return fds[0];
}

/* A process outside of this pid namespace shows the id 0. */
static bool channel_is_outside(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid == 0;
}

bool channel_accept(void)
{
	OWN_FD fd = listener < 0 ? -1 : accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 || !channel_is_outside(fd))
		return false;
	io_close_all(&next_channel, 1);
	next_channel = TAKE_FD(fd);
	broken = true;
	full = out_of_memory = false;
	return true;
}

void channel_replace(void)
{
	channel_drop();
	channel = TAKE_FD(next_channel);
}
