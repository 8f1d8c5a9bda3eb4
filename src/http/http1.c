#include "http1.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

static bool is_control(char c)
{
	return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

/* *scanned is never between a CR and its LF, and every LF before it has a CR: so a CR after a LF
 * begins the empty line. */
int http1_head_end(const char *bytes, size_t len, size_t *scanned)
{
	size_t i = *scanned;

	while (i < len) {
		if (!is_control(bytes[i])) {
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

static struct http1_span trim(struct http1_span s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

static bool list_has(struct http1_span list, const char *word)
{
	for (;;) {
		const char *comma = list.n > 0 ? memchr(list.p, ',', list.n) : NULL;
		struct http1_span item = { list.p, comma ? (size_t)(comma - list.p) : list.n };

		if (http1_span_is_nocase(trim(item), word))
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
		if (http1_span_is_nocase(headers[i].name, name) && list_has(headers[i].value, word))
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

static bool is_tchar(char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

bool http1_is_token(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_tchar(text[i]))
			return false;
	}
	return n > 0;
}

bool http1_is_value(const char *text, size_t n)
{
	struct http1_span s = { text, n };

	for (size_t i = 0; i < n; i++) {
		if (is_control(text[i]))
			return false;
	}
	return trim(s).n == n;
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
