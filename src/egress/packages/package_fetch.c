/* package_fetch.c - theory of operation
 *
 * A pair of sockets: one end is the "cell" of a gateway, which gets the request as any other (but
 * for the package gate: f->internal). This file has the other end. The gateway cuts an answer that
 * its server cut, so a body that ends before its framing says so is never taken for a whole one.
 * All bytes of an answer are a registry's, so nothing of them is believed: lengths are bounded, and
 * only the body of a status 200 is kept. */
#include "egress/packages/package_fetch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/flow/flow.h"
#include "egress/gateway/gateway.h"
#include "lib/base/buf.h"

#define REQUEST_MAX ((size_t)64 * 1024)

/* Repeatable: session is NULL afterwards. */
static void close_all(struct package_fetch *f)
{
	struct egress_session *session = f->session;

	f->session = NULL;
	if (session == NULL)
		return;
	gateway_stream_close(&f->stream, false);
	resource_share_give_fds(&session->share, 2);
}

/* The file stays open for the owner. */
static void package_fetch_finish(struct package_fetch *f, const struct err *e)
{
	close_all(f);
	completion_end(&f->done, e);
}

static void package_fetch_fail(struct package_fetch *f, const char *why)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_SYSTEM, "%s", why);
	package_fetch_finish(f, &e);
}

/* ---- the answer */

/* A header that is too long counts as absent. */
static void package_fetch_take(struct http1_span from, char *ret, size_t cap)
{
	ret[0] = '\0';
	if (from.n == 0 || from.n >= cap)
		return;
	memcpy(ret, from.p, from.n);
	ret[from.n] = '\0';
}

/* The gateway writes X-Cordon-... headers with its reason when it answers itself. */
static void take_headers(struct package_fetch *f, const struct http1_response *a)
{
	struct http1_span v = { 0 };

	(void)http1_find(a->headers, a->headers_n, "etag", &v);
	package_fetch_take(v, f->etag, sizeof(f->etag));
	(void)http1_find(a->headers, a->headers_n, "last-modified", &v);
	package_fetch_take(v, f->modified, sizeof(f->modified));
	(void)http1_find(a->headers, a->headers_n, "content-type", &v);
	package_fetch_take(v, f->type, sizeof(f->type));
	(void)http1_find(a->headers, a->headers_n, "location", &v);
	package_fetch_take(v, f->location, sizeof(f->location));
	f->is_denied = http1_find(a->headers, a->headers_n, "x-cordon-denied", &v) > 0;
	if (f->is_denied || http1_find(a->headers, a->headers_n, "x-cordon-failed", &v) > 0)
		package_fetch_take(v, f->reason, sizeof(f->reason));
}

/* "the metadata is larger than 64 MiB", and what else it may be */
static void fail_large(struct package_fetch *f, const char * or)
{
	char why[128];

	(void)snprintf(why, sizeof(why), "the %s is larger than %llu MiB%s", f->noun,
		       (unsigned long long)(f->max >> 20), or);
	package_fetch_fail(f, why);
}

static bool is_plain(const struct http1_response *a)
{
	struct http1_span coding;
	size_t n = http1_find(a->headers, a->headers_n, "content-encoding", &coding);

	return n == 0 || (n == 1 && (coding.n == 0 || http1_span_is_nocase(coding, "identity")));
}

/* False: it has ended. */
static bool begin_body(struct package_fetch *f, const struct http1_response *a)
{
	f->status = a->status;
	take_headers(f, a);
	if (a->status != 200 || f->head) {
		package_fetch_finish(f, NULL);
		return false;
	}
	if (!is_plain(a)) {
		package_fetch_fail(f,
				   "the registry sent a compressed body, which was not asked for");
		return false;
	}
	if (a->framing == HTTP1_LENGTH && a->content_length > f->max) {
		fail_large(f, "");
		return false;
	}
	f->fd = memfd_create("package", MFD_CLOEXEC);
	if (f->fd < 0) {
		package_fetch_fail(f, "no memory for the answer of a registry");
		return false;
	}
	f->framing = a->framing;
	f->left = a->content_length;
	chunk_init(&f->chunk, f->max);
	return true;
}

