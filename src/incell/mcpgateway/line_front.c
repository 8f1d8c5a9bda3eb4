#include "incell/mcpgateway/line_front.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "incell/mcpgateway/out_send.h"
#include "lib/base/list.h"
#include "lib/mcp/client/link_proof.h"

#define CONNS_MAX 16
#define REQUESTS_MAX 256
#define OUT_MAX ((size_t)16 << 20)
#define EVENTS_MAX (1U << 20) /* of notifications that the client does not read */
/* Of answers that a client does not read: then nothing is read from the servers. */
#define ANSWERS_MAX (2U << 20)
#define READ_SIZE 65536

/* One for the process. */
struct line_front {
	struct loop *loop;
	struct front *front;
	const char *token;
	int fd;
	struct loop_fd ready;
	struct line_front_conn *conns;
	unsigned nconns;
};

struct line_front_conn;

/* A request whose answer has not come. Freed with its answer or its connection. */
struct line_front_request {
	struct line_front_request *next, **link;
	struct line_front_conn *conn;
	struct front_sink sink;
};

/* One connection. Many requests may be in progress on it. */
struct line_front_conn {
	struct line_front_conn *next, **link;
	struct line_front *owner;
	int fd;
	struct loop_fd ready;
	struct loop_task task; /* frees it */
	bool gone, legacy;
	bool greeted, proved;	   /* see link_proof.h. No message is read before proved */
	char nonce[LINK_WORD + 1]; /* whose proof is expected */
	struct buf in, out;
	struct line_front_request *requests;
	unsigned nrequests;
};

/* The front has forgotten it already. */
static void free_request(struct line_front_request *r)
{
	LIST_REMOVE(r);
	r->conn->nrequests--;
	free(r);
}

/* cordond takes results as fast as its own clients do. */
static void pause_servers(struct line_front *l)
{
	bool full = false;

	for (struct line_front_conn *c = l->conns; c != NULL; c = c->next)
		full = full || (!c->gone && c->out.len > ANSWERS_MAX);
	for (size_t i = 0; i < l->front->n; i++)
		server_pause(&l->front->servers[i], full);
}

/* The end of a connection cancels its calls. */
static void on_task(struct loop_task *t)
{
	struct line_front_conn *c = t->arg;

	while (c->requests != NULL) {
		front_drop(&c->requests->sink, true);
		free_request(c->requests);
	}
	loop_remove(c->owner->loop, &c->ready);
	fd_close(c->fd);
	buf_release(&c->in);
	buf_release(&c->out);
	LIST_REMOVE(c);
	c->owner->nconns--;
	pause_servers(c->owner);
	free(c);
}

/* Freed from the loop, since the caller may be one of its callbacks. */
static void end_conn(struct line_front_conn *c)
{
	c->gone = true;
	loop_defer(c->owner->loop, &c->task);
}

/* Also pauses the servers while too much is waiting. The servers are looked at after each change of
 * a buffer. */
static void line_front_flush(struct line_front_conn *c)
{
	if (!c->gone && out_send(c->fd, &c->out) < 0)
		end_conn(c);
	loop_modify(c->owner->loop, &c->ready, EPOLLIN | (c->out.len > 0 ? EPOLLOUT : 0));
	pause_servers(c->owner);
}

/* Nothing is sent for an answer without a body. */
static void put_line(struct line_front_conn *c, const char *json, size_t n)
{
	struct err e;

	if (n == 0)
		return;
	if (mcp_frame_line(&c->out, json, n, &e) < 0)
		end_conn(c); /* it asks, and does not read */
	else
		line_front_flush(c);
}

/* Lines have no status. */
static void on_answer(struct front_sink *s, int status, const char *json, size_t n)
{
	struct line_front_request *r = s->arg;
	struct line_front_conn *c = r->conn;

	free_request(r);
	put_line(c, json, n);
}

static void on_event(struct front_sink *s, const char *json, size_t n)
{
	struct line_front_request *r = s->arg;

	if (r->conn->out.len < EVENTS_MAX)
		put_line(r->conn, json, n);
}

/* notifications/cancelled names a request of the same connection. True: the line was such a
 * notification. */
static bool line_front_cancel(struct line_front_conn *c, const char *line, size_t n)
{
	struct json_value all, id;
	struct err e;

	if (json_read(line, n, PEER_DEPTH_MAX, &all, &e) < 0 ||
	    !json_read_is(json_read_member(all, "method"), "notifications/cancelled"))
		return false;
	id = json_read_member(json_read_member(all, "params"), "requestId");
	LIST_WALK_ENDING(struct line_front_request, r, c->requests) {
		/* alone: a request is freed by itself */
		if (!front_is(&r->sink, id.p, id.n))
			continue;
		front_drop(&r->sink, true);
		free_request(r);
	}
	return true;
}

