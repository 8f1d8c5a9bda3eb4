/* forward_headers.c - writes the heads of both directions, header by header.
 *
 * The input was read by http1.h, so no value can contain the end of a line. The caller's additions
 * are checked here. */
#include "lib/net/forward_headers.h"

#include <string.h>
#include <strings.h>

#include "lib/http/hop.h"

static bool headers_begins(struct http1_span s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.n >= n && strncasecmp(s.p, prefix, n) == 0;
}

static bool headers_is_among(struct http1_span name, const char *const *names)
{
	for (; names && *names; names++) {
		if (http1_span_is_nocase(name, *names))
			return true;
	}
	return false;
}

bool forward_headers_wants_upgrade(const struct http1_request *r)
{
	return r->minor > 0 && r->framing == HTTP1_NO_BODY &&
	       http1_lists(r->headers, r->headers_n, "connection", "upgrade") &&
	       http1_find(r->headers, r->headers_n, "upgrade", NULL) == 1;
}

/* ---- the request */

static void headers_put_span(struct buf *b, struct http1_span s)
{
	if (s.n > 0)
		buf_put(b, s.p, s.n);
}

static void headers_put_header(struct buf *b, const char *name, struct http1_span value)
{
	buf_printf(b, "%s: ", name);
	headers_put_span(b, value);
	buf_put_text(b, "\r\n");
}

static struct http1_span headers_span(const char *text)
{
	return (struct http1_span){ text, strlen(text) };
}

static void headers_put_line(struct buf *b, const struct http1_request *r, const char *target)
{
	headers_put_span(b, r->method_name);
	buf_put_text(b, " ");
	if (target) {
		buf_put_text(b, target);
		/* the server is an origin, and gets the origin form */
	} else if (r->form == HTTP1_ABSOLUTE) {
		headers_put_span(b, r->path);
		if (r->query.p) {
			buf_put_text(b, "?");
			headers_put_span(b, r->query);
		}
	} else {
		headers_put_span(b, r->target);
	}
	buf_put_text(b, " HTTP/1.1\r\n");
}

static bool headers_is_request_header(const struct hop *hop,
				      const struct forward_headers_options *o,
				      struct http1_span name)
{
	static const char *const replaced[] = { "host", "expect", "forwarded", "x-real-ip", NULL };

	return !hop_is(hop, name) && !headers_is_among(name, replaced) &&
	       !headers_begins(name, "x-forwarded-") && !headers_is_among(name, o->drop);
}

static void headers_put_headers(struct buf *b, const struct http1_request *r,
				const struct forward_headers_options *o)
{
	const struct hop hop = hop_of(r->headers, r->headers_n);

	for (size_t i = 0; i < r->headers_n; i++) {
		if (!headers_is_request_header(&hop, o, r->headers[i].name))
			continue;
		headers_put_span(b, r->headers[i].name);
		buf_put_text(b, ": ");
		headers_put_span(b, r->headers[i].value);
		buf_put_text(b, "\r\n");
	}
}

/* "1.2.3.4" of "1.2.3.4:80", "::1" of "[::1]:80". Empty for anything else. */
static struct http1_span headers_address_of(const char *peer)
{
	const char *colon = peer ? strrchr(peer, ':') : NULL;
	struct http1_span s = { peer, colon ? (size_t)(colon - peer) : 0 };

	if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
		s = (struct http1_span){ s.p + 1, s.n - 2 };
	return s;
}

static void headers_put_forwarded(struct buf *b, const struct http1_request *r,
				  const struct forward_headers_options *o)
{
	struct http1_span address = headers_address_of(o->peer);

	if (address.n > 0)
		headers_put_header(b, "X-Forwarded-For", address);
	if (r->host.n > 0)
		headers_put_header(b, "X-Forwarded-Host", r->host);
	if (o->scheme)
		headers_put_header(b, "X-Forwarded-Proto", headers_span(o->scheme));
}

/* Each request has a connection of its own, so that bytes after it cannot be taken for another
 * request. */
static void headers_put_framing(struct buf *b, const struct http1_request *r)
{
	struct http1_span upgrade;

	if (r->framing == HTTP1_CHUNKED)
		buf_put_text(b, "Transfer-Encoding: chunked\r\n");
	if (r->framing == HTTP1_LENGTH)
		buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)r->content_length);
	if (!forward_headers_wants_upgrade(r)) {
		buf_put_text(b, "Connection: close\r\n\r\n");
		return;
	}
	(void)http1_find(r->headers, r->headers_n, "upgrade", &upgrade);
	headers_put_header(b, "Upgrade", upgrade);
	buf_put_text(b, "Connection: Upgrade\r\n\r\n");
}

static bool headers_is_clean(const struct forward_headers_options *o)
{
	struct http1_span address = headers_address_of(o->peer);

	return (!o->host || (o->host[0] && http1_is_value(o->host, strlen(o->host)))) &&
	       (!o->target || http1_is_target(o->target, strlen(o->target))) &&
	       (!o->scheme || http1_is_value(o->scheme, strlen(o->scheme))) &&
	       (address.n == 0 || http1_is_value(address.p, address.n));
}

int forward_headers_request(const struct http1_request *r, const struct forward_headers_options *o,
			    struct buf *ret, struct err *e)
{
	struct http1_span host = o->host ? headers_span(o->host) : r->host;

	if (!headers_is_clean(o))
		return err_set(e, ERR_INVALID,
			       "a header to be added to the request contains control bytes");
	headers_put_line(ret, r, o->target);
	/* HTTP/1.0 needs none, HTTP/1.1 does. */
	headers_put_header(ret, "Host", host.n > 0 ? host : headers_span("localhost"));
	headers_put_headers(ret, r, o);
	headers_put_forwarded(ret, r, o);
	headers_put_framing(ret, r);
	return buf_check(ret, e);
}

/* ---- the answer */

bool forward_headers_in_answer(const struct http1_response *r, const struct http1_header *h)
{
	const struct hop hop = hop_of(r->headers, r->headers_n);

	if (r->status == 101 && http1_span_is_nocase(h->name, "upgrade"))
		return true;
	return !hop_is(&hop, h->name);
}

uint64_t forward_headers_length(const struct http1_response *r)
{
	struct http1_span text;
	uint64_t length = 0;

	/* The parser has checked it, also where it does not define the body. */
	if (http1_find(r->headers, r->headers_n, "content-length", &text) != 1)
		return UINT64_MAX;
	for (size_t i = 0; i < text.n; i++)
		length = length * 10 + (uint64_t)(text.p[i] - '0');
	return length;
}
