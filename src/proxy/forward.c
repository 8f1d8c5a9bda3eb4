/* forward.c - theory of operation
 *
 * The life of a forwarded exchange, its request, and its deadlines. Three things call in: the
 * exchange (a body that comes, room for the answer), the server's socket, and the timer. Each does
 * what it can and ends in await(), which sets what to wait for. None of them frees: the on_done of
 * the exchange does, which is never called from inside a call of this module.
 *
 * A server that stops reading the request may have answered already, so an error of sending is not
 * the end: the rest of the request is dropped, and what can be read decides. */
#include "forward_private.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "buf.h"
#include "clock.h"
#include "forward_headers.h"

/* bytes of a request's head; net bounds what a client may send */
#define HEAD_ROOM ((size_t)256 * 1024)
#define HALF_MS 60000 /* idle time of a tunnel that is closed on one side */
#define CHUNK_ROOM (CHUNK_HEAD_MAX + sizeof(CHUNK_TAIL) - 1)

/* ---- what to wait for */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

static bool is_half(const struct forward *f)
{
	return f->state == FORWARD_TUNNEL && (f->down_ended || f->up_ended || f->up_broken);
}

/* Is only the server's answer missing? Otherwise the client has not sent all of its request, and
 * body_ms of src/net bounds that. */
static bool is_servers_turn(const struct forward *f)
{
	return f->up.len > 0 || f->up_ended || f->up_broken;
}

/* The time of the next deadline; 0: none. */
static uint64_t deadline(const struct forward *f)
{
	const struct forward_options *o = &f->options;
	uint64_t at = o->idle_ms ? f->moved_ns + o->idle_ms * CLOCK_MS : 0;

	if (f->state == FORWARD_HEAD && o->answer_ms && is_servers_turn(f))
		return earlier(f->sent_ns + o->answer_ms * CLOCK_MS, at);
	if (is_half(f))
		return earlier(f->moved_ns + HALF_MS * CLOCK_MS, at);
	return at;
}

/* Both directions have ended, and all bytes were delivered. */
static bool is_tunneled(const struct forward *f)
{
	return f->state == FORWARD_TUNNEL && f->down_ended &&
	       (f->up_broken || (f->up_ended && f->up.len == 0));
}

static void await(struct forward *f)
{
	uint32_t events = 0;
	uint64_t at;

	if (is_tunneled(f)) {
		exchange_end(f->x);
		forward_stop(f);
	}
	if (f->state == FORWARD_OVER)
		return;
	if (forward_answer_wants_input(f))
		events |= EPOLLIN;
	if (f->up.len > 0)
		events |= EPOLLOUT;
	if (!f->server_closed)
		loop_modify(f->loop, &f->watch, events);
	at = deadline(f);
	/* If it is set too early it fires in vain, which is cheaper than setting it for each byte.
	 */
	if (at && (f->timer.place == 0 || f->timer.at_ns > at))
		loop_timer_set(f->loop, &f->timer, at);
}

static void on_timer(struct loop_timer *t)
{
	struct forward *f = t->arg;
	uint64_t at = deadline(f);

	if (f->state == FORWARD_OVER || !at)
		return;
	if (loop_now_ns(f->loop) < at) {
		loop_timer_set(f->loop, t, at);
		return;
	}
	if (f->state == FORWARD_HEAD) {
		forward_fail(f, 504, "the server did not answer in time");
		return;
	}
	exchange_abort(f->x);
	forward_stop(f);
}

/* ---- the request */

static void moved(struct forward *f)
{
	f->moved_ns = loop_now_ns(f->loop);
	f->sent_ns = f->moved_ns;
}

static void release_client(struct forward *f)
{
	if (!f->held || f->up.len > FORWARD_WAITING / 2)
		return;
	f->held = false;
	exchange_resume_body(f->x);
}

/* EPIPE: the server closed, which may be its way to end an answer. Any other error is reported once
 * only, here or by reading. */
static void break_up(struct forward *f, int why)
{
	f->up_broken = true;
	f->reset = f->reset || why != EPIPE;
	fifo_release(&f->up);
}

static void end_up(struct forward *f)
{
	if (f->state != FORWARD_TUNNEL || !f->up_ended || f->up_is_shut)
		return;
	f->up_is_shut = true;
	(void)shutdown(f->fd, SHUT_WR); /* fails only if the server is gone, which reading shows */
}

void forward_send(struct forward *f)
{
	while (f->up.len > 0) {
		ssize_t n = send(f->fd, fifo_bytes(&f->up), f->up.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			fifo_consume(&f->up, (size_t)n);
			moved(f);
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			break_up(f, errno);
		} else {
			return;
		}
	}
	fifo_release(&f->up);
	end_up(f);
}

/* False: out of memory, and a part of it may have been queued. */
static bool put_up(struct forward *f, const uint8_t *data, size_t len)
{
	char head[CHUNK_HEAD_MAX];

	if (f->chunked && fifo_add(&f->up, head, chunk_head(head, len)) < 0)
		return false;
	if (fifo_add(&f->up, data, len) < 0)
		return false;
	return !f->chunked || fifo_add(&f->up, CHUNK_TAIL, sizeof(CHUNK_TAIL) - 1) == 0;
}

/* Nothing may follow a part of a chunk. */
static void no_memory(struct forward *f)
{
	exchange_abort(f->x);
	forward_stop(f);
}

