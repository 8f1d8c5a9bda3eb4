/* splice_relay.c - theory of operation
 *
 * A relay has two directions. A direction reads only when nothing of its own waits to be written:
 * this makes the back-pressure. It begins by copying through a small buffer. A read that fills the
 * buffer changes it to splice(2), and a small splice changes it back. So an interactive protocol
 * costs no pipe, and a download no copy. A pipe is borrowed from a small stock while there are
 * bytes in it, so only directions with a slow reader hold descriptors.
 *
 * A socket of which nothing is wanted is not registered with the loop: epoll would report a hang-up
 * in every turn, and there may be nothing to do about it before the other side reads.
 *
 * An unclean end is passed on as a reset, so that neither side takes a part of a stream for the
 * whole. */
#include "egress/flow/splice_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/clock.h"

#define COPY_MAX 16384
#define PIPE_SIZE (256 << 10)
#define SPLICE_WORTH 4096   /* bytes. For less, copying is as good */
#define TURN_MAX (1U << 20) /* bytes per call: then other connections are served */
#define STOCK_MAX 16

enum { CELL, SERVER, SIDES };

/* From the side of its index to the other. */
struct direction {
	uint8_t *rest; /* owned. Read and not yet written */
	size_t rest_at, rest_n;
	int pipe[2]; /* -1: none. Else `held` bytes are in it */
	size_t held;
	bool bulk, ended, shut;
	uint64_t moved; /* bytes, in this turn */
};

struct splice_relay {
	struct loop *loop;
	struct splice_relay_options o;
	struct direction directions[SIDES];
	int socks[SIDES];
	struct loop_fd on[SIDES];
	struct loop_timer idle;
	uint64_t moved_at_ns;
	const char *why;
};

/* ---- pipes */

/* Empty pipes. One thread, so no lock. */
static int stock[STOCK_MAX][2];
static size_t nstock;

