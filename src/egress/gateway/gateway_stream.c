/* gateway_stream.c - theory of operation
 *
 * A plain socket is read once, unless all requested bytes came. TLS is read until it returns
 * EAGAIN, since epoll does not report decrypted bytes. Then the stream is dry, and is not read
 * until the level-triggered epoll reports more: a read that finds nothing costs as much as one that
 * does.
 *
 * Bytes to be sent over TLS always go through `out`: OpenSSL must be given the same bytes again
 * after EAGAIN, and the front of `out` changes only by the bytes sent. Large pieces for plain
 * sockets are written without a copy. */
#include "egress/gateway/gateway_stream.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define GRAB_MIN ((size_t)16 * 1024)
/* for less, a copy is cheaper than a system call of its own */
#define DIRECT_MIN ((size_t)8 * 1024)

static void on_fd_ready(struct loop_fd *f, uint32_t events)
{
	struct gateway_stream *s = f->arg;

	if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
		s->dry = false;
	/* Reported in every turn though no event is waited for, unless it is the end. */
	if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (f->events & EPOLLIN) == 0)
		s->broken = true;
	s->on_ready(s);
}

int gateway_stream_open(struct gateway_stream *s, struct loop *l, int fd, struct err *e)
{
	*s = (struct gateway_stream){
		.loop = l, .fd = fd, .grab = GRAB_MIN, .handshake_done = true
	};
	s->watch = (struct loop_fd){ .fd = -1, .on_ready = on_fd_ready, .arg = s };
	if (loop_add(l, &s->watch, fd, 0, e) == 0)
		return 0;
	fd_close(fd);
	s->fd = -1;
	s->broken = true;
	return -1;
}

void gateway_stream_watch(struct gateway_stream *s, void (*on_ready)(struct gateway_stream *s),
			  void *arg)
{
	s->on_ready = on_ready;
	s->arg = arg;
}

int gateway_stream_secure(struct gateway_stream *s, struct tls *t, const char *host, struct err *e)
{
	s->tls = tls_open(t, s->fd, host, e);
	s->handshake_done = false;
	return s->tls ? 0 : -1;
}

int gateway_stream_handshake(struct gateway_stream *s, struct err *e)
{
	if (s->handshake_done)
		return 1;
	if (tls_handshake(s->tls, e) == 0) {
		s->handshake_done = true;
		return 1;
	}
	if (errno == EAGAIN)
		return 0;
	s->broken = true;
	return -1;
}

