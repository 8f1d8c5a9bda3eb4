/* Any bytes as a client's head: what is composed of it for a server reads back as one request, of
 * the same method, body and upgrade, whose length is unambiguous; and headers of an
 * answer are never those that define where it ends. */
#include "fuzz.h"

#include "lib/net/forward_headers.h"

#define HEAD_MAX ((size_t)256 * 1024)

unsigned long fuzz_accepted;

static void check_same(const struct http1_request *a, const struct http1_request *b)
{
	assert(b->method == a->method && b->minor == 1 && !b->expect_continue);
	assert(b->framing == a->framing && b->content_length == a->content_length);
	assert(b->upgrade_websocket == (a->upgrade_websocket && forward_headers_wants_upgrade(a)));
	assert(b->keep_alive == forward_headers_wants_upgrade(a));
	assert(forward_headers_wants_upgrade(b) == forward_headers_wants_upgrade(a));
	assert(b->path.n == a->path.n);
	assert(a->path.n == 0 || memcmp(b->path.p, a->path.p, a->path.n) == 0);
	assert(http1_find(b->headers, b->headers_n, "secret", NULL) == 0);
	assert(http1_find(b->headers, b->headers_n, "x-forwarded-for", NULL) == 1);
	assert(http1_find(b->headers, b->headers_n, "proxy-authorization", NULL) == 0);
}

static void try_request(const char *bytes, size_t len)
{
	static const char *const drop[] = { "secret", NULL };
	struct forward_headers_options o = { .scheme = "http", .peer = "1.2.3.4:5", .drop = drop };
	struct buf head = BUF_INIT(HEAD_MAX);
	struct http1_request r, again;
	struct http1_fault fault;
	struct err e;
	int n;

	if (http1_request_read(bytes, len, &r, &fault) <= 0 || r.method == HTTP1_CONNECT)
		return;
	assert(forward_headers_request(&r, &o, &head, &e) == 0);
	n = http1_request_read((char *)head.data, head.len, &again, &fault);
	if (r.headers_n <=
	    HTTP1_HEADERS_MAX - 6) { /* what we add may be too much for our own reader */
		assert(n > 0 && (size_t)n == head.len);
		check_same(&r, &again);
		fuzz_accepted++;
	}
	buf_release(&head);
}

static void try_response(const char *bytes, size_t len)
{
	struct http1_response r;
	struct http1_fault fault;

	if (http1_response_read(bytes, len, HTTP1_HEAD, &r, &fault) <= 0)
		return;
	fuzz_accepted++;
	for (size_t i = 0; i < r.headers_n; i++) {
		struct http1_span name = r.headers[i].name;

		if (!forward_headers_in_answer(&r, &r.headers[i]))
			continue;
		assert(!http1_span_is_nocase(name, "content-length"));
		assert(!http1_span_is_nocase(name, "transfer-encoding"));
		assert(!http1_span_is_nocase(name, "connection"));
		assert(r.status == 101 || !http1_span_is_nocase(name, "upgrade"));
	}
	assert(forward_headers_length(&r) == UINT64_MAX ||
	       forward_headers_length(&r) < UINT64_MAX / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = fuzz_copy(data, size);

	try_request(bytes, size);
	try_response(bytes, size);
	free(bytes);
	return 0;
}
