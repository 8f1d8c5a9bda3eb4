/* Goal: an answer is read in one way only, and where it ends is never a guess but for the close. */
#include "lib/http/http1.h"
#include "lib/http/http1_write.h"

#include "support.h"

static struct http1_fault fault;

static int read_text(const char *text, enum http1_method method, struct http1_response *r)
{
	static char *held; /* the spans point into it until the next call */

	free(held);
	held = exact_copy(text, strlen(text));
	fault = (struct http1_fault){ 0, NULL };
	return http1_response_read(held, strlen(text), method, r, &fault);
}

static const struct {
	const char *text;
	enum http1_method method;
	int status, minor;
	enum http1_framing framing;
	uint64_t length;
	bool keep_alive;
	const char *reason;
} good[] = {
	{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", HTTP1_GET, 200, 1, HTTP1_LENGTH, 5, true,
	  "OK" },
	{ "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", HTTP1_GET, 200, 1, HTTP1_LENGTH, 0, true,
	  "" },
	{ "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", HTTP1_GET, 200, 1, HTTP1_LENGTH, 0, true,
	  "" },
	{ "HTTP/1.1 404 Not Found\xff\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_PUT, 404, 1,
	  HTTP1_CHUNKED, 0, true, "Not Found\xff" },
	{ "HTTP/1.1 200 OK\r\n\r\n", HTTP1_GET, 200, 1, HTTP1_UNTIL_CLOSE, 0, false, "OK" },
	{ "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", HTTP1_GET, 200, 0, HTTP1_UNTIL_CLOSE,
	  0, false, "OK" },
	{ "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", HTTP1_GET, 200,
	  0, HTTP1_LENGTH, 1, true, "OK" },
	{ "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n", HTTP1_GET, 200, 1,
	  HTTP1_LENGTH, 1, false, "OK" },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", HTTP1_HEAD, 200, 1, HTTP1_NO_BODY, 0,
	  true, "OK" },
	{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_HEAD, 200, 1,
	  HTTP1_NO_BODY, 0, true, "OK" },
	{ "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", HTTP1_GET, 304, 1,
	  HTTP1_NO_BODY, 0, true, "Not Modified" },
	{ "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", HTTP1_GET, 204, 1, HTTP1_NO_BODY,
	  0, true, "No Content" },
	{ "HTTP/1.1 100 Continue\r\n\r\n", HTTP1_PUT, 100, 1, HTTP1_NO_BODY, 0, true, "Continue" },
	{ "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n", HTTP1_GET, 101, 1,
	  HTTP1_NO_BODY, 0, true, "Switching Protocols" },
	{ "HTTP/1.1 200 OK\r\n\r\n", HTTP1_CONNECT, 200, 1, HTTP1_NO_BODY, 0, true, "OK" },
	{ "HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\n", HTTP1_CONNECT, 403, 1,
	  HTTP1_LENGTH, 3, true, "Forbidden" },
	{ "HTTP/1.1 599 \r\nContent-Length: 3\r\n\r\n", HTTP1_GET, 599, 1, HTTP1_LENGTH, 3, true,
	  "" },
};

static void reads_answers(void)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		struct http1_response r;
		const char *text = good[i].text;

		CHECK_CASE(text, read_text(text, good[i].method, &r) == (int)strlen(text));
		CHECK_CASE(text, r.status == good[i].status && r.minor == good[i].minor);
		CHECK_CASE(text, r.framing == good[i].framing);
		CHECK_CASE(text, r.content_length == good[i].length);
		CHECK_CASE(text, r.keep_alive == good[i].keep_alive);
		CHECK_CASE(text, http1_span_is(r.reason, good[i].reason));
	}
}

static const char *const refused[] = {
	"\r\n",
	"HTTP/1.1\r\n\r\n",
	"HTTP/1.1 20\r\n\r\n",
	"HTTP/1.1  200 OK\r\n\r\n",
	"HTTP/1.1\t200 OK\r\n\r\n",
	"HTTP/1.1 2x0 OK\r\n\r\n",
	"HTTP/1.1 2/0 OK\r\n\r\n",
	"HTTP/1.1 099 OK\r\n\r\n",
	"HTTP/1.1 600 OK\r\n\r\n",
	"HTTP/1.1 2000 OK\r\n\r\n",
	"HTTP/1.1 200\tOK\r\n\r\n",
	"HTTP/1.2 200 OK\r\n\r\n",
	"HTTP/2.0 200 OK\r\n\r\n",
	"http/1.1 200 OK\r\n\r\n",
	"ICY 200 OK now\r\n\r\n",
	"HTTP/1.1 200 OK\n\n",
	"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
	"HTTP/1.1 200 OK\r\n X: a\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nTransfer-Encoding: chunked\r\n\r\n",
};

