/* forward_answer.c - theory of operation
 *
 * The answer: its head, its body, or the output of a tunnel. Bytes are received into `down`, at
 * most FORWARD_WAITING at a time, and only when what was there has been taken: a slow client holds
 * the server back. Every piece is given to the exchange as it came, since the client may wait for
 * just these bytes.
 *
 * The answer ends where its framing says; what a server sends after that is never read. If it ends
 * before, the exchange is aborted. */
#include "forward_private.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "forward_headers.h"

#define INTERIMS_MAX 64
#define TYPE_MAX 256

enum next {
	NEXT_INPUT, /* more is needed from the server */
	NEXT_AGAIN, /* something was done */
	NEXT_WAIT   /* for the client; or it is over */
};

static void finish(struct forward *f)
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

static void cut(struct forward *f)
{
	if (f->options.filter)
		f->options.filter->on_cut(f->options.filter_arg);
	exchange_abort(f->x);
	forward_stop(f);
}

/* ---- the head */

/* The Content-Type, so that the exchange recognizes event streams; "" if it must be sent as any
 * other header. */
static void find_type(const struct http1_response *r, char ret[TYPE_MAX])
{
	struct http1_span type;

	ret[0] = '\0';
	if (http1_find(r->headers, r->headers_n, "content-type", &type) != 1 || type.n >= TYPE_MAX)
		return;
	memcpy(ret, type.p, type.n);
	ret[type.n] = '\0';
}

static bool pass_headers(struct forward *f, const struct http1_response *r, bool typed)
{
	for (size_t i = 0; i < r->headers_n; i++) {
		const struct http1_header *h = &r->headers[i];

		if (!forward_headers_in_answer(r, h) ||
		    (typed && http1_span_is_nocase(h->name, "content-type")))
			continue;
		if (exchange_pass_header(f->x, h->name, h->value) < 0)
			return false;
	}
	return true;
}

static uint64_t length_of(const struct forward *f, const struct http1_response *r)
{
	if (r->framing == HTTP1_LENGTH)
		return f->options.filter ? EXCHANGE_CHUNKED : r->content_length;
	/* HEAD: the length that GET would have; 204 and 304 have none. */
	return r->framing == HTTP1_NO_BODY ? forward_headers_length(r) : EXCHANGE_CHUNKED;
}

static void begin(struct forward *f, const struct http1_response *r)
{
	char type[TYPE_MAX];

	find_type(r, type);
	if (!pass_headers(f, r, type[0])) {
		/* some of its headers were added to the exchange, so no other answer is possible */
		cut(f);
		return;
	}
	f->framing = r->framing;
	f->left = r->content_length;
	chunk_init_answer(&f->chunk, UINT64_MAX);
	f->state = FORWARD_BODY;
	if (f->options.filter)
		f->options.filter->on_head(f->options.filter_arg, r->status);
	exchange_begin(f->x, r->status, type[0] ? type : NULL, length_of(f, r));
	if (f->framing == HTTP1_NO_BODY || (f->framing == HTTP1_LENGTH && f->left == 0))
		finish(f);
}

static void upgrade(struct forward *f, const struct http1_response *r)
{
	if (!f->wanted_up || http1_find(r->headers, r->headers_n, "upgrade", NULL) != 1) {
		forward_fail(f, 502, "the server changed to a protocol that was not asked for");
		return;
	}
	if (!pass_headers(f, r, false)) {
		cut(f);
		return;
	}
	f->state = FORWARD_TUNNEL;
	f->up_ended = false; /* the request has ended, the tunnel has not */
	exchange_upgrade(f->x, forward_on_data, forward_on_end);
}

/* 100 was sent to the client before. 103 and others are hints, which may be dropped. */
static void skip_interim(struct forward *f)
{
	if (++f->interims > INTERIMS_MAX)
		forward_fail(f, 502, "the server sends interim answers only");
}

static enum next next_head(struct forward *f)
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
		upgrade(f, &r);
	else if (r.status < 200)
		skip_interim(f);
	else
		begin(f, &r);
	if (f->state == FORWARD_OVER)
		return NEXT_WAIT;
	fifo_consume(&f->down, (size_t)n); /* not before: r points into it */
	return NEXT_AGAIN;
}

