/* client_body.c - reads the body of an answer (client.h), and bodies of requests from descriptors.
 */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "client_conn.h"
#include "tls.h"

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

/* ---- the body */

/* Bytes of the body at the front of c->in. -1: malformed. 0: none, or its end. */
static ssize_t front(struct client *c, const uint8_t **ret, struct err *e)
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

static void took(struct client *c, size_t n)
{
	fifo_consume(&c->in, n);
	if (c->answer.framing == HTTP1_LENGTH) {
		c->left -= n;
		c->over = c->left == 0;
	} else if (c->answer.framing == HTTP1_CHUNKED) {
		chunk_took(&c->chunk, n);
	}
}

/* Reads more input for the body: 0, or -1. */
static int more(struct client *c, struct err *e)
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
		ssize_t n = front(c, &data, e);

		if (n < 0)
			goto lost;
		if (n > 0) {
			size_t taken = (size_t)n < cap ? (size_t)n : cap;

			memcpy(buf, data, taken);
			took(c, taken);
			return (ssize_t)taken;
		}
		if (!c->over && more(c, e) < 0)
			goto lost;
	}
	if (c->fd >= 0 && !c->answer.keep_alive && c->answer.status != 101)
		client_conn_close(c);
	return 0;
lost:
	client_conn_close(c);
	return -1;
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
