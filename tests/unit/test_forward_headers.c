/* Goal: what reaches a server in a cell is one request that ends where the client's ended, without
 * what belongs to the client's connection; and what is passed back is the answer's, and not the
 * connection's. */
#include "lib/net/forward_headers.h"

#include "support.h"

#define HEAD_MAX 8192

static char *held; /* what spans point into */

static void read_request(const char *text, struct http1_request *r)
{
	struct http1_fault fault;

	free(held);
	held = exact_copy(text, strlen(text));
	CHECK(http1_request_read(held, strlen(text), r, &fault) > 0);
}

static void read_response(const char *text, enum http1_method method, struct http1_response *r)
{
	struct http1_fault fault;

	free(held);
	held = exact_copy(text, strlen(text));
	CHECK(http1_response_read(held, strlen(text), method, r, &fault) > 0);
}

static const struct {
	const char *text;
	struct forward_headers_options options;
	const char *want;
} requests[] = {
	{ "GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n",
	  { 0 },
	  "GET /a?b HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nConnection: close\r\n\r\n" },
	{ "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n",
	  { .host = "m:1", .scheme = "https", .peer = "1.2.3.4:5" },
	  "POST / HTTP/1.1\r\nHost: m:1\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: h\r\n"
	  "X-Forwarded-Proto: https\r\nContent-Length: 7\r\nConnection: close\r\n\r\n" },
	{ "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
	  { .peer = "[::1]:80" },
	  "PUT / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: ::1\r\nX-Forwarded-Host: h\r\n"
	  "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" },
	{ "GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n",
	  { .target = "/y?z", .peer = "unix" },
	  "GET /y?z HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nConnection: close\r\n\r\n" },
	{ "GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n",
	  { 0 },
	  "GET /?q HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nConnection: close\r\n\r\n" },
	{ "GET / HTTP/1.0\r\nA:b\r\n\r\n",
	  { 0 },
	  "GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\nConnection: close\r\n\r\n" },
	/* a header that Connection names cannot be one that defines where the request ends */
	{ "POST / HTTP/1.1\r\nHost: h\r\nConnection: Content-Length, HOST,a\r\nA: b\r\n"
	  "Content-Length: 7\r\n\r\n",
	  { 0 },
	  "POST / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nContent-Length: 7\r\n"
	  "Connection: close\r\n\r\n" },
	/* an upgrade, and requests that only look like one */
	{ "GET / HTTP/1.1\r\nHost: h\r\nConnection: x, upgrade\r\nUpgrade: a/1, b\r\n\r\n",
	  { 0 },
	  "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nUpgrade: a/1, b\r\n"
	  "Connection: Upgrade\r\n\r\n" },
	{ "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: a\r\n\r\n",
	  { 0 },
	  "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nConnection: close\r\n\r\n" },
	{ "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n\r\n",
	  { 0 },
	  "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nConnection: close\r\n\r\n" },
	{ "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: a\r\nContent-Length: "
	  "1\r\n\r\n",
	  { 0 },
	  "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nContent-Length: 1\r\n"
	  "Connection: close\r\n\r\n" },
	{ "GET / HTTP/1.0\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n",
	  { 0 },
	  "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Host: h\r\nConnection: close\r\n\r\n" },
};

static void composes_requests(void)
{
	for (size_t i = 0; i < COUNT(requests); i++) {
		struct buf b = BUF_INIT(HEAD_MAX);
		struct http1_request r;
		struct err e;

		read_request(requests[i].text, &r);
		CHECK(forward_headers_request(&r, &requests[i].options, &b, &e) == 0);
		CHECK_STR(buf_text(&b), requests[i].want);
		buf_release(&b);
	}
}

