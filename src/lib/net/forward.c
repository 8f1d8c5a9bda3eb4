/* forward.c - theory of operation
 *
 * Three things call in: the
 * exchange (a body that comes, room for the answer), the server's socket, and the timer. Each does
 * its possible part and ends in forward_await(), which sets the next event to wait for. None of
 * them frees: the on_done of the exchange does, never called from inside a call of this module.
 *
 * A server that stops reading the request may have answered already, so an error of sending is not
 * the end: the rest of the request is dropped, and the readable bytes decide. */
#include "lib/net/forward.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/http/chunk.h"
#include "lib/net/fifo.h"
#include "lib/net/forward_headers.h"

enum forward_state {
	FORWARD_HEAD, /* no answer yet */
	FORWARD_BODY,
	FORWARD_ENDING, /* all of it is read, and the filter has more to write */
	FORWARD_TUNNEL,
	FORWARD_OVER /* nothing more is read or written here. The exchange may continue by itself */
};

struct forward {
	struct loop *loop;
	struct exchange *x;
	struct forward_options options;
	int fd;
	struct loop_fd watch; /* removed once `server_closed` */
	struct loop_timer timer;
	enum forward_state state;
	uint64_t moved_ns; /* when the last byte went either way */
	uint64_t sent_ns;  /* when the last byte of the request was sent */

	/* The request. */
	struct fifo up;
	bool chunked;	 /* its body is sent in chunks */
	bool wanted_up;	 /* it asks for an upgrade */
	bool held;	 /* the client is held back: `up` is full */
	bool up_ended;	 /* all of it was put into `up` */
	bool up_broken;	 /* the server takes no more. Its answer may still come */
	bool up_is_shut; /* tunnels: the sending side is closed */
	bool reset;	 /* by an error that reading will not report again */

	/* The answer. */
	struct fifo down;
	size_t scanned;	   /* bytes of its head searched */
	unsigned interims; /* interim answers so far */
	enum http1_framing framing;
	uint64_t left;
	struct chunk chunk;
	bool full;	    /* the client takes no more now: on_writable follows */
	bool server_closed; /* the server closed both sides: no more bytes will come */
	bool down_ended;    /* and all were read */
};

/* bytes of a request's head. Net bounds a client's head */
#define HEAD_ROOM ((size_t)256 * 1024)
#define HALF_MS 60000 /* idle time of a tunnel closed on one side */
#define CHUNK_ROOM (CHUNK_HEAD_MAX + sizeof(CHUNK_TAIL) - 1)

/* ---- what to wait for */

static void forward_stop(struct forward *f)
{
	f->state = FORWARD_OVER;
	loop_remove(f->loop, &f->watch);
	loop_timer_cancel(f->loop, &f->timer);
	fifo_release(&f->up);
	fifo_release(&f->down);
}

/* Before the answer has begun: calls options.on_failure(). */
static void forward_fail(struct forward *f, int status, const char *why)
{
	forward_stop(f);
	f->options.on_failure(f->x, status, why);
}

