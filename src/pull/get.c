/* get.c - theory of operation
 *
 *	CONNECTING -> HANDSHAKE -> SENDING -> HEAD -> BODY -> OVER
 *
 * get_advance() takes one step after the other until it must wait, and arms the watch of the socket
 *for the awaited event. It is called by the loop only. The first step to fail or to finish ends the
 *completion. on_end follows from the loop. */
#include "pull/get.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/http/http1_write.h"
#include "lib/net/tls.h"

#define HEAD_MAX ((size_t)64 * 1024)

/* get.state. The states follow each other in this order, and OVER may follow any of them. IDLE is
 * that of a zeroed structure. */
enum { IDLE, CONNECTING, HANDSHAKE, SENDING, HEAD, BODY, OVER };

/* ---- the end */

/* Free everything but the completion, which reports the end. May be called again. */
static void get_release(struct get *g)
{
	struct loop *l = g->means->loop;

	outbound_cancel(&g->outbound);
	loop_timer_cancel(l, &g->patience);
	loop_task_cancel(l, &g->again);
	loop_remove(l, &g->watch);
	if (g->tls)
		tls_close(g->tls);
	g->tls = NULL;
	if (g->fd >= 0)
		fd_close(g->fd);
	g->fd = -1;
	if (g->out.data) /* the request may have credentials */
		explicit_bzero(g->out.data, g->out.size);
	fifo_release(&g->out);
	fifo_release(&g->in);
	free(g->head);
	g->head = NULL;
	g->state = OVER;
}

/* on_end follows after this turn of the loop: it may free g, which the callers still use. */
static void get_finish(struct get *g, const struct err *e)
{
	if (g->state == OVER)
		return;
	g->why = e ? *e : (struct err){ 0 };
	get_release(g);
	loop_defer(g->means->loop, &g->ending);
}

static void on_ending(struct loop_task *t)
{
	struct get *g = t->arg;
	struct err why = g->why;

	completion_end(&g->end, why.code != ERR_NONE ? &why : NULL);
}

static void on_completed(struct completion *c, const struct err *e)
{
	struct get *g = c->arg;

	g->on_end(g, e);
}

/* EPROTO: the server broke HTTP, and another attempt is useless. Other numbers are failures of the
 * connection. */
static void get_fail(struct get *g, int sys, const char *what)
{
	char name[ADDRESS_NAME_MAX];
	struct err e = { 0 };

	address_name(&g->to, name);
	(void)err_set(&e, sys == EPROTO ? ERR_INVALID : ERR_SYSTEM, "%s %s", name, what);
	e.sys = sys;
	get_finish(g, &e);
}

void get_cancel(struct get *g)
{
	if (!g->means)
		return;
	completion_cancel(&g->end);
	loop_task_cancel(g->means->loop, &g->ending);
	if (g->state != OVER)
		get_release(g);
}

/* ---- bytes */

