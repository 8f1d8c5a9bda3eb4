/* load_conn.c - theory of operation
 *
 * Descriptors are registered once, edge-triggered, and everything is tried until it would block:
 * no system calls but those that move bytes. When an answer is whole, nothing more can be there
 * (requests are not pipelined), so the next request is sent without another look.
 *
 * A server may end a kept connection whenever no answer is under way. That is no failure: the
 * request is sent again on a new one, and its time goes on. */
#include "load_conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "link.h"

#define PIECE 262144
#define AGAIN_MAX 3

static char reason[256];
static char piece[PIECE]; /* bodies go through here and nowhere else */

const char *load_conn_why(void)
{
	return reason;
}

void load_conn_close(struct load_conn *c)
{
	SSL_free(c->tls);
	c->tls = NULL;
	if (c->fd >= 0)
		(void)close(c->fd);
	c->fd = -1;
}

__attribute__((format(printf, 2, 3))) static enum load_event fail(struct load_conn *c,
								  const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	load_conn_close(c);
	c->begin_ns = 0;
	c->again = 0;
	return LOAD_FAILED;
}

static enum load_event fail_tls(struct load_conn *c, const char *what)
{
	unsigned long code = ERR_get_error();
	char text[160];

	if (code == 0)
		return fail(c, "%s: %s", what, errno == 0 ? "the end" : strerror(errno));
	ERR_error_string_n(code, text, sizeof(text));
	return fail(c, "%s: %s", what, text);
}

/* ---- bytes: more than 0; 0: the end; -1: errno, EAGAIN if it would block */

static ssize_t tls_result(struct load_conn *c, int result)
{
	int why;

	if (result > 0)
		return result;
	why = SSL_get_error(c->tls, result);
	if (why == SSL_ERROR_ZERO_RETURN)
		return 0;
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		errno = EAGAIN;
	else if (why != SSL_ERROR_SYSCALL || errno == 0 || errno == EAGAIN)
		errno = EPROTO;
	return -1;
}

static ssize_t take(struct load_conn *c, char *to, size_t cap)
{
	if (c->tls == NULL)
		return recv(c->fd, to, cap, 0);
	ERR_clear_error();
	errno = 0;
	return tls_result(c, SSL_read(c->tls, to, (int)cap));
}

static ssize_t give(struct load_conn *c, const char *text)
{
	if (c->tls == NULL)
		return send(c->fd, text, strlen(text), MSG_NOSIGNAL);
	ERR_clear_error();
	errno = 0;
	return tls_result(c, SSL_write(c->tls, text, (int)strlen(text)));
}

/* ---- steps: LOAD_DONE means that the next can be tried */

static enum load_event open_it(struct load_conn *c, int epoll)
{
	struct epoll_event want = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				    .data.ptr = c };
	const int one = 1;

	if (c->begin_ns == 0)
		c->begin_ns = link_now_ns();
	c->fd = socket(c->plan->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return fail(c, "socket: %s", strerror(errno));
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(c->fd, (const struct sockaddr *)&c->plan->to, c->plan->to_len) < 0 &&
	    errno != EINPROGRESS)
		return fail(c, "connect: %s", strerror(errno));
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &want) < 0)
		return fail(c, "epoll: %s", strerror(errno));
	c->state = LOAD_CONNECT;
	return LOAD_WAIT;
}

static enum load_event start_tls(struct load_conn *c)
{
	c->state = LOAD_SEND;
	if (c->plan->tls == NULL)
		return LOAD_DONE;
	c->tls = SSL_new(c->plan->tls);
	/* The macro casts the const away, which clang does not let pass. */
	char *name = (char *)(uintptr_t)c->plan->name;

	if (c->tls == NULL || SSL_set_fd(c->tls, c->fd) != 1 ||
	    SSL_set_tlsext_host_name(c->tls, name) != 1 ||
	    SSL_set1_host(c->tls, c->plan->name) != 1)
		return fail_tls(c, "TLS");
	c->state = LOAD_SHAKE;
	return LOAD_DONE;
}

static enum load_event connected(struct load_conn *c)
{
	int err = 0;
	socklen_t len = sizeof(err);
	struct sockaddr_storage peer;
	socklen_t peer_len = sizeof(peer);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 || err != 0)
		return fail(c, "connect: %s", strerror(err));
	if (getpeername(c->fd, (struct sockaddr *)&peer, &peer_len) < 0)
		return LOAD_WAIT; /* not yet */
	if (c->plan->tunnel[0] == '\0')
		return start_tls(c);
	if (give(c, c->plan->tunnel) != (ssize_t)strlen(c->plan->tunnel))
		return fail(c, "CONNECT: %s", strerror(errno));
	c->have = 0;
	c->state = LOAD_TUNNEL;
	return LOAD_DONE;
}

