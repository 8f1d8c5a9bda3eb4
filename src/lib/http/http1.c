#include "lib/http/http1.h"

#include <arpa/inet.h>
#include <assert.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "lib/base/base64.h"

struct http1_fields_body {
	enum http1_framing framing; /* HTTP1_NO_BODY: no header defines a body */
	uint64_t length;
};

static bool http1_is_control(char c)
{
	return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

/* *scanned is never between a CR and its LF, and every LF before it has a CR: so a CR after a LF
 * begins the empty line. */
int http1_head_end(const char *bytes, size_t len, size_t *scanned)
{
	size_t i = *scanned;

	while (i < len) {
		if (!http1_is_control(bytes[i])) {
			i++;
			continue;
		}
		if (bytes[i] != '\r' || i == 0)
			return -1;
		if (i + 1 == len)
			break;
		if (bytes[i + 1] != '\n')
			return -1;
		i += 2;
		if (bytes[i - 3] == '\n') {
			*scanned = i;
			return i <= INT_MAX ? (int)i : -1;
		}
	}
	*scanned = i;
	return 0;
}

size_t http1_find(const struct http1_header *headers, size_t n, const char *name,
		  struct http1_span *ret)
{
	struct http1_span first = { NULL, 0 };
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		if (!http1_span_is_nocase(headers[i].name, name))
			continue;
		if (found++ == 0)
			first = headers[i].value;
	}
	if (ret != NULL)
		*ret = first;
	return found;
}

static struct http1_span http1_trim(struct http1_span s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

static bool http1_list_has(struct http1_span list, const char *word)
{
	for (;;) {
		const char *comma = list.n > 0 ? memchr(list.p, ',', list.n) : NULL;
		struct http1_span item = { list.p, comma ? (size_t)(comma - list.p) : list.n };

		if (http1_span_is_nocase(http1_trim(item), word))
			return true;
		if (comma == NULL)
			return false;
		list.p += item.n + 1;
		list.n -= item.n + 1;
	}
}

bool http1_lists(const struct http1_header *headers, size_t n, const char *name, const char *word)
{
	for (size_t i = 0; i < n; i++) {
		if (http1_span_is_nocase(headers[i].name, name) &&
		    http1_list_has(headers[i].value, word))
			return true;
	}
	return false;
}

struct http1_span http1_media_type(struct http1_span value)
{
	size_t n = 0;

	while (n < value.n && value.p[n] != ';' && value.p[n] != ' ' && value.p[n] != '\t')
		n++;
	value.n = n;
	return value;
}

bool http1_span_is(struct http1_span s, const char *text)
{
	return s.n == strlen(text) && (s.n == 0 || memcmp(s.p, text, s.n) == 0);
}

bool http1_span_is_nocase(struct http1_span s, const char *text)
{
	return s.n == strlen(text) && (s.n == 0 || strncasecmp(s.p, text, s.n) == 0);
}

static bool http1_is_tchar(char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

bool http1_is_token(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!http1_is_tchar(text[i]))
			return false;
	}
	return n > 0;
}

bool http1_is_value(const char *text, size_t n)
{
	struct http1_span s = { text, n };

	for (size_t i = 0; i < n; i++) {
		if (http1_is_control(text[i]))
			return false;
	}
	return http1_trim(s).n == n;
}

bool http1_is_target(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] <= ' ' || text[i] >= 0x7f || text[i] == '#')
			return false;
	}
	return n > 0;
}

int http1_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static const char *const method_names[] = {
	[HTTP1_OTHER] = "",	   [HTTP1_GET] = "GET",		[HTTP1_HEAD] = "HEAD",
	[HTTP1_POST] = "POST",	   [HTTP1_PUT] = "PUT",		[HTTP1_PATCH] = "PATCH",
	[HTTP1_DELETE] = "DELETE", [HTTP1_OPTIONS] = "OPTIONS", [HTTP1_CONNECT] = "CONNECT",
	[HTTP1_TRACE] = "TRACE",
};
_Static_assert(COUNT(method_names) == HTTP1_METHODS, "each method has a name");

const char *http1_method_name(enum http1_method method)
{
	return method_names[method];
}

