/* An answer is plain JSON. If it takes long, or there are notifications before it, a stream of
 * events. One request at a time on a connection: input that comes during one waits. */
#include "incell/mcpgateway/http_front.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "incell/mcpgateway/out_send.h"
#include "lib/base/clock.h"
#include "lib/http/chunk.h"
#include "lib/http/http1_write.h"

#define CONNS_MAX 128
#define HEAD_MAX 32768
#define IN_MAX (HEAD_MAX + MCP_BODY_MAX + 65536)
#define OUT_MAX ((size_t)(GATEWAY_SERVERS_MAX * TOOL_LIST_BYTES_MAX) + 65536)
#define IDLE_NS (120000 * CLOCK_MS) /* without a request */
#define STREAM_NS (3000 * CLOCK_MS) /* an answer that takes longer becomes a stream */
#define KEEPALIVE_NS (15000 * CLOCK_MS)
#define EVENTS_MAX (1U << 20) /* of notifications that a client does not read */

/* Reading a request, waiting for its answer, or sending the answer as events. */
enum http_front_conn_state { CONN_READING, CONN_WAITING, CONN_STREAMING };

/* One for the process. */
struct http_front {
	struct loop *loop;
	struct front *front;
	const char *token;
	int fd;
	struct loop_fd ready;
	unsigned nconns;
};

/* One connection. The timer ends it when idle, and keeps a stream alive. The task frees it. */
struct http_front_conn {
	struct http_front *owner;
	int fd;
	struct loop_fd ready;
	struct loop_timer timer;
	struct loop_task task; /* the next request, or the end */
	enum http_front_conn_state state;
	bool close, gone; /* close: after the bytes in out */
	struct buf in, out, body;
	size_t scanned;
	struct front_sink sink;
};

/* A call of the older protocol continues without its client. */
static void free_conn(struct http_front_conn *c)
{
	struct loop *l = c->owner->loop;

	front_drop(&c->sink, false);
	loop_remove(l, &c->ready);
	loop_timer_cancel(l, &c->timer);
	loop_task_cancel(l, &c->task);
	fd_close(c->fd);
	buf_release(&c->in);
	buf_release(&c->out);
	buf_release(&c->body);
	c->owner->nconns--;
	free(c);
}

/* Free it from the loop: the caller may be one of its own callbacks. */
static void end_conn(struct http_front_conn *c)
{
	c->gone = true;
	loop_defer(c->owner->loop, &c->task);
}

/* Also chooses the events that epoll is to report. */
static void http_front_flush(struct http_front_conn *c)
{
	if (!c->gone && out_send(c->fd, &c->out) < 0) {
		end_conn(c);
		return;
	}
	if (c->close && c->out.len == 0 && c->state == CONN_READING)
		end_conn(c);
	loop_modify(c->owner->loop, &c->ready,
		    (c->in.len < IN_MAX ? EPOLLIN : 0) | (c->out.len > 0 ? EPOLLOUT : 0));
}

/* Replaces the time that was set before. */
static void set_timer(struct http_front_conn *c, uint64_t ns)
{
	loop_timer_set(c->owner->loop, &c->timer, loop_now_ns(c->owner->loop) + ns);
}

/* ---- answers
 *
 * An answer goes into out. next_request() follows each one, so that requests of one connection are
 * handled one after the other. */

/* length NULL: the body comes in chunks. */
static void put_head(struct http_front_conn *c, int status, const char *type, const size_t *length)
{
	struct http1_write w;
	char head[1024];
	int n;

	http1_write_status(&w, head, sizeof(head), status);
	if (type != NULL)
		http1_write_header(&w, "Content-Type", type);
	if (status == 401)
		http1_write_header(&w, "WWW-Authenticate", "Bearer");
	if (status == 405)
		http1_write_header(&w, "Allow", "POST");
	if (length != NULL)
		http1_write_number(&w, "Content-Length", *length);
	else
		http1_write_header(&w, "Transfer-Encoding", "chunked");
	http1_write_header(&w, "Cache-Control", "no-store");
	if (length == NULL)
		http1_write_header(&w, "X-Accel-Buffering", "no");
	if (c->close)
		http1_write_header(&w, "Connection", "close");
	n = http1_write_end(&w);
	buf_put(&c->out, head, n < 0 ? 0 : (size_t)n);
}

