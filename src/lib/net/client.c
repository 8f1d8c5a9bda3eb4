/* client.c - theory of operation
 *
 * The server may close a kept-alive connection at any moment. That is checked before a request is
 * sent. If it turns out later, before the first byte of an answer, the request is sent once more on
 * a new connection, but only if sending it twice does no harm. */
#include "lib/net/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/ip.h"
#include "lib/base/str.h"
#include "lib/http/http1_write.h"
#include "lib/net/client_conn.h"
#include "lib/net/tls.h"

#define CONNECT_MS 10000
#define REQUEST_MAX ((size_t)16 * 1024) /* bytes of a head, or of a head with a small body */
#define PIECE ((size_t)64 * 1024)
/* Bytes of an unread answer: for more, reconnecting is cheaper. */
#define LEFTOVER_MAX ((size_t)64 * 1024)

/* ---- addresses */

#define HOST_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:[]"

static int client_malformed(const char *url, struct err *e)
{
	return err_set(e, ERR_INVALID,
		       "'%.100s' is not a server's URL: http://HOST:PORT, https://HOST or "
		       "unix:/PATH is",
		       url);
}

static bool client_copy(char *to, size_t cap, const char *from, size_t n)
{
	if (n >= cap)
		return false;
	memcpy(to, from, n);
	to[n] = '\0';
	return true;
}

/* HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. */
static bool client_parse_host_port(struct client *c, const char *text, size_t n)
{
	const char *end = text + n, *host_end, *port;
	bool bracket = n > 0 && *text == '[';

	if (!client_copy(c->host_port, sizeof(c->host_port), text, n) ||
	    strspn(c->host_port, HOST_CHARS) != n)
		return false;
	host_end = bracket ? memchr(text, ']', n) : memchr(text, ':', n);
	port = bracket && host_end ? host_end + 1 : host_end;
	if (!host_end) {
		if (bracket)
			return false;
		host_end = port = end;
	}
	if (bracket)
		text++;
	if (host_end == text ||
	    !client_copy(c->host, sizeof(c->host), text, (size_t)(host_end - text)))
		return false;
	if (port == end)
		return client_copy(c->port, sizeof(c->port), c->is_tls ? "443" : "80",
				   c->is_tls ? 3 : 2);
	if (*port != ':' ||
	    !client_copy(c->port, sizeof(c->port), port + 1, (size_t)(end - port - 1)))
		return false;
	return c->port[0] && strspn(c->port, "0123456789") == strlen(c->port);
}

static int client_parse_url(struct client *c, const char *url, struct err *e)
{
	const char *rest, *slash;
	size_t n;

	if (strncmp(url, "unix:", 5) == 0) {
		c->is_unix = true;
		(void)snprintf(c->host_port, sizeof(c->host_port), "localhost");
		if (url[5] != '/' ||
		    !client_copy(c->host, sizeof(c->host), url + 5, strlen(url + 5)))
			return client_malformed(url, e);
		return 0;
	}
	c->is_tls = strncmp(url, "https://", 8) == 0;
	if (!c->is_tls && strncmp(url, "http://", 7) != 0)
		return client_malformed(url, e);
	rest = url + (c->is_tls ? 8 : 7);
	slash = strchr(rest, '/');
	n = slash ? (size_t)(slash - rest) : strlen(rest);
	if (!client_parse_host_port(c, rest, n))
		return client_malformed(url, e);
	n = slash ? strlen(slash) : 0;
	while (n > 0 && slash[n - 1] == '/')
		n--;
	if (!client_copy(c->prefix, sizeof(c->prefix), n > 0 ? slash : "", n))
		return client_malformed(url, e);
	return 0;
}

struct client *client_new(const struct client_options *o, struct err *e)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_sys(e, "out of memory for a client");
		return NULL;
	}
	c->fd = -1;
	c->over = true;
	c->io_ms = o->io_ms;
	c->connect_ms = o->connect_ms ? o->connect_ms : CONNECT_MS;
	str_copy(c->agent, o->user_agent ? o->user_agent : "cordon/" CORDON_VERSION);
	if (client_parse_url(c, o->url, e) < 0)
		goto undo;
	if (c->is_tls) {
		c->tls = tls_client_new(o->ca_file, o->insecure, e);
		if (!c->tls)
			goto undo;
	}
	return c;
undo:
	client_free(c);
	return NULL;
}

