/* http1_request.c - the head of a request: first its bytes (http1_head_end), then the three words
 * of its first line, then the fields, and last what they mean together: the host, the form of the
 * target, the framing and the upgrade. Each step may rely on those before it. */
#include "http1.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base64.h"
#include "http1_fields.h"

#define LINE_MAX_BYTES (HTTP1_METHOD_MAX + HTTP1_TARGET_MAX + sizeof("  HTTP/1.1") - 1)
#define HOST_MAX 255
#define WS_KEY_CHARS 24

static enum http1_method method_of(struct http1_span name)
{
	for (unsigned m = HTTP1_OTHER + 1; m < HTTP1_METHODS; m++) {
		if (http1_span_is(name, http1_method_name((enum http1_method)m)))
			return (enum http1_method)m;
	}
	return HTTP1_OTHER;
}

static int read_line(struct http1_span line, struct http1_request *r, struct http1_fault *f)
{
	const char *first = memchr(line.p, ' ', line.n);
	const char *last = memrchr(line.p, ' ', line.n);
	const char *end = line.p + line.n;

	if (line.n > LINE_MAX_BYTES)
		return http1_fields_fault(f, 414, "the request line is too long");
	if (first == last)
		return http1_fields_fault(f, 400, "the request line does not have three parts");
	r->method_name = (struct http1_span){ line.p, (size_t)(first - line.p) };
	r->target = (struct http1_span){ first + 1, (size_t)(last - first) - 1 };
	if (!http1_is_token(r->method_name.p, r->method_name.n))
		return http1_fields_fault(f, 400, "the method is not a token");
	if (r->method_name.n > HTTP1_METHOD_MAX)
		return http1_fields_fault(f, 501, "the method is too long");
	r->method = method_of(r->method_name);
	r->minor =
		http1_fields_version((struct http1_span){ last + 1, (size_t)(end - last) - 1 }, f);
	if (r->minor < 0)
		return -1;
	if (r->target.n > HTTP1_TARGET_MAX)
		return http1_fields_fault(f, 414, "the target is too long");
	if (!http1_is_target(r->target.p, r->target.n))
		return http1_fields_fault(f, 400, "the target has a byte that is not allowed");
	return 0;
}

static bool is_port(struct http1_span s)
{
	unsigned value = 0;

	if (s.n == 0 || s.n > 5)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		value = value * 10 + (unsigned)(s.p[i] - '0');
	}
	return value <= UINT16_MAX;
}

/* The length of "[::1]" with its brackets; 0: malformed. */
static size_t literal_length(struct http1_span s)
{
	const char *close = memchr(s.p, ']', s.n);
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;
	size_t n;

	if (close == NULL)
		return 0;
	n = (size_t)(close - s.p) - 1;
	if (n >= sizeof(text))
		return 0;
	memcpy(text, s.p + 1, n);
	text[n] = '\0';
	return inet_pton(AF_INET6, text, &address) == 1 ? n + 2 : 0;
}

static size_t name_length(struct http1_span s)
{
	size_t n = 0;

	while (n < s.n && ((s.p[n] >= 'a' && s.p[n] <= 'z') || (s.p[n] >= 'A' && s.p[n] <= 'Z') ||
			   (s.p[n] >= '0' && s.p[n] <= '9') || s.p[n] == '-' || s.p[n] == '.' ||
			   s.p[n] == '_'))
		n++;
	return n;
}

static bool is_host(struct http1_span s, bool needs_port)
{
	size_t n;

	if (s.n == 0 || s.n > HOST_MAX)
		return false;
	n = s.p[0] == '[' ? literal_length(s) : name_length(s);
	if (n == 0)
		return false;
	if (n == s.n)
		return !needs_port;
	return s.p[n] == ':' && is_port((struct http1_span){ s.p + n + 1, s.n - n - 1 });
}

static int read_host(struct http1_request *r, struct http1_fault *f)
{
	size_t hosts = http1_find(r->headers, r->headers_n, "host", &r->host);

	if (hosts > 1)
		return http1_fields_fault(f, 400, "more than one Host header");
	if (hosts == 0 && r->minor > 0)
		return http1_fields_fault(f, 400, "the Host header is missing");
	if (hosts == 1 && !is_host(r->host, false))
		return http1_fields_fault(f, 400, "the Host header is not a valid host");
	return 0;
}

static void split_path(struct http1_request *r, struct http1_span s)
{
	const char *mark = s.n > 0 ? memchr(s.p, '?', s.n) : NULL;

	r->path = s;
	if (mark != NULL) {
		r->path.n = (size_t)(mark - s.p);
		r->query = (struct http1_span){ mark + 1, s.n - r->path.n - 1 };
	}
	if (r->path.n == 0) /* "http://host?query" */
		r->path = (struct http1_span){ "/", 1 };
}