static bool pipe_take(struct direction *h)
{
	if (nstock > 0) {
		nstock--;
		memcpy(h->pipe, stock[nstock], sizeof(h->pipe));
		return true;
	}
	if (pipe2(h->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		h->pipe[0] = h->pipe[1] = -1;
		return false;
	}
	(void)fcntl(h->pipe[1], F_SETPIPE_SZ, PIPE_SIZE); /* if it fails, the pipe is only slower */
	return true;
}

static void pipe_give(struct direction *h)
{
	if (h->pipe[0] < 0)
		return;
	if (h->held == 0 && nstock < STOCK_MAX) {
		memcpy(stock[nstock++], h->pipe, sizeof(h->pipe));
	} else {
		fd_close(h->pipe[0]);
		fd_close(h->pipe[1]);
	}
	h->pipe[0] = h->pipe[1] = -1;
	h->held = 0;
}

/* ---- one direction */

enum splice_relay_step { STEP_ON, STEP_WAIT, STEP_FAILED };

static enum splice_relay_step splice_relay_broke(struct splice_relay *p, int side)
{
	p->why = side == CELL ? "the connection of the program failed"
			      : "the connection to the server failed";
	return STEP_FAILED;
}

static bool is_waiting(const struct direction *h)
{
	return h->rest_n > 0 || h->held > 0;
}

static enum splice_relay_step splice_relay_keep(struct splice_relay *p, struct direction *h,
						const uint8_t *data, size_t n)
{
	h->rest = malloc(n);
	if (!h->rest) {
		p->why = "out of memory";
		return STEP_FAILED;
	}
	memcpy(h->rest, data, n);
	h->rest_at = 0;
	h->rest_n = n;
	return STEP_WAIT;
}

/* How many of n bytes may go this way. 0: *ret_why says why. */
static size_t splice_relay_allowed(struct splice_relay *p, int side, size_t n, const char **ret_why)
{
	uint64_t left = p->o.bytes_left(p->o.arg, side == CELL, ret_why);

	return left < n ? (size_t)left : n;
}

static enum splice_relay_step limit_reached(struct splice_relay *p, const char *why)
{
	p->why = why;
	return STEP_FAILED;
}

static void splice_relay_count(struct splice_relay *p, int side, size_t n)
{
	p->directions[side].moved += n;
	if (n > 0)
		p->o.on_moved(p->o.arg, side == CELL, n);
}

/* Return the bytes written, 0 if it must wait, -1 on failure. */
static ssize_t splice_relay_put(struct splice_relay *p, int side, const uint8_t *data, size_t n)
{
	ssize_t sent = send(p->socks[!side], data, n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (sent > 0)
		splice_relay_count(p, side, (size_t)sent);
	return sent;
}

static enum splice_relay_step write_rest(struct splice_relay *p, int side)
{
	struct direction *h = &p->directions[side];
	const char *why = NULL;
	size_t most = splice_relay_allowed(p, side, h->rest_n, &why);
	ssize_t n;

	if (most == 0)
		return limit_reached(p, why);
	n = splice_relay_put(p, side, h->rest + h->rest_at, most);
	if (n < 0)
		return splice_relay_broke(p, !side);
	h->rest_at += (size_t)n;
	h->rest_n -= (size_t)n;
	/* the next call finds out whether the socket is full or the limit reached */
	if (h->rest_n > 0)
		return (size_t)n == most ? STEP_ON : STEP_WAIT;
	free(h->rest);
	h->rest = NULL;
	return STEP_ON;
}

static enum splice_relay_step write_pipe(struct splice_relay *p, int side)
{
	struct direction *h = &p->directions[side];

	while (h->held > 0) {
		const char *why = NULL;
		size_t most = splice_relay_allowed(p, side, h->held, &why);
		ssize_t n;

		if (most == 0)
			return limit_reached(p, why);
		n = splice(h->pipe[0], NULL, p->socks[!side], NULL, most,
			   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return STEP_WAIT;
		if (n <= 0)
			return splice_relay_broke(p, !side);
		h->held -= (size_t)n;
		splice_relay_count(p, side, (size_t)n);
	}
	pipe_give(h);
	return STEP_ON;
}

static enum splice_relay_step end_direction(struct splice_relay *p, int side)
{
	struct direction *h = &p->directions[side];

	if (!h->shut && shutdown(p->socks[!side], SHUT_WR) < 0 && errno != ENOTCONN)
		return splice_relay_broke(p, !side);
	h->shut = true;
	return STEP_WAIT;
}

/* If no byte may go any more, one byte is read to see whether there is one, or the stream ends. */
static enum splice_relay_step splice_relay_copy(struct splice_relay *p, int side, size_t most,
						const char *why)
{
	struct direction *h = &p->directions[side];
	static uint8_t buf[COPY_MAX]; /* used by one call at a time */
	size_t want = most == 0 ? 1 : most < sizeof(buf) ? most : sizeof(buf);
	ssize_t n = recv(p->socks[side], buf, want, MSG_DONTWAIT), sent;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? STEP_WAIT : splice_relay_broke(p, side);
	if (n == 0) {
		h->ended = true;
		return STEP_ON;
	}
	if (most == 0)
		return limit_reached(p, why);
	h->bulk = n == sizeof(buf);
	sent = splice_relay_put(p, side, buf, (size_t)n);
	if (sent < 0)
		return splice_relay_broke(p, !side);
	if (sent < n)
		return splice_relay_keep(p, h, buf + sent, (size_t)(n - sent));
	/* after a short read there is most likely no more */
	return (size_t)n == want ? STEP_ON : STEP_WAIT;
}

static enum splice_relay_step splice_relay_move(struct splice_relay *p, int side)
{
	struct direction *h = &p->directions[side];
	const char *why = NULL;
	size_t most = splice_relay_allowed(p, side, PIPE_SIZE, &why);
	ssize_t n;

	if (!h->bulk || most < SPLICE_WORTH || !pipe_take(h))
		return splice_relay_copy(p, side, most, why);
	n = splice(p->socks[side], NULL, h->pipe[1], NULL, most, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (n <= 0) {
		int failure = errno;

		pipe_give(h);
		if (n == 0)
			h->ended = true;
		else if (failure == EAGAIN || failure == EINTR)
			return STEP_WAIT;
		return n == 0 ? STEP_ON : splice_relay_broke(p, side);
	}
	h->bulk = n >= SPLICE_WORTH;
	h->held = (size_t)n;
	return write_pipe(p, side);
}

static enum splice_relay_step splice_relay_advance(struct splice_relay *p, int side)
{
	struct direction *h = &p->directions[side];

	if (h->rest_n > 0)
		return write_rest(p, side);
	if (h->held > 0)
		return write_pipe(p, side);
	return h->ended ? end_direction(p, side) : splice_relay_move(p, side);
}

/* ---- both directions */

static void close_all(struct splice_relay *p, bool cut)
{
	const struct linger reset = { .l_onoff = 1 };

	loop_timer_cancel(p->loop, &p->idle);
	for (int side = 0; side < SIDES; side++) {
		struct direction *h = &p->directions[side];

		loop_remove(p->loop, &p->on[side]);
		if (cut && p->socks[side] >= 0)
			(void)setsockopt(p->socks[side], SOL_SOCKET, SO_LINGER, &reset,
					 sizeof(reset));
		if (p->socks[side] >= 0)
			fd_close(p->socks[side]);
		p->socks[side] = -1;
		free(h->rest);
		h->rest = NULL;
		h->rest_n = 0;
		pipe_give(h);
	}
}

/* May free p. */
static void splice_relay_finish(struct splice_relay *p, const char *why)
{
	close_all(p, why != NULL);
	p->o.on_end(p->o.arg, why);
}

/* Register the socket for exactly the awaited events. */
static int splice_relay_watch(struct splice_relay *p, int side, struct err *e)
{
	const struct direction *from = &p->directions[side], *to = &p->directions[!side];
	uint32_t events = (!is_waiting(from) && !from->ended ? (uint32_t)EPOLLIN : 0) |
			  (is_waiting(to) ? (uint32_t)EPOLLOUT : 0);
	struct loop_fd *on = &p->on[side];

	if (events == 0)
		loop_remove(p->loop, on);
	else if (on->fd < 0)
		return loop_add(p->loop, on, p->socks[side], events, e);
	else if (on->events != events)
		loop_modify(p->loop, on, events);
	return 0;
}

/* Move as many bytes as possible in one direction, within its turn: epoll reports the rest
 * again. */
static enum splice_relay_step move_all(struct splice_relay *p, int side)
{
	struct direction *h = &p->directions[side];
	enum splice_relay_step result = STEP_ON;

	h->moved = 0;
	while (result == STEP_ON && h->moved < TURN_MAX &&
	       (p->o.turn_left == NULL || p->o.turn_left(p->o.arg) > 0))
		result = splice_relay_advance(p, side);
	if (h->moved > 0)
		p->moved_at_ns = loop_now_ns(p->loop);
	return result;
}

static void on_ready(struct loop_fd *fd, uint32_t events)
{
	struct splice_relay *p = fd->arg;
	int at = fd == &p->on[SERVER] ? SERVER : CELL;
	uint32_t concerns[SIDES] = { EPOLLIN, EPOLLIN };
	enum splice_relay_step result = STEP_ON;
	struct err e;

	concerns[!at] = EPOLLOUT;
	for (int side = 0; side < SIDES && result != STEP_FAILED; side++) {
		if ((events & (concerns[side] | EPOLLERR | EPOLLHUP)) != 0)
			result = move_all(p, side);
	}
	if (result == STEP_FAILED)
		splice_relay_finish(p, p->why);
	else if (p->directions[CELL].shut && p->directions[SERVER].shut)
		splice_relay_finish(p, NULL);
	else if (splice_relay_watch(p, CELL, &e) < 0 || splice_relay_watch(p, SERVER, &e) < 0)
		splice_relay_finish(p, "cannot watch the socket");
}

static void on_idle(struct loop_timer *t)
{
	struct splice_relay *p = t->arg;
	uint64_t at = p->moved_at_ns + p->o.idle_ms * CLOCK_MS;

	if (at > loop_now_ns(p->loop))
		loop_timer_set(p->loop, t, at);
	else
		splice_relay_finish(p, "the connection was idle for too long");
}

struct splice_relay *splice_relay_new(struct loop *l, const struct splice_relay_options *o,
				      struct err *e)
{
	struct splice_relay *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)err_set(e, ERR_LIMIT, "out of memory for a connection");
		fd_close(o->cell);
		fd_close(o->server);
		return NULL;
	}
	p->loop = l;
	p->o = *o;
	p->socks[CELL] = o->cell;
	p->socks[SERVER] = o->server;
	p->moved_at_ns = loop_now_ns(l);
	for (int side = 0; side < SIDES; side++) {
		p->directions[side].pipe[0] = p->directions[side].pipe[1] = -1;
		p->on[side] = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = p };
	}
	p->idle = (struct loop_timer){ .on_expire = on_idle, .arg = p };
	if (o->first_n > 0 &&
	    splice_relay_keep(p, &p->directions[CELL], o->first, o->first_n) == STEP_FAILED) {
		(void)err_set(e, ERR_LIMIT, "out of memory for a connection");
		splice_relay_free(p);
		return NULL;
	}
	if (splice_relay_watch(p, CELL, e) < 0 || splice_relay_watch(p, SERVER, e) < 0) {
		splice_relay_free(p);
		return NULL;
	}
	loop_timer_set(l, &p->idle, p->moved_at_ns + o->idle_ms * CLOCK_MS);
	return p;
}

void splice_relay_free(struct splice_relay *p)
{
	if (!p)
		return;
	close_all(p, true);
	free(p);
}