/* False: it has ended. */
static bool read_head(struct package_fetch *f)
{
	static struct http1_response a; /* too large for the stack */
	struct http1_fault fault;
	struct fifo *in = &f->stream.in;
	int n = in->len == 0 ? 0 : http1_head_end((char *)fifo_bytes(in), in->len, &f->scanned);

	if (n > 0)
		n = http1_response_read((char *)fifo_bytes(in), (size_t)n,
					f->head ? HTTP1_HEAD : HTTP1_GET, &a, &fault);
	if (n < 0 || (n == 0 && in->len >= FLOW_HEAD_MAX)) {
		package_fetch_fail(f, "the head of the registry's answer is malformed");
		return false;
	}
	if (n == 0)
		return true;
	fifo_consume(in, (size_t)n);
	f->scanned = 0;
	if (a.status < 200)
		return read_head(f);
	f->has_head = true;
	return begin_body(f, &a);
}

/* The next piece of the body received. 0: none. -1: malformed or too long. 1: the end. */
static int next_piece(struct package_fetch *f, struct http1_span *ret)
{
	struct fifo *in = &f->stream.in;
	size_t used = 0;

	*ret = (struct http1_span){ (char *)fifo_bytes(in), in->len };
	if (f->framing == HTTP1_LENGTH) {
		if (ret->n > f->left)
			ret->n = (size_t)f->left;
		return f->left == 0;
	}
	if (f->framing != HTTP1_CHUNKED)
		return -1;
	if (in->len == 0)
		return 0;
	switch (chunk_read(&f->chunk, fifo_bytes(in), in->len, &used, ret)) {
	case CHUNK_DATA:
		fifo_consume(in, used);
		return 0;
	case CHUNK_MORE:
		fifo_consume(in, used);
		ret->n = 0;
		return 0;
	case CHUNK_END:
		return 1;
	case CHUNK_BAD:
	case CHUNK_TOO_LONG:
		break;
	}
	return -1;
}

/* False: over a bound, or the memory file takes no more. */
static bool package_fetch_keep(struct package_fetch *f, struct http1_span piece)
{
	if (f->size + piece.n > f->max || !f->on_bytes(f, piece.n))
		return false;
	if (write(f->fd, piece.p, piece.n) != (ssize_t)piece.n)
		return false;
	f->size += piece.n;
	if (f->framing == HTTP1_CHUNKED)
		chunk_took(&f->chunk, piece.n);
	else
		f->left -= piece.n;
	fifo_consume(&f->stream.in, piece.n);
	return true;
}

/* False: it has ended. */
static bool read_body(struct package_fetch *f)
{
	struct http1_span piece;
	int got;

	while ((got = next_piece(f, &piece)) == 0 && piece.n > 0) {
		if (!package_fetch_keep(f, piece)) {
			fail_large(f, ", or there is no memory for it");
			return false;
		}
	}
	if (got == 0)
		return true;
	if (got > 0)
		package_fetch_finish(f, NULL);
	else
		fail_large(f, ", or its chunks are malformed");
	return false;
}

/* A head and its body may come in one turn. The end is looked at last, so bytes before it count. */
static void on_ready(struct gateway_stream *s)
{
	struct package_fetch *f = s->arg;

	(void)gateway_stream_flush(s);
	(void)gateway_stream_fill(s, GATEWAY_STREAM_IN_MAX);
	if (!f->has_head && !read_head(f))
		return;
	if (f->has_head && !read_body(f))
		return;
	if (s->ended || s->broken) {
		package_fetch_fail(f, "the registry's answer was cut");
		return;
	}
	gateway_stream_arm(s, true);
}

/* ---- the request */

/* The buffer is wiped if it had credentials. */
static int write_request(struct package_fetch *f, const struct package_fetch_ask *ask,
			 struct err *e)
{
	struct buf b = BUF_INIT(REQUEST_MAX);
	char host[ENDPOINT_HOST_MAX];
	int fits;