bool client_is_local(const struct client *c)
{
	struct ip ip;

	return c->is_unix || strcasecmp(c->host, "localhost") == 0 ||
	       (ip_read(c->host, strlen(c->host), &ip) == 0 && ip_kind(&ip) == IP_LOOPBACK);
}

void client_on_slow(struct client *c, void (*fn)(void))
{
	c->on_slow = fn;
}

void client_close(struct client *c)
{
	client_conn_close(c);
}

void client_free(struct client *c)
{
	if (!c)
		return;
	client_conn_close(c);
	tls_free(c->tls);
	free(c->head);
	fifo_release(&c->lines);
	fifo_release(&c->event);
	fifo_release(&c->message);
	free(c);
}

/* ---- requests */

static bool client_has_body(const struct client_request *r)
{
	return r->source || r->body_len > 0 || strcmp(r->method, "POST") == 0 ||
	       strcmp(r->method, "PUT") == 0 || strcmp(r->method, "PATCH") == 0;
}

static int client_compose(const struct client *c, const struct client_request *r, char *ret,
			  size_t cap, struct err *e)
{
	char target[HTTP1_TARGET_MAX];
	struct http1_write w;
	int n = snprintf(target, sizeof(target), "%s%s", c->prefix, r->target);

	if (n < 0 || (size_t)n >= sizeof(target))
		return err_set(e, ERR_LIMIT, "the target of a request is too long");
	http1_write_request(&w, ret, cap, r->method, target, c->host_port);
	http1_write_header(&w, "User-Agent", c->agent);
	if (r->type)
		http1_write_header(&w, "Content-Type", r->type);
	if (r->source && r->source_len == 0)
		http1_write_header(&w, "Transfer-Encoding", "chunked");
	else if (client_has_body(r))
		http1_write_number(&w, "Content-Length", r->source ? r->source_len : r->body_len);
	for (size_t i = 0; i < r->nheaders; i++)
		http1_write_header(&w, r->headers[i].name, r->headers[i].value);
	n = http1_write_end(&w);
	if (n < 0)
		return err_set(e, ERR_INVALID,
			       "a request's header is too long or holds control characters");
	return n;
}

/* Send one piece as a chunk, or as it is. Return as client_conn_send(). */
static int client_send_piece(struct client *c, const void *data, size_t n, bool chunked,
			     struct err *e)
{
	char head[CHUNK_HEAD_MAX];
	int early;

	if (chunked) {
		early = client_conn_send(c, head, chunk_head(head, n), true, e);
		if (early)
			return early;
	}
	early = client_conn_send(c, data, n, true, e);
	if (early || !chunked)
		return early;
	return client_conn_send(c, CHUNK_TAIL, sizeof(CHUNK_TAIL) - 1, true, e);
}

/* 0. 1 if the server answered before the end. -1. *ret_ours: the error is that of the source. */
static int client_send_source(struct client *c, const struct client_request *r, bool *ret_ours,
			      struct err *e)
{
	bool chunked = r->source_len == 0;
	uint64_t left = chunked ? UINT64_MAX : r->source_len;
	OWN_MEM uint8_t *buf = malloc(PIECE);

	*ret_ours = true;
	if (!buf)
		return err_sys(e, "out of memory for a request");
	while (left > 0) {
		ssize_t n = r->source(r->source_arg, buf, left < PIECE ? (size_t)left : PIECE, e);
		int early;

		if (n < 0)
			return -1;
		if (n == 0 && !chunked)
			return err_set(e, ERR_INVALID, "the body ended %llu bytes too early",
				       (unsigned long long)left);
		if (n == 0)
			break;
		*ret_ours = false;
		early = client_send_piece(c, buf, (size_t)n, chunked, e);
		if (early)
			return early;
		*ret_ours = true;
		if (!chunked)
			left -= (size_t)n;
	}
	*ret_ours = false;
	return chunked ? client_conn_send(c, CHUNK_LAST, sizeof(CHUNK_LAST) - 1, true, e) : 0;
}

static bool client_is_repeatable(const struct client_request *r)
{
	return !r->source && strcmp(r->method, "POST") != 0 && strcmp(r->method, "PATCH") != 0;
}

static int client_send_body(struct client *c, const struct client_request *r, bool *ret_ours,
			    struct err *e)
{
	*ret_ours = false;
	if (r->source)
		return client_send_source(c, r, ret_ours, e);
	return client_conn_send(c, r->body, r->body_len, true, e);
}

