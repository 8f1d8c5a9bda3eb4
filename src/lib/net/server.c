/* server.c - listeners and the list of connections. conn.c has the connections. */
#include "lib/net/server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "lib/base/rand.h"
#include "lib/base/untrusted_fd.h"
#include "lib/loop/loop.h"
#include "lib/net/conn.h"

struct listen {
	struct loop *loop;
	struct loop_fd watch;
	struct loop_timer pause;
	int fd;	      /* owned */
	int spare_fd; /* closed to accept and then close one connection when there is no other */
	/* Take over the descriptor: connected, non-blocking, close-on-exec. */
	void (*on_accept)(struct listen *l, int fd, const struct addr *peer);
	void *arg; /* the caller's */
};

/* ---- listeners, and the lack of descriptors
 *
 * Without a free descriptor accept4(2) fails, and the connection stays in the queue, which epoll
 * reports in every turn. So there is a spare descriptor: it is closed to accept and close the next
 * connection, whose client sees the failure at once instead of waiting. Then accepting pauses, so
 * that open connections are served. */

#define PER_TURN 64 /* connections accepted before others are served */
#define PAUSE_MS 100
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_EVERY_S 15
#define KEEPALIVE_COUNT 4
#define PASS_RIGHTS 83 /* SO_PASSRIGHTS, which libc does not define yet */

