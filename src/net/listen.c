/* listen.c - theory of operation
 *
 * Without a free descriptor accept4(2) fails, and the connection stays in the queue, which epoll
 * reports in every turn. So there is a spare descriptor: it is closed to accept and close the next
 * connection, whose client sees the failure at once instead of waiting. Then accepting pauses, so
 * that open connections are served. */
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include "clock.h"

#define PER_TURN 64 /* connections accepted before others are served */
#define PAUSE_MS 100
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_EVERY_S 15
#define KEEPALIVE_COUNT 4
#define PASS_RIGHTS 83 /* SO_PASSRIGHTS, which libc does not define yet */

static int open_spare(void)
{
	return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void on_pause_over(struct loop_timer *t)
{
	struct listen *l = t->arg;

	if (l->spare_fd < 0)
		l->spare_fd = open_spare();
	loop_modify(l->loop, &l->watch, EPOLLIN);
}

static void out_of_descriptors(struct listen *l)
{
	int fd;

	if (l->spare_fd >= 0) {
		fd_close(l->spare_fd);
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			fd_close(fd);
		l->spare_fd = open_spare();
	}
	loop_modify(l->loop, &l->watch, 0);
	loop_timer_set(l->loop, &l->pause, loop_now_ns(l->loop) + PAUSE_MS * CLOCK_MS);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct listen *l = f->arg;

	(void)events;
	for (int i = 0; i < PER_TURN && l->loop; i++) {
		struct addr peer = { .len = sizeof(peer.at) };
		int fd = accept4(l->fd, (struct sockaddr *)&peer.at, &peer.len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			l->on_accept(l, fd, &peer);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			out_of_descriptors(l);
		/* EAGAIN, or an error of one connection that is gone. */
		return;
	}
}

/* Options of TCP fail for Unix sockets, and that of Unix sockets for TCP and before Linux 6.16: no
 * harm is done. Clients have no descriptors to send; for one that does all the same, see
 * untrusted_fd.h. */
static void set_options(int fd)
{
	int off = 0, on = 1, idle = KEEPALIVE_IDLE_S, every = KEEPALIVE_EVERY_S,
	    count = KEEPALIVE_COUNT;

	(void)setsockopt(fd, SOL_SOCKET, PASS_RIGHTS, &off, sizeof(off));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

int listen_start(struct listen *l, struct loop *loop, int fd, struct err *e)
{
	OWN_FD own = fd;

	l->watch = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = l };
	l->pause = (struct loop_timer){ .on_expire = on_pause_over, .arg = l };
	set_options(fd);
	if (loop_add(loop, &l->watch, fd, EPOLLIN, e) < 0)
		return -1;
	l->loop = loop;
	l->fd = TAKE_FD(own);
	l->spare_fd = open_spare();
	return 0;
}

void listen_stop(struct listen *l)
{
	if (!l->loop)
		return;
	loop_timer_cancel(l->loop, &l->pause);
	loop_remove(l->loop, &l->watch);
	fd_close(l->fd);
	if (l->spare_fd >= 0)
		fd_close(l->spare_fd);
	l->loop = NULL;
}