/* Send it and read the head of the answer: 1. 0 if the connection ended before any answer. -1. */
static int client_attempt(struct client *c, const struct client_request *r, const char *head,
			  size_t head_len, struct err *e)
{
	struct err sending = { 0 };
	bool ours = false;
	int n, sent;

	sent = client_conn_send(c, head, head_len, true, &sending);
	if (sent == 0)
		sent = client_send_body(c, r, &ours, &sending);
	if (sent < 0 && ours) {
		*e = sending;
		return -1;
	}
	/* Reads also after sending failed: a server that refuses a body answers, and closes. */
	n = client_conn_read_head(c, strcmp(r->method, "HEAD") == 0 ? HTTP1_HEAD : HTTP1_OTHER, e);
	if (n == 1 && sent != 0)
		c->answer.keep_alive = false; /* the rest of the body was not sent */
	if (n != 1 && sent < 0) {
		bool is_gone = sending.sys == EPIPE || sending.sys == ECONNRESET;

		*e = sending;
		return is_gone ? 0 : client_conn_lost(e);
	}
	return n < 0 ? client_conn_lost(e) : n;
}

/* Read the rest of the last answer if it is short. Else closes the connection. */
static void client_clear_connection(struct client *c)
{
	char buf[4096];
	size_t total = 0;
	struct err e;

	while (c->fd >= 0 && !c->over) {
		ssize_t n = total > LEFTOVER_MAX || !client_pending(c)
				    ? -1
				    : client_read(c, buf, sizeof(buf), &e);

		if (n < 0)
			client_conn_close(c);
		total += n > 0 ? (size_t)n : 0;
	}
	if (c->fd >= 0 && (!c->answer.keep_alive || !client_conn_is_alive(c)))
		client_conn_close(c);
}

static void client_begin_answer(struct client *c)
{
	c->used = true;
	c->left = c->answer.content_length;
	if (c->answer.framing == HTTP1_CHUNKED)
		chunk_init_answer(&c->chunk, UINT64_MAX);
	c->over = c->answer.framing == HTTP1_NO_BODY ||
		  (c->answer.framing == HTTP1_LENGTH && c->left == 0);
	if (c->answer.status == 101)
		c->answer.keep_alive = false; /* what follows is not HTTP */
	fifo_release(&c->lines);
	fifo_release(&c->event);
	c->lines_scanned = 0;
}

int client_send(struct client *c, const struct client_request *r, struct err *e)
{
	OWN_MEM char *head = malloc(REQUEST_MAX);
	struct client_request rest = *r;
	int len, n = 0;

	if (!head)
		return err_sys(e, "out of memory for a request");
	len = client_compose(c, r, head, REQUEST_MAX, e);
	if (len < 0)
		return -1;
	if (!r->source && r->body_len > 0 && r->body_len <= REQUEST_MAX - (size_t)len) {
		memcpy(head + len, r->body, r->body_len); /* one packet */
		len += (int)r->body_len;
		rest.body_len = 0;
	}
	client_clear_connection(c);
	c->answer = (struct http1_response){ 0 };
	c->over = true;
	for (int again = 0; again < 2 && n == 0; again++) {
		bool kept = c->used;

		if (client_conn_open(c, e) < 0)
			return client_conn_lost(e);
		n = client_attempt(c, &rest, head, (size_t)len, e);
		if (n == 1)
			break;
		client_conn_close(c);
		if (n == 0 && (!kept || !client_is_repeatable(r)))
			break;
	}
	if (n < 0)
		return -1;
	if (n != 1)
		return err_set_reason(e, REASON_UNAVAILABLE,
				      "%s closed the connection without an answer", c->host_port);
	client_begin_answer(c);
	return 0;
}

/* ---- bodies of requests from descriptors */

ssize_t client_source_fd(void *arg, void *buf, size_t cap, struct err *e)
{
	ssize_t n;

	do
		n = read(*(int *)arg, buf, cap);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_sys(e, "cannot read what is to be sent") : n;
}

int client_status(const struct client *c)
{
	return c->answer.status;
}

bool client_header(const struct client *c, const char *name, char *ret_value, size_t cap)
{
	struct http1_span value;

	if (http1_find(c->answer.headers, c->answer.headers_n, name, &value) == 0 || value.n >= cap)
		return false;
	memcpy(ret_value, value.p, value.n);
	ret_value[value.n] = '\0';
	return true;
}

uint64_t client_length(const struct client *c)
{
	if (c->answer.framing == HTTP1_LENGTH)
		return c->answer.content_length;
	return c->answer.framing == HTTP1_NO_BODY ? 0 : UINT64_MAX;
}

