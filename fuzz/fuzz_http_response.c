/* The method that was asked with (one byte), then any bytes as the head of an answer: what is read
 * lies inside the head, there are never two framings, and no body where none can be. */
#include "fuzz.h"

#include "lib/http/http1.h"

unsigned long fuzz_accepted;

static void check_span(struct http1_span s, const char *begin, size_t n)
{
	if (s.n == 0)
		return;
	assert(s.p >= begin && s.n <= (size_t)(begin + n - s.p));
	assert(memchr(s.p, '\r', s.n) == NULL && memchr(s.p, '\n', s.n) == NULL &&
	       memchr(s.p, '\0', s.n) == NULL);
}

static void check_framing(const struct http1_response *r, enum http1_method method)
{
	size_t lengths = http1_find(r->headers, r->headers_n, "Content-Length", NULL);
	size_t codings = http1_find(r->headers, r->headers_n, "Transfer-Encoding", NULL);
	bool none = r->status < 200 || r->status == 204 || r->status == 304 ||
		    method == HTTP1_HEAD || (method == HTTP1_CONNECT && r->status < 300);

	assert(lengths + codings <= 1);
	assert(none == (r->framing == HTTP1_NO_BODY));
	assert(r->framing != HTTP1_LENGTH || lengths == 1);
	assert(r->framing != HTTP1_CHUNKED || (codings == 1 && r->minor == 1));
	assert(r->framing != HTTP1_UNTIL_CLOSE || (lengths + codings == 0 && !r->keep_alive));
	assert(r->framing == HTTP1_LENGTH || r->content_length == 0);
}

static void check_response(const struct http1_response *r, const char *bytes, size_t n)
{
	assert(r->status >= 100 && r->status <= 599 && (r->minor == 0 || r->minor == 1));
	check_span(r->reason, bytes, n);
	assert(r->headers_n <= HTTP1_HEADERS_MAX);
	for (size_t i = 0; i < r->headers_n; i++) {
		check_span(r->headers[i].name, bytes, n);
		check_span(r->headers[i].value, bytes, n);
		assert(http1_is_token(r->headers[i].name.p, r->headers[i].name.n));
		assert(http1_is_value(r->headers[i].value.p, r->headers[i].value.n));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum http1_method method = size > 0 ? data[0] % HTTP1_METHODS : HTTP1_GET;
	size_t len = size > 0 ? size - 1 : 0;
	char *bytes = fuzz_copy(size > 0 ? data + 1 : data, len);
	struct http1_response r;
	struct http1_fault fault = { 0, NULL };
	int n = http1_response_read(bytes, len, method, &r, &fault);

	if (n > 0) {
		fuzz_accepted++;
		assert((size_t)n <= len && memcmp(bytes + n - 4, "\r\n\r\n", 4) == 0);
		check_response(&r, bytes, (size_t)n);
		check_framing(&r, method);
		assert(http1_response_read(bytes, (size_t)n - 1, method, &r, &fault) == 0);
	} else if (n < 0) {
		assert(fault.status == 502 && fault.words != NULL);
	}
	free(bytes);
	return 0;
}
