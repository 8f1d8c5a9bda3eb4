/* http1_fields.c - lines, fields and framing.
 *
 * The input has passed http1_head_end(): it has no control byte but HTAB, every CR is followed by a
 * LF, every LF follows a CR, and the empty line is the last. So a line ends at the next CR, and no
 * value can contain anything that another reader takes for the end of a line. */
#include "http1_fields.h"

#include <assert.h>
#include <string.h>

#define LENGTH_DIGITS_MAX 18 /* so that a length is below 2^63 */

int http1_fields_fault(struct http1_fault *f, int status, const char *words)
{
	f->status = status;
	f->words = words;
	return -1;
}

struct http1_span http1_fields_line(struct http1_span *rest)
{
	const char *cr = memchr(rest->p, '\r', rest->n);
	struct http1_span line = { rest->p, 0 };

	assert(cr != NULL);
	line.n = (size_t)(cr - rest->p);
	rest->p += line.n + 2;
	rest->n -= line.n + 2;
	return line;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static int read_field(struct http1_span line, struct http1_header *ret, struct http1_fault *f)
{
	const char *colon = memchr(line.p, ':', line.n);
	size_t begin, end = line.n;

	if (is_space(line.p[0]))
		return http1_fields_fault(f, 400, "a header line begins with white space");
	if (colon == NULL)
		return http1_fields_fault(f, 400, "a header line has no colon");
	begin = (size_t)(colon - line.p);
	if (!http1_is_token(line.p, begin))
		return http1_fields_fault(f, 400, "the name of a header is not a token");
	ret->name = (struct http1_span){ line.p, begin };
	begin++;
	while (begin < end && is_space(line.p[begin]))
		begin++;
	while (end > begin && is_space(line.p[end - 1]))
		end--;
	ret->value = (struct http1_span){ line.p + begin, end - begin };
	return 0;
}

int http1_fields_read(struct http1_span rest, struct http1_header headers[HTTP1_HEADERS_MAX],
		      size_t *ret_n, struct http1_fault *f)
{
	size_t n = 0;

	for (;;) {
		struct http1_span line = http1_fields_line(&rest);

		if (line.n == 0)
			break;
		if (n == HTTP1_HEADERS_MAX)
			return http1_fields_fault(f, 431, "too many headers");
		if (read_field(line, &headers[n++], f) < 0)
			return -1;
	}
	*ret_n = n;
	return 0;
}

/* Digits only; no leading zero, which some readers take for octal. */
static int read_length(struct http1_span s, uint64_t *ret)
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

int http1_fields_framing(const struct http1_header *headers, size_t n, int minor,
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
		if (read_length(length, &ret->length) < 0)
			return http1_fields_fault(f, 400, "content-length is not a valid length");
		ret->framing = HTTP1_LENGTH;
	}
	return 0;
}

bool http1_fields_keep_alive(const struct http1_header *headers, size_t n, int minor)
{
	if (http1_lists(headers, n, "connection", "close"))
		return false;
	return minor > 0 || http1_lists(headers, n, "connection", "keep-alive");
}

int http1_fields_version(struct http1_span s, struct http1_fault *f)
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