static void refuses_what_is_malformed(void)
{
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct http1_response r;

		CHECK_CASE(refused[i], read_text(refused[i], HTTP1_GET, &r) == -1);
		CHECK_CASE(refused[i], fault.status == 502 && fault.words[0] != '\0');
	}
}

static void waits_for_the_rest(void)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";
	struct http1_response r;

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		char *part = exact_copy(text, i);

		CHECK(http1_response_read(part, i, HTTP1_GET, &r, &fault) == 0);
		free(part);
	}
}

static void writes_answers(void)
{
	struct http1_write w;
	struct http1_response r;
	char text[128];
	int n;

	http1_write_status(&w, text, sizeof(text), 201);
	http1_write_header(&w, "X-Y", "a b");
	http1_write_number(&w, "Content-Length", 12);
	n = http1_write_end(&w);
	CHECK(n > 0);
	text[n] = '\0';
	CHECK_STR(text, "HTTP/1.1 201 Created\r\nX-Y: a b\r\nContent-Length: 12\r\n\r\n");
	CHECK(read_text(text, HTTP1_GET, &r) == n && r.content_length == 12);
	http1_write_status(&w, text, sizeof(text), 299);
	n = http1_write_end(&w);
	CHECK(n == 17 && memcmp(text, "HTTP/1.1 299 \r\n\r\n", 17) == 0);
	http1_write_status(&w, text, sizeof(text), 1000);
	CHECK(http1_write_end(&w) == -1);
}

static void writes_requests(void)
{
	struct http1_write w;
	struct http1_request r;
	char text[128];
	int n;

	http1_write_request(&w, text, sizeof(text), "GET", "/a?b", "x:80");
	n = http1_write_end(&w);
	CHECK(n > 0 && http1_request_read(text, (size_t)n, &r, &fault) == n);
	CHECK(r.method == HTTP1_GET && http1_span_is(r.target, "/a?b"));
	CHECK(http1_span_is(r.host, "x:80"));
}

static const struct {
	const char *method, *target, *host, *name, *value;
} unclean[] = {
	{ "G T", "/", "x", "a", "b" },	       { "", "/", "x", "a", "b" },
	{ "GET", "", "x", "a", "b" },	       { "GET", "/ ", "x", "a", "b" },
	{ "GET", "/\r\n", "x", "a", "b" },     { "GET", "/", "x\r\nY: z", "a", "b" },
	{ "GET", "/", "x", "", "b" },	       { "GET", "/", "x", "a:", "b" },
	{ "GET", "/", "x", "a", "b\r\nY: z" }, { "GET", "/", "x", "a", "b\n" },
	{ "GET", "/", "x", "a", " b" },	       { "GET", "/", "x", "a", "\x01" },
};

static void writes_nothing_that_is_read_otherwise(void)
{
	struct http1_write w;
	char text[128];

	for (size_t i = 0; i < COUNT(unclean); i++) {
		http1_write_request(&w, text, sizeof(text), unclean[i].method, unclean[i].target,
				    unclean[i].host);
		http1_write_header(&w, unclean[i].name, unclean[i].value);
		CHECK(http1_write_end(&w) == -1);
	}
}

static void writes_no_more_than_fits(void)
{
	static const char want[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	struct http1_write w;

	for (size_t cap = 0; cap < sizeof(want) + 2; cap++) {
		char *text = malloc(cap + (cap == 0));

		CHECK(text != NULL);
		http1_write_request(&w, text, cap, "GET", "/", "x");
		CHECK(http1_write_end(&w) == (cap < sizeof(want) - 1 ? -1 : (int)sizeof(want) - 1));
		free(text);
	}
}

TEST_MAIN({ "reads answers", reads_answers },
	  { "refuses what is malformed", refuses_what_is_malformed },
	  { "waits for the rest", waits_for_the_rest }, { "writes answers", writes_answers },
	  { "writes requests", writes_requests },
	  { "writes nothing that is read otherwise", writes_nothing_that_is_read_otherwise },
	  { "writes no more than fits", writes_no_more_than_fits })