/* Asks the filter. False: it refused, and the request is answered. */
static bool may_pass(struct forward *f, const uint8_t *data, size_t n)
{
	const struct forward_options *o = &f->options;

	if (!o->filter || f->state == FORWARD_TUNNEL ||
	    o->filter->on_request(o->filter_arg, data, n))
		return true;
	forward_stop(f);
	if (!exchange_has_begun(f->x)) {
		o->filter->on_refused(o->filter_arg);
		return false;
	}
	o->filter->on_cut(o->filter_arg); /* the server has answered before it had all of it */
	exchange_abort(f->x);
	return false;
}

size_t forward_on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct forward *f = exchange_carrier(x);
	size_t taken = 0;

	if (f)
		moved(f);
	while (f && f->state != FORWARD_OVER && !f->up_broken && taken < len) {
		size_t used = f->up.len + CHUNK_ROOM;
		size_t n = used < FORWARD_WAITING ? FORWARD_WAITING - used : 0;

		if (n == 0) {
			f->held = true;
			await(f);
			return taken;
		}
		n = n < len - taken ? n : len - taken;
		if (!may_pass(f, data + taken, n))
			return len;
		if (!put_up(f, data + taken, n))
			no_memory(f);
		taken += n;
		forward_send(f);
	}
	if (f)
		await(f);
	return len;
}

void forward_on_end(struct exchange *x, bool ok)
{
	struct forward *f = exchange_carrier(x);

	if (!f || f->state == FORWARD_OVER)
		return;
	if (!ok) { /* the exchange is answered or dropped elsewhere, and the server gets no end */
		forward_stop(f);
		return;
	}
	if (f->chunked && !may_pass(f, NULL, 0))
		return;
	f->up_ended = true;
	if (f->chunked && !f->up_broken &&
	    fifo_add(&f->up, CHUNK_LAST, sizeof(CHUNK_LAST) - 1) < 0) {
		no_memory(f);
		return;
	}
	moved(f);
	forward_send(f);
	await(f);
}

/* ---- life */

void forward_stop(struct forward *f)
{
	f->state = FORWARD_OVER;
	loop_remove(f->loop, &f->watch);
	loop_timer_cancel(f->loop, &f->timer);
	fifo_release(&f->up);
	fifo_release(&f->down);
}

void forward_fail(struct forward *f, int status, const char *why)
{
	forward_stop(f);
	f->options.on_failure(f->x, status, why);
}

static void on_ready(struct loop_fd *w, uint32_t events)
{
	struct forward *f = w->arg;

	if (events & (EPOLLERR | EPOLLHUP)) {
		/* epoll would report it in every turn; what is left is read when there is room for
		 * it. */
		loop_remove(f->loop, &f->watch);
		f->server_closed = true;
	}
	if (f->up.len > 0) {
		forward_send(f);
		if (f->server_closed && f->up.len > 0)
			break_up(f, EPIPE); /* no event would report room for it */
		release_client(f);
	}
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		forward_answer_pump(f);
	await(f);
}

void forward_resume(struct forward *f)
{
	const struct forward_options *o = &f->options;

	if (f->state == FORWARD_OVER || (o->filter && !o->filter->flush(o->filter_arg)))
		return;
	f->full = false;
	forward_answer_pump(f);
	await(f);
}

static void on_writable(struct exchange *x)
{
	struct forward *f = exchange_carrier(x);

	if (f)
		forward_resume(f);
}

static int put_head(struct forward *f, struct err *e)
{
	const struct forward_options *o = &f->options;
	struct forward_headers_options p = { .host = o->host,
					     .target = o->target,
					     .scheme = o->scheme,
					     .peer = exchange_peer(f->x),
					     .drop = o->drop };
	struct buf head = BUF_INIT(HEAD_ROOM);
	int r = forward_headers_request(exchange_request(f->x), &p, &head, e);

	if (r == 0 && fifo_add(&f->up, head.data, head.len) < 0)
		r = err_set(e, ERR_LIMIT, "out of memory for a forwarded request");
	buf_release(&head);
	return r;
}

static void take_over(struct forward *f)
{
	const struct http1_request *r = exchange_request(f->x);

	exchange_set_carrier(f->x, f);
	exchange_on_writable(f->x, on_writable);
	if (r->framing == HTTP1_NO_BODY)
		f->up_ended = true;
	else
		exchange_read_body(f->x, UINT64_MAX, forward_on_data, forward_on_end);
	forward_send(f);
	await(f);
}

struct forward *forward_new(struct loop *l, struct exchange *x, int fd,
			    const struct forward_options *o, struct err *e)
{
	const struct http1_request *r = exchange_request(x);
	struct forward *f = calloc(1, sizeof(*f));

	if (!f) {
		(void)err_set(e, ERR_LIMIT, "out of memory for a forwarded request");
		return NULL;
	}
	f->loop = l;
	f->x = x;
	f->fd = fd;
	f->options = *o;
	f->chunked = r->framing == HTTP1_CHUNKED;
	f->wanted_up = forward_headers_wants_upgrade(r);
	f->watch = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = f };
	f->timer = (struct loop_timer){ .on_expire = on_timer, .arg = f };
	moved(f);
	if (put_head(f, e) < 0 || loop_add(l, &f->watch, fd, EPOLLIN, e) < 0) {
		fifo_release(&f->up);
		free(f);
		return NULL;
	}
	/* Texts were borrowed for the call. */
	f->options.host = f->options.target = f->options.scheme = NULL;
	f->options.drop = NULL;
	take_over(f);
	return f;
}

void forward_free(struct forward *f)
{
	if (!f)
		return;
	forward_stop(f);
	exchange_set_carrier(f->x, NULL);
	free(f);
}
