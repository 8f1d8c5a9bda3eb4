/* client_conn.c - the client's connection: opens it, waits, and moves bytes. The socket is
 * non-blocking. All waiting is in poll(2), bounded by the caller's timeouts. */
#include "lib/net/client_conn.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "lib/net/client.h"
#include "lib/net/tls.h"

#define READ_SIZE ((size_t)64 * 1024)
#define ABSORB_MAX ((size_t)4 * 1024 * 1024) /* input kept while a request is being sent */
#define HEAD_MAX ((size_t)64 * 1024)
#define POLL_MAX_MS 1000000000ULL

uint64_t client_conn_timeout_ms(const struct client *c)
{
	return c->io_ms ? c->io_ms : UINT64_MAX;
}

/* Wait for events: those that came. 0 after timeout_ms. -1. */
static int client_wait_for(const struct client *c, short events, uint64_t timeout_ms, struct err *e)
{
	uint64_t began = clock_now_ns();
	struct pollfd p = { .fd = c->fd, .events = events };
	bool told = false;

	for (;;) {
		uint64_t past = (clock_now_ns() - began) / CLOCK_MS;
		uint64_t left = past < timeout_ms ? timeout_ms - past : 0;
		uint64_t step = left < POLL_MAX_MS ? left : POLL_MAX_MS;
		int n;

		if (c->on_slow != NULL && !told && past >= CLIENT_SLOW_MS) {
			told = true;
			c->on_slow();
		}
		if (c->on_slow != NULL && !told && step > CLIENT_SLOW_MS - past)
			step = CLIENT_SLOW_MS - past;
		n = poll(&p, 1, (int)step);
		if (n > 0)
			return p.revents;
		if (n < 0 && errno != EINTR)
			return err_sys(e, "cannot wait for %s", c->host_port);
		if (n == 0 && step == left)
			return 0;
	}
}

static int client_timed_out(const struct client *c, struct err *e)
{
	return err_set(e, ERR_LIMIT, "%s did not answer in time", c->host_port);
}

/* ---- opening */

static int client_handshake(struct client *c, struct err *e)
{
	uint64_t deadline = clock_now_ns() + c->connect_ms * CLOCK_MS;

	c->tls_conn = tls_open(c->tls, c->fd, c->host, e);
	if (!c->tls_conn)
		return -1;
	while (tls_handshake(c->tls_conn, e) < 0) {
		uint64_t now = clock_now_ns();
		int n;

		if (errno != EAGAIN)
			return err_wrap(e, "cannot connect to %s", c->host_port);
		if (now >= deadline)
			return client_timed_out(c, e);
		n = client_wait_for(c, tls_wants_write(c->tls_conn) ? POLLOUT : POLLIN,
				    (deadline - now) / CLOCK_MS + 1, e);
		if (n < 0)
			return -1;
	}
	return 0;
}

static int client_connect_unix(const struct client *c, struct err *e)
{
	char text[sizeof(c->host) + 8];
	struct addr a;

	(void)snprintf(text, sizeof(text), "unix:%s", c->host);
	if (addr_parse(text, &a, e) < 0)
		return -1;
	return addr_connect(&a, c->connect_ms, e);
}

/* Try each address of a name in turn. The error is that of the last. */
static int client_connect_tcp(const struct client *c, struct err *e)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	struct addrinfo *all = NULL;
	int fd = -1, failure = getaddrinfo(c->host, c->port, &hints, &all);

	if (failure)
		return err_set(e, ERR_NOT_FOUND, "cannot find the address of '%s': %s", c->host,
			       gai_strerror(failure));
	for (struct addrinfo *at = all; at && fd < 0; at = at->ai_next) {
		struct addr a = { .len = at->ai_addrlen };

		memcpy(&a.at, at->ai_addr, at->ai_addrlen);
		fd = addr_connect(&a, c->connect_ms, e);
	}
	freeaddrinfo(all);
	return fd;
}

int client_conn_open(struct client *c, struct err *e)
{
	if (c->fd >= 0)
		return 0;
	c->fd = c->is_unix ? client_connect_unix(c, e) : client_connect_tcp(c, e);
	if (c->fd < 0)
		return -1;
	if (c->is_tls && client_handshake(c, e) < 0) {
		client_conn_close(c);
		return -1;
	}
	return 0;
}

void client_conn_close(struct client *c)
{
	tls_close(c->tls_conn);
	c->tls_conn = NULL;
	if (c->fd >= 0)
		fd_close(c->fd);
	c->fd = -1;
	c->used = false;
	fifo_release(&c->in);
}

/* ---- moving bytes */