void gateway_stream_close(struct gateway_stream *s, bool reset)
{
	const struct linger now = { .l_onoff = 1 };

	if (s->fd < 0)
		return;
	if (reset && s->tls)
		tls_break(s->tls);
	tls_close(s->tls);
	s->tls = NULL;
	loop_remove(s->loop, &s->watch);
	if (reset)
		(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_close(s->fd);
	s->fd = -1;
	s->broken = true;
	fifo_release(&s->in);
	fifo_release(&s->out);
}

static ssize_t gateway_stream_get(struct gateway_stream *s, void *data, size_t n)
{
	return s->tls ? tls_read(s->tls, data, n) : recv(s->fd, data, n, 0);
}

/* Return the bytes read. 0: none now, or the end. */
static size_t fill_once(struct gateway_stream *s, size_t n)
{
	uint8_t *to = fifo_reserve(&s->in, n);
	ssize_t got = to ? gateway_stream_get(s, to, n) : -1;

	if (to && got > 0) {
		fifo_commit(&s->in, (size_t)got);
		return (size_t)got;
	}
	if (to && got == 0)
		s->ended = true;
	else if (to && errno == EAGAIN)
		s->dry = true;
	else if (!to || errno != EINTR)
		s->broken = true;
	return 0;
}

bool gateway_stream_look(struct gateway_stream *s, size_t max)
{
	s->dry = false;
	return gateway_stream_fill(s, max);
}

bool gateway_stream_fill(struct gateway_stream *s, size_t max)
{
	bool any = false;

	if (!s->handshake_done || s->dry)
		return false;
	while (!s->ended && !s->broken && s->in.len < max) {
		size_t n = s->grab < max - s->in.len ? s->grab : max - s->in.len;
		size_t got = fill_once(s, n);

		any = any || got > 0 || s->ended || s->broken;
		if (got == 0)
			break;
		if (got == s->grab && s->grab < GATEWAY_STREAM_IN_MAX)
			s->grab *= 2;
		s->dry = !s->tls && got < n;
		if (s->dry)
			break;
	}
	return any;
}

void gateway_stream_add(struct gateway_stream *s, const void *data, size_t n)
{
	if (fifo_add(&s->out, data, n) < 0)
		s->broken = true;
}

size_t gateway_stream_room(const struct gateway_stream *s)
{
	return s->out.len < GATEWAY_STREAM_OUT_MAX ? GATEWAY_STREAM_OUT_MAX - s->out.len : 0;
}

/* Send `out` and data after it in one call. Return how many bytes of data were sent. */
static size_t put_direct(struct gateway_stream *s, const void *data, size_t n)
{
	union {
		const void *from;
		void *to;
	} bytes = { .from = data }; /* struct iovec has no const */
	struct iovec v[2] = { { .iov_base = fifo_bytes(&s->out), .iov_len = s->out.len },
			      { .iov_base = bytes.to, .iov_len = n } };
	struct msghdr m = { .msg_iov = s->out.len > 0 ? v : v + 1,
			    .msg_iovlen = s->out.len > 0 ? 2 : 1 };
	size_t waiting = s->out.len, sent;
	ssize_t went = sendmsg(s->fd, &m, MSG_NOSIGNAL);

	s->blocked = went < 0 || (size_t)went < waiting + n;
	if (went < 0) {
		s->write_broken = errno != EAGAIN && errno != EINTR;
		return 0;
	}
	sent = (size_t)went;
	fifo_consume(&s->out, sent < waiting ? sent : waiting);
	return sent > waiting ? sent - waiting : 0;
}

size_t gateway_stream_put(struct gateway_stream *s, const void *data, size_t n)
{
	size_t room = gateway_stream_room(s);

	if (s->broken || s->write_broken || !s->handshake_done)
		return 0;
	if (!s->tls && n >= DIRECT_MIN)
		return put_direct(s, data, n);
	s->blocked = false;
	if (n > room && room < GATEWAY_STREAM_OUT_MAX / 2)
		return 0; /* small pieces cost as much as large ones */
	if (n > room)
		n = room;
	gateway_stream_add(s, data, n);
	return n;
}

static ssize_t gateway_stream_give(struct gateway_stream *s)
{
	if (s->tls)
		return tls_write(s->tls, fifo_bytes(&s->out), s->out.len);
	return send(s->fd, fifo_bytes(&s->out), s->out.len, MSG_NOSIGNAL);
}

static void shut_now(struct gateway_stream *s)
{
	if (s->tls && tls_shut(s->tls) < 0 && errno == EAGAIN)
		return; /* try again later */
	s->shut_pending = false;
	s->shut = true;
	(void)shutdown(s->fd, SHUT_WR);
}

bool gateway_stream_flush(struct gateway_stream *s)
{
	bool any = false;

	while (s->handshake_done && !s->broken && !s->write_broken && s->out.len > 0) {
		size_t asked = s->out.len;
		ssize_t went = gateway_stream_give(s);

		if (went < 0) {
			s->write_broken = errno != EAGAIN && errno != EINTR;
			any = any || s->write_broken;
			break;
		}
		fifo_consume(&s->out, (size_t)went);
		any = true;
		if (!s->tls && (size_t)went < asked)
			break;
	}
	if (s->write_broken)
		fifo_release(&s->out); /* it can never be sent */
	if (s->shut_pending && s->out.len == 0 && s->handshake_done && !s->broken)
		shut_now(s);
	return any;
}

void gateway_stream_shut(struct gateway_stream *s)
{
	s->shut_pending = !s->shut;
}

void gateway_stream_arm(struct gateway_stream *s, bool want_in)
{
	uint32_t events = 0;

	if (s->fd < 0 || s->watch.fd < 0)
		return;
	if (s->broken) { /* epoll would report it in every turn */
		loop_remove(s->loop, &s->watch);
		return;
	}
	if (!s->handshake_done)
		events = tls_wants_write(s->tls) ? EPOLLOUT : EPOLLIN;
	else {
		if (want_in && !s->ended)
			events |= EPOLLIN;
		if (s->out.len > 0 || s->shut_pending || s->blocked)
			events |= EPOLLOUT;
	}
	loop_modify(s->loop, &s->watch, events);
}
