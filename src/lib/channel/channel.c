/* channel.c - theory of operation
 *
 * Each connection has a number, epoch, which changes when the connection begins and when it ends.
 * Code returning from a callback compares it: the callback may have ended the connection, and may
 * have attached another one to the same descriptor. The bytes being read then belong to no program.
 *
 * Errors of sending are reported from the loop only. EPIPE and ECONNRESET are not reported there
 * either: the peer may have sent its last words. They are read first, and then comes the end.
 *
 * One timer watches the peer. With pings it is the clock of the pings, else it is set to the moment
 * at which the answer is late. */
#include "lib/channel/channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "lib/base/clock.h"
#include "lib/base/err_reason.h"
#include "lib/base/io.h"
#include "lib/base/untrusted_fd.h"

#define READ_AT_ONCE ((size_t)64 << 10)
#define IN_KEPT (2 * READ_AT_ONCE) /* a larger buffer is freed when it is empty */
#define TURN_MESSAGES 32
#define GATHER_MAX 64

struct channel_out {
	struct channel_out *next;
	int fds[CHANNEL_SEND_FDS_MAX]; /* owned until sent */
	size_t nfds, len, sent;
	uint8_t bytes[];
};

static void on_socket(struct loop_fd *f, uint32_t events);
static void on_flush(struct loop_task *t);
static void on_more(struct loop_task *t);
static void on_live(struct loop_timer *t);

void channel_init_from(struct channel *c, struct loop *l, const struct channel_rules *rules,
		       const char *file)
{
	assert(rules->framed || rules->in_max <= CHANNEL_PACKET_MAX);
	assert(rules->fds_max <= CHANNEL_FDS_MAX);
	*c = (struct channel){ .rules = *rules,
			       .sock = -1,
			       .loop = l,
			       .file = file,
			       .watch = { .fd = -1, .on_ready = on_socket, .arg = c },
			       .flush = { .on_run = on_flush, .arg = c },
			       .more = { .on_run = on_more, .arg = c },
			       .live = { .on_expire = on_live, .arg = c } };
	c->end = &c->first;
	if (c->rules.turn_messages == 0)
		c->rules.turn_messages = TURN_MESSAGES;
	if (c->rules.turn_bytes == 0)
		c->rules.turn_bytes = SIZE_MAX;
	buf_init(&c->in, rules->framed ? FRAME_HEAD + rules->in_max + READ_AT_ONCE : 0);
	c->in.secret = true;
}

/* ---- the end */

static void channel_close_fds(const struct channel *c, int *fds, size_t *n)
{
	if (c->rules.untrusted || c->rules.untrusted_fds)
		untrusted_close(fds, *n);
	else
		io_close_all(fds, *n);
	*n = 0;
}

static void channel_drop_first(struct channel *c)
{
	struct channel_out *o = c->first;

	c->first = o->next;
	if (c->first == NULL)
		c->end = &c->first;
	c->queued -= o->len;
	c->emptied += c->first == NULL;
	channel_close_fds(c, o->fds, &o->nfds);
	explicit_bzero(o->bytes, o->len);
	free(o);
}

static void channel_drop_queue(struct channel *c)
{
	while (c->first != NULL)
		channel_drop_first(c);
}

static void channel_close(struct channel *c)
{
	c->epoch++;
	loop_remove(c->loop, &c->watch);
	loop_task_cancel(c->loop, &c->flush);
	loop_task_cancel(c->loop, &c->more);
	loop_timer_cancel(c->loop, &c->live);
	if (c->sock >= 0)
		fd_close(c->sock);
	c->sock = -1;
	c->full = c->paused = false;
	if (!c->rules.keeps_queue)
		channel_drop_queue(c);
	else if (c->first != NULL)
		c->first->sent = 0;
	buf_release(&c->in);
	c->in.secret = true;
	channel_close_fds(c, c->fds, &c->nfds);
}

/* The last thing that a function does with the channel: on_end may free it. */
static void channel_finish(struct channel *c, enum channel_end how, const char *why)
{
	struct completions calls = { 0 };
	struct err e, gone;

	(void)err_set(&e, ERR_SYSTEM, "%s", why); /* why may belong to the caller's caller */
	(void)err_set_reason(&gone, REASON_PEER_DIED, "%s exited", c->rules.peer);
	if (how >= CHANNEL_BROKEN && c->on_hung != NULL)
		c->on_hung(c, e.msg);
	channel_close(c);
	completions_move(&c->calls, &calls);
	c->on_end(c, how, e.msg);
	completions_end_all(&calls, &gone);
}