/* > 0. 0: wait. -1: the end of the connection, or broken. */
static ssize_t get_fill(struct get *g)
{
	uint8_t *to = fifo_reserve(&g->in, GET_PIECE);
	ssize_t n;

	if (!to)
		return -1;
	n = g->tls ? tls_read(g->tls, to, GET_PIECE) : recv(g->fd, to, GET_PIECE, 0);
	if (n > 0)
		fifo_commit(&g->in, (size_t)n);
	if (n > 0)
		return n;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* True when the whole request is sent. Then the head of the answer is read. */
static bool get_send_out(struct get *g)
{
	while (g->out.len > 0) {
		const uint8_t *from = fifo_bytes(&g->out);
		ssize_t n = g->tls ? tls_write(g->tls, from, g->out.len)
				   : send(g->fd, from, g->out.len, MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		if (n <= 0) {
			get_fail(g, errno, "closed the connection");
			return false;
		}
		fifo_consume(&g->out, (size_t)n);
	}
	g->state = HEAD;
	return true;
}

/* Wait for one direction only. With TLS the library chooses it. */
static void get_arm(struct get *g)
{
	uint32_t events = EPOLLIN;

	if (g->state == OVER)
		return;
	if (g->paused)
		events = EPOLLET; /* the end of the connection is reported once, not forever */
	if (g->tls ? tls_wants_write(g->tls) : g->state == SENDING)
		events = EPOLLOUT;
	loop_modify(g->means->loop, &g->watch, events);
}

/* ---- steps: true if there is more to do at once */

/* Plain connections pass through at once. */
static bool get_handshake(struct get *g)
{
	char name[ADDRESS_NAME_MAX];
	struct err e = { 0 };

	if (!g->tls || tls_handshake(g->tls, &e) == 0) {
		g->state = SENDING;
		return true;
	}
	if (errno == EAGAIN)
		return false;
	address_name(&g->to, name);
	if (e.code != ERR_DENIED) /* the certificate verifies, or was not seen */
		e.code = ERR_SYSTEM;
	(void)err_wrap(&e, "TLS with %s", name);
	get_finish(g, &e);
	return false;
}

/* From here on the patience timer measures the speed, in windows of patience_ms. on_head() decides
 * if the body is read. */
static void get_begin_body(struct get *g)
{
	g->state = BODY;
	g->left = g->answer.content_length;
	if (g->answer.framing == HTTP1_CHUNKED)
		chunk_init_answer(&g->chunk, UINT64_MAX);
	g->window_bytes = 0;
	loop_timer_set(g->means->loop, &g->patience,
		       loop_now_ns(g->means->loop) + g->patience_ms * CLOCK_MS);
	if (!g->on_head(g, &g->answer) || g->answer.framing == HTTP1_NO_BODY)
		get_finish(g, NULL);
}

/* A whole head is at the start of `in`. */
static bool get_take_head(struct get *g, size_t len)
{
	struct http1_fault fault = { 0 };

	free(g->head);
	g->head = malloc(len);
	g->scanned = 0;
	if (!g->head) {
		get_fail(g, ENOMEM, "answered, but there is no memory");
		return false;
	}
	memcpy(g->head, fifo_bytes(&g->in), len);
	fifo_consume(&g->in, len);
	if (http1_response_read(g->head, len, HTTP1_GET, &g->answer, &fault) <= 0) {
		get_fail(g, EPROTO, "sent a malformed answer");
		return false;
	}
	if (g->answer.status == 101)
		get_fail(g, EPROTO, "sent a malformed answer");
	else if (g->answer.status >= 200)
		get_begin_body(g);
	return g->state != OVER;
}

/* Informational answers (1xx) are passed over, and the loop of steps reads the next head. */
static bool get_read_head(struct get *g)
{
	int n = g->in.len == 0
			? 0
			: http1_head_end((const char *)fifo_bytes(&g->in), g->in.len, &g->scanned);
	ssize_t got;

	if (n > 0)
		return get_take_head(g, (size_t)n);
	if (n < 0 || g->in.len > HEAD_MAX) {
		get_fail(g, EPROTO, "sent a malformed answer");
		return false;
	}
	got = get_fill(g);
	if (got < 0)
		get_fail(g, ECONNRESET, "closed the connection without an answer");
	return got > 0;
}

/* Hands over decoded bytes. Return how many were taken. */
static size_t get_hand_over(struct get *g, const void *data, size_t n)
{
	size_t taken;

	if (n > GET_PIECE)
		n = GET_PIECE;
	taken = g->on_data(g, data, n);
	g->window_bytes += taken;
	g->paused = taken < n;
	return taken;
}

/* Decode the bytes in `in`. False: the body has ended, or the get has. */
static bool get_decode_chunks(struct get *g)
{
	while (g->in.len > 0 && !g->paused) {
		struct http1_span data;
		size_t used, taken;
		enum chunk_result r =
			chunk_read(&g->chunk, fifo_bytes(&g->in), g->in.len, &used, &data);

		if (r == CHUNK_DATA) {
			taken = get_hand_over(g, data.p, data.n);
			chunk_took(&g->chunk, taken);
			used += taken;
		}
		fifo_consume(&g->in, used);
		if (r == CHUNK_END) {
			get_finish(g, NULL);
			return false;
		}
		if (r == CHUNK_BAD || r == CHUNK_TOO_LONG) {
			get_fail(g, EPROTO, "sent a malformed body");
			return false;
		}
	}
	return true;
}

/* As above, without chunks. A body without a length ends with the connection. */
static bool get_decode_plain(struct get *g)
{
	bool bounded = g->answer.framing == HTTP1_LENGTH;

	while (g->in.len > 0 && !g->paused && (!bounded || g->left > 0)) {
		size_t n = bounded && g->left < g->in.len ? (size_t)g->left : g->in.len;

		n = get_hand_over(g, fifo_bytes(&g->in), n);
		fifo_consume(&g->in, n);
		if (bounded)
			g->left -= n;
	}
	if (bounded && g->left == 0) {
		get_finish(g, NULL);
		return false;
	}
	return true;
}

/* Bytes read together with the head come first. More are read only when `in` is used up. */
static bool get_read_body(struct get *g)
{
	ssize_t got;

	if (!(g->answer.framing == HTTP1_CHUNKED ? get_decode_chunks(g) : get_decode_plain(g)) ||
	    g->paused)
		return false;
	got = get_fill(g);
	if (got < 0 && g->answer.framing == HTTP1_UNTIL_CLOSE)
		get_finish(g, NULL);
	else if (got < 0)
		get_fail(g, ECONNRESET, "closed the connection before its answer was complete");
	return got > 0;
}

static bool get_step(struct get *g)
{
	switch (g->state) {
	case HANDSHAKE:
		return get_handshake(g);
	case SENDING:
		return get_send_out(g);
	case HEAD:
		return get_read_head(g);
	case BODY:
		return get_read_body(g);
	default:
		return false;
	}
}

/* A few steps in one turn of the loop, so that one fast server does not keep out the others. */
static void get_advance(struct get *g)
{
	unsigned steps = 16;

	while (steps > 0 && get_step(g))
		steps--;
	if (g->state != OVER && steps == 0)
		loop_defer(g->means->loop, &g->again);
	get_arm(g);
}

static void on_again(struct loop_task *t)
{
	get_advance(t->arg);
}

static void on_socket(struct loop_fd *f, uint32_t events)
{
	get_advance(f->arg);
}

void get_resume(struct get *g)
{
	if (!g->paused || g->state != BODY)
		return;
	g->paused = false;
	loop_defer(g->means->loop, &g->again);
}

/* ---- time */

/* Before the body the whole wait is bounded. In the body at least GET_SLOW_BYTES have to come in
 * each window, unless the receiver holds the transfer up. */
static void on_patience(struct loop_timer *t)
{
	struct get *g = t->arg;

	if (g->state != BODY) {
		get_fail(g, ETIMEDOUT, "did not answer in time");
		return;
	}
	if (!g->paused && g->window_bytes < GET_SLOW_BYTES) {
		get_fail(g, ETIMEDOUT, "sends too slowly");
		return;
	}
	g->window_bytes = 0;
	loop_timer_set(g->means->loop, t, loop_now_ns(g->means->loop) + g->patience_ms * CLOCK_MS);
}

/* ---- the beginning */

/* outbound.h calls it once. The policy has judged the address before the connection. Plain http is
 * checked here again, because localhost may resolve to any address. */
static void on_connected(struct outbound *o, int fd, const struct ip *ip, const struct err *e)
{
	struct get *g = o->arg;
	struct err why = e ? *e : (struct err){ 0 };

	if (fd < 0) {
		if (why.code == ERR_DENIED)
			(void)err_set(&why, ERR_DENIED,
				      "%.140s; only a host that the setting registries names "
				      "exactly may have such an address",
				      e->msg);
		get_finish(g, &why);
		return;
	}
	g->fd = fd;
	if (!g->to.tls && ip_kind(ip) != IP_LOOPBACK) {
		(void)err_set(&why, ERR_DENIED, "%s: plain http is for loopback only", g->to.host);
		get_finish(g, &why);
		return;
	}
	if (g->to.tls)
		g->tls = tls_open(g->means->tls, fd, g->to.host, &why);
	if ((g->to.tls && !g->tls) || loop_add(g->means->loop, &g->watch, fd, EPOLLOUT, &why) < 0) {
		get_finish(g, &why);
		return;
	}
	g->state = HANDSHAKE;
	loop_defer(g->means->loop, &g->again);
}

/* The headers of a POST, and its body behind the head. */
static void get_write_post_headers(struct http1_write *w, const struct get_post *p)
{
	for (size_t i = 0; i < p->nheaders; i++)
		http1_write_header(w, p->headers[i].name, p->headers[i].value);
	http1_write_number(w, "Content-Length", strlen(p->body));
}

/* No compression is accepted, as digests are those of the stored bytes. The connection serves one
 * request. */
static int get_write_request(struct get *g, const struct get_request *r, struct err *e)
{
	char name[ADDRESS_NAME_MAX], range[40];
	uint8_t *to = fifo_reserve(&g->out, GET_REQUEST_MAX);
	struct http1_write w;
	size_t body;
	int n;

	if (!to)
		return err_set(e, ERR_SYSTEM, "out of memory");
	address_name(r->to, name);
	http1_write_request(&w, (char *)to, GET_REQUEST_MAX, r->post ? "POST" : "GET",
			    r->to->target, name);
	http1_write_header(&w, "User-Agent", "cordon/" CORDON_VERSION);
	http1_write_header(&w, "Accept", r->accept);
	http1_write_header(&w, "Accept-Encoding", "identity");
	http1_write_header(&w, "Connection", "close");
	if (r->authorization)
		http1_write_header(&w, "Authorization", r->authorization);
	if (r->range_from > 0) {
		(void)snprintf(range, sizeof(range), "bytes=%llu-",
			       (unsigned long long)r->range_from);
		http1_write_header(&w, "Range", range);
	}
	if (r->post)
		get_write_post_headers(&w, r->post);
	n = http1_write_end(&w);
	body = r->post ? strlen(r->post->body) : 0;
	if (n < 0 || body > GET_REQUEST_MAX - (size_t)n)
		return err_set(e, ERR_INVALID, "the request to %.100s cannot be written", name);
	if (body > 0)
		memcpy(to + n, r->post->body, body);
	fifo_commit(&g->out, (size_t)n + body);
	return 0;
}

int get_start(struct get *g, const struct get_means *m, const struct get_request *r, struct err *e)
{
	struct policy_target to = { .port = r->to->port };

	g->means = m;
	g->to = *r->to;
	g->fd = -1;
	g->watch = (struct loop_fd){ .fd = -1, .on_ready = on_socket, .arg = g };
	g->patience = (struct loop_timer){ .on_expire = on_patience, .arg = g };
	g->again = (struct loop_task){ .on_run = on_again, .arg = g };
	g->ending = (struct loop_task){ .on_run = on_ending, .arg = g };
	g->patience_ms = r->patience_ms;
	g->state = OVER; /* until it is started */
	g->scanned = 0;
	g->paused = false;
	g->outbound = (struct outbound){ .on_done = on_connected, .arg = g, .fd = -1 };
	if (get_write_request(g, r, e) < 0) {
		fifo_release(&g->out);
		return -1;
	}
	if (ip_read(g->to.host, strlen(g->to.host), &to.ip) < 0)
		to.host = g->to.host;
	g->from = (struct outbound_from){ .loop = m->loop,
					  .resolver = m->resolver,
					  .policy = r->private_ok ? &m->any : &m->public_only };
	g->state = CONNECTING;
	g->end.on_done = on_completed;
	g->end.arg = g;
	completion_begin(&g->end, m->loop, NULL);
	loop_timer_set(m->loop, &g->patience, loop_now_ns(m->loop) + g->patience_ms * CLOCK_MS);
	outbound_start(&g->from, &to, &g->outbound);
	return 0;
}