static int read_absolute(struct http1_request *r, struct http1_fault *f)
{
	struct http1_span rest = r->target;
	size_t scheme = 0, n = 0;

	if (rest.n > 7 && strncasecmp(rest.p, "http://", 7) == 0)
		scheme = 7;
	else if (rest.n > 8 && strncasecmp(rest.p, "https://", 8) == 0)
		scheme = 8;
	else
		return http1_fields_fault(f, 400, "the target is neither a path nor a URL");
	rest.p += scheme;
	rest.n -= scheme;
	while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
		n++;
	r->form = HTTP1_ABSOLUTE;
	r->authority = (struct http1_span){ rest.p, n };
	if (!is_host(r->authority, false))
		return http1_fields_fault(f, 400, "the host in the target is not a valid host");
	if (r->host.p == NULL)
		r->host = r->authority;
	if (n != r->host.n || strncasecmp(r->host.p, rest.p, n) != 0)
		return http1_fields_fault(f, 400,
					  "the target and the Host header name different hosts");
	split_path(r, (struct http1_span){ rest.p + n, rest.n - n });
	return 0;
}

static int read_target(struct http1_request *r, struct http1_fault *f)
{
	if (r->method == HTTP1_CONNECT) {
		r->form = HTTP1_AUTHORITY;
		r->authority = r->target;
		if (!is_host(r->authority, true))
			return http1_fields_fault(f, 400, "the target is not a host and a port");
		return 0;
	}
	if (r->target.p[0] == '/') {
		r->form = HTTP1_ORIGIN;
		split_path(r, r->target);
		return 0;
	}
	if (http1_span_is(r->target, "*")) {
		r->form = HTTP1_ASTERISK;
		if (r->method != HTTP1_OPTIONS)
			return http1_fields_fault(f, 400, "the target '*' is for OPTIONS only");
		return 0;
	}
	return read_absolute(r, f);
}

static int read_body(struct http1_request *r, struct http1_fault *f)
{
	struct http1_fields_body body;
	struct http1_span expect;
	size_t expects = http1_find(r->headers, r->headers_n, "expect", &expect);

	if (http1_fields_framing(r->headers, r->headers_n, r->minor, &body, f) < 0)
		return -1;
	/* What follows belongs to the tunnel. */
	if (r->method == HTTP1_CONNECT && body.framing != HTTP1_NO_BODY)
		return http1_fields_fault(f, 400, "a CONNECT request must not have a body");
	r->framing = body.framing;
	r->content_length = body.length;
	if (expects == 0 || r->minor == 0)
		return 0;
	if (expects > 1 || !http1_span_is_nocase(expect, "100-continue"))
		return http1_fields_fault(f, 417, "only the expectation 100-continue is supported");
	r->expect_continue = body.framing == HTTP1_CHUNKED || body.length > 0;
	return 0;
}

static void read_upgrade(struct http1_request *r)
{
	const struct http1_header *h = r->headers;
	size_t n = r->headers_n;
	struct http1_span version, key;
	uint8_t nonce[BASE64_BYTES(WS_KEY_CHARS)];

	if (r->method != HTTP1_GET || r->minor == 0 || r->framing != HTTP1_NO_BODY)
		return;
	if (!http1_lists(h, n, "connection", "upgrade") ||
	    !http1_lists(h, n, "upgrade", "websocket"))
		return;
	if (http1_find(h, n, "sec-websocket-version", &version) != 1 ||
	    !http1_span_is(version, "13"))
		return;
	if (http1_find(h, n, "sec-websocket-key", &key) != 1 || key.n != WS_KEY_CHARS)
		return;
	if (base64_decode(key.p, key.n, nonce) != 16)
		return;
	r->upgrade_websocket = true;
	r->ws_key = key;
}

static int read_head(struct http1_span rest, struct http1_request *r, struct http1_fault *f)
{
	struct http1_span line = http1_fields_line(&rest);

	if (read_line(line, r, f) < 0 ||
	    http1_fields_read(rest, r->headers, &r->headers_n, f) < 0 || read_host(r, f) < 0 ||
	    read_target(r, f) < 0 || read_body(r, f) < 0)
		return -1;
	r->keep_alive = http1_fields_keep_alive(r->headers, r->headers_n, r->minor);
	read_upgrade(r);
	return 0;
}

int http1_request_read(const char *bytes, size_t len, struct http1_request *ret,
		       struct http1_fault *ret_fault)
{
	size_t scanned = 0;
	int end = http1_head_end(bytes, len, &scanned);

	if (end < 0)
		return http1_fields_fault(ret_fault, 400, "a control byte, or a CR or LF alone");
	if (end == 0) {
		if (len > LINE_MAX_BYTES && memchr(bytes, '\r', LINE_MAX_BYTES + 1) == NULL)
			return http1_fields_fault(ret_fault, 414, "the request line is too long");
		return 0;
	}
	*ret = (struct http1_request){ .method = HTTP1_OTHER };
	if (read_head((struct http1_span){ bytes, (size_t)end }, ret, ret_fault) < 0)
		return -1;
	return end;
}