void channel_give_up(struct channel *c, const char *why)
{
	if (c->sock >= 0)
		channel_finish(c, CHANNEL_BROKEN, why);
}

void channel_end(struct channel *c, const char *why)
{
	if (c->sock >= 0)
		channel_finish(c, CHANNEL_CLOSED, why);
}

void channel_release(struct channel *c)
{
	if (c->loop == NULL)
		return; /* never begun */
	while (c->calls.first != NULL)
		completion_cancel(c->calls.first);
	channel_close(c);
	channel_drop_queue(c);
}

/* ---- events that the loop watches */

static bool channel_reads(const struct channel *c)
{
	return !c->paused && !(c->rules.answers_first && c->first != NULL);
}

static void channel_arm(struct channel *c)
{
	uint32_t events = channel_reads(c) ? EPOLLIN : 0;

	if (c->full)
		events |= EPOLLOUT;
	loop_modify(c->loop, &c->watch, events);
}

void channel_pause(struct channel *c, bool pause)
{
	c->paused = pause;
	if (c->sock < 0)
		return;
	channel_arm(c);
	if (!pause && c->in.len > 0)
		loop_defer_from(c->loop, &c->more, c->file);
}

int channel_attach(struct channel *c, int sock, struct err *e)
{
	OWN_FD mine = sock;
	int flags = fcntl(mine, F_GETFL);

	if (flags < 0 || fcntl(mine, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(mine, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "channel to %s", c->rules.peer);
	if (c->sock >= 0)
		channel_finish(c, CHANNEL_REPLACED, "another channel replaces it");
	if (loop_add_from(c->loop, &c->watch, mine, EPOLLIN, c->file, e) < 0)
		return -1;
	c->sock = TAKE_FD(mine);
	c->epoch++;
	c->since_ns = c->heard_ns = clock_now_ns();
	c->pinged_ns = 0;
	if (c->rules.ping_ms != 0)
		loop_timer_set_from(c->loop, &c->live,
				    c->since_ns + c->rules.first_ping_ms * CLOCK_MS, c->file);
	if (c->first != NULL)
		loop_defer_from(c->loop, &c->flush, c->file);
	return 0;
}

/* ---- is the peer alive? */

void channel_expect(struct channel *c, uint64_t ms)
{
	assert(c->rules.ping_ms == 0);
	c->idle = ms == 0;
	if (ms == 0 || c->sock < 0)
		loop_timer_cancel(c->loop, &c->live);
	else
		loop_timer_set_from(c->loop, &c->live, clock_now_ns() + ms * CLOCK_MS, c->file);
}

static void channel_ping(struct channel *c, uint64_t now)
{
	c->pinged_ns = now;
	if (c->on_ping != NULL)
		c->on_ping(c);
}

static void on_live(struct loop_timer *t)
{
	struct channel *c = t->arg;
	bool owes = c->rules.ping_ms == 0 || c->heard_ns < c->pinged_ns;
	uint64_t now = clock_now_ns(), epoch = c->epoch;
	char why[128];

	if (owes && now - c->pinged_ns >= c->rules.patience_ms * CLOCK_MS) {
		(void)snprintf(why, sizeof(why), "%s does not answer", c->rules.peer);
		channel_finish(c, CHANNEL_SILENT, why);
		return;
	}
	if (!owes)
		channel_ping(c, now);
	if (c->epoch == epoch)
		loop_timer_set_from(c->loop, t, now + c->rules.ping_ms * CLOCK_MS, c->file);
}

/* ---- sending */

static bool channel_is_for_later(const struct err *e)
{
	return e->sys == EAGAIN || e->sys == EINTR || e->sys == EPIPE || e->sys == ECONNRESET;
}

/* Send the first frames without descriptors in one call. Return how many bytes were sent. -1:
 * *e. */
static ssize_t channel_gather(struct channel *c, struct err *e)
{
	struct iovec parts[GATHER_MAX];
	struct msghdr m = { .msg_iov = parts };
	ssize_t n;

	for (struct channel_out *o = c->first;
	     o != NULL && m.msg_iovlen < GATHER_MAX && (o->nfds == 0 || o->sent > 0); o = o->next)
		parts[m.msg_iovlen++] = (struct iovec){ .iov_base = o->bytes + o->sent,
							.iov_len = o->len - o->sent };
	n = sendmsg(c->sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? err_sys(e, "send") : n;
}

static void channel_sent(struct channel *c, size_t n)
{
	while (c->first != NULL && n >= c->first->len - c->first->sent) {
		n -= c->first->len - c->first->sent;
		channel_drop_first(c);
	}
	if (n > 0)
		c->first->sent += n;
}

/* Send a part of what waits. -1: *e. */
static int channel_send_some(struct channel *c, struct err *e)
{
	struct channel_out *o = c->first;
	/* One byte with the descriptors of a frame: all of them are sent, or none, and the peer
	 * knows to which frame they belong. */
	bool alone = !c->rules.framed || (o->nfds > 0 && o->sent == 0);
	size_t len = c->rules.framed ? 1 : o->len;
	ssize_t n;

	if (alone && io_send(c->sock, o->bytes, len, o->fds, o->nfds, e) < 0)
		return -1;
	n = alone ? (ssize_t)len : channel_gather(c, e);
	if (alone)
		channel_close_fds(c, o->fds, &o->nfds);
	if (n > 0)
		channel_sent(c, (size_t)n);
	return n < 0 ? -1 : 0;
}

/* -1: the socket failed. */
static int channel_flush(struct channel *c, struct err *e)
{
	int sent = 0;

	while (c->first != NULL && sent == 0)
		sent = channel_send_some(c, e);
	c->full = sent < 0;
	channel_arm(c);
	return sent < 0 && !channel_is_for_later(e) ? -1 : 0;
}

static void on_flush(struct loop_task *t)
{
	struct channel *c = t->arg;
	struct err e = { 0 };

	if (c->full)
		return;
	if (channel_flush(c, &e) < 0)
		channel_finish(c, CHANNEL_LOST, e.msg);
	else if (!c->full && c->on_room != NULL)
		c->on_room(c);
}

int channel_send(struct channel *c, const struct channel_msg *m, struct err *e)
{
	size_t len = m->len + m->more_len;
	struct channel_out *o = NULL;

	assert(m->nfds <= CHANNEL_SEND_FDS_MAX && len > 0);
	if (c->sock < 0 && !c->rules.keeps_queue)
		(void)err_set_reason(e, REASON_UNAVAILABLE, "%s is not running", c->rules.peer);
	else if (c->rules.out_max != 0 && len > c->rules.out_max - c->queued)
		(void)err_set(e, ERR_LIMIT, "%s does not read", c->rules.peer);
	else if ((o = malloc(sizeof(*o) + len)) == NULL)
		(void)err_set(e, ERR_SYSTEM, "out of memory");
	if (o == NULL) {
		io_close_all(m->fds, m->nfds);
		return -1;
	}
	*o = (struct channel_out){ .len = len };
	memcpy(o->bytes, m->bytes, m->len);
	if (m->more_len > 0)
		memcpy(o->bytes + m->len, m->more, m->more_len);
	for (; o->nfds < m->nfds; o->nfds++)
		o->fds[o->nfds] = TAKE_FD(m->fds[o->nfds]);
	*c->end = o;
	c->end = &o->next;
	c->queued += len;
	if (c->sock >= 0)
		loop_defer_from(c->loop, &c->flush, c->file);
	return 0;
}

void channel_send_now(struct channel *c)
{
	struct err e;

	if (c->sock >= 0 && !c->full)
		IGNORED(channel_flush(c, &e), "it is tried again from the loop");
}

int channel_offer(struct channel *c, const struct channel_msg *m)
{
	struct err e;

	assert(!c->rules.framed && m->more_len == 0 && c->first == NULL);
	if (c->sock < 0 || c->full)
		return 0;
	if (io_send(c->sock, m->bytes, m->len, m->fds, m->nfds, &e) == 0) {
		io_close_all(m->fds, m->nfds);
		return 1;
	}
	if (e.sys == EAGAIN) {
		c->full = true;
		channel_arm(c);
		return 0;
	}
	if (e.sys == EPIPE)
		(void)snprintf(e.msg, sizeof(e.msg), "%s exited", c->rules.peer);
	channel_finish(c, e.sys == EPIPE ? CHANNEL_CLOSED : CHANNEL_BROKEN, e.msg);
	return -1;
}

bool channel_is_full(const struct channel *c)
{
	return c->full;
}

/* ---- receiving */

int channel_take_fd(struct channel *c)
{
	int fd;

	if (c->nfds == 0)
		return -1;
	fd = c->fds[0];
	c->nfds--;
	memmove(c->fds, c->fds + 1, c->nfds * sizeof(c->fds[0]));
	return fd;
}

size_t channel_fds(const struct channel *c)
{
	return c->nfds;
}

/* As io_recv_lossy(). The descriptors are added to those that wait. */
static ssize_t channel_receive(struct channel *c, uint8_t *to, size_t cap, bool *ret_lost,
			       struct err *e)
{
	size_t room = c->rules.fds_max - c->nfds, nfds = 0;
	int *fds = c->fds + c->nfds;
	ssize_t n;

	if (c->rules.reserve != NULL)
		fd_reserve_lend(c->rules.reserve, c->rules.lend);
	if (c->rules.untrusted)
		n = untrusted_recv_fds(c->sock, to, cap, fds, room, &nfds, e);
	else
		n = io_recv_lossy(c->sock, to, cap, fds, room, &nfds, ret_lost, e);
	if (c->rules.reserve != NULL)
		fd_reserve_fill(c->rules.reserve);
	if (n > 0)
		c->heard_ns = clock_now_ns();
	c->nfds += n > 0 ? nfds : 0;
	return n;
}

/* Judge a receive that brought nothing: true if the connection has ended by it. */
static bool channel_is_over(const struct channel *c, ssize_t n, enum channel_end *ret_how,
			    struct err *e)
{
	if (n < 0 && (e->sys == EAGAIN || e->sys == EINTR))
		return false;
	*ret_how = n == 0 || e->sys == ECONNRESET ? CHANNEL_CLOSED
		   : e->sys != 0		  ? CHANNEL_LOST
						  : CHANNEL_BROKEN;
	if (*ret_how == CHANNEL_CLOSED)
		(void)err_set(e, ERR_SYSTEM, "%s exited", c->rules.peer);
	return true;
}

/* Receive one packet and has it handled. 1: there may be more. 0: there is none. -1: the
 * connection is to end. */
static int channel_packet(struct channel *c, enum channel_end *ret_how, struct err *e)
{
	static _Alignas(max_align_t) uint8_t packet[CHANNEL_PACKET_MAX + 1];
	uint64_t epoch = c->epoch;
	struct channel_got m = { .bytes = packet };
	ssize_t n = channel_receive(c, packet, c->rules.in_max + 1, &m.fds_lost, e);
	int taken;

	if (n < 0 && c->rules.untrusted && e->code == ERR_LIMIT) {
		m.fds_lost = true;
		n = 0;
	} else if (n <= 0) {
		return channel_is_over(c, n, ret_how, e) ? -1 : 0;
	}
	m.len = (size_t)n;
	taken = m.len > c->rules.in_max
			? err_set(e, ERR_INVALID, "packet of more than %zu bytes", c->rules.in_max)
			: c->on_message(c, &m, e);
	if (c->epoch != epoch)
		return 0;
	channel_close_fds(c, c->fds, &c->nfds);
	*ret_how = CHANNEL_BROKEN;
	if (taken == 0 && c->rules.answers_first && c->first != NULL && channel_flush(c, e) < 0) {
		*ret_how = CHANNEL_LOST;
		taken = -1;
	}
	return taken < 0 ? -1 : 1;
}

static int channel_packets(struct channel *c, enum channel_end *ret_how, struct err *e)
{
	uint64_t epoch = c->epoch;
	int got = 1;

	c->idle = false;
	for (unsigned i = 0; i < c->rules.turn_messages && got > 0 && !c->idle &&
			     c->epoch == epoch && channel_reads(c);
	     i++)
		got = channel_packet(c, ret_how, e);
	return got < 0 ? -1 : 0;
}

/* Keep the unhandled frames, and wipe the others: they may have secrets. */
static void channel_keep_rest(struct channel *c, struct buf *in, size_t handled)
{
	buf_consume(in, handled);
	if (handled > 0)
		explicit_bzero(in->data + in->len, handled);
	if (in->len == 0 && in->size > IN_KEPT)
		buf_release(in);
	c->in = *in;
	c->in.secret = true;
}

/* Handle the whole frames. The buffer is no part of the channel during that: a callback may end the
 * connection and still read its message. */
static int channel_frames(struct channel *c, struct err *e)
{
	struct buf in = c->in;
	uint64_t epoch = c->epoch;
	size_t at = 0;
	int n = 0;

	buf_init(&c->in, in.cap);
	for (unsigned i = 0; c->epoch == epoch && !c->paused; i++) {
		struct channel_got m = { 0 };

		n = frame_read(in.data + at, in.len - at, c->rules.in_max, &m.frame, e);
		if (n > 0 && (i == c->rules.turn_messages || at >= c->rules.turn_bytes))
			loop_defer_from(c->loop, &c->more, c->file);
		if (n <= 0 || c->more.queued)
			break;
		m.bytes = in.data + at;
		m.len = (size_t)n;
		at += (size_t)n;
		if (c->on_message(c, &m, e) < 0) {
			n = -1;
			break;
		}
	}
	if (c->epoch == epoch)
		channel_keep_rest(c, &in, at);
	else
		buf_release(&in);
	return n < 0 ? -1 : 0;
}

/* The kernel ends a read behind a byte with descriptors. So lost ones belong to the frame that
 * begins with the last byte read. */
static int channel_bytes(struct channel *c, enum channel_end *ret_how, struct err *e)
{
	uint8_t *to = buf_reserve(&c->in, READ_AT_ONCE, e);
	bool lost = false;
	ssize_t n;

	if (to == NULL) {
		*ret_how = CHANNEL_LOST;
		return -1;
	}
	n = channel_receive(c, to, READ_AT_ONCE, &lost, e);
	if (n <= 0)
		return channel_is_over(c, n, ret_how, e) ? -1 : 0;
	if (lost && c->nfds == c->rules.fds_max)
		return err_set(e, ERR_INVALID, "more descriptors than frames");
	if (lost)
		c->fds[c->nfds++] = -1;
	buf_commit(&c->in, (size_t)n);
	return channel_frames(c, e);
}

static void channel_after_turn(struct channel *c, uint64_t epoch, int read, enum channel_end how,
			       const char *why)
{
	if (c->on_turn != NULL)
		c->on_turn(c);
	if (read < 0 && c->epoch == epoch)
		channel_finish(c, how, why);
}

static void channel_read(struct channel *c)
{
	enum channel_end how = CHANNEL_BROKEN;
	uint64_t epoch = c->epoch;
	struct err e = { 0 };
	int read = c->rules.framed ? channel_bytes(c, &how, &e) : channel_packets(c, &how, &e);

	channel_after_turn(c, epoch, read, how, e.msg);
}

static void on_more(struct loop_task *t)
{
	struct channel *c = t->arg;
	uint64_t epoch = c->epoch;
	struct err e = { 0 };
	int read = channel_frames(c, &e);

	channel_after_turn(c, epoch, read, CHANNEL_BROKEN, e.msg);
}

static void on_socket(struct loop_fd *f, uint32_t events)
{
	struct channel *c = f->arg;
	uint64_t epoch = c->epoch;
	struct err e = { 0 };

	if ((events & EPOLLOUT) != 0 && channel_flush(c, &e) < 0) {
		channel_finish(c, CHANNEL_LOST, e.msg);
		return;
	}
	if ((events & EPOLLOUT) != 0 && !c->full && c->on_room != NULL)
		c->on_room(c);
	if (c->epoch != epoch || (events & ~(uint32_t)EPOLLOUT) == 0 || c->more.queued)
		return;
	if (channel_reads(c))
		channel_read(c);
	else if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		channel_finish(c, CHANNEL_CLOSED, "closed, and its answers are not read");
}

/* ---- calls */

uint32_t channel_next_id(struct channel *c)
{
	do
		c->last_id++;
	while (c->last_id == 0 || channel_call_find(c, c->last_id) != NULL);
	return c->last_id;
}

void channel_call_begin(struct channel *c, struct channel_call *call, uint32_t id,
			uint64_t deadline_ms)
{
	call->id = id;
	completion_begin(&call->done, c->loop, &c->calls);
	completion_set_deadline(&call->done, deadline_ms, c->rules.peer);
}

struct channel_call *channel_call_find(const struct channel *c, uint32_t id)
{
	for (struct completion *d = c->calls.first; d != NULL; d = d->next) {
		struct channel_call *call =
			(struct channel_call *)((char *)d - offsetof(struct channel_call, done));

		if (call->id == id)
			return call;
	}
	return NULL;
}
