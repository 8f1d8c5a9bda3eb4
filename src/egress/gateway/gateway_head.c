/* gateway_head.c - theory of operation
 *
 * What was read strictly is written strictly: each header by itself, without those of one
 * connection only (hop.h), and with the framing that egress uses. A value changed on its way (a
 * secret put in, or masked) is checked again. */
#include "egress/gateway/gateway_head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "egress/gateway/gateway_body.h"
#include "egress/gateway/llm_call.h"
#include "lib/http/hop.h"
#include "lib/http/override_header.h"

#define VALUE_MAX ((size_t)FLOW_HEAD_MAX)

static bool is_among(struct http1_span name, const char *const *names)
{
	for (; *names; names++) {
		if (http1_span_is_nocase(name, *names))
			return true;
	}
	return false;
}

static void put_span(struct buf *b, struct http1_span s)
{
	if (s.n > 0)
		buf_put(b, s.p, s.n);
}

static void put_header(struct buf *b, struct http1_span name, struct http1_span value)
{
	put_span(b, name);
	buf_put_text(b, ": ");
	put_span(b, value);
	buf_put_text(b, "\r\n");
}

static struct http1_span gateway_head_span(const char *text)
{
	return (struct http1_span){ text, strlen(text) };
}

/* ---- requests
 *
 * Headers come from three places: the program, the rule (set), and egress itself for the framing.
 * One of the rule takes the place of the program's. */

/* Does the policy set this header, instead of the program? */
static bool is_set(const struct gateway *x, struct http1_span name)
{
	for (size_t i = 0; x->rule && i < x->rule->nset; i++) {
		if (http1_span_is_nocase(name, x->rule->set[i].name))
			return true;
	}
	return false;
}

/* Range, If-Range and names that servers use for the same: Request-Range, x-ms-range. Content-Range
 * is none of them: it describes the bytes sent. */
static bool is_range(struct http1_span name)
{
	static const char end[] = "-range";
	size_t n = sizeof(end) - 1;

	if (http1_span_is_nocase(name, "range"))
		return true;
	return name.n > n && strncasecmp(name.p + name.n - n, end, n) == 0 &&
	       !http1_span_is_nocase(name, "content-range");
}

/* An answer that must be masked may be neither compressed nor partial: the mask would not find a
 * secret. */
static bool is_unreadable(struct http1_span name)
{
	static const char *const names[] = { "accept-encoding", "sec-websocket-extensions", NULL };

	return is_among(name, names) || is_range(name);
}

/* All headers of the program that are dropped are dropped here. */
static bool goes_on(const struct gateway *x, const struct hop *h, struct http1_span name)
{
	if (hop_is(h, name) || http1_span_is_nocase(name, "host") || is_set(x, name))
		return false;
	if (http1_span_is_nocase(name, "expect"))
		return x->r.expect_continue && !x->collects;
	if ((x->plain_answer && is_unreadable(name)) || (x->gate && x->gate->drops(x, name)))
		return false;
	if (http1_span_is_nocase(name, "sec-websocket-extensions"))
		return false; /* extensions change the form of frames */
	if ((x->inspected || x->plain_answer) && override_header_is(name) &&
	    !(x->rule && policy_compares(x->rule, name)))
		return false;
	return !x->model || !http1_span_is_nocase(name, "accept-encoding");
}

/* Add a header whose value has a secret in it, and wipe the value. */
static bool put_changed(struct gateway *x, struct http1_span name, char *value, size_t n)
{
	bool good = http1_is_value(value, n);

	if (good)
		put_header(&x->ask, name, (struct http1_span){ value, n });
	explicit_bzero(value, n);
	return good;
}

