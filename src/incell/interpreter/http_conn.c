#include "incell/interpreter/http_conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "incell/interpreter/event_line.h"
#include "incell/interpreter/peer_user.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/http/http1_write.h"

/* Bounds of a connection's buffers and times. */
#define HEAD_MAX 16384U
#define READ_SIZE 65536U
#define OUT_MAX (160U << 20) /* one message of a kernel more than OUT_HIGH, in its longest form */
#define OUT_HIGH (1U << 20)  /* from here on the kernel waits */
#define OUT_LOW (256U << 10)
#define KEEP_SIZE (256U << 10)
#define IDLE_MS 75000U
#define SILENCE_MS 5000U
#define DRAIN_MS 2000U /* without a byte */
#define DRAIN_MAX (64U << 20)
#define STALLED_MS 600000U /* a client that takes nothing */

/* c is gone when this returns. Only on_work() calls it. */
static void conn_close(struct http_conn *c)
{
	struct http_server *s = c->server;

	api_abandon(c);
	loop_remove(s->loop, &c->io);
	loop_task_cancel(s->loop, &c->work);
	loop_timer_cancel(s->loop, &c->timer);
	fd_close(c->fd);
	s->body_bytes -= c->charged;
	buf_release(&c->in);
	buf_release(&c->out);
	buf_release(&c->body);
	LIST_REMOVE(c);
	s->nconns--;
	free(c);
	s->on_room(s);
}

/* ---- answers
 *
 * These append to out and leave the rest to on_work(). */

/* length NULL: a stream, in chunks if the client knows them. */
static void add_head(struct http_conn *c, int status, const char *type, const size_t *length)
{
	struct http1_write w;
	char head[512];
	int n;

	http1_write_status(&w, head, sizeof(head), status);
	http1_write_header(&w, "Content-Type", type);
	http1_write_header(&w, "Access-Control-Allow-Origin", "*");
	if (c->method == HTTP1_OPTIONS) {
		http1_write_header(&w, "Access-Control-Allow-Methods",
				   "GET, POST, DELETE, OPTIONS");
		http1_write_header(&w, "Access-Control-Allow-Headers", "*");
	}
	if (length != NULL)
		http1_write_number(&w, "Content-Length", *length);
	else if (c->chunked)
		http1_write_header(&w, "Transfer-Encoding", "chunked");
	c->keep_alive &= length != NULL || c->chunked;
	if (!c->keep_alive)
		http1_write_header(&w, "Connection", "close");
	n = http1_write_end(&w);
	if (n > 0)
		buf_put(&c->out, head, (size_t)n);
}

/* Replaces the time that was set before. */
static void set_timer(struct http_conn *c, uint64_t ms)
{
	loop_timer_set(c->server->loop, &c->timer, clock_now_ns() + ms * CLOCK_MS);
}

/* The answer is complete. */
static void end_answer(struct http_conn *c)
{
	c->server->body_bytes -= c->charged;
	c->charged = 0;
	c->created = NULL;
	buf_release(&c->body);
	c->over = true;
	loop_defer(c->server->loop, &c->work);
}

void conn_answer(struct http_conn *c, int status, const char *type, const void *body, size_t n)
{
	add_head(c, status, type, &n);
	if (c->method != HTTP1_HEAD)
		buf_put(&c->out, body, n);
	set_timer(c, IDLE_MS); /* for the client to read it */
	end_answer(c);
}

