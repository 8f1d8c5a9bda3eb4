/* conn.c - theory of operation
 *
 * Every event of a connection (input, room for output, a timer, a handler that answered) ends in
 * conn_advance(), which takes steps until there is nothing to do but wait, and then sets what to
 * wait for. Nothing else changes the state or frees. An answer that a handler gives
 * inside its callback is sent without another turn of the loop and without a call of epoll_ctl. One
 * that comes later wakes the connection by a task.
 *
 * Bounds: input is read only when it is wanted, at most IN_BODY bytes at a time. The output of a
 * stream waits in at most CONN_OUT_MAX bytes. Both buffers are freed when they are empty. Answers
 * in one piece may be much longer: conn_account.c bounds their sum. */
#include "lib/net/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/untrusted_fd.h"
#include "lib/net/tls.h"

/* ---- steps
 *
 * They lead from a head to an exchange, to its answer, to the next head, or to the end. Each step
 * does one thing and returns whether there may be another. conn_advance() takes them. After any
 * callback of a handler the step returns, since everything may have changed. */

static void conn_make_id(struct server *s, char ret[24])
{
	static const char digits[] = "0123456789abcdef";
	uint64_t id =
		s->ids++ * 0x9e3779b97f4a7c15ULL; /* an odd factor: an id comes again after 2^64 */

	memcpy(ret, "req_", 4);
	for (int i = 0; i < 16; i++)
		ret[4 + i] = digits[id >> (60 - 4 * i) & 15];
	ret[20] = '\0';
}

/* The exchange keeps a copy of the head: the buffer is used for the body. */
static struct exchange *conn_new_exchange(struct conn *c, size_t head_len)
{
	struct exchange *x = malloc(sizeof(*x) + head_len);

	if (!x)
		return NULL;
	memset(x, 0, sizeof(*x));
	memcpy(x->head, fifo_bytes(&c->in), head_len);
	x->conn = c;
	x->began_ns = loop_now_ns(c->loop);
	conn_make_id(c->server, x->id);
	return x;
}

static void conn_free_exchange(struct exchange *x)
{
	request_body_forget_turn(x);
	conn_account_end_exchange(x);
	fifo_release(&x->collected);
	fifo_release(&x->headers);
	ws_conn_free(x->ws);
	free(x);
}

/* head_len 0: there will be no complete head. Status and words say why. */
static void conn_begin_exchange(struct conn *c, size_t head_len, int status, const char *words)
{
	struct http1_fault fault = { status, words };
	struct exchange *x = conn_new_exchange(c, head_len);
	int n = -1;

	if (!x) {
		conn_drop_later(c);
		return;
	}
	c->x = x;
	c->state = CONN_EXCHANGE;
	c->scanned = 0;
	c->body = (struct request_body){ .done = true };
	if (head_len > 0)
		n = http1_request_read(x->head, head_len, &x->request, &fault);
	if (n <= 0) {
		memset(&x->request, 0, sizeof(x->request));
		response_refuse(x, n < 0 ? fault.status : 400, n < 0 ? fault.words : "bad head");
		return;
	}
	fifo_consume(&c->in, (size_t)n);
	x->bodiless = x->request.method == HTTP1_HEAD;
	x->close = !x->request.keep_alive || c->server->draining;
	request_body_start(c, &x->request);
	if (x->request.method == HTTP1_CONNECT)
		response_refuse(x, 501, "this server is not a proxy");
	else
		c->server->options.on_request(x, c->server->options.arg);
}

/* Answer a request whose head will never be complete. */
static void conn_step_refuse_head(struct conn *c, int status, const char *words)
{
	conn_begin_exchange(c, 0, status, words);
}

static bool conn_step_head(struct conn *c)
{
	size_t max = c->server->options.head_max;
	int n;

	if (c->server->draining && c->in.len == 0 && c->served) {
		c->drop_pending = true;
		return true;
	}
	n = c->in.len == 0 ? 0
			   : http1_head_end((const char *)fifo_bytes(&c->in),
					    c->in.len < max ? c->in.len : max, &c->scanned);
	if (n > 0)
		conn_begin_exchange(c, (size_t)n, 0, NULL);
	else if (n < 0)
		conn_begin_exchange(
			c, 0, 400,
			"the request's head contains control bytes, or a CR or LF alone");
	else if (c->in.len >= max)
		conn_begin_exchange(c, 0, 431, "the request's head is too long");
	else if (c->ended)
		c->drop_pending = true;
	else
		return false;
	return true;
}

static void conn_log_exchange(const struct exchange *x, int status)
{
	const struct server_options *o = &x->conn->server->options;

	if (o->on_answered)
		o->on_answered(x, status, x->bytes_out, clock_now_ns() - x->began_ns, o->arg);
}