int client_fd(const struct client *c)
{
	return c->fd;
}

bool client_pending(const struct client *c)
{
	return c->in.len > 0 || (c->tls_conn && tls_has_pending(c->tls_conn));
}

/* ---- the body of an answer */

/* Bytes of the body at the front of c->in. -1: malformed. 0: none, or its end. */
static ssize_t client_front(struct client *c, const uint8_t **ret, struct err *e)
{
	struct http1_span data = { 0 };
	enum chunk_result r;
	size_t used = 0;

	*ret = fifo_bytes(&c->in);
	if (c->answer.framing == HTTP1_LENGTH)
		return (ssize_t)(c->in.len < c->left ? c->in.len : c->left);
	if (c->answer.framing != HTTP1_CHUNKED)
		return (ssize_t)c->in.len;
	r = chunk_read(&c->chunk, fifo_bytes(&c->in), c->in.len, &used, &data);
	fifo_consume(&c->in, used);
	*ret = fifo_bytes(&c->in);
	if (r == CHUNK_BAD || r == CHUNK_TOO_LONG)
		return err_set(e, ERR_INVALID, "%s sent a malformed body", c->host_port);
	c->over = r == CHUNK_END;
	return r == CHUNK_DATA ? (ssize_t)data.n : 0;
}

static void client_took(struct client *c, size_t n)
{
	fifo_consume(&c->in, n);
	if (c->answer.framing == HTTP1_LENGTH) {
		c->left -= n;
		c->over = c->left == 0;
	} else if (c->answer.framing == HTTP1_CHUNKED) {
		chunk_took(&c->chunk, n);
	}
}

/* Read more input for the body: 0, or -1. */
static int client_more(struct client *c, struct err *e)
{
	int n = client_conn_fill(c, client_conn_timeout_ms(c), e);

	if (n == 1)
		return 0;
	if (n == -2)
		return err_set(e, ERR_LIMIT, "%s sent nothing more in time", c->host_port);
	if (n < 0)
		return -1;
	if (c->answer.framing != HTTP1_UNTIL_CLOSE)
		return err_set(e, ERR_SYSTEM, "%s closed the connection inside an answer",
			       c->host_port);
	c->over = true;
	return 0;
}

ssize_t client_read(struct client *c, void *buf, size_t cap, struct err *e)
{
	while (!c->over) {
		const uint8_t *data;
		ssize_t n = client_front(c, &data, e);

		if (n < 0)
			goto lost;
		if (n > 0) {
			size_t taken = (size_t)n < cap ? (size_t)n : cap;

			memcpy(buf, data, taken);
			client_took(c, taken);
			return (ssize_t)taken;
		}
		if (!c->over && client_more(c, e) < 0)
			goto lost;
	}
	if (c->fd >= 0 && !c->answer.keep_alive && c->answer.status != 101)
		client_conn_close(c);
	return 0;
lost:
	client_conn_close(c);
	return client_conn_lost(e);
}

int client_read_all(struct client *c, size_t max, char **ret_body, size_t *ret_len, struct err *e)
{
	struct fifo all = { 0 };

	for (;;) {
		uint8_t *to = fifo_reserve(&all, 16384);
		ssize_t n;

		if (!to) {
			fifo_release(&all);
			return err_sys(e, "out of memory for an answer");
		}
		n = client_read(c, to, 16383, e);
		if (n > 0)
			fifo_commit(&all, (size_t)n);
		if (n > 0 && all.len > max)
			n = err_set(e, ERR_LIMIT, "the answer of %s is longer than %zu bytes",
				    c->host_port, max);
		if (n < 0) {
			fifo_release(&all);
			return -1;
		}
		if (n == 0)
			break;
	}
	all.data[all.len] = '\0'; /* reserved above, and no byte was consumed since */
	*ret_body = (char *)all.data;
	*ret_len = all.len;
	return 0;
}

int client_read_each(struct client *c,
		     int (*on_data)(void *arg, const void *data, size_t len, struct err *e),
		     void *arg, struct err *e)
{
	OWN_MEM char *buf = malloc(65536);

	if (!buf)
		return err_sys(e, "out of memory for an answer");
	for (;;) {
		ssize_t n = client_read(c, buf, 65536, e);

		if (n <= 0)
			return (int)n;
		if (on_data(arg, buf, (size_t)n, e) < 0)
			return -1;
	}
}