/* ---- the body */

/* Delivers up to n bytes of `down`. */
static size_t give(struct forward *f, const void *data, size_t n)
{
	const struct forward_options *o = &f->options;
	size_t taken = o->filter ? o->filter->write(o->filter_arg, data, n)
				 : exchange_write(f->x, data, n);

	f->full = taken < n;
	if (taken > 0)
		f->moved_ns = loop_now_ns(f->loop);
	return taken;
}

static enum next next_chunked(struct forward *f)
{
	struct http1_span data;
	size_t used = 0, n;
	enum chunk_result result =
		chunk_read(&f->chunk, fifo_bytes(&f->down), f->down.len, &used, &data);

	switch (result) {
	case CHUNK_DATA:
		n = give(f, data.p, data.n);
		chunk_took(&f->chunk, n);
		fifo_consume(&f->down, used + n);
		return f->full ? NEXT_WAIT : NEXT_AGAIN;
	case CHUNK_MORE:
		fifo_consume(&f->down, used);
		return NEXT_INPUT;
	case CHUNK_END:
		finish(f);
		return NEXT_WAIT;
	case CHUNK_BAD:
	case CHUNK_TOO_LONG:
		break;
	}
	cut(f);
	return NEXT_WAIT;
}

static enum next next_plain(struct forward *f)
{
	bool counted = f->state == FORWARD_BODY && f->framing == HTTP1_LENGTH;
	size_t n = counted && f->left < f->down.len ? (size_t)f->left : f->down.len;

	if (n == 0)
		return NEXT_INPUT;
	n = give(f, fifo_bytes(&f->down), n);
	fifo_consume(&f->down, n);
	if (counted) {
		f->left -= n;
		if (f->left == 0) {
			finish(f);
			return NEXT_WAIT;
		}
	}
	return f->full ? NEXT_WAIT : NEXT_AGAIN;
}

static enum next next(struct forward *f)
{
	switch (f->state) {
	case FORWARD_HEAD:
		return next_head(f);
	case FORWARD_BODY:
		return f->framing == HTTP1_CHUNKED ? next_chunked(f) : next_plain(f);
	case FORWARD_ENDING:
		finish(f);
		return NEXT_WAIT;
	case FORWARD_TUNNEL:
		return f->down_ended ? NEXT_WAIT : next_plain(f);
	case FORWARD_OVER:
		break;
	}
	return NEXT_WAIT;
}

/* ---- input */

/* whole: the server closed cleanly. */
static void end_input(struct forward *f, bool whole)
{
	f->down_ended = true;
	if (f->state == FORWARD_HEAD)
		forward_fail(f, 502, "the server closed the connection without an answer");
	else if (whole && f->state == FORWARD_TUNNEL)
		exchange_shut(f->x);
	else if (whole && f->framing == HTTP1_UNTIL_CLOSE)
		finish(f);
	else
		cut(f);
}

/* True if bytes came. */
static bool receive(struct forward *f)
{
	uint8_t *to = fifo_reserve(&f->down, FORWARD_WAITING - f->down.len);
	ssize_t n;

	if (!to) {
		end_input(f, false);
		return false;
	}
	n = recv(f->fd, to, FORWARD_WAITING - f->down.len, MSG_DONTWAIT);
	if (n > 0) {
		fifo_commit(&f->down, (size_t)n);
		f->moved_ns = loop_now_ns(f->loop);
		return true;
	}
	if (n == 0)
		end_input(f, !f->reset);
	else if (f->server_closed || (errno != EAGAIN && errno != EINTR))
		end_input(f, false);
	return false;
}

bool forward_answer_wants_input(const struct forward *f)
{
	return f->state != FORWARD_OVER && !f->full && !f->down_ended;
}

static enum next drain(struct forward *f)
{
	enum next n;

	do {
		n = next(f);
	} while (n == NEXT_AGAIN);
	return n;
}

void forward_answer_pump(struct forward *f)
{
	/* Once is enough, as epoll reports more; but not of a server that is gone. */
	while (drain(f) == NEXT_INPUT && receive(f) && drain(f) == NEXT_INPUT && f->server_closed)
		;
	if (f->state != FORWARD_OVER && f->down.len == 0)
		fifo_release(&f->down);
}