/* Closing with unread input would send a reset, and the peer might lose its unread bytes. */
static void conn_linger(struct conn *c)
{
	tls_close(c->tls); /* sends close_notify. Further input need not be decrypted */
	c->tls = NULL;
	(void)shutdown(c->fd, SHUT_WR);
	c->state = CONN_LINGER;
	c->discarded = 0;
	c->read_ns = c->drop_ns = loop_now_ns(c->loop);
}

/* The answer was sent: ends the exchange. The connection is kept or closed. */
static void conn_finish_exchange(struct conn *c)
{
	struct exchange *x = c->x;
	bool close = x->close || c->server->draining;
	bool unread = x->truncated || !c->body.done || x->ws || x->tunnel;

	conn_log_exchange(x, x->status);
	if (x->on_done)
		x->on_done(x, !x->ws || !x->truncated);
	c->x = NULL;
	conn_free_exchange(x);
	c->discarded = 0;
	c->served = true;
	c->read_ns = c->drop_ns = loop_now_ns(c->loop);
	if (!close) {
		c->state = c->body.done ? CONN_HEAD : CONN_DISCARD;
	} else if (unread && !c->ended) {
		conn_linger(c);
	} else {
		c->drop_pending = true;
	}
}

/* End the exchange, if there is one, without an answer. */
static void conn_step_drop_exchange(struct conn *c)
{
	struct exchange *x = c->x;

	if (!x)
		return;
	if (x->on_end)
		x->on_end(x, false);
	x->on_end = NULL;
	conn_log_exchange(x, 0);
	if (x->on_done)
		x->on_done(x, false);
	c->x = NULL;
	conn_free_exchange(x);
}

/* End the exchange without an answer, and close the sending side: the connection lingers until
 * its peer has read that. */
static void conn_step_cut_exchange(struct conn *c)
{
	c->state = CONN_DEAD; /* callbacks cannot write any more */
	conn_account_answer_sent(c, c->out.len);
	fifo_release(&c->out);
	conn_step_drop_exchange(c);
	c->drop_pending = c->cut = false;
	conn_account_reset(c);
	conn_linger(c);
}

/* Is the peer gone before its exchange has ended? A body is still read to its end, since all of it
 * may be here already. */
static bool conn_client_gone(const struct conn *c)
{
	if (c->x->tunnel)
		return false; /* of a tunnel: its handler decides, as one direction may continue */
	if (request_body_waits_for_turn(c->x))
		return false; /* it gets an answer if the handler has one at once */
	if (c->ended)
		return c->in.len == 0 || c->x->ws || !c->x->on_data;
	return c->hung_up && (c->body.done || !c->x->on_data) && !c->x->ws;
}

static bool conn_step_input(struct conn *c)
{
	if (c->x->tunnel)
		return tunnel_step(c);
	return c->x->ws ? ws_conn_step(c) : request_body_deliver(c);
}

/* Revoked by exchange_revoke(): its key is gone, or the server ends. */
static void conn_end_revoked(struct conn *c)
{
	struct exchange *x = c->x;
	int status = x->revoked;

	x->revoked = 0;
	if (x->answer == ANSWER_ENDED)
		return;
	if (status == 503 && x->on_drain && x->answer == ANSWER_NONE)
		x->on_drain(x);
	else if (x->ws)
		ws_conn_revoke(c);
	else if (x->answer == ANSWER_NONE)
		request_body_fault(c, status, x->why_revoked);
	else
		exchange_abort(x);
}

static bool conn_step_exchange(struct conn *c)
{
	struct exchange *x = c->x;

	if (x->revoked) {
		conn_end_revoked(c);
		return true;
	}
	if (conn_step_input(c))
		return true;
	conn_flush(c);
	tunnel_shut(c);
	if (c->drop_pending)
		return true;
	if (x->answer == ANSWER_ENDED && c->out.len == 0) {
		conn_finish_exchange(c);
		return true;
	}
	if (x->starved && x->answer != ANSWER_ENDED && c->out.len <= CONN_OUT_MAX / 2) {
		x->starved = false;
		if (x->on_writable) {
			x->on_writable(x);
			return true;
		}
	}
	if (!conn_client_gone(c))
		return false;
	c->drop_pending = true;
	return true;
}

static bool conn_step_linger(struct conn *c)
{
	c->discarded += c->in.len;
	fifo_consume(&c->in, c->in.len);
	if (!c->ended && c->discarded <= CONN_DISCARD_MAX)
		return false;
	c->drop_pending = true;
	return true;
}

/* Take the next step. False: there is nothing to do but wait. */
static bool conn_step_take(struct conn *c)
{
	switch (c->state) {
	case CONN_HEAD:
		return conn_step_head(c);
	case CONN_EXCHANGE:
		return conn_step_exchange(c);
	case CONN_DISCARD:
		return request_body_discard(c);
	case CONN_LINGER:
		return conn_step_linger(c);
	case CONN_DEAD:
		break;
	}
	return false;
}

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

