/* conn.c - theory of operation
 *
 * Every event of a connection (input, room for output, a timer, a handler that answered) ends in
 * advance(), which takes steps (conn_step.c) until there is nothing to do but wait, and then sets
 * what to wait for. Nothing else changes the state or frees. An answer that a handler gives inside
 * its callback is sent without another turn of the loop and without a call of epoll_ctl; one that
 * comes later wakes the connection by a task.
 *
 * Bounds: input is read only when it is wanted, at most IN_BODY bytes at a time; the output of a
 * stream waits in at most CONN_OUT_MAX bytes. Both buffers are freed when they are empty. Answers
 * in one piece may be much longer: conn_account.c bounds their sum. */
#include "conn.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "tls.h"
#include "untrusted_fd.h"

#define IN_HEAD ((size_t)8 * 1024)
#define IN_BODY ((size_t)64 * 1024)
#define STEPS 32    /* of one connection, before others are served */
#define TLS_READS 4 /* records of 16 KiB */
#define TLS_WRITES 16
#define LINGER_MS 2000		       /* without input */
#define LINGER_ALL_MS 10000	       /* however much comes */
#define PACE_BYTES ((size_t)64 * 1024) /* bytes a client must take per second at least */
#define FRESH_MS 500 /* while draining, for the first request of a new connection */

/* ---- output */

static ssize_t send_parts(struct conn *c, const struct iovec *parts, int n)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)n };

	if (!c->tls)
		return sendmsg(c->fd, &m, MSG_NOSIGNAL);
	return tls_write(c->tls, parts[0].iov_base, parts[0].iov_len);
}

/* Returns how many bytes of the parts were sent; 0 if none can be sent now. */
static size_t send_now(struct conn *c, const struct iovec *parts, int n)
{
	ssize_t done;

	/* TLS would make a record of each part: they are queued, and conn_flush() sends them as
	 * one. */
	if (c->out.len > 0 || c->tls)
		return 0;
	done = send_parts(c, parts, n);
	if (done < 0 && errno != EAGAIN && errno != EINTR)
		conn_drop_later(c);
	return done > 0 ? (size_t)done : 0;
}

void conn_put(struct conn *c, const struct iovec *parts, int n, bool now)
{
	size_t sent;

	if (c->drop_pending || c->state == CONN_DEAD)
		return;
	sent = now ? send_now(c, parts, n) : 0;
	for (int i = 0; i < n; i++) {
		size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;

		sent -= skip;
		if (skip < parts[i].iov_len)
			conn_put_bytes(c, (uint8_t *)parts[i].iov_base + skip,
				       parts[i].iov_len - skip);
	}
}

void conn_put_bytes(struct conn *c, const void *data, size_t len)
{
	if (c->drop_pending || c->state == CONN_DEAD)
		return;
	if (c->out.len == 0)
		c->write_ns = loop_now_ns(c->loop);
	if (fifo_add(&c->out, data, len) < 0) {
		conn_drop_later(c);
		return;
	}
	conn_wake(c);
	conn_account_answer_queued(c, len);
	conn_account_relieve(c);
}