void conn_text(struct http_conn *c, int status, const char *text)
{
	conn_answer(c, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* Keepalives follow while the code is silent. */
void conn_stream(struct http_conn *c)
{
	add_head(c, 200, "application/x-ndjson", NULL);
	c->state = CONN_STREAM;
	c->moved_ns = clock_now_ns();
	set_timer(c, SILENCE_MS);
	loop_defer(c->server->loop, &c->work);
}

/* True: the kernel is to wait until execution_resume(). */
bool conn_stream_add(struct http_conn *c, const void *lines, size_t n)
{
	char head[CHUNK_HEAD_MAX];

	if (c->chunked)
		buf_put(&c->out, head, chunk_head(head, n));
	buf_put(&c->out, lines, n);
	if (c->chunked)
		buf_put(&c->out, CHUNK_TAIL, 2);
	if (c->out.full) /* cannot be sent as it is */
		c->gone = true;
	set_timer(c, SILENCE_MS);
	loop_defer(c->server->loop, &c->work);
	return c->out.len > OUT_HIGH;
}

void conn_stream_end(struct http_conn *c)
{
	if (c->chunked)
		buf_put_text(&c->out, CHUNK_LAST);
	end_answer(c);
}

/* ---- requests
 *
 * read_head() and read_body() take bytes from in until one of them needs more. */

/* Refused before it could be read: the connection ends with the answer. */
static void http_conn_refuse(struct http_conn *c, int status, const char *why)
{
	c->keep_alive = false;
	c->refused = true;
	c->state = CONN_BUSY;
	conn_text(c, status, why);
}

/* False: refused. Bodies are counted over all connections. */
static bool add_body(struct http_conn *c, const void *bytes, size_t n)
{
	struct http_server *s = c->server;
	struct err e;

	if (s->body_bytes + n > CONN_BODIES_MAX) {
		http_conn_refuse(c, 503, "too much code is waiting");
		return false;
	}
	if (buf_add(&c->body, bytes, n, &e) < 0) {
		http_conn_refuse(c, e.code == ERR_LIMIT ? 413 : 503,
				 "the body is too large: 17 MiB at most");
		return false;
	}
	s->body_bytes += n;
	c->charged += n;
	return true;
}

/* api_handle() answers now or later. */
static void request_complete(struct http_conn *c)
{
	c->state = CONN_BUSY;
	loop_timer_cancel(c->server->loop, &c->timer);
	c->server->before_request(c->server);
	api_handle(c);
}

/* A path that is too long becomes empty, and is not found. */
static void begin_request(struct http_conn *c, const struct http1_request *r)
{
	c->method = r->method;
	c->keep_alive = r->keep_alive;
	c->chunked = r->minor >= 1;
	c->body_chunked = r->framing == HTTP1_CHUNKED;
	c->body_left = r->content_length;
	c->state = CONN_BODY;
	(void)snprintf(c->path, sizeof(c->path), "%.*s",
		       (int)(r->path.n < sizeof(c->path) ? r->path.n : 0), r->path.p);
	chunk_init(&c->chunk, CONN_BODY_MAX);
	if (r->expect_continue && c->body_left <= CONN_BODY_MAX)
		buf_put_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Kernels run as root: other users of the cell may only ask whether the server is there. Before the
 * body, so that they fill no memory. */
static bool is_allowed(const struct http_conn *c)
{
	return c->ours || (c->method == HTTP1_GET && strcmp(c->path, "/health") == 0);
}

/* False: more bytes are needed. */
static bool read_head(struct http_conn *c)
{
	struct http1_request r;
	struct http1_fault fault = { 400, "malformed head" };
	const char *bytes = (const char *)c->in.data;
	int n = c->in.len == 0 ? 0 : http1_head_end(bytes, c->in.len, &c->scanned);

	if (n == 0 && c->in.len <= HEAD_MAX)
		return false;
	if (n > 0)
		n = http1_request_read(bytes, c->in.len, &r, &fault);
	if (n <= 0) {
		http_conn_refuse(c, fault.status, fault.words);
		return true;
	}
	begin_request(c, &r);
	buf_consume(&c->in, (size_t)n);
	c->scanned = 0;
	if (!is_allowed(c))
		http_conn_refuse(c, 403,
				 "the interpreter runs code as root: inside the sandbox only root "
				 "may use it "
				 "(sudo)");
	else if (c->body_left > CONN_BODY_MAX)
		http_conn_refuse(c, 413, "the body is too large: 17 MiB at most");
	return true;
}

/* True: the request is complete or refused. */
static bool read_chunks(struct http_conn *c)
{
	struct http1_span data;
	size_t used = 0;

	for (;;) {
		size_t step = 0;
		enum chunk_result r =
			chunk_read(&c->chunk, c->in.data + used, c->in.len - used, &step, &data);

		used += step;
		if (r == CHUNK_DATA) {
			if (!add_body(c, data.p, data.n))
				return true;
			chunk_took(&c->chunk, data.n);
			used += data.n;
			continue;
		}
		buf_consume(&c->in, used);
		if (r == CHUNK_END)
			request_complete(c);
		else if (r != CHUNK_MORE)
			http_conn_refuse(c, r == CHUNK_BAD ? 400 : 413,
					 "malformed or too large body");
		return r != CHUNK_MORE;
	}
}

/* False: more bytes are needed. */
static bool read_body(struct http_conn *c)
{
	size_t n = c->in.len < c->body_left ? c->in.len : (size_t)c->body_left;

	if (c->body_chunked)
		return c->in.len > 0 && read_chunks(c);
	if (n > 0 && !add_body(c, c->in.data, n))
		return true;
	buf_consume(&c->in, n);
	c->body_left -= n;
	if (c->body_left > 0)
		return false;
	request_complete(c);
	return true;
}

/* ---- bytes
 *
 * on_ready() reads, on_work() does everything else at the end of the turn. */

/* gone is set when the client has left. */
static void flush_out(struct http_conn *c)
{
	while (c->out.len > 0) {
		ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			c->gone |= n == 0 || errno != EAGAIN;
			return;
		}
		c->moved_ns = clock_now_ns();
		buf_consume(&c->out, (size_t)n);
	}
	if (c->out.size > KEEP_SIZE)
		buf_release(&c->out);
}

/* While draining, bytes are counted and dropped. */
static void read_in(struct http_conn *c)
{
	struct err e;
	uint8_t *room = buf_reserve(&c->in, READ_SIZE, &e);
	ssize_t n = room == NULL ? -1 : recv(c->fd, room, READ_SIZE, MSG_DONTWAIT);

	if (n > 0 && c->state != CONN_DRAIN) {
		buf_commit(&c->in, (size_t)n);
		set_timer(c, IDLE_MS);
	} else if (n > 0) {
		c->drained += (size_t)n;
		c->gone |= c->drained > DRAIN_MAX;
		set_timer(c, DRAIN_MS);
	} else if (room == NULL || n == 0 || (errno != EAGAIN && errno != EINTR)) {
		c->gone = true;
	}
}

/* Not while a request is being answered: the next one waits in the socket. */
static bool is_reading(const struct http_conn *c)
{
	return c->state == CONN_HEAD || c->state == CONN_BODY || c->state == CONN_DRAIN;
}

/* A client that still sends would lose the answer if the connection were closed now. */
static void begin_drain(struct http_conn *c)
{
	c->state = CONN_DRAIN;
	(void)shutdown(c->fd, SHUT_WR);
	set_timer(c, DRAIN_MS);
}

/* The answer has been sent. */
static void next_request(struct http_conn *c)
{
	c->over = false;
	c->served = true;
	if (c->refused) {
		begin_drain(c);
		return;
	}
	c->state = CONN_HEAD;
	c->gone |= !c->keep_alive;
	if (c->in.len == 0)
		buf_release(&c->in);
	set_timer(c, IDLE_MS);
}

/* Does all that can be done now, then sets the events that it waits for. */
static void on_work(struct loop_task *t)
{
	struct http_conn *c = t->arg;

	flush_out(c);
	if (c->out.len < OUT_LOW && c->state == CONN_STREAM)
		execution_resume(&c->execution);
	while (!c->gone) {
		if (c->over && c->out.len > 0)
			break;
		if (c->over)
			next_request(c);
		if (c->gone || (c->state != CONN_HEAD && c->state != CONN_BODY) ||
		    !(c->state == CONN_HEAD ? read_head(c) : read_body(c)))
			break;
		flush_out(c);
	}
	if (c->gone) {
		conn_close(c);
		return;
	}
	if (c->out.len > 0)
		flush_out(c);
	loop_modify(c->server->loop, &c->io,
		    EPOLLRDHUP | (is_reading(c) ? (uint32_t)EPOLLIN : 0) |
			    (c->out.len > 0 ? (uint32_t)EPOLLOUT : 0));
}

/* A client that hangs up during an answer ends it. */
static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct http_conn *c = f->arg;

	if (is_reading(c) && (events & (EPOLLIN | EPOLLRDHUP)) != 0)
		read_in(c);
	else if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
		c->gone = true;
	loop_defer(c->server->loop, &c->work);
}

/* A silent client ends. A silent stream gets a keepalive. */
static void on_timer(struct loop_timer *t)
{
	struct http_conn *c = t->arg;
	struct buf line = BUF_INIT(64);

	if (c->state != CONN_STREAM || clock_now_ns() - c->moved_ns > STALLED_MS * CLOCK_MS) {
		c->gone = true;
		loop_defer(c->server->loop, &c->work);
		return;
	}
	if (c->out.len == 0 && !c->over) {
		event_line_keepalive(&line);
		(void)conn_stream_add(c, line.data, line.len);
		buf_release(&line);
	}
	set_timer(c, SILENCE_MS);
}

/* The last of the list is the oldest. */
void conn_evict(struct http_server *s)
{
	struct http_conn *idle = NULL;

	for (struct http_conn *c = s->conns; c != NULL; c = c->next)
		if (c->state == CONN_HEAD && c->in.len == 0 && c->served && !c->gone)
			idle = c;
	if (idle == NULL)
		return;
	idle->gone = true;
	loop_defer(s->loop, &idle->work);
}

/* fd is taken over, also on failure. */
int conn_open(struct http_server *s, int fd, struct err *e)
{
	struct http_conn *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		fd_close(fd);
		return err_sys(e, "allocate");
	}
	c->server = s;
	c->fd = fd;
	c->ours = peer_user_is_ours(fd);
	c->io = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = c };
	c->work = (struct loop_task){ .on_run = on_work, .arg = c };
	c->timer = (struct loop_timer){ .on_expire = on_timer, .arg = c };
	buf_init(&c->in, HEAD_MAX + 2 * READ_SIZE);
	buf_init(&c->out, OUT_MAX);
	buf_init(&c->body, CONN_BODY_MAX);
	if (loop_add(s->loop, &c->io, fd, EPOLLIN | EPOLLRDHUP, e) < 0) {
		fd_close(fd);
		free(c);
		return -1;
	}
	LIST_PUSH(&s->conns, c);
	s->nconns++;
	set_timer(c, IDLE_MS);
	return 0;
}
