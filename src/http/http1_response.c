/* http1_response.c - the head of a response. As strict as that of a request: the peer is a server
 * in a cell or on the network, and what follows on the connection is taken for the next answer. */
#include "http1.h"

#include <string.h>

#include "http1_fields.h"

#define STATUS_LINE_MIN (sizeof("HTTP/1.1 200") - 1)

static int read_line(struct http1_span line, struct http1_response *r, struct http1_fault *f)
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
static int read_body(struct http1_response *r, enum http1_method method, struct http1_fault *f)
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

static int read_head(struct http1_span rest, enum http1_method method, struct http1_response *r,
		     struct http1_fault *f)
{
	struct http1_span line = http1_fields_line(&rest);

	if (read_line(line, r, f) < 0 ||
	    http1_fields_read(rest, r->headers, &r->headers_n, f) < 0 ||
	    read_body(r, method, f) < 0)
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
	if (read_head((struct http1_span){ bytes, (size_t)end }, method, ret, ret_fault) < 0)
		/* The words are the same in both directions; the status is always 502. */
		return http1_fields_fault(ret_fault, 502, ret_fault->words);
	return end;
}
