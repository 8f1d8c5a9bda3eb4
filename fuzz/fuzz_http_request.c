/* Any bytes as the head of a request: what is read lies inside the head and holds nothing that ends
 * a line or a head for any reader; there is one host and never two framings; and the end is the
 * same whether the bytes come at once or one by one. */
#include "fuzz.h"

#include <strings.h>

#include "lib/http/http1.h"

unsigned long fuzz_accepted;

static const char *begin, *end;

static void check_span(struct http1_span s)
{
	if (s.n == 0)
		return;
	assert(s.p >= begin && s.n <= (size_t)(end - s.p));
	assert(memchr(s.p, '\r', s.n) == NULL && memchr(s.p, '\n', s.n) == NULL &&
	       memchr(s.p, '\0', s.n) == NULL);
}

/* Lines that begin with this name, seen by the simplest of readers. */
static unsigned count_lines(const char *name)
{
	size_t n = strlen(name);
	unsigned found = 0;

	for (const char *p = begin; p + n < end; p++)
		found += *p == '\n' && strncasecmp(p + 1, name, n) == 0;
	return found;
}

static void check_headers(const struct http1_request *r)
{
	assert(r->headers_n <= HTTP1_HEADERS_MAX);
	for (size_t i = 0; i < r->headers_n; i++) {
		check_span(r->headers[i].name);
		check_span(r->headers[i].value);
		assert(http1_is_token(r->headers[i].name.p, r->headers[i].name.n));
		assert(http1_is_value(r->headers[i].value.p, r->headers[i].value.n));
		assert(r->headers[i].name.p[r->headers[i].name.n] == ':');
	}
}

static void check_framing(const struct http1_request *r)
{
	unsigned lengths = count_lines("content-length"),
		 codings = count_lines("transfer-encoding");

	/* "content-length-x" is another header: so only one direction */
	assert(r->framing != HTTP1_UNTIL_CLOSE);
	assert(r->framing != HTTP1_LENGTH || lengths > 0);
	assert(r->framing != HTTP1_CHUNKED || (codings > 0 && r->minor == 1));
	lengths = count_lines("content-length:");
	codings = count_lines("transfer-encoding:");
	assert(lengths + codings <= 1);
	assert((lengths == 1) == (r->framing == HTTP1_LENGTH));
	assert((codings == 1) == (r->framing == HTTP1_CHUNKED));
	assert(r->framing == HTTP1_LENGTH || r->content_length == 0);
	assert(r->content_length <= INT64_MAX);
	assert(!r->expect_continue || r->framing != HTTP1_NO_BODY);
}

static void check_request(const struct http1_request *r)
{
	assert(r->minor == 0 || r->minor == 1);
	assert(r->method < HTTP1_METHODS);
	check_span(r->method_name);
	check_span(r->target);
	check_span(r->query);
	check_span(r->authority);
	check_span(r->host);
	check_span(r->ws_key);
	assert(http1_is_target(r->target.p, r->target.n) && r->target.n <= HTTP1_TARGET_MAX);
	assert(count_lines("host:") <= 1 && (r->minor == 0 || r->host.n > 0));
	assert((r->form == HTTP1_AUTHORITY) == (r->method == HTTP1_CONNECT));
	assert(r->form != HTTP1_ASTERISK || r->method == HTTP1_OPTIONS);
	if (r->form == HTTP1_ORIGIN || r->form == HTTP1_ABSOLUTE) {
		if (!http1_span_is(r->path, "/"))
			check_span(r->path);
		assert(r->path.n > 0 && r->path.p[0] == '/' &&
		       memchr(r->path.p, '?', r->path.n) == NULL);
	} else {
		assert(r->path.n == 0 && r->query.p == NULL);
	}
	assert(r->upgrade_websocket == (r->ws_key.n == 24));
	assert(!r->upgrade_websocket || (r->method == HTTP1_GET && r->framing == HTTP1_NO_BODY));
	check_headers(r);
	check_framing(r);
}

/* Returns what http1_head_end() says when the bytes come one by one. */
static int end_in_pieces(const char *bytes, size_t size)
{
	size_t scanned = 0;
	int found = 0;

	for (size_t n = 0; n <= size && found == 0; n++) {
		found = http1_head_end(bytes, n, &scanned);
		assert(scanned <= n);
	}
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = fuzz_copy(data, size);
	struct http1_request r, again;
	struct http1_fault fault = { 0, NULL };
	size_t scanned = 0;
	int head = http1_head_end(bytes, size, &scanned);
	int n = http1_request_read(bytes, size, &r, &fault);

	assert(head == end_in_pieces(bytes, size));
	if (n > 0) {
		fuzz_accepted++;
		assert(n == head && (size_t)n <= size && memcmp(bytes + n - 4, "\r\n\r\n", 4) == 0);
		begin = bytes;
		end = bytes + n;
		check_request(&r);
		assert(http1_request_read(bytes, (size_t)n, &again, &fault) == n);
		assert(http1_request_read(bytes, (size_t)n - 1, &again, &fault) == 0);
	} else if (n < 0) {
		assert(fault.status == 400 || fault.status == 414 || fault.status == 417 ||
		       fault.status == 431 || fault.status == 501 || fault.status == 505);
		assert(fault.words != NULL);
	} else {
		assert(head == 0);
	}
	free(bytes);
	return 0;
}