static int put_request_headers(struct gateway *x, const char **ret_why)
{
	static char changed[VALUE_MAX];
	struct hop h = hop_of(x->r.headers, x->r.headers_n);

	for (size_t i = 0; i < h.n; i++) {
		int n = 0;

		if (!goes_on(x, &h, h.at[i].name))
			continue;
		n = secrets_header(x->session->secrets, &x->use, h.at[i].name, h.at[i].value,
				   changed, sizeof(changed));
		*ret_why = "a header with a secret in it is too long or malformed";
		if (n < 0)
			explicit_bzero(changed, sizeof(changed));
		if (n < 0 || (n > 0 && !put_changed(x, h.at[i].name, changed, (size_t)n)))
			return -1;
		if (n == 0)
			put_header(&x->ask, h.at[i].name, h.at[i].value);
	}
	return 0;
}

/* *ret_why may point to a message that the next call overwrites. */
static int put_set_headers(struct gateway *x, const char **ret_why)
{
	static char value[VALUE_MAX];
	static struct err e;

	for (size_t i = 0; x->rule && i < x->rule->nset; i++) {
		int n = secrets_expand(x->session->secrets, &x->use, x->rule->set[i].value, value,
				       sizeof(value), &e);

		*ret_why = e.msg;
		if (n < 0) {
			explicit_bzero(value, sizeof(value));
			return -1;
		}
		*ret_why = "a header that the policy sets is malformed";
		if (!put_changed(x, gateway_head_span(x->rule->set[i].name), value, (size_t)n) ||
		    !http1_is_token(x->rule->set[i].name, strlen(x->rule->set[i].name)))
			return -1;
	}
	return 0;
}