static uint64_t forward_earlier(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

static bool forward_is_half(const struct forward *f)
{
	return f->state == FORWARD_TUNNEL && (f->down_ended || f->up_ended || f->up_broken);
}

/* Is only the server's answer missing? Otherwise the client has not sent all of its request, and
 * body_ms of src/lib/net bounds that. */
static bool forward_is_servers_turn(const struct forward *f)
{
	return f->up.len > 0 || f->up_ended || f->up_broken;
}

/* The time of the next deadline. 0: none. */
static uint64_t forward_deadline(const struct forward *f)
{
	const struct forward_options *o = &f->options;
	uint64_t at = o->idle_ms ? f->moved_ns + o->idle_ms * CLOCK_MS : 0;

	if (f->state == FORWARD_HEAD && o->answer_ms && forward_is_servers_turn(f))
		return forward_earlier(f->sent_ns + o->answer_ms * CLOCK_MS, at);
	if (forward_is_half(f))
		return forward_earlier(f->moved_ns + HALF_MS * CLOCK_MS, at);
	return at;
}

/* Both directions have ended, and all bytes were delivered. */
static bool forward_is_tunneled(const struct forward *f)
{
	return f->state == FORWARD_TUNNEL && f->down_ended &&
	       (f->up_broken || (f->up_ended && f->up.len == 0));
}

/* Does it want to read more from the server? */
static bool forward_answer_wants_input(const struct forward *f)
{
	return f->state != FORWARD_OVER && !f->full && !f->down_ended;
}

static void forward_await(struct forward *f)
{
	uint32_t events = 0;
	uint64_t at;

	if (forward_is_tunneled(f)) {
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
	at = forward_deadline(f);
	/* If it is set too early it fires in vain: cheaper than setting it for each byte. */
	if (at && (f->timer.place == 0 || f->timer.at_ns > at))
		loop_timer_set(f->loop, &f->timer, at);
}

static void on_timer(struct loop_timer *t)
{
	struct forward *f = t->arg;
	uint64_t at = forward_deadline(f);

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

static void forward_moved(struct forward *f)
{
	f->moved_ns = loop_now_ns(f->loop);
	f->sent_ns = f->moved_ns;
}

static void forward_release_client(struct forward *f)
{
	if (!f->held || f->up.len > FORWARD_WAITING / 2)
		return;
	f->held = false;
	exchange_resume_body(f->x);
}

/* EPIPE: the server closed, which may be its way to end an answer. Any other error is reported once
 * only, here or by reading. */
static void forward_break_up(struct forward *f, int why)
{
	f->up_broken = true;
	f->reset = f->reset || why != EPIPE;
	fifo_release(&f->up);
}

static void forward_end_up(struct forward *f)
{
	if (f->state != FORWARD_TUNNEL || !f->up_ended || f->up_is_shut)
		return;
	f->up_is_shut = true;
	(void)shutdown(f->fd, SHUT_WR); /* fails only if the server is gone, which reading shows */
}

/* Send the bytes queued for the server. */
static void forward_send(struct forward *f)
{
	while (f->up.len > 0) {
		ssize_t n = send(f->fd, fifo_bytes(&f->up), f->up.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			fifo_consume(&f->up, (size_t)n);
			forward_moved(f);
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			forward_break_up(f, errno);
		} else {
			return;
		}
	}
	fifo_release(&f->up);
	forward_end_up(f);
}

/* False: out of memory, and a part of it may have been queued. */
static bool forward_put_up(struct forward *f, const uint8_t *data, size_t len)
{
	char head[CHUNK_HEAD_MAX];

	if (f->chunked && fifo_add(&f->up, head, chunk_head(head, len)) < 0)
		return false;
	if (fifo_add(&f->up, data, len) < 0)
		return false;
	return !f->chunked || fifo_add(&f->up, CHUNK_TAIL, sizeof(CHUNK_TAIL) - 1) == 0;
}

/* Nothing may follow a part of a chunk. */
static void forward_no_memory(struct forward *f)
{
	exchange_abort(f->x);
	forward_stop(f);
}

/* Ask the filter. False: it refused, and the request is answered. */
static bool forward_may_pass(struct forward *f, const uint8_t *data, size_t n)
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

/* on_data of the exchange: the body of the request, or the input of a tunnel. */
static size_t forward_on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct forward *f = exchange_carrier(x);
	size_t taken = 0;

	if (f)
		forward_moved(f);
	while (f && f->state != FORWARD_OVER && !f->up_broken && taken < len) {
		size_t used = f->up.len + CHUNK_ROOM;
		size_t n = used < FORWARD_WAITING ? FORWARD_WAITING - used : 0;

		if (n == 0) {
			f->held = true;
			forward_await(f);
			return taken;
		}
		n = n < len - taken ? n : len - taken;
		if (!forward_may_pass(f, data + taken, n))
			return len;
		if (!forward_put_up(f, data + taken, n))
			forward_no_memory(f);
		taken += n;
		forward_send(f);
	}
	if (f)
		forward_await(f);
	return len;
}

static void forward_on_end(struct exchange *x, bool ok)
{
	struct forward *f = exchange_carrier(x);

	if (!f || f->state == FORWARD_OVER)
		return;
	if (!ok) { /* the exchange is answered or dropped elsewhere, and the server gets no end */
		forward_stop(f);
		return;
	}
	if (f->chunked && !forward_may_pass(f, NULL, 0))
		return;
	f->up_ended = true;
	if (f->chunked && !f->up_broken &&
	    fifo_add(&f->up, CHUNK_LAST, sizeof(CHUNK_LAST) - 1) < 0) {
		forward_no_memory(f);
		return;
	}
	forward_moved(f);
	forward_send(f);
	forward_await(f);
}

/* ---- the answer of the server: its head, its body, or the output of a tunnel
 *
 * Bytes are received into `down`, at
 * most FORWARD_WAITING at a time, and only when the earlier bytes have been taken: a slow client
 * holds the server back. Every piece is given to the exchange as it came, since the client may wait
 * for just these bytes.
 *
 * The answer ends where its framing says. Later bytes of a server are never read. If it ends
 * before, the exchange is aborted. */

#define INTERIMS_MAX 64
#define TYPE_MAX 256

enum forward_next {
	NEXT_INPUT, /* more is needed from the server */
	NEXT_AGAIN, /* something was done */
	NEXT_WAIT   /* for the client, or it has ended */
};

static void forward_answer_finish(struct forward *f)
{
	const struct forward_options *o = &f->options;

	if (o->filter && !o->filter->end(o->filter_arg)) {
		f->state = FORWARD_ENDING;
		f->full = true;
		return;
	}
	exchange_end(f->x);
	forward_stop(f);
}

static void forward_answer_cut(struct forward *f)
{
	if (f->options.filter)
		f->options.filter->on_cut(f->options.filter_arg);
	exchange_abort(f->x);
	forward_stop(f);
}

/* ---- the head */

/* The Content-Type, so that the exchange recognizes event streams. "" if it must be sent as any
 * other header. */
static void forward_answer_find_type(const struct http1_response *r, char ret[TYPE_MAX])
{
	struct http1_span type;

	ret[0] = '\0';
	if (http1_find(r->headers, r->headers_n, "content-type", &type) != 1 || type.n >= TYPE_MAX)
		return;
	memcpy(ret, type.p, type.n);
	ret[type.n] = '\0';
}

static bool forward_answer_is_refused(const struct forward *f, const struct http1_header *h)
{
	const struct forward_options *o = &f->options;

	return o->filter && (!o->filter->may_pass(o->filter_arg, h->name) ||
			     !o->filter->may_pass(o->filter_arg, h->value));
}

static bool forward_answer_pass_headers(struct forward *f, const struct http1_response *r,
					bool typed)
{
	for (size_t i = 0; i < r->headers_n; i++) {
		const struct http1_header *h = &r->headers[i];

		if (!forward_headers_in_answer(r, h) || forward_answer_is_refused(f, h) ||
		    (typed && http1_span_is_nocase(h->name, "content-type")))
			continue;
		if (exchange_pass_header(f->x, h->name, h->value) < 0)
			return false;
	}
	return true;
}

static uint64_t forward_answer_length_of(const struct forward *f, const struct http1_response *r)
{
	if (r->framing == HTTP1_LENGTH)
		return f->options.filter ? EXCHANGE_CHUNKED : r->content_length;
	/* HEAD: the length that GET would have. 204 and 304 have none. */
	return r->framing == HTTP1_NO_BODY ? forward_headers_length(r) : EXCHANGE_CHUNKED;
}

static void forward_answer_begin(struct forward *f, const struct http1_response *r)
{
	char type[TYPE_MAX];

	forward_answer_find_type(r, type);
	if (f->options.filter &&
	    !f->options.filter->may_pass(f->options.filter_arg,
					 (struct http1_span){ type, strlen(type) }))
		type[0] = '\0';
	if (!forward_answer_pass_headers(f, r, type[0])) {
		/* some of its headers were added to the exchange, so no other answer is possible */
		forward_answer_cut(f);
		return;
	}
	f->framing = r->framing;
	f->left = r->content_length;
	chunk_init_answer(&f->chunk, UINT64_MAX);
	f->state = FORWARD_BODY;
	if (f->options.filter)
		f->options.filter->on_head(f->options.filter_arg, r->status);
	exchange_begin(f->x, r->status, type[0] ? type : NULL, forward_answer_length_of(f, r));
	if (f->framing == HTTP1_NO_BODY || (f->framing == HTTP1_LENGTH && f->left == 0))
		forward_answer_finish(f);
}

static void forward_answer_upgrade(struct forward *f, const struct http1_response *r)
{
	if (!f->wanted_up || f->options.filter ||
	    http1_find(r->headers, r->headers_n, "upgrade", NULL) != 1) {
		forward_fail(f, 502, "the server changed to a protocol that was not asked for");
		return;
	}
	if (!forward_answer_pass_headers(f, r, false)) {
		forward_answer_cut(f);
		return;
	}
	f->state = FORWARD_TUNNEL;
	f->up_ended = false; /* the request has ended, the tunnel has not */
	exchange_upgrade(f->x, forward_on_data, forward_on_end);
}

/* 100 was sent to the client before. 103 and others are hints, which may be dropped. */
static void forward_answer_skip_interim(struct forward *f)
{
	if (++f->interims > INTERIMS_MAX)
		forward_fail(f, 502, "the server sends interim answers only");
}

static enum forward_next forward_answer_next_head(struct forward *f)
{
	const char *bytes = (const char *)fifo_bytes(&f->down);
	size_t len = f->down.len < FORWARD_HEAD_MAX ? f->down.len : FORWARD_HEAD_MAX;
	struct http1_response r;
	struct http1_fault fault;
	int n = len > 0 ? http1_head_end(bytes, len, &f->scanned) : 0;

	if (n == 0 && len < FORWARD_HEAD_MAX)
		return NEXT_INPUT;
	if (n == 0) {
		forward_fail(f, 502, "the head of the server's answer is too long");
		return NEXT_WAIT;
	}
	n = n < 0 ? -1
		  : http1_response_read(bytes, (size_t)n, exchange_request(f->x)->method, &r,
					&fault);
	if (n <= 0) {
		forward_fail(f, 502, "the server's answer is malformed");
		return NEXT_WAIT;
	}
	f->scanned = 0;
	if (r.status == 101)
		forward_answer_upgrade(f, &r);
	else if (r.status < 200)
		forward_answer_skip_interim(f);
	else
		forward_answer_begin(f, &r);
	if (f->state == FORWARD_OVER)
		return NEXT_WAIT;
	fifo_consume(&f->down, (size_t)n); /* not before: r points into it */
	return NEXT_AGAIN;
}

/* ---- the body */

/* Deliver up to n bytes of `down`. */
static size_t forward_answer_give(struct forward *f, const void *data, size_t n)
{
	const struct forward_options *o = &f->options;
	size_t taken = o->filter ? o->filter->write(o->filter_arg, data, n)
				 : exchange_write(f->x, data, n);

	f->full = taken < n;
	if (taken > 0)
		f->moved_ns = loop_now_ns(f->loop);
	return taken;
}

static enum forward_next forward_answer_next_chunked(struct forward *f)
{
	struct http1_span data;
	size_t used = 0, n;
	enum chunk_result result =
		chunk_read(&f->chunk, fifo_bytes(&f->down), f->down.len, &used, &data);

	switch (result) {
	case CHUNK_DATA:
		n = forward_answer_give(f, data.p, data.n);
		chunk_took(&f->chunk, n);
		fifo_consume(&f->down, used + n);
		return f->full ? NEXT_WAIT : NEXT_AGAIN;
	case CHUNK_MORE:
		fifo_consume(&f->down, used);
		return NEXT_INPUT;
	case CHUNK_END:
		forward_answer_finish(f);
		return NEXT_WAIT;
	case CHUNK_BAD:
	case CHUNK_TOO_LONG:
		break;
	}
	forward_answer_cut(f);
	return NEXT_WAIT;
}

static enum forward_next forward_answer_next_plain(struct forward *f)
{
	bool counted = f->state == FORWARD_BODY && f->framing == HTTP1_LENGTH;
	size_t n = counted && f->left < f->down.len ? (size_t)f->left : f->down.len;

	if (n == 0)
		return NEXT_INPUT;
	n = forward_answer_give(f, fifo_bytes(&f->down), n);
	fifo_consume(&f->down, n);
	if (counted) {
		f->left -= n;
		if (f->left == 0) {
			forward_answer_finish(f);
			return NEXT_WAIT;
		}
	}
	return f->full ? NEXT_WAIT : NEXT_AGAIN;
}

static enum forward_next forward_answer_next(struct forward *f)
{
	switch (f->state) {
	case FORWARD_HEAD:
		return forward_answer_next_head(f);
	case FORWARD_BODY:
		return f->framing == HTTP1_CHUNKED ? forward_answer_next_chunked(f)
						   : forward_answer_next_plain(f);
	case FORWARD_ENDING:
		forward_answer_finish(f);
		return NEXT_WAIT;
	case FORWARD_TUNNEL:
		return f->down_ended ? NEXT_WAIT : forward_answer_next_plain(f);
	case FORWARD_OVER:
		break;
	}
	return NEXT_WAIT;
}

/* ---- input */

/* whole: the server closed cleanly. */
static void forward_answer_end_input(struct forward *f, bool whole)
{
	f->down_ended = true;
	if (f->state == FORWARD_HEAD)
		forward_fail(f, 502, "the server closed the connection without an answer");
	else if (whole && f->state == FORWARD_TUNNEL)
		exchange_shut(f->x);
	else if (whole && f->framing == HTTP1_UNTIL_CLOSE)
		forward_answer_finish(f);
	else
		forward_answer_cut(f);
}

/* True if bytes came. */
static bool forward_answer_receive(struct forward *f)
{
	uint8_t *to = fifo_reserve(&f->down, FORWARD_WAITING - f->down.len);
	ssize_t n;

	if (!to) {
		forward_answer_end_input(f, false);
		return false;
	}
	n = recv(f->fd, to, FORWARD_WAITING - f->down.len, MSG_DONTWAIT);
	if (n > 0) {
		fifo_commit(&f->down, (size_t)n);
		f->moved_ns = loop_now_ns(f->loop);
		return true;
	}
	if (n == 0)
		forward_answer_end_input(f, !f->reset);
	else if (f->server_closed || (errno != EAGAIN && errno != EINTR))
		forward_answer_end_input(f, false);
	return false;
}

static enum forward_next forward_answer_drain(struct forward *f)
{
	enum forward_next n;

	do {
		n = forward_answer_next(f);
	} while (n == NEXT_AGAIN);
	return n;
}

/* Read from the server and give to the client until one of them must wait. */
static void forward_answer_pump(struct forward *f)
{
	/* Once is enough, as epoll reports more, but not for a server already gone. */
	while (forward_answer_drain(f) == NEXT_INPUT && forward_answer_receive(f) &&
	       forward_answer_drain(f) == NEXT_INPUT && f->server_closed)
		;
	if (f->state != FORWARD_OVER && f->down.len == 0)
		fifo_release(&f->down);
}

/* ---- life */

static void on_ready(struct loop_fd *w, uint32_t events)
{
	struct forward *f = w->arg;

	if (events & (EPOLLERR | EPOLLHUP)) {
		/* epoll would report it in every turn. The rest is read when there is room for
		 * it. */
		loop_remove(f->loop, &f->watch);
		f->server_closed = true;
	}
	if (f->up.len > 0) {
		forward_send(f);
		if (f->server_closed && f->up.len > 0)
			forward_break_up(f, EPIPE); /* no event would report room for it */
		forward_release_client(f);
	}
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		forward_answer_pump(f);
	forward_await(f);
}

void forward_resume(struct forward *f)
{
	const struct forward_options *o = &f->options;

	if (f->state == FORWARD_OVER || (o->filter && !o->filter->flush(o->filter_arg)))
		return;
	f->full = false;
	forward_answer_pump(f);
	forward_await(f);
}

static void on_writable(struct exchange *x)
{
	struct forward *f = exchange_carrier(x);

	if (f)
		forward_resume(f);
}

static int forward_put_head(struct forward *f, struct err *e)
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

static void forward_take_over(struct forward *f)
{
	const struct http1_request *r = exchange_request(f->x);

	exchange_set_carrier(f->x, f);
	exchange_on_writable(f->x, on_writable);
	if (r->framing == HTTP1_NO_BODY)
		f->up_ended = true;
	else
		exchange_read_body(f->x, UINT64_MAX, forward_on_data, forward_on_end);
	forward_send(f);
	forward_await(f);
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
	forward_moved(f);
	if (forward_put_head(f, e) < 0 || loop_add(l, &f->watch, fd, EPOLLIN, e) < 0) {
		fifo_release(&f->up);
		free(f);
		return NULL;
	}
	/* Texts were borrowed for the call. */
	f->options.host = f->options.target = f->options.scheme = NULL;
	f->options.drop = NULL;
	forward_take_over(f);
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