	endpoint_host(ask->to, ask->tls, host);
	buf_printf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: cordon\r\n",
		   ask->head ? "HEAD" : "GET", ask->target, host);
	buf_printf(&b, "Accept: %s\r\nAccept-Encoding: identity\r\n",
		   ask->accept == NULL ? "*/*" : ask->accept);
	if (ask->etag[0] != '\0')
		buf_printf(&b, "If-None-Match: %s\r\n", ask->etag);
	if (ask->modified[0] != '\0')
		buf_printf(&b, "If-Modified-Since: %s\r\n", ask->modified);
	if (ask->credentials != NULL)
		buf_put_text(&b, ask->credentials);
	buf_put_text(&b, "\r\n");
	fits = buf_check(&b, e);
	if (fits == 0)
		gateway_stream_add(&f->stream, b.data, b.len);
	if (ask->credentials != NULL && b.data != NULL)
		explicit_bzero(b.data, b.len);
	buf_release(&b);
	return fits;
}

/* The gateway's end. fd is taken over. The flow is judged as one of a program. Its record says by
 * whom the document was asked for. */
static int start_flow(struct package_fetch *f, const struct package_fetch_ask *ask, int fd,
		      struct err *e)
{
	struct flow *flow = flow_new(f->session, fd);

	if (flow == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	flow->internal = true;
	flow->endpoint = *ask->to;
	if (ask->owner != NULL)
		flow->owner =
			(struct owner){ .result = ask->owner->result, .mark = ask->owner->mark };
	flow->scheme = ask->tls ? "https" : "http";
	flow_judge(flow);
	if (gateway_start_internal(flow, ask->tls, e) == 0)
		return 0;
	flow_end(flow, true);
	return -1;
}

/* On failure the caller ends the fetch. */
static int open_both(struct package_fetch *f, const struct package_fetch_ask *ask, struct err *e)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0) {
		resource_share_give_fds(&f->session->share, RESOURCE_SHARE_FLOW_FDS);
		return err_sys(e, "socketpair");
	}
	if (gateway_stream_open(&f->stream, f->session->egress->loop, fds[0], e) < 0) {
		fd_close(fds[1]);
		resource_share_give_fds(&f->session->share, RESOURCE_SHARE_FLOW_FDS);
		return -1;
	}
	gateway_stream_watch(&f->stream, on_ready, f);
	if (start_flow(f, ask, fds[1], e) < 0)
		return -1;
	return write_request(f, ask, e);
}

void package_fetch_init(struct package_fetch *f)
{
	*f = (struct package_fetch){ .fd = -1 };
	f->stream.fd = f->stream.watch.fd = -1;
}

/* Also used again, after package_fetch_release(). */
void package_fetch_start(struct package_fetch *f, struct egress_session *session,
			 const struct package_fetch_ask *ask)
{
	struct err e = { 0 };

	f->status = 0;
	f->fd = -1;
	f->size = 0;
	f->etag[0] = f->modified[0] = f->type[0] = f->location[0] = f->reason[0] = '\0';
	f->is_denied = false;
	f->has_head = false;
	f->head = ask->head;
	f->noun = ask->noun;
	f->max = ask->max;
	f->scanned = 0;
	f->stream = (struct gateway_stream){ .fd = -1 };
	completion_begin(&f->done, session->egress->loop, NULL);
	completion_set_deadline(&f->done, PACKAGE_FETCH_MS, "the answer of a registry");
	if (session->nflows >= EGRESS_SESSION_FLOWS_MAX ||
	    !resource_share_take_fds(&session->share, PACKAGE_FETCH_FDS)) {
		(void)err_set(&e, ERR_LIMIT, "this session has too many connections");
		completion_end(&f->done, &e);
		return;
	}
	f->session = session;
	if (open_both(f, ask, &e) < 0) {
		package_fetch_finish(f, &e);
		return;
	}
	(void)gateway_stream_flush(&f->stream);
	gateway_stream_arm(&f->stream, true);
}

void package_fetch_release(struct package_fetch *f)
{
	completion_cancel(&f->done);
	close_all(f);
	if (f->fd >= 0)
		fd_close(f->fd);
	f->fd = -1;
}