static void leaves_out_what_is_the_connections(void)
{
	static const char *const out[] = { "Keep-Alive",
					   "TE",
					   "Trailer",
					   "Proxy-Authorization",
					   "proxy-connection",
					   "PROXY-ANYTHING",
					   "X-Named",
					   "forwarded",
					   "X-Real-IP",
					   "x-forwarded-for",
					   "X-Forwarded-Port",
					   "X-FORWARDED-ELSE",
					   "Secret" };
	static const char *const in[] = { "Cookie", "Authorization", "Proxies", "X-Forwarder",
					  "Accept" };
	static const char *const drop[] = { "secret", NULL };
	struct forward_headers_options o = { .drop = drop };

	for (size_t i = 0; i < COUNT(out) + COUNT(in); i++) {
		bool is_out = i < COUNT(out);
		struct buf b = BUF_INIT(HEAD_MAX);
		struct http1_request r;
		char text[256];
		struct err e;

		(void)snprintf(
			text, sizeof(text),
			"GET / HTTP/1.1\r\nHost: h\r\nConnection: x-named\r\n%s: canary\r\n\r\n",
			is_out ? out[i] : in[i - COUNT(out)]);
		read_request(text, &r);
		CHECK(forward_headers_request(&r, &o, &b, &e) == 0);
		CHECK((strstr(buf_text(&b), "canary") == NULL) == is_out);
		buf_release(&b);
	}
}

static void refuses_unclean_options_and_long_heads(void)
{
	static const struct forward_headers_options bad[] = {
		{ .host = "a\r\nB: c" },	  { .host = "" },   { .target = "/a b" },
		{ .target = "/\r\nB: c" },	  { .target = "" }, { .scheme = "http\n" },
		{ .peer = "1.2.3.4\r\nB: c:80" },
	};
	struct forward_headers_options none = { 0 };
	struct http1_request r;
	struct err e;

	read_request("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &r);
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct buf b = BUF_INIT(HEAD_MAX);

		CHECK(forward_headers_request(&r, &bad[i], &b, &e) == -1 && e.code == ERR_INVALID);
		CHECK(b.len == 0);
		buf_release(&b);
	}
	for (size_t cap = 0; cap < 60; cap++) {
		struct buf b = BUF_INIT(cap);

		CHECK(forward_headers_request(&r, &none, &b, &e) == -1 && e.code == ERR_LIMIT);
		buf_release(&b);
	}
}

static void picks_headers_of_answers(void)
{
	static const char *const out[] = { "Connection", "Keep-Alive",	  "Proxy-Authenticate",
					   "TE",	 "Trailer",	  "Upgrade",
					   "X-Named",	 "content-LENGTH" };
	struct http1_response r;
	size_t passed = 0;

	read_response("HTTP/1.1 200 OK\r\nConnection: close, x-named\r\nX-Named: 1\r\nTE: a\r\n"
		      "Keep-Alive: 5\r\nTrailer: x\r\nUpgrade: y\r\nProxy-Authenticate: z\r\n"
		      "content-LENGTH: 3\r\nSet-Cookie: a\r\nset-cookie: b\r\nDate: now\r\n\r\n",
		      HTTP1_GET, &r);
	for (size_t i = 0; i < r.headers_n; i++) {
		bool is_out = false;

		for (size_t k = 0; k < COUNT(out); k++)
			is_out = is_out || http1_span_is_nocase(r.headers[i].name, out[k]);
		CHECK(forward_headers_in_answer(&r, &r.headers[i]) == !is_out);
		passed += !is_out;
	}
	CHECK(passed == 3);
	read_response("HTTP/1.1 101 OK\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\n", HTTP1_GET,
		      &r);
	CHECK(!forward_headers_in_answer(&r, &r.headers[0]) &&
	      forward_headers_in_answer(&r, &r.headers[1]));
}

static void knows_the_length_of_what_is_not_sent(void)
{
	struct http1_response r;

	read_response("HTTP/1.1 200 OK\r\nContent-Length: 123456789012345678\r\n\r\n", HTTP1_HEAD,
		      &r);
	CHECK(forward_headers_length(&r) == 123456789012345678);
	read_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_HEAD, &r);
	CHECK(forward_headers_length(&r) == UINT64_MAX);
}

TEST_MAIN({ "composes requests", composes_requests },
	  { "leaves out what is the connection's", leaves_out_what_is_the_connections },
	  { "refuses unclean options and long heads", refuses_unclean_options_and_long_heads },
	  { "picks headers of answers", picks_headers_of_answers },
	  { "knows the length of what is not sent", knows_the_length_of_what_is_not_sent })