/* It was kept, and is kept no more. False: that is no excuse any longer. */
static bool reopen(struct load_conn *c)
{
	if (c->plan->close || c->again++ >= AGAIN_MAX)
		return false;
	c->reopened++;
	load_conn_close(c);
	return true;
}

/* The head of an answer into c->head. LOAD_DONE: it is whole, *ret_len bytes. */
static enum load_event read_head(struct load_conn *c, size_t *ret_len)
{
	ssize_t got = take(c, c->head + c->have, sizeof(c->head) - 1 - c->have);
	char *end;

	if (got < 0 && errno == EAGAIN)
		return LOAD_WAIT;
	if (got <= 0 && c->have == 0 && c->state == LOAD_HEAD && reopen(c))
		return LOAD_DONE;
	if (got <= 0)
		return fail(c, "head: %s", got == 0 ? "the end" : strerror(errno));
	c->have += (size_t)got;
	c->head[c->have] = '\0';
	end = strstr(c->head, "\r\n\r\n");
	if (end == NULL && c->have == sizeof(c->head) - 1)
		return fail(c, "the head is too long");
	*ret_len = end == NULL ? 0 : (size_t)(end - c->head) + 4;
	return end == NULL ? LOAD_WAIT : LOAD_DONE;
}

static bool is_ok(const char *head)
{
	return strncmp(head, "HTTP/1.", 7) == 0 && strncmp(head + 8, " 200", 4) == 0;
}

static enum load_event tunnel(struct load_conn *c)
{
	size_t len = 0;
	enum load_event got = read_head(c, &len);

	if (got != LOAD_DONE)
		return got;
	if (!is_ok(c->head) || c->have != len)
		return fail(c, "CONNECT: %.60s", c->head);
	return start_tls(c);
}

static enum load_event shake(struct load_conn *c)
{
	ERR_clear_error();
	errno = 0;
	ssize_t got = tls_result(c, SSL_connect(c->tls));

	if (got < 0 && errno == EAGAIN)
		return LOAD_WAIT;
	if (got <= 0)
		return fail_tls(c, "handshake");
	c->state = LOAD_SEND;
	return LOAD_DONE;
}

static enum load_event ask(struct load_conn *c)
{
	ssize_t got;

	if (c->begin_ns == 0)
		c->begin_ns = link_now_ns();
	got = give(c, c->plan->request);
	if (got < 0 && (errno == EPIPE || errno == ECONNRESET) && reopen(c))
		return LOAD_DONE;
	if (got != (ssize_t)strlen(c->plan->request))
		return fail(c, "request: %s", strerror(errno));
	c->have = 0;
	c->state = LOAD_HEAD;
	return LOAD_WAIT;
}

static enum load_event head(struct load_conn *c)
{
	size_t len = 0;
	enum load_event got = read_head(c, &len);
	const char *line;

	if (got != LOAD_DONE || c->fd < 0)
		return got;
	if (!is_ok(c->head))
		return fail(c, "%.200s", c->head);
	line = strcasestr(c->head, "\r\ncontent-length:");
	if (line == NULL)
		return fail(c, "no Content-Length");
	c->left = strtoull(line + strlen("\r\ncontent-length:"), NULL, 10);
	if (c->have - len > c->left)
		return fail(c, "more than was announced");
	c->left -= c->have - len;
	c->bytes += c->have - len;
	c->state = LOAD_BODY;
	return LOAD_DONE;
}

static enum load_event body(struct load_conn *c)
{
	while (c->left > 0) {
		ssize_t got = take(c, piece, c->left < PIECE ? (size_t)c->left : PIECE);

		if (got < 0 && errno == EAGAIN)
			return LOAD_WAIT;
		if (got <= 0)
			return fail(c, "body: %s", got == 0 ? "the end" : strerror(errno));
		c->left -= (uint64_t)got;
		c->bytes += (uint64_t)got;
	}
	if (c->plan->close)
		load_conn_close(c);
	c->again = 0;
	c->state = LOAD_SEND;
	return LOAD_DONE;
}

enum load_event load_conn_go(struct load_conn *c, int epoll)
{
	static enum load_event (*const steps[])(struct load_conn *) = {
		[LOAD_CONNECT] = connected, [LOAD_TUNNEL] = tunnel, [LOAD_SHAKE] = shake,
		[LOAD_SEND] = ask,	    [LOAD_HEAD] = head,	    [LOAD_BODY] = body,
	};
	enum load_event got;
	bool whole;

	do {
		if (c->fd < 0)
			return open_it(c, epoll);
		whole = c->state == LOAD_BODY;
		got = steps[c->state](c);
	} while (got == LOAD_DONE && !whole);
	return got;
}