/* Bytes that do not fit make out full, and next_request() ends the connection. */
static void put_chunk(struct http_front_conn *c, const void *bytes, size_t n)
{
	char head[CHUNK_HEAD_MAX];

	buf_put(&c->out, head, chunk_head(head, n));
	buf_put(&c->out, bytes, n);
	buf_put_text(&c->out, CHUNK_TAIL);
}

/* Safe if it has begun. */
static void begin_stream(struct http_front_conn *c)
{
	if (c->state == CONN_STREAMING)
		return;
	c->state = CONN_STREAMING;
	put_head(c, 200, "text/event-stream", NULL);
}

/* An event that cannot be written ends the connection after the bytes before it. */
static void put_event(struct http_front_conn *c, const char *json, size_t n)
{
	struct buf event = BUF_INIT(FRONT_ANSWER_MAX + 1024);
	struct err e;

	if (mcp_frame_event(&event, json, n, &e) == 0)
		put_chunk(c, event.data, event.len);
	else
		c->close = true;
	buf_release(&event);
}

/* The request has ended. */
static void next_request(struct http_front_conn *c)
{
	c->state = CONN_READING;
	buf_release(&c->body);
	if (c->out.full)
		end_conn(c);
	set_timer(c, IDLE_NS);
	http_front_flush(c);
	loop_defer(c->owner->loop, &c->task);
}

static void answer_plain(struct http_front_conn *c, int status, const char *type, const char *text,
			 size_t n)
{
	put_head(c, status, n > 0 ? type : NULL, &n);
	buf_put(&c->out, text, n);
	next_request(c);
}

/* For failures below the protocol, in words. */
static void answer_text(struct http_front_conn *c, int status, const char *text)
{
	answer_plain(c, status, "text/plain", text, strlen(text));
}

/* front calls this once for each request that was not dropped. */
static void on_answer(struct front_sink *s, int status, const char *json, size_t n)
{
	struct http_front_conn *c = s->arg;

	if (c->state != CONN_STREAMING) {
		answer_plain(c, status, "application/json", json, n);
		return;
	}
	if (n > 0)
		put_event(c, json, n);
	buf_put_text(&c->out, CHUNK_LAST);
	next_request(c);
}

/* Notifications are dropped while the client does not read. */
static void on_event(struct front_sink *s, const char *json, size_t n)
{
	struct http_front_conn *c = s->arg;

	if (c->out.len > EVENTS_MAX)
		return;
	begin_stream(c);
	put_event(c, json, n);
	set_timer(c, KEEPALIVE_NS);
	http_front_flush(c);
}

/* ---- requests
 *
 * read_request() waits for the head and the body, http_front_admit() checks the token, and
 * on_request() passes the body on. */