static const struct {
	int status;
	const char *words;
} reasons[] = {
	{ 100, "Continue" },
	{ 101, "Switching Protocols" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 206, "Partial Content" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 422, "Unprocessable Content" },
	{ 426, "Upgrade Required" },
	{ 428, "Precondition Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
};

const char *http1_reason(int status)
{
	for (size_t i = 0; i < COUNT(reasons); i++) {
		if (reasons[i].status == status)
			return reasons[i].words;
	}
	return "";
}

/* ---- lines, fields and framing
 *
 * The input has passed http1_head_end(): it has no control byte but HTAB, every CR is followed by a
 * LF, every LF follows a CR, and the empty line is the last. So a line ends at the next CR, and no
 * value can contain anything that another reader takes for the end of a line. */

#define LENGTH_DIGITS_MAX 18 /* so that a length is below 2^63 */

static int http1_fields_fault(struct http1_fault *f, int status, const char *words)
{
	f->status = status;
	f->words = words;
	return -1;
}

/* Take the next line off *rest, and return it without its CRLF. There must be one (asserted). */
static struct http1_span http1_fields_line(struct http1_span *rest)
{
	const char *cr = memchr(rest->p, '\r', rest->n);
	struct http1_span line = { rest->p, 0 };

	assert(cr != NULL);
	line.n = (size_t)(cr - rest->p);
	rest->p += line.n + 2;
	rest->n -= line.n + 2;
	return line;
}

static bool http1_is_space(char c)
{
	return c == ' ' || c == '\t';
}

static int http1_read_field(struct http1_span line, struct http1_header *ret, struct http1_fault *f)
{
	const char *colon = memchr(line.p, ':', line.n);
	size_t begin, end = line.n;

	if (http1_is_space(line.p[0]))
		return http1_fields_fault(f, 400, "a header line begins with white space");
	if (colon == NULL)
		return http1_fields_fault(f, 400, "a header line has no colon");
	begin = (size_t)(colon - line.p);
	if (!http1_is_token(line.p, begin))
		return http1_fields_fault(f, 400, "the name of a header is not a token");
	ret->name = (struct http1_span){ line.p, begin };
	begin++;
	while (begin < end && http1_is_space(line.p[begin]))
		begin++;
	while (end > begin && http1_is_space(line.p[end - 1]))
		end--;
	ret->value = (struct http1_span){ line.p + begin, end - begin };
	return 0;
}

/* The headers of a complete head, from after its first line up to the empty line. */
static int http1_fields_read(struct http1_span rest, struct http1_header headers[HTTP1_HEADERS_MAX],
			     size_t *ret_n, struct http1_fault *f)
{
	size_t n = 0;

	for (;;) {
		struct http1_span line = http1_fields_line(&rest);

		if (line.n == 0)
			break;
		if (n == HTTP1_HEADERS_MAX)
			return http1_fields_fault(f, 431, "too many headers");
		if (http1_read_field(line, &headers[n++], f) < 0)
			return -1;
	}
	*ret_n = n;
	return 0;
}

/* Digits only. No leading zero, which some readers take for octal. */
static int http1_read_length(struct http1_span s, uint64_t *ret)
{
	uint64_t value = 0;

	if (s.n == 0 || s.n > LENGTH_DIGITS_MAX || (s.n > 1 && s.p[0] == '0'))
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -1;
		value = value * 10 + (uint64_t)(s.p[i] - '0');
	}
	*ret = value;
	return 0;
}

static int http1_fields_framing(const struct http1_header *headers, size_t n, int minor,
				struct http1_fields_body *ret, struct http1_fault *f)
{
	struct http1_span coding, length;
	size_t codings = http1_find(headers, n, "transfer-encoding", &coding);
	size_t lengths = http1_find(headers, n, "content-length", &length);

	*ret = (struct http1_fields_body){ HTTP1_NO_BODY, 0 };
	if (codings > 0 && lengths > 0)
		return http1_fields_fault(f, 400, "both content-length and transfer-encoding");
	if (lengths > 1 || codings > 1)
		return http1_fields_fault(f, 400, "the length of the body is given twice");
	if (codings > 0) {
		if (minor == 0)
			return http1_fields_fault(f, 400, "transfer-encoding in HTTP/1.0");
		if (!http1_span_is_nocase(coding, "chunked"))
			return http1_fields_fault(f, 400, "transfer-encoding is not 'chunked'");
		ret->framing = HTTP1_CHUNKED;
	}
	if (lengths > 0) {
		if (http1_read_length(length, &ret->length) < 0)
			return http1_fields_fault(f, 400, "content-length is not a valid length");
		ret->framing = HTTP1_LENGTH;
	}
	return 0;
}

static bool http1_fields_keep_alive(const struct http1_header *headers, size_t n, int minor)
{
	if (http1_lists(headers, n, "connection", "close"))
		return false;
	return minor > 0 || http1_lists(headers, n, "connection", "keep-alive");
}