static int listen_open_spare(void)
{
	return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void on_pause_over(struct loop_timer *t)
{
	struct listen *l = t->arg;

	if (l->spare_fd < 0)
		l->spare_fd = listen_open_spare();
	loop_modify(l->loop, &l->watch, EPOLLIN);
}

static void listen_out_of_descriptors(struct listen *l)
{
	int fd;

	if (l->spare_fd >= 0) {
		fd_close(l->spare_fd);
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			fd_close(fd);
		l->spare_fd = listen_open_spare();
	}
	loop_modify(l->loop, &l->watch, 0);
	loop_timer_set(l->loop, &l->pause, loop_now_ns(l->loop) + PAUSE_MS * CLOCK_MS);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct listen *l = f->arg;

	for (int i = 0; i < PER_TURN && l->loop; i++) {
		struct addr peer = { .len = sizeof(peer.at) };
		int fd = accept4(l->fd, (struct sockaddr *)&peer.at, &peer.len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			l->on_accept(l, fd, &peer);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			listen_out_of_descriptors(l);
		/* EAGAIN, or an error of one lost connection. */
		return;
	}
}

/* Options of TCP fail for Unix sockets, and that of Unix sockets for TCP and before Linux 6.16: no
 * harm is done. Clients have no descriptors to send. For one that does all the same, see
 * untrusted_fd.h. */
static void listen_set_options(int fd)
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

/* accepted and arg are set before. fd is taken over, also on failure: a listening, non-blocking
 * stream socket. Connections inherit TCP_NODELAY, keep-alive probes, and (if the kernel can) that
 * they accept no descriptors. */
static int listen_start(struct listen *l, struct loop *loop, int fd, struct err *e)
{
	OWN_FD own = fd;

	l->watch = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = l };
	l->pause = (struct loop_timer){ .on_expire = on_pause_over, .arg = l };
	listen_set_options(fd);
	if (loop_add(loop, &l->watch, fd, EPOLLIN, e) < 0)
		return -1;
	l->loop = loop;
	l->fd = TAKE_FD(own);
	l->spare_fd = listen_open_spare();
	return 0;
}

/* Close the descriptors. No effect if it was not started or is stopped (l->loop is NULL). */
static void listen_stop(struct listen *l)
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

#define LISTENERS_MAX 8
#define FDS_SPARE 64
#define ANSWER_MS 10000

struct server *server_new(struct loop *l, const struct server_options *o, struct err *e)
{
	struct server *s = calloc(1, sizeof(*s));
	struct rlimit files;

	assert(o->on_request && o->head_max >= 256);
	if (s)
		s->listeners = calloc(LISTENERS_MAX, sizeof(*s->listeners));
	if (!s || !s->listeners) {
		(void)err_set(e, ERR_LIMIT, "out of memory for a server");
		free(s);
		return NULL;
	}
	s->loop = l;
	s->options = *o;
	if (o->answer_ms == 0)
		s->options.answer_ms = ANSWER_MS;
	if (o->unkeyed_max == 0 || o->unkeyed_max > o->connections_max)
		s->options.unkeyed_max = o->connections_max;
	s->all = o->all ? o->all : &s->own;
	jobs_init(&s->own_jobs, l);
	s->jobs = o->jobs ? o->jobs : &s->own_jobs;
	peers_init(&s->peers);
	rand_bytes(&s->ids, sizeof(s->ids));
	s->fd_bound = getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT_MAX
			      ? INT_MAX
			      : (int)files.rlim_cur - FDS_SPARE;
	return s;
}

/* Over the limit of connections: answers 503 at once. The client's bytes are not read. */
static void server_turn_away(struct server *s, int fd, bool local)
{
	static const char busy[] =
		"HTTP/1.1 503 Service Unavailable\r\n"
		"Content-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";
	char unread[4096];

	if (!s->options.tls) {
		(void)send(fd, busy, sizeof(busy) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)shutdown(fd, SHUT_WR);
		/* Closing with unread input would reset the connection, and the answer with it. */
		(void)untrusted_recv(fd, unread, sizeof(unread));
	}
	conn_close_fd(fd, local);
}

static void on_accept(struct listen *l, int fd, const struct addr *peer)
{
	struct server *s = l->arg;
	struct conn_peer *from = peers_enter(&s->peers, peer);
	char text[ADDR_TEXT_MAX];

	/* The kernel allocates the lowest free descriptor: a high number means that few are left,
	 * and other parts need them more. */
	if (!from || fd >= s->fd_bound || !conn_evict_for(s, from)) {
		server_turn_away(s, fd, addr_is_unix(peer));
		if (from)
			peers_leave(&s->peers, from);
		return;
	}
	addr_format(peer, text, sizeof(text));
	conn_open(s, fd, from, addr_is_unix(peer) ? "unix" : text);
}

int server_listen(struct server *s, int listen_fd, struct err *e)
{
	struct listen *l = &s->listeners[s->nlisteners];

	if (s->nlisteners == LISTENERS_MAX) {
		fd_close(listen_fd);
		return err_set(e, ERR_LIMIT, "more than %d listeners", LISTENERS_MAX);
	}
	l->on_accept = on_accept;
	l->arg = s;
	if (listen_start(l, s->loop, listen_fd, e) < 0)
		return -1;
	s->nlisteners++;
	return 0;
}

static void server_stop_listening(struct server *s)
{
	for (size_t i = 0; i < s->nlisteners; i++)
		listen_stop(&s->listeners[i]);
}

void server_drain(struct server *s)
{
	s->draining = true;
	s->drain_ns = loop_now_ns(s->loop);
	server_stop_listening(s);
	for (struct conn *c = s->first; c; c = c->next) {
		if (c->state == CONN_HEAD)
			conn_wake(c); /* advance() ends it: its callbacks may be on the stack */
		else if (c->x && (c->x->endless || c->x->ws || c->x->tunnel))
			conn_drop_later(c); /* it would continue forever. Its client reconnects */
	}
}

void server_hurry(struct server *s)
{
	for (struct conn *c = s->first; c; c = c->next)
		if (c->x && c->x->answer == ANSWER_NONE)
			exchange_revoke(c->x, 503, "the server is ending; ask what became of this");
}

size_t server_connections(const struct server *s)
{
	return s->nconns;
}

size_t server_unkeyed(const struct server *s)
{
	return s->unkeyed;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	server_stop_listening(s);
	while (s->first)
		conn_drop(s->first);
	jobs_release(&s->own_jobs);
	free(s->listeners);
	free(s);
}