/* Read the bytes already there, without waiting: as read(2). */
static ssize_t client_take(struct client *c)
{
	uint8_t *to = fifo_reserve(&c->in, READ_SIZE);
	ssize_t n;

	if (!to) {
		errno = ENOMEM;
		return -1;
	}
	n = c->tls_conn ? tls_read(c->tls_conn, to, READ_SIZE) : recv(c->fd, to, READ_SIZE, 0);
	if (n > 0)
		fifo_commit(&c->in, (size_t)n);
	return n;
}

bool client_conn_is_alive(struct client *c)
{
	/* No request is open, so any input means that the server closes. */
	return c->in.len == 0 && client_take(c) < 0 && errno == EAGAIN;
}

int client_conn_fill(struct client *c, uint64_t timeout_ms, struct err *e)
{
	for (;;) {
		ssize_t n = client_take(c);
		int ready;

		if (n >= 0)
			return n > 0;
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, "cannot read from %s", c->host_port);
		ready = client_wait_for(
			c, c->tls_conn && tls_wants_write(c->tls_conn) ? POLLOUT : POLLIN,
			timeout_ms, e);
		if (ready < 0)
			return -1;
		if (ready == 0)
			return -2;
	}
}

/* Wait for room to write, and read incoming bytes. 1 if bytes came. */
static int client_wait_for_room(struct client *c, struct err *e)
{
	short events = c->in.len < ABSORB_MAX ? POLLOUT | POLLIN : POLLOUT;
	int ready = client_wait_for(c, events, client_conn_timeout_ms(c), e);

	if (ready < 0)
		return -1;
	if (ready == 0)
		return client_timed_out(c, e);
	if (!(ready & POLLIN))
		return 0;
	return client_take(c) > 0;
}

int client_conn_send(struct client *c, const void *data, size_t len, bool stop, struct err *e)
{
	const uint8_t *at = data;

	while (len > 0) {
		ssize_t n = c->tls_conn ? tls_write(c->tls_conn, at, len)
					: send(c->fd, at, len, MSG_NOSIGNAL);
		int came;

		if (n > 0) {
			at += n;
			len -= (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, "cannot send to %s", c->host_port);
		came = client_wait_for_room(c, e);
		if (came < 0)
			return -1;
		if (came > 0 && stop)
			return 1;
	}
	return 0;
}

/* ---- the head of an answer */

/* 1. 0 if it is not complete. -1. */
static int client_parse_head(struct client *c, size_t *scanned, enum http1_method method,
			     struct err *e)
{
	struct http1_fault fault = { 502, "the head contains control bytes, or a CR or LF alone" };
	int n = c->in.len > 0 ? http1_head_end((const char *)fifo_bytes(&c->in), c->in.len, scanned)
			      : 0;

	if (n == 0 && c->in.len > HEAD_MAX)
		return err_set(e, ERR_LIMIT, "%s answered with a head that is too long",
			       c->host_port);
	if (n == 0)
		return 0;
	if (n > 0) {
		char *head = realloc(c->head, (size_t)n);

		if (!head)
			return err_sys(e, "out of memory for an answer");
		c->head = head;
		memcpy(head, fifo_bytes(&c->in), (size_t)n);
		n = http1_response_read(head, (size_t)n, method, &c->answer, &fault);
	}
	if (n <= 0)
		return err_set(e, ERR_INVALID, "%s did not answer in HTTP: %s", c->host_port,
			       fault.words);
	fifo_consume(&c->in, (size_t)n);
	*scanned = 0;
	return 1;
}

int client_conn_read_head(struct client *c, enum http1_method method, struct err *e)
{
	size_t scanned = 0;
	bool anything = c->in.len > 0;

	for (;;) {
		int n = client_parse_head(c, &scanned, method, e);

		if (n < 0)
			return -1;
		if (n > 0 && (c->answer.status >= 200 || c->answer.status == 101))
			return 1;
		if (n > 0)
			continue; /* 100 Continue and other interim answers */
		n = client_conn_fill(c, client_conn_timeout_ms(c), e);
		if (n == -1 && !anything && (e->sys == ECONNRESET || e->sys == EPIPE))
			return 0;
		if (n == -1)
			return -1;
		if (n == -2)
			return client_timed_out(c, e);
		if (n == 0 && !anything)
			return 0;
		if (n == 0)
			return err_set(e, ERR_SYSTEM, "%s closed the connection inside a head",
				       c->host_port);
		anything = true;
	}
}

int client_conn_lost(struct err *e)
{
	char why[sizeof(e->msg)];

	memcpy(why, e->msg, sizeof(why));
	return err_set_reason(e, REASON_UNAVAILABLE, "%s", why);
}