/* The first two lines of a connection. HTTP ends it with its first. */
static void on_greeting(struct line_front_conn *c, const char *line, size_t n)
{
	char answer[2 * LINK_WORD + 2], proof[LINK_WORD + 1];

	if (n != LINK_WORD) {
		end_conn(c);
	} else if (!c->greeted) {
		c->greeted = true;
		link_random(c->nonce);
		link_proof(c->owner->token, 'g', line, proof);
		put_line(c, answer,
			 (size_t)snprintf(answer, sizeof(answer), "%s %s", proof, c->nonce));
	} else {
		link_proof(c->owner->token, 'c', c->nonce, proof);
		c->proved = link_same(proof, line);
		if (!c->proved)
			end_conn(c);
	}
}

/* A client with too many requests loses its connection. */
static void on_line(struct line_front_conn *c, const char *line, size_t n)
{
	struct line_front_request *r;

	if (!c->proved) {
		on_greeting(c, line, n);
		return;
	}
	if (n == 0 || line_front_cancel(c, line, n))
		return;
	r = c->nrequests < REQUESTS_MAX ? calloc(1, sizeof(*r)) : NULL;
	if (r == NULL) {
		end_conn(c);
		return;
	}
	*r = (struct line_front_request){ .conn = c };
	r->sink = (struct front_sink){ .on_answer = on_answer, .on_event = on_event, .arg = r };
	c->nrequests++;
	LIST_PUSH(&c->requests, r);
	front_line(c->owner->front, &r->sink, &c->legacy, line, n);
}

/* The rest of an incomplete line stays in the buffer. */
static void read_lines(struct line_front_conn *c)
{
	size_t at = 0;

	while (!c->gone) {
		const char *from = (const char *)c->in.data + at;
		const char *end = c->in.len > at ? memchr(from, '\n', c->in.len - at) : NULL;

		if (end == NULL)
			break;
		on_line(c, from, (size_t)(end - from));
		at += (size_t)(end - from) + 1;
	}
	buf_consume(&c->in, at);
	if (!c->proved && c->in.len > LINK_WORD)
		end_conn(c);
	if (c->in.len == 0)
		buf_release(&c->in);
}

/* A line longer than the buffer ends the connection. */
static void on_conn_ready(struct loop_fd *f, uint32_t events)
{
	struct line_front_conn *c = f->arg;
	static char bytes[READ_SIZE];
	struct err e;
	ssize_t n;

	if ((events & EPOLLOUT) != 0)
		line_front_flush(c);
	if (c->gone || (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
		return;
	n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || buf_add(&c->in, bytes, (size_t)n, &e) < 0)
		end_conn(c);
	else
		read_lines(c);
}

static struct line_front h = { .fd = -1 };

/* Nothing is sent before the client has sent its greeting. */
static void on_listener_ready(struct loop_fd *f, uint32_t events)
{
	int fd = accept4(h.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct line_front_conn *c = fd >= 0 && h.nconns < CONNS_MAX ? calloc(1, sizeof(*c)) : NULL;
	struct err e;

	if (c == NULL) {
		fd_close(fd);
		return;
	}
	*c = (struct line_front_conn){ .owner = &h, .fd = fd };
	c->ready = (struct loop_fd){ .fd = -1, .on_ready = on_conn_ready, .arg = c };
	c->task = (struct loop_task){ .on_run = on_task, .arg = c };
	buf_init(&c->in, MCP_BODY_MAX + READ_SIZE);
	buf_init(&c->out, OUT_MAX);
	h.nconns++;
	LIST_PUSH(&h.conns, c);
	if (loop_add(h.loop, &c->ready, fd, EPOLLIN, &e) < 0)
		end_conn(c);
}

void line_front_changed(void)
{
	static const char changed[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}";

	for (struct line_front_conn *c = h.conns; c != NULL; c = c->next) {
		if (!c->gone && c->proved)
			put_line(c, changed, sizeof(changed) - 1);
	}
}

/* Nothing is accepted before line_front_begin(). */
int line_front_open(struct loop *l, struct front *f, uint16_t port, const char *token,
		    struct err *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;

	h = (struct line_front){ .loop = l, .front = f, .token = token, .fd = -1 };
	h.ready = (struct loop_fd){ .fd = -1, .on_ready = on_listener_ready, .arg = &h };
	h.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h.fd < 0)
		return err_sys(e, "socket");
	(void)setsockopt(h.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(h.fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(h.fd, 16) < 0)
		return err_sys(e, "listen on port %u", port);
	return 0;
}

/* The loop reports connections from here on. */
int line_front_begin(struct err *e)
{
	return loop_add(h.loop, &h.ready, h.fd, EPOLLIN, e);
}