/* "HTTP/1.0" or "HTTP/1.1": the minor version. -1 otherwise. */
static int http1_fields_version(struct http1_span s, struct http1_fault *f)
{
	if (s.n != strlen("HTTP/1.1") || memcmp(s.p, "HTTP/", 5) != 0 || s.p[5] < '0' ||
	    s.p[5] > '9' || s.p[6] != '.' || s.p[7] < '0' || s.p[7] > '9')
		return http1_fields_fault(f, 400, "the version of HTTP is malformed");
	if (s.p[5] != '1')
		return http1_fields_fault(f, 505, "only HTTP/1.1 and HTTP/1.0 are supported");
	/* Such a version is not defined. */
	if (s.p[7] > '1')
		return http1_fields_fault(f, 400, "this version of HTTP does not exist");
	return s.p[7] - '0';
}

/* ---- the head of a request
 *
 * The steps: the bytes (http1_head_end), the three words of the first line, the fields, and their
 * meaning together (the host, the form of the target, the framing, the upgrade). Each step relies
 * on those before it. */

#define LINE_MAX_BYTES (HTTP1_METHOD_MAX + HTTP1_TARGET_MAX + sizeof("  HTTP/1.1") - 1)
#define HOST_MAX 255
#define WS_KEY_CHARS 24

static enum http1_method http1_method_of(struct http1_span name)
{
	for (unsigned m = HTTP1_OTHER + 1; m < HTTP1_METHODS; m++) {
		if (http1_span_is(name, http1_method_name((enum http1_method)m)))
			return (enum http1_method)m;
	}
	return HTTP1_OTHER;
}

static int http1_read_line(struct http1_span line, struct http1_request *r, struct http1_fault *f)
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
	r->method = http1_method_of(r->method_name);
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

static bool http1_is_port(struct http1_span s)
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

/* The length of "[::1]" with its brackets. 0: malformed. */
static size_t http1_literal_length(struct http1_span s)
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

static size_t http1_name_length(struct http1_span s)
{
	size_t n = 0;

	while (n < s.n && ((s.p[n] >= 'a' && s.p[n] <= 'z') || (s.p[n] >= 'A' && s.p[n] <= 'Z') ||
			   (s.p[n] >= '0' && s.p[n] <= '9') || s.p[n] == '-' || s.p[n] == '.' ||
			   s.p[n] == '_'))
		n++;
	return n;
}

static bool http1_is_host(struct http1_span s, bool needs_port)
{
	size_t n;

	if (s.n == 0 || s.n > HOST_MAX)
		return false;
	n = s.p[0] == '[' ? http1_literal_length(s) : http1_name_length(s);
	if (n == 0)
		return false;
	if (n == s.n)
		return !needs_port;
	return s.p[n] == ':' && http1_is_port((struct http1_span){ s.p + n + 1, s.n - n - 1 });
}

static int http1_read_host(struct http1_request *r, struct http1_fault *f)
{
	size_t hosts = http1_find(r->headers, r->headers_n, "host", &r->host);

	if (hosts > 1)
		return http1_fields_fault(f, 400, "more than one Host header");
	if (hosts == 0 && r->minor > 0)
		return http1_fields_fault(f, 400, "the Host header is missing");
	if (hosts == 1 && !http1_is_host(r->host, false))
		return http1_fields_fault(f, 400, "the Host header is not a valid host");
	return 0;
}

static void http1_split_path(struct http1_request *r, struct http1_span s)
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

static int http1_read_absolute(struct http1_request *r, struct http1_fault *f)
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
	if (!http1_is_host(r->authority, false))
		return http1_fields_fault(f, 400, "the host in the target is not a valid host");
	if (r->host.p == NULL)
		r->host = r->authority;
	if (n != r->host.n || strncasecmp(r->host.p, rest.p, n) != 0)
		return http1_fields_fault(f, 400,
					  "the target and the Host header name different hosts");
	http1_split_path(r, (struct http1_span){ rest.p + n, rest.n - n });
	return 0;
}

static int http1_read_target(struct http1_request *r, struct http1_fault *f)
{
	if (r->method == HTTP1_CONNECT) {
		r->form = HTTP1_AUTHORITY;
		r->authority = r->target;
		if (!http1_is_host(r->authority, true))
			return http1_fields_fault(f, 400, "the target is not a host and a port");
		return 0;
	}
	if (r->target.p[0] == '/') {
		r->form = HTTP1_ORIGIN;
		http1_split_path(r, r->target);
		return 0;
	}
	if (http1_span_is(r->target, "*")) {
		r->form = HTTP1_ASTERISK;
		if (r->method != HTTP1_OPTIONS)
			return http1_fields_fault(f, 400, "the target '*' is for OPTIONS only");
		return 0;
	}
	return http1_read_absolute(r, f);
}