/* Take the same time whether few or many characters are right. */
static bool is_token(const char *token, struct http1_span value)
{
	static const char bearer[] = "Bearer ";
	size_t n = strlen(token), skip = sizeof(bearer) - 1;
	unsigned char differs = 0;

	if (value.p == NULL || value.n != n + skip || strncasecmp(value.p, bearer, skip) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		differs |= (unsigned char)(value.p[skip + i] ^ token[i]);
	return differs == 0;
}

/* The answer may come before this returns. */
static void on_request(struct http_front_conn *c, const struct http1_request *r)
{
	struct mcp_http head = { r->method, r->headers, r->headers_n };

	if (!r->keep_alive)
		c->close = true;
	c->state = CONN_WAITING;
	set_timer(c, STREAM_NS);
	front_http(c->owner->front, &c->sink, &head, buf_text(&c->body), c->body.len);
}

/* Move the body behind the head into c->body. 1: it is complete, and *ret_used bytes of the input
 * belong to the request. 0: not yet. -1: answered with an error. Called with each new input, and
 * reads the body from its beginning each time. */
static int take_body(struct http_front_conn *c, const struct http1_request *r, size_t head,
		     size_t *ret_used)
{
	const char *bytes = (const char *)c->in.data + head;
	size_t len = c->in.len - head, used = 0, at;
	struct http1_span data;
	struct chunk chunk;
	struct err e;

	buf_clear(&c->body);
	*ret_used = head + (size_t)r->content_length;
	if (r->framing != HTTP1_CHUNKED) {
		if (r->content_length > MCP_BODY_MAX)
			return -1;
		if (len < r->content_length)
			return 0;
		return buf_add(&c->body, bytes, (size_t)r->content_length, &e) < 0 ? -1 : 1;
	}
	chunk_init(&chunk, MCP_BODY_MAX);
	for (at = 0;; at += used) {
		switch (chunk_read(&chunk, bytes + at, len - at, &used, &data)) {
		case CHUNK_DATA:
			at += used;
			used = data.n;
			if (buf_add(&c->body, data.p, data.n, &e) < 0)
				return -1;
			chunk_took(&chunk, data.n);
			break;
		case CHUNK_END:
			*ret_used = head + at + used;
			return 1;
		case CHUNK_MORE:
			return 0;
		case CHUNK_BAD:
		case CHUNK_TOO_LONG:
			return -1;
		}
	}
}

/* The rest of the input is not trusted, so the connection ends. */
static void http_front_refuse(struct http_front_conn *c, int status, const char *words)
{
	c->close = true;
	buf_clear(&c->in);
	answer_text(c, status, words);
}

/* Before any of the body is kept. False: answered. The token comes first, so a client without it
 * learns of no path. */
static bool http_front_admit(struct http_front_conn *c, const struct http1_request *r)
{
	struct http1_span auth;

	if (http1_find(r->headers, r->headers_n, "authorization", &auth) != 1 ||
	    !is_token(c->owner->token, auth))
		http_front_refuse(c, 401, "the token is missing or wrong\n");
	else if (!http1_span_is(r->path, "/mcp") && !http1_span_is(r->path, "/mcp/"))
		http_front_refuse(c, 404, "only /mcp is here\n");
	else
		return true;
	return false;
}

/* Called with each new input, until a whole request is there. */
static void read_request(struct http_front_conn *c)
{
	struct http1_fault fault;
	struct http1_request r;
	size_t used;
	int head = http1_head_end((const char *)c->in.data, c->in.len, &c->scanned), got;

	if (head == 0 && c->in.len <= HEAD_MAX)
		return;
	if (head == 0 || head > HEAD_MAX) {
		http_front_refuse(c, 431, "the head is too large\n");
		return;
	}
	head = http1_request_read((const char *)c->in.data, c->in.len, &r, &fault);
	if (head <= 0) {
		http_front_refuse(c, head < 0 ? fault.status : 400, "malformed request\n");
		return;
	}
	if (!http_front_admit(c, &r))
		return;
	got = take_body(c, &r, (size_t)head, &used);
	if (got < 0)
		http_front_refuse(c, 413, "the body is malformed or has more than 1 MiB\n");
	if (got == 0 && r.expect_continue && c->in.len == (size_t)head) {
		buf_put_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
		http_front_flush(c);
	}
	if (got == 0)
		c->scanned = 0; /* the end of the head is looked for again with the rest */
	if (got <= 0)
		return;
	on_request(c, &r);
	buf_consume(&c->in, used);
	c->scanned = 0;
}

/* ---- the connection
 *
 * One read in each turn of the loop. */

/* Runs after the callbacks of the turn. */
static void on_task(struct loop_task *t)
{
	struct http_front_conn *c = t->arg;

	if (c->gone)
		free_conn(c);
	else if (c->state == CONN_READING && c->in.len > 0)
		read_request(c);
}

/* An idle connection ends. A slow answer becomes a stream, which is kept alive. */
static void on_timer(struct loop_timer *t)
{
	struct http_front_conn *c = t->arg;

	if (c->state == CONN_READING) {
		end_conn(c);
		return;
	}
	begin_stream(c);
	put_chunk(c, MCP_KEEPALIVE, sizeof(MCP_KEEPALIVE) - 1);
	set_timer(c, KEEPALIVE_NS);
	http_front_flush(c);
}

/* Input is read in every state, up to IN_MAX. */
static void on_conn_ready(struct loop_fd *f, uint32_t events)
{
	struct http_front_conn *c = f->arg;
	struct err e;
	uint8_t *to;
	ssize_t n;

	if ((events & EPOLLOUT) != 0)
		http_front_flush(c);
	if (c->gone || (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
		return;
	to = buf_reserve(&c->in, 16384, &e);
	n = to == NULL ? -1 : recv(c->fd, to, 16384, MSG_DONTWAIT);
	if (n < 0 && to != NULL && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end_conn(c);
		return;
	}
	buf_commit(&c->in, (size_t)n);
	if (c->state == CONN_READING)
		read_request(c);
	else
		http_front_flush(c);
}

/* Connections beyond the bound are closed at once. */
static void new_conn(struct http_front *h, int fd)
{
	struct http_front_conn *c = calloc(1, sizeof(*c));
	struct err e;

	if (c == NULL || h->nconns >= CONNS_MAX) {
		free(c);
		fd_close(fd);
		return;
	}
	*c = (struct http_front_conn){ .owner = h, .fd = fd };
	c->ready = (struct loop_fd){ .fd = -1, .on_ready = on_conn_ready, .arg = c };
	c->timer = (struct loop_timer){ .on_expire = on_timer, .arg = c };
	c->task = (struct loop_task){ .on_run = on_task, .arg = c };
	c->sink = (struct front_sink){ .on_answer = on_answer, .on_event = on_event, .arg = c };
	buf_init(&c->in, IN_MAX + 16384);
	buf_init(&c->out, OUT_MAX);
	buf_init(&c->body, MCP_BODY_MAX);
	h->nconns++;
	set_timer(c, IDLE_NS);
	if (loop_add(h->loop, &c->ready, fd, EPOLLIN, &e) < 0)
		free_conn(c);
}

/* One connection in each turn. */
static void on_listener_ready(struct loop_fd *f, uint32_t events)
{
	struct http_front *h = f->arg;
	int fd = accept4(h->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		new_conn(h, fd);
}

/* Both families on one socket if the cell has IPv6, otherwise IPv4. */
static int listen_on(uint16_t port, struct err *e)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	OWN_FD fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0, bound = -1;

	if (fd >= 0) {
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		bound = bind(fd, (const struct sockaddr *)&any, sizeof(any));
	}
	if (bound < 0 && (fd < 0 || errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)) {
		fd_close(fd);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			return err_sys(e, "socket");
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		bound = bind(fd, (const struct sockaddr *)&any4, sizeof(any4));
	}
	if (bound < 0 || listen(fd, 128) < 0)
		return err_sys(e, "listen on port %u", port);
	return TAKE_FD(fd);
}

/* From here on clients are served. */
int http_front_open(struct loop *l, struct front *f, uint16_t port, const char *token,
		    struct err *e)
{
	static struct http_front h;

	h = (struct http_front){ .loop = l, .front = f, .token = token, .fd = -1 };
	h.ready = (struct loop_fd){ .fd = -1, .on_ready = on_listener_ready, .arg = &h };
	h.fd = listen_on(port, e);
	return h.fd < 0 ? -1 : loop_add(l, &h.ready, h.fd, EPOLLIN, e);
}