/* Writes queued output once: the rest waits for EPOLLOUT. */
void conn_flush(struct conn *c)
{
	ssize_t n = 0;

	/* TLS takes one record at a time. */
	for (int i = 0; i < (c->tls ? TLS_WRITES : 1) && n >= 0 && c->out.len > 0; i++) {
		struct iovec part = { fifo_bytes(&c->out), c->out.len };

		n = send_parts(c, &part, 1);
		if (n > 0) {
			fifo_consume(&c->out, (size_t)n);
			conn_account_answer_sent(c, (size_t)n);
			c->write_ns = loop_now_ns(c->loop);
		}
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		conn_drop_later(c);
}

/* ---- input */

static ssize_t receive_once(struct conn *c, size_t room)
{
	uint8_t *to = fifo_reserve(&c->in, room);
	ssize_t n;

	if (!to) {
		errno = ENOMEM;
		return -1;
	}
	n = c->tls ? tls_read(c->tls, to, room) : untrusted_recv(c->fd, to, room);
	if (n > 0)
		fifo_commit(&c->in, (size_t)n);
	return n;
}

static bool wants_input(const struct conn *c)
{
	if (c->ended || c->drop_pending)
		return false;
	if (c->state != CONN_EXCHANGE)
		return true;
	if (c->x->tunnel)
		return tunnel_wants_input(c);
	return c->x->ws ? ws_conn_wants_input(c) : request_body_is_awaited(c);
}

static void receive(struct conn *c)
{
	size_t room = c->state == CONN_HEAD ? IN_HEAD : IN_BODY;
	bool first = c->in.len == 0;

	if (c->in.len >= IN_BODY + c->server->options.head_max)
		return;
	for (int i = 0; i < (c->tls ? TLS_READS : 1); i++) {
		ssize_t n = receive_once(c, room);

		if (n == 0)
			c->ended = true;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			c->drop_pending = true;
		if (n <= 0)
			return;
		/* The time of a head runs from its first byte, however slowly the others come. */
		if (c->state != CONN_HEAD || first)
			c->read_ns = loop_now_ns(c->loop);
		first = false;
	}
}

/* ---- waiting */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

/* When queued output must have been taken; 0: none is queued. In a stream, a client that takes a
 * byte now and then may go on for ever, but not after the answer is complete. */
static uint64_t out_deadline(const struct conn *c)
{
	const struct server_options *o = &c->server->options;
	uint64_t at = c->write_ns + o->write_ms * CLOCK_MS, whole;

	if (c->out.len == 0)
		return 0;
	if (c->state != CONN_EXCHANGE || c->x->answer != ANSWER_ENDED)
		return at;
	whole = o->answer_ms + c->x->owed / PACE_BYTES * 1000;
	return earlier(c->x->ended_ns + whole * CLOCK_MS, at);
}

/* When a head that has begun must be complete because the server drains; 0: it does not drain. */
static uint64_t head_at_end(const struct conn *c)
{
	uint64_t began = c->server->drain_ns > c->read_ns ? c->server->drain_ns : c->read_ns;

	return c->server->draining ? began + FRESH_MS * CLOCK_MS : 0;
}

/* The earliest deadline; 0: none. */
static uint64_t deadline(const struct conn *c)
{
	const struct server_options *o = &c->server->options;
	uint64_t at = out_deadline(c);

	switch (c->state) {
	case CONN_HEAD:
		if (c->in.len > 0 || (c->tls && !tls_is_established(c->tls)))
			return earlier(head_at_end(c), c->read_ns + o->head_ms * CLOCK_MS);
		if (c->server->draining && FRESH_MS < o->idle_ms)
			return c->read_ns + FRESH_MS * CLOCK_MS;
		return c->read_ns + o->idle_ms * CLOCK_MS;
	case CONN_EXCHANGE:
		if (c->x->ws)
			return earlier(ws_conn_deadline(c), at);
		if (request_body_is_awaited(c))
			return earlier(c->x->body_by_ns,
				       earlier(c->read_ns + o->body_ms * CLOCK_MS, at));
		return at;
	case CONN_DISCARD: /* however slowly the rest of the body arrives */
		return c->drop_ns + o->body_ms * CLOCK_MS;
	case CONN_LINGER:
		return earlier(c->drop_ns + LINGER_ALL_MS * CLOCK_MS,
			       c->read_ns + LINGER_MS * CLOCK_MS);
	case CONN_DEAD:
		break;
	}
	return 0;
}

static void timed_out(struct conn *c)
{
	bool stuck = c->out.len > 0 && loop_now_ns(c->loop) >= out_deadline(c);

	if (!stuck && c->state == CONN_HEAD && c->in.len > 0 && !c->server->draining)
		conn_step_refuse_head(c, 408, "the request did not arrive in time");
	else if (!stuck && c->state == CONN_EXCHANGE && c->x->ws)
		ws_conn_timeout(c);
	else if (!stuck && c->state == CONN_EXCHANGE)
		request_body_fault(c, 408, "the request's body did not arrive in time");
	else
		c->drop_pending = true;
}

static void await(struct conn *c)
{
	uint32_t events = c->hung_up ? 0 : EPOLLRDHUP;
	uint64_t at = deadline(c);

	if (wants_input(c)) {
		c->ignore_in = false;
		if (c->tls && tls_has_pending(c->tls))
			loop_defer(c->loop, &c->task);
	}
	/* Input that is not wanted is switched off only when it comes: usually it does not. */
	if (!c->ignore_in && !c->ended)
		events |= EPOLLIN;
	if (c->out.len > 0 || (c->tls && tls_wants_write(c->tls)))
		events |= EPOLLOUT;
	if (!c->unwatched)
		loop_modify(c->loop, &c->watch, events);
	else if (wants_input(c))
		loop_defer(c->loop, &c->task);
	if (at && (c->timer.place == 0 || c->timer.at_ns > at))
		loop_timer_set(c->loop, &c->timer, at);
	if (c->in.len == 0 && c->in.data)
		fifo_release(&c->in);
	if (c->out.len == 0 && c->out.data)
		fifo_release(&c->out);
}

static void advance(struct conn *c)
{
	int steps = STEPS;

	c->busy = true;
	while (!c->drop_pending && steps > 0 && conn_step_take(c))
		steps--;
	c->busy = false;
	if (c->drop_pending && c->cut && c->x && !c->ended) {
		conn_step_cut_exchange(c);
	} else if (c->drop_pending) {
		conn_drop(c);
		return;
	}
	if (steps == 0)
		loop_defer(c->loop, &c->task);
	await(c);
}

void conn_do(struct conn *c, void (*what)(struct conn *c))
{
	c->busy = true;
	what(c);
	c->busy = false;
	advance(c);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct conn *c = f->arg;

	if (events & (EPOLLERR | EPOLLHUP)) {
		if (events & EPOLLERR || !tunnel_has_tail(c)) {
			conn_drop(c);
			return;
		}
		/* Input is read when it is wanted; until then epoll would report it in every turn.
		 */
		loop_remove(c->loop, &c->watch);
		c->unwatched = true;
	}
	if (events & EPOLLRDHUP)
		c->hung_up = true;
	if (!wants_input(c))
		c->ignore_in = c->ignore_in || (events & EPOLLIN);
	else if (events & EPOLLIN || (c->tls && tls_wants_write(c->tls)))
		receive(c);
	advance(c);
}

static void on_wake(struct loop_task *t)
{
	struct conn *c = t->arg;

	/* A request that is here already is answered, also while draining. */
	if (wants_input(c) && ((c->tls && !c->drop_pending && tls_has_pending(c->tls)) ||
			       c->unwatched || (c->server->draining && c->state == CONN_HEAD)))
		receive(c);
	advance(c);
}

static void on_timer(struct loop_timer *t)
{
	struct conn *c = t->arg;
	uint64_t at = deadline(c);

	if (!at)
		return; /* nothing to wait for: await() sets it again */
	if (loop_now_ns(c->loop) < at) {
		loop_timer_set(c->loop, &c->timer, at);
		return;
	}
	conn_do(c, timed_out);
}

/* ---- life */

void conn_wake(struct conn *c)
{
	if (!c->busy && c->state != CONN_DEAD)
		loop_defer(c->loop, &c->task);
}

void conn_drop_later(struct conn *c)
{
	c->drop_pending = true;
	conn_wake(c);
}

static void link_conn(struct conn *c)
{
	struct server *s = c->server;

	c->next = s->first;
	if (c->next)
		c->next->prev = c;
	s->first = c;
	s->nconns++;
	conn_account_open(c);
}

void conn_open(struct server *s, int fd, struct peer *from, const char *peer)
{
	OWN_FD own = fd;
	struct conn *c = calloc(1, sizeof(*c));
	struct err e;

	if (!c) {
		peers_leave(&s->peers, from);
		return;
	}
	c->server = s;
	c->from = from;
	c->loop = s->loop;
	c->fd = fd;
	c->watch = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = c };
	c->timer = (struct loop_timer){ .on_expire = on_timer, .arg = c };
	c->task = (struct loop_task){ .on_run = on_wake, .arg = c };
	c->read_ns = loop_now_ns(s->loop);
	memcpy(c->peer, peer, strnlen(peer, sizeof(c->peer) - 1));
	if (s->options.tls)
		c->tls = tls_open(s->options.tls, fd, NULL, &e);
	if ((s->options.tls && !c->tls) ||
	    loop_add(s->loop, &c->watch, fd, EPOLLIN | EPOLLRDHUP, &e) < 0) {
		tls_close(c->tls);
		free(c);
		peers_leave(&s->peers, from);
		return;
	}
	(void)TAKE_FD(own);
	link_conn(c);
	await(c);
}

void conn_close_fd(int fd, bool local)
{
	if (local)
		untrusted_drain(fd);
	fd_close(fd);
}

void conn_drop(struct conn *c)
{
	c->drop_pending = true;
	c->state = CONN_DEAD;
	loop_remove(c->loop, &c->watch);
	loop_timer_cancel(c->loop, &c->timer);
	loop_task_cancel(c->loop, &c->task);
	tls_close(c->tls);
	conn_close_fd(c->fd, strcmp(c->peer, "unix") == 0);
	conn_step_drop_exchange(c);
	if (c->prev)
		c->prev->next = c->next;
	else
		c->server->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->server->nconns--;
	conn_account_close(c);
	fifo_release(&c->in);
	fifo_release(&c->out);
	free(c);
}