static ssize_t conn_send_parts(struct conn *c, const struct iovec *parts, int n)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)n };

	if (!c->tls)
		return sendmsg(c->fd, &m, MSG_NOSIGNAL);
	return tls_write(c->tls, parts[0].iov_base, parts[0].iov_len);
}

/* Return how many bytes of the parts were sent. 0 if none can be sent now. */
static size_t conn_send_now(struct conn *c, const struct iovec *parts, int n)
{
	ssize_t done;

	/* TLS would make a record of each part: they are queued, and conn_flush() sends them as
	 * one. */
	if (c->out.len > 0 || c->tls)
		return 0;
	done = conn_send_parts(c, parts, n);
	if (done < 0 && errno != EAGAIN && errno != EINTR)
		conn_drop_later(c);
	return done > 0 ? (size_t)done : 0;
}

void conn_put(struct conn *c, const struct iovec *parts, int n, bool now)
{
	size_t sent;

	if (c->drop_pending || c->state == CONN_DEAD)
		return;
	sent = now ? conn_send_now(c, parts, n) : 0;
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

/* Write queued output once: the rest waits for EPOLLOUT. */
void conn_flush(struct conn *c)
{
	ssize_t n = 0;

	/* TLS takes one record at a time. */
	for (int i = 0; i < (c->tls ? TLS_WRITES : 1) && n >= 0 && c->out.len > 0; i++) {
		struct iovec part = { fifo_bytes(&c->out), c->out.len };

		n = conn_send_parts(c, &part, 1);
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

static ssize_t conn_receive_once(struct conn *c, size_t room)
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

static bool conn_wants_input(const struct conn *c)
{
	if (c->ended || c->drop_pending)
		return false;
	if (c->state != CONN_EXCHANGE)
		return true;
	if (c->x->tunnel)
		return tunnel_wants_input(c);
	return c->x->ws ? ws_conn_wants_input(c) : request_body_is_awaited(c);
}

/* Does the client of a port with TLS speak plain HTTP? A method is upper case, and a record of TLS
 * begins with a small number. Only the first byte of a connection is looked at. */
static bool conn_is_plain(struct conn *c)
{
	uint8_t first;

	if (!c->tls || c->looked || recv(c->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
		return false;
	c->looked = true;
	return first >= 'A' && first <= 'Z';
}

/* Answer it in the protocol that it speaks: a reset would not name the mistake. */
static void conn_refuse_plain(struct conn *c)
{
	tls_close(c->tls);
	c->tls = NULL;
	conn_step_refuse_head(c, 400, "this port speaks TLS: use https:// in the URL");
}

static void conn_receive(struct conn *c)
{
	size_t room = c->state == CONN_HEAD ? IN_HEAD : IN_BODY;
	bool first = c->in.len == 0;

	if (conn_is_plain(c)) {
		conn_refuse_plain(c);
		return;
	}
	if (c->in.len >= IN_BODY + c->server->options.head_max)
		return;
	for (int i = 0; i < (c->tls ? TLS_READS : 1); i++) {
		ssize_t n = conn_receive_once(c, room);

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

static uint64_t conn_earlier(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

/* When queued output must have been taken. 0: none is queued. In a stream, a client that takes a
 * byte now and then may continue forever, but not after the answer is complete. */
static uint64_t conn_out_deadline(const struct conn *c)
{
	const struct server_options *o = &c->server->options;
	uint64_t at = c->write_ns + o->write_ms * CLOCK_MS, whole;

	if (c->out.len == 0)
		return 0;
	if (c->state != CONN_EXCHANGE || c->x->answer != ANSWER_ENDED)
		return at;
	whole = o->answer_ms + c->x->owed / PACE_BYTES * 1000;
	return conn_earlier(c->x->ended_ns + whole * CLOCK_MS, at);
}

/* When an incomplete head must be complete because the server drains. 0: it does not drain. */
static uint64_t conn_head_at_end(const struct conn *c)
{
	uint64_t began = c->server->drain_ns > c->read_ns ? c->server->drain_ns : c->read_ns;

	return c->server->draining ? began + FRESH_MS * CLOCK_MS : 0;
}

/* The earliest deadline. 0: none. */
static uint64_t conn_deadline(const struct conn *c)
{
	const struct server_options *o = &c->server->options;
	uint64_t at = conn_out_deadline(c);

	switch (c->state) {
	case CONN_HEAD:
		if (c->in.len > 0 || (c->tls && !tls_is_established(c->tls)))
			return conn_earlier(conn_head_at_end(c),
					    c->read_ns + o->head_ms * CLOCK_MS);
		if (c->server->draining && FRESH_MS < o->idle_ms)
			return c->read_ns + FRESH_MS * CLOCK_MS;
		return c->read_ns + o->idle_ms * CLOCK_MS;
	case CONN_EXCHANGE:
		if (c->x->ws)
			return conn_earlier(ws_conn_deadline(c), at);
		if (request_body_is_awaited(c))
			return conn_earlier(c->x->body_by_ns,
					    conn_earlier(c->read_ns + o->body_ms * CLOCK_MS, at));
		return at;
	case CONN_DISCARD: /* however slowly the rest of the body arrives */
		return c->drop_ns + o->body_ms * CLOCK_MS;
	case CONN_LINGER:
		return conn_earlier(c->drop_ns + LINGER_ALL_MS * CLOCK_MS,
				    c->read_ns + LINGER_MS * CLOCK_MS);
	case CONN_DEAD:
		break;
	}
	return 0;
}

static void conn_timed_out(struct conn *c)
{
	bool stuck = c->out.len > 0 && loop_now_ns(c->loop) >= conn_out_deadline(c);

	if (!stuck && c->state == CONN_HEAD && c->in.len > 0 && !c->server->draining)
		conn_step_refuse_head(c, 408, "the request did not arrive in time");
	else if (!stuck && c->state == CONN_EXCHANGE && c->x->ws)
		ws_conn_timeout(c);
	else if (!stuck && c->state == CONN_EXCHANGE)
		request_body_fault(c, 408, "the request's body did not arrive in time");
	else
		c->drop_pending = true;
}

static void conn_await(struct conn *c)
{
	uint32_t events = c->hung_up ? 0 : EPOLLRDHUP;
	uint64_t at = conn_deadline(c);

	if (conn_wants_input(c)) {
		c->ignore_in = false;
		if (c->tls && tls_has_pending(c->tls))
			loop_defer(c->loop, &c->task);
	}
	/* Unwanted input is switched off only when it comes: usually it does not. */
	if (!c->ignore_in && !c->ended)
		events |= EPOLLIN;
	if (c->out.len > 0 || (c->tls && tls_wants_write(c->tls)))
		events |= EPOLLOUT;
	if (!c->unwatched)
		loop_modify(c->loop, &c->watch, events);
	else if (conn_wants_input(c))
		loop_defer(c->loop, &c->task);
	if (at && (c->timer.place == 0 || c->timer.at_ns > at))
		loop_timer_set(c->loop, &c->timer, at);
	if (c->in.len == 0 && c->in.data)
		fifo_release(&c->in);
	if (c->out.len == 0 && c->out.data)
		fifo_release(&c->out);
}

static void conn_advance(struct conn *c)
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
	conn_await(c);
}

void conn_do(struct conn *c, void (*what)(struct conn *c))
{
	c->busy = true;
	what(c);
	c->busy = false;
	conn_advance(c);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct conn *c = f->arg;

	if (events & (EPOLLERR | EPOLLHUP)) {
		if (events & EPOLLERR || !tunnel_has_tail(c)) {
			conn_drop(c);
			return;
		}
		/* Input is read when it is wanted. Until then epoll would report it in every turn.
		 */
		loop_remove(c->loop, &c->watch);
		c->unwatched = true;
	}
	if (events & EPOLLRDHUP)
		c->hung_up = true;
	if (!conn_wants_input(c))
		c->ignore_in = c->ignore_in || (events & EPOLLIN);
	else if (events & EPOLLIN || (c->tls && tls_wants_write(c->tls)))
		conn_receive(c);
	conn_advance(c);
}

static void on_wake(struct loop_task *t)
{
	struct conn *c = t->arg;

	/* A request already here is answered, also while draining. */
	if (conn_wants_input(c) && ((c->tls && !c->drop_pending && tls_has_pending(c->tls)) ||
				    c->unwatched || (c->server->draining && c->state == CONN_HEAD)))
		conn_receive(c);
	conn_advance(c);
}

static void on_timer(struct loop_timer *t)
{
	struct conn *c = t->arg;
	uint64_t at = conn_deadline(c);

	if (!at)
		return; /* nothing to wait for: conn_await() sets it again */
	if (loop_now_ns(c->loop) < at) {
		loop_timer_set(c->loop, &c->timer, at);
		return;
	}
	conn_do(c, conn_timed_out);
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

static void conn_link_conn(struct conn *c)
{
	struct server *s = c->server;

	c->next = s->first;
	if (c->next)
		c->next->prev = c;
	s->first = c;
	s->nconns++;
	conn_account_open(c);
}

void conn_open(struct server *s, int fd, struct conn_peer *from, const char *peer)
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
	conn_link_conn(c);
	conn_await(c);
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
