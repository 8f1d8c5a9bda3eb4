/* client.c - theory of operation
 *
 * The server may close a connection that was kept alive at any moment. That is checked before a
 * request is sent; if it turns out later, before the first byte of an answer, the request is sent
 * once more on a new connection, but only if sending it twice does no harm. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client_conn.h"
#include "http1_write.h"
#include "tls.h"

#define CONNECT_MS 10000
#define REQUEST_MAX ((size_t)16 * 1024) /* bytes of a head, or of a head with a small body */
#define PIECE ((size_t)64 * 1024)
/* Bytes of an answer that was not read: for more, reconnecting is cheaper. */
#define LEFTOVER_MAX ((size_t)64 * 1024)

/* ---- addresses */

#define HOST_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:[]"

static int malformed(const char *url, struct err *e)
{
	return err_set(e, ERR_INVALID,
		       "'%.100s' is not a server's URL: http://HOST:PORT, https://HOST or "
		       "unix:/PATH is",
		       url);
}

static bool copy(char *to, size_t cap, const char *from, size_t n)
{
	if (n >= cap)
		return false;
	memcpy(to, from, n);
	to[n] = '\0';
	return true;
}

/* HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. */
static bool parse_host_port(struct client *c, const char *text, size_t n)
{
	const char *end = text + n, *host_end, *port;
	bool bracket = n > 0 && *text == '[';

	if (!copy(c->host_port, sizeof(c->host_port), text, n) ||
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
	if (host_end == text || !copy(c->host, sizeof(c->host), text, (size_t)(host_end - text)))
		return false;
	if (port == end)
		return copy(c->port, sizeof(c->port), c->is_tls ? "443" : "80", c->is_tls ? 3 : 2);
	if (*port != ':' || !copy(c->port, sizeof(c->port), port + 1, (size_t)(end - port - 1)))
		return false;
	return c->port[0] && strspn(c->port, "0123456789") == strlen(c->port);
}

static int parse_url(struct client *c, const char *url, struct err *e)
{
	const char *rest, *slash;
	size_t n;

	if (strncmp(url, "unix:", 5) == 0) {
		c->is_unix = true;
		(void)snprintf(c->host_port, sizeof(c->host_port), "localhost");
		if (url[5] != '/' || !copy(c->host, sizeof(c->host), url + 5, strlen(url + 5)))
			return malformed(url, e);
		return 0;
	}
	c->is_tls = strncmp(url, "https://", 8) == 0;
	if (!c->is_tls && strncmp(url, "http://", 7) != 0)
		return malformed(url, e);
	rest = url + (c->is_tls ? 8 : 7);
	slash = strchr(rest, '/');
	n = slash ? (size_t)(slash - rest) : strlen(rest);
	if (!parse_host_port(c, rest, n))
		return malformed(url, e);
	n = slash ? strlen(slash) : 0;
	while (n > 0 && slash[n - 1] == '/')
		n--;
	if (!copy(c->prefix, sizeof(c->prefix), n > 0 ? slash : "", n))
		return malformed(url, e);
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
	(void)snprintf(c->agent, sizeof(c->agent), "%s",
		       o->user_agent ? o->user_agent : "cordon/" CORDON_VERSION);
	if (parse_url(c, o->url, e) < 0)
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

static bool has_body(const struct client_request *r)
{
	return r->source || r->body_len > 0 || strcmp(r->method, "POST") == 0 ||
	       strcmp(r->method, "PUT") == 0 || strcmp(r->method, "PATCH") == 0;
}

static int compose(const struct client *c, const struct client_request *r, char *ret, size_t cap,
		   struct err *e)
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
	else if (has_body(r))
		http1_write_number(&w, "Content-Length", r->source ? r->source_len : r->body_len);
	for (size_t i = 0; i < r->nheaders; i++)
		http1_write_header(&w, r->headers[i].name, r->headers[i].value);
	n = http1_write_end(&w);
	if (n < 0)
		return err_set(e, ERR_INVALID,
			       "a request's header is too long or holds control characters");
	return n;
}

/* Sends one piece as a chunk, or as it is. Returns as client_conn_send(). */
static int send_piece(struct client *c, const void *data, size_t n, bool chunked, struct err *e)
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

/* 0; 1 if the server answered before the end; -1. *ret_ours: the error is that of the source. */
static int send_source(struct client *c, const struct client_request *r, bool *ret_ours,
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
		early = send_piece(c, buf, (size_t)n, chunked, e);
		if (early)
			return early;
		*ret_ours = true;
		if (!chunked)
			left -= (size_t)n;
	}
	*ret_ours = false;
	return chunked ? client_conn_send(c, CHUNK_LAST, sizeof(CHUNK_LAST) - 1, true, e) : 0;
}

static bool is_repeatable(const struct client_request *r)
{
	return !r->source && strcmp(r->method, "POST") != 0 && strcmp(r->method, "PATCH") != 0;
}

static int send_body(struct client *c, const struct client_request *r, bool *ret_ours,
		     struct err *e)
{
	*ret_ours = false;
	if (r->source)
		return send_source(c, r, ret_ours, e);
	return client_conn_send(c, r->body, r->body_len, true, e);
}

/* Sends it and reads the head of the answer: 1; 0 if the connection ended before any answer; -1. */
static int attempt(struct client *c, const struct client_request *r, const char *head,
		   size_t head_len, struct err *e)
{
	struct err sending = { 0 };
	bool ours = false;
	int n, sent;

	sent = client_conn_send(c, head, head_len, true, &sending);
	if (sent == 0)
		sent = send_body(c, r, &ours, &sending);
	if (sent < 0 && ours) {
		*e = sending;
		return -1;
	}
	/* Reads also after sending failed: a server that refuses a body answers, and closes. */
	n = client_conn_read_head(c, strcmp(r->method, "HEAD") == 0 ? HTTP1_HEAD : HTTP1_OTHER, e);
	if (n == 1 && sent != 0)
		c->answer.keep_alive = false; /* the rest of the body was not sent */
	if (n != 1 && sent < 0) {
		*e = sending;
		return sending.sys == EPIPE || sending.sys == ECONNRESET ? 0 : -1;
	}
	return n;
}

/* Reads the rest of the last answer if it is short; else closes the connection. */
static void clear_connection(struct client *c)
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

static void begin_answer(struct client *c)
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
	len = compose(c, r, head, REQUEST_MAX, e);
	if (len < 0)
		return -1;
	if (!r->source && r->body_len > 0 && r->body_len <= REQUEST_MAX - (size_t)len) {
		memcpy(head + len, r->body, r->body_len); /* one packet */
		len += (int)r->body_len;
		rest.body_len = 0;
	}
	clear_connection(c);
	c->answer = (struct http1_response){ 0 };
	c->over = true;
	for (int again = 0; again < 2 && n == 0; again++) {
		bool kept = c->used;

		if (client_conn_open(c, e) < 0)
			return -1;
		n = attempt(c, &rest, head, (size_t)len, e);
		if (n == 1)
			break;
		client_conn_close(c);
		if (n == 0 && (!kept || !is_repeatable(r)))
			return err_set(e, ERR_SYSTEM, "%s closed the connection without an answer",
				       c->host_port);
	}
	if (n != 1)
		return n < 0 ? -1
			     : err_set(e, ERR_SYSTEM, "%s closed the connection without an answer",
				       c->host_port);
	begin_answer(c);
	return 0;
}