static void put_request_framing(struct gateway *x)
{
	if (x->out.goes_on == HTTP1_LENGTH)
		buf_printf(&x->ask, "Content-Length: %llu\r\n", (unsigned long long)x->out.length);
	else if (x->out.goes_on == HTTP1_CHUNKED)
		buf_put_text(&x->ask, "Transfer-Encoding: chunked\r\n");
	if (x->r.upgrade_websocket)
		buf_put_text(&x->ask, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	buf_put_text(&x->ask, "\r\n");
}

/* The name of the connection. or, if it is to an address, the name that the program sent. */
static void put_host(struct gateway *x)
{
	char host[ENDPOINT_HOST_MAX];

	endpoint_host(&x->endpoint, x->tls, host);
	if (!x->endpoint.host[0] && x->r.host.n > 0)
		put_header(&x->ask, gateway_head_span("Host"), x->r.host);
	else
		put_header(&x->ask, gateway_head_span("Host"), gateway_head_span(host));
}

/* A collected body. If it is too long to be searched, its beginning, as the first chunk. */
static void put_collected(struct gateway *x)
{
	char head[CHUNK_HEAD_MAX];

	if (x->collected.len == 0)
		return;
	x->out.sent += x->collected.len;
	if (x->out.goes_on == HTTP1_CHUNKED) {
		buf_put(&x->ask, head, chunk_head(head, x->collected.len));
		buf_put(&x->ask, x->collected.data, x->collected.len);
		buf_put_text(&x->ask, CHUNK_TAIL);
	} else {
		buf_put(&x->ask, x->collected.data, x->collected.len);
	}
	buf_release(&x->collected);
}

/* Secrets are put in on the way, and it may run twice: only the first run shows whether the answer
 * must be plain. */
static int write_request(struct gateway *x, const char **ret_why)
{
	struct err e;

	buf_clear(&x->ask);
	x->ask.secret = secrets_mask(x->session->secrets) != NULL;
	x->ask.cap = (size_t)4 * FLOW_HEAD_MAX + x->collected.len;
	buf_put_text(&x->ask, x->method);
	buf_put_text(&x->ask, " ");
	buf_put_text(&x->ask, x->path);
	if (x->query) {
		buf_put_text(&x->ask, "?");
		buf_put_text(&x->ask, x->query);
	}
	buf_put_text(&x->ask, " HTTP/1.1\r\n");
	put_host(x);
	if (put_request_headers(x, ret_why) < 0 || put_set_headers(x, ret_why) < 0)
		return -1;
	if (x->plain_answer || x->model)
		buf_put_text(&x->ask, "Accept-Encoding: identity\r\n");
	if (x->gate)
		buf_put_text(&x->ask, x->gate->headers(x));
	put_request_framing(x);
	*ret_why = "the head of the request is too long";
	return buf_check(&x->ask, &e);
}

int gateway_head_request(struct gateway *x, const char **ret_why)
{
	struct err e;

	gateway_body_frame(x);
	if (write_request(x, ret_why) < 0)
		return -1;
	if (*secrets_use_here(&x->use) != '\0' && !x->plain_answer) {
		/* only now it is known: so write it again */
		x->plain_answer = true;
		if (write_request(x, ret_why) < 0)
			return -1;
	}
	put_collected(x);
	return buf_check(&x->ask, &e);
}

/* ---- answers */

static void put_masked(struct gateway *x, struct http1_span s)
{
	static uint8_t text[VALUE_MAX];

	if (!x->mask || s.n == 0 || s.n > sizeof(text)) {
		gateway_stream_add(&x->cell, s.n > 0 ? s.p : "", s.n);
		return;
	}
	memcpy(text, s.p, s.n);
	x->masked.places += mask_text(x->mask, &x->known_secrets, text, s.n);
	gateway_stream_add(&x->cell, text, s.n);
}

static void put_answer_headers(struct gateway *x, const struct http1_response *a)
{
	struct hop h = hop_of(a->headers, a->headers_n);

	for (size_t i = 0; i < h.n; i++) {
		/* Alternative ways to the same server (QUIC, other ports) cannot be used in a cell.
		 */
		if (hop_is(&h, h.at[i].name) || http1_span_is_nocase(h.at[i].name, "alt-svc"))
			continue;
		put_masked(x, h.at[i].name);
		gateway_stream_add(&x->cell, ": ", 2);
		put_masked(x, h.at[i].value);
		gateway_stream_add(&x->cell, "\r\n", 2);
	}
}

static void put_line(struct gateway *x, const char *text)
{
	gateway_stream_add(&x->cell, text, strlen(text));
}

/* The length that HEAD and 304 announce without a body. */
static void put_length_of_none(struct gateway *x, const struct http1_response *a)
{
	struct http1_span text;

	if (a->status == 101 || a->status == 204 || a->status < 200 ||
	    http1_find(a->headers, a->headers_n, "content-length", &text) != 1)
		return;
	put_line(x, "Content-Length: ");
	gateway_stream_add(&x->cell, text.p, text.n);
	put_line(x, "\r\n");
}

static void put_answer_framing(struct gateway *x, const struct http1_response *a)
{
	char line[64];

	if (x->in.rechunk) {
		put_line(x, "Transfer-Encoding: chunked\r\n");
	} else if (a->framing == HTTP1_LENGTH) {
		(void)snprintf(line, sizeof(line), "Content-Length: %llu\r\n",
			       (unsigned long long)a->content_length);
		put_line(x, line);
	} else if (a->framing == HTTP1_NO_BODY) {
		put_length_of_none(x, a);
	}
	if (a->status == 101)
		put_line(x, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (!x->cell_keep)
		put_line(x, "Connection: close\r\n");
	else if (x->r.minor == 0)
		put_line(x, "Connection: keep-alive\r\n");
}

int gateway_head_answer(struct gateway *x, const struct http1_response *a, bool interim)
{
	char line[32];

	(void)snprintf(line, sizeof(line), "HTTP/1.1 %d ", a->status);
	put_line(x, line);
	put_masked(x, a->reason);
	put_line(x, "\r\n");
	put_answer_headers(x, a);
	if (!interim)
		put_answer_framing(x, a);
	put_line(x, "\r\n");
	return x->cell.broken ? -1 : 0;
}