static int http1_read_body(struct http1_request *r, struct http1_fault *f)
{
	struct http1_fields_body body;
	struct http1_span expect;
	size_t expects = http1_find(r->headers, r->headers_n, "expect", &expect);

	if (http1_fields_framing(r->headers, r->headers_n, r->minor, &body, f) < 0)
		return -1;
	/* The following bytes belong to the tunnel. */
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

static void http1_read_upgrade(struct http1_request *r)
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

static int http1_read_head(struct http1_span rest, struct http1_request *r, struct http1_fault *f)
{
	struct http1_span line = http1_fields_line(&rest);

	if (http1_read_line(line, r, f) < 0 ||
	    http1_fields_read(rest, r->headers, &r->headers_n, f) < 0 ||
	    http1_read_host(r, f) < 0 || http1_read_target(r, f) < 0 || http1_read_body(r, f) < 0)
		return -1;
	r->keep_alive = http1_fields_keep_alive(r->headers, r->headers_n, r->minor);
	http1_read_upgrade(r);
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
	if (http1_read_head((struct http1_span){ bytes, (size_t)end }, ret, ret_fault) < 0)
		return -1;
	return end;
}

/* ---- the head of a response
 *
 * As strict as the head of a request: the peer is a server in a cell or on the network, and the
 * bytes that follow on the connection are taken for the next answer. */

#define STATUS_LINE_MIN (sizeof("HTTP/1.1 200") - 1)

static int http1_answer_read_line(struct http1_span line, struct http1_response *r,
				  struct http1_fault *f)
{
	const char *p = line.p;

	if (line.n < STATUS_LINE_MIN || p[8] != ' ')
		return http1_fields_fault(f, 502, "the status line is malformed");
	r->minor = http1_fields_version((struct http1_span){ p, 8 }, f);
	if (r->minor < 0)
		return -1;
	for (size_t i = 9; i < STATUS_LINE_MIN; i++) {
		if (p[i] < '0' || p[i] > '9')
			return http1_fields_fault(f, 502, "the status is not a number");
		r->status = r->status * 10 + p[i] - '0';
	}
	if (r->status < 100 || r->status > 599)
		return http1_fields_fault(f, 502, "the status is not between 100 and 599");
	if (line.n == STATUS_LINE_MIN) /* without a reason some servers leave out the space, too */
		return 0;
	if (p[STATUS_LINE_MIN] != ' ')
		return http1_fields_fault(f, 502, "no space after the status");
	r->reason = (struct http1_span){ p + STATUS_LINE_MIN + 1, line.n - STATUS_LINE_MIN - 1 };
	return 0;
}

/* RFC 9112, 6.3. */
static int http1_answer_read_body(struct http1_response *r, enum http1_method method,
				  struct http1_fault *f)
{
	struct http1_fields_body body;
	bool never = r->status < 200 || r->status == 204;

	if (http1_fields_framing(r->headers, r->headers_n, r->minor, &body, f) < 0)
		return -1;
	/* A reader that uses the header and one that uses the status would disagree about the end.
	 */
	if (never && (body.framing == HTTP1_CHUNKED || body.length > 0))
		return http1_fields_fault(f, 502, "a body where the status allows none");
	if (never || r->status == 304 || method == HTTP1_HEAD ||
	    (method == HTTP1_CONNECT && r->status < 300))
		return 0;
	r->framing = body.framing == HTTP1_NO_BODY ? HTTP1_UNTIL_CLOSE : body.framing;
	r->content_length = body.length;
	return 0;
}

static int http1_answer_read_head(struct http1_span rest, enum http1_method method,
				  struct http1_response *r, struct http1_fault *f)
{
	struct http1_span line = http1_fields_line(&rest);

	if (http1_answer_read_line(line, r, f) < 0 ||
	    http1_fields_read(rest, r->headers, &r->headers_n, f) < 0 ||
	    http1_answer_read_body(r, method, f) < 0)
		return -1;
	r->keep_alive = r->framing != HTTP1_UNTIL_CLOSE &&
			http1_fields_keep_alive(r->headers, r->headers_n, r->minor);
	return 0;
}

int http1_response_read(const char *bytes, size_t len, enum http1_method method,
			struct http1_response *ret, struct http1_fault *ret_fault)
{
	size_t scanned = 0;
	int end = http1_head_end(bytes, len, &scanned);

	if (end == 0)
		return 0;
	if (end < 0)
		return http1_fields_fault(ret_fault, 502, "a control byte, or a CR or LF alone");
	*ret = (struct http1_response){ .framing = HTTP1_NO_BODY };
	if (http1_answer_read_head((struct http1_span){ bytes, (size_t)end }, method, ret,
				   ret_fault) < 0)
		/* The words are the same in both directions. The status is always 502. */
		return http1_fields_fault(ret_fault, 502, ret_fault->words);
	return end;
}
