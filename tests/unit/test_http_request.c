/* Goal: a request is read in one way only; whatever two readers could see differently is refused.
 */
#include "lib/http/http1.h"

#include "support.h"

#define HEAD "GET / HTTP/1.1\r\n"
#define HOST "Host: x\r\n"
#define WS                                                          \
	"Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n" \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static struct http1_fault fault;

/* In an exact copy, which the spans point into until the next call. */
static int read_bytes(const char *bytes, size_t len, struct http1_request *r)
{
	static char *held;

	free(held);
	held = exact_copy(bytes, len);
	fault = (struct http1_fault){ 0, NULL };
	return http1_request_read(held, len, r, &fault);
}

static int read_text(const char *text, struct http1_request *r)
{
	return read_bytes(text, strlen(text), r);
}

#define CHECK_SPAN(span, text) CHECK(http1_span_is(span, text))

static void reads_all_of_a_request(void)
{
	static const char text[] = "POST /v1/a%2Fb?wait=1&x HTTP/1.1\r\n"
				   "Host: Example.com:8080\r\n"
				   "content-LENGTH: \t 12 \t\r\n"
				   "X-Empty:\r\n"
				   "X-Inner: a \t b\xff\r\n"
				   "Expect: 100-Continue\r\n\r\nbody";
	struct http1_request r;
	struct http1_span v;

	CHECK(read_text(text, &r) == (int)sizeof(text) - 1 - 4);
	CHECK(r.method == HTTP1_POST && r.form == HTTP1_ORIGIN && r.minor == 1);
	CHECK_SPAN(r.method_name, "POST");
	CHECK_SPAN(r.target, "/v1/a%2Fb?wait=1&x");
	CHECK_SPAN(r.path, "/v1/a%2Fb");
	CHECK_SPAN(r.query, "wait=1&x");
	CHECK_SPAN(r.host, "Example.com:8080");
	CHECK(r.authority.n == 0 && r.headers_n == 5);
	CHECK(r.framing == HTTP1_LENGTH && r.content_length == 12);
	CHECK(r.keep_alive && r.expect_continue && !r.upgrade_websocket && r.ws_key.n == 0);
	CHECK(http1_find(r.headers, r.headers_n, "x-inner", &v) == 1);
	CHECK_SPAN(v, "a \t b\xff");
	CHECK(http1_find(r.headers, r.headers_n, "X-EMPTY", &v) == 1 && v.n == 0 && v.p != NULL);
	CHECK(http1_find(r.headers, r.headers_n, "x-none", &v) == 0 && v.n == 0 && v.p == NULL);
	CHECK(http1_find(r.headers, r.headers_n, "host", NULL) == 1);
}

static void knows_the_methods(void)
{
	for (int m = HTTP1_GET; m < HTTP1_METHODS; m++) {
		struct http1_request r;
		char text[64];

		(void)snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\n" HOST "\r\n",
			       http1_method_name((enum http1_method)m),
			       m == HTTP1_CONNECT ? "x:1" : "/");
		CHECK_CASE(text, read_text(text, &r) > 0 && (int)r.method == m);
	}
}

static const struct {
	const char *line, *host;
	enum http1_form form;
	const char *path, *query, *authority; /* NULL query: none */
} targets[] = {
	{ "GET / HTTP/1.1", "x", HTTP1_ORIGIN, "/", NULL, "" },
	{ "GET /? HTTP/1.1", "x", HTTP1_ORIGIN, "/", "", "" },
	{ "GET /a?b?c HTTP/1.1", "x", HTTP1_ORIGIN, "/a", "b?c", "" },
	{ "GET //a HTTP/1.1", "x", HTTP1_ORIGIN, "//a", NULL, "" },
	{ "GET /{a}|\"<>^` HTTP/1.1", "x", HTTP1_ORIGIN, "/{a}|\"<>^`", NULL, "" },
	{ "get /a HTTP/1.1", "x", HTTP1_ORIGIN, "/a", NULL, "" },
	{ "GET http://x:80/a?b HTTP/1.1", "X:80", HTTP1_ABSOLUTE, "/a", "b", "x:80" },
	{ "GET HTTPS://x/ HTTP/1.1", "x", HTTP1_ABSOLUTE, "/", NULL, "x" },
	{ "GET http://x HTTP/1.1", "x", HTTP1_ABSOLUTE, "/", NULL, "x" },
	{ "GET http://x?b HTTP/1.1", "x", HTTP1_ABSOLUTE, "/", "b", "x" },
	{ "GET http://[::1]:8/a HTTP/1.1", "[::1]:8", HTTP1_ABSOLUTE, "/a", NULL, "[::1]:8" },
	{ "CONNECT a.b:443 HTTP/1.1", "a.b", HTTP1_AUTHORITY, "", NULL, "a.b:443" },
	{ "CONNECT [2001:db8::1]:443 HTTP/1.1", "x", HTTP1_AUTHORITY, "", NULL,
	  "[2001:db8::1]:443" },
	{ "OPTIONS * HTTP/1.1", "x", HTTP1_ASTERISK, "", NULL, "" },
	{ "OPTIONS / HTTP/1.0", "x", HTTP1_ORIGIN, "/", NULL, "" },
};

static void reads_every_form_of_target(void)
{
	for (size_t i = 0; i < COUNT(targets); i++) {
		struct http1_request r;
		char text[256];

		(void)snprintf(text, sizeof(text), "%s\r\nHost: %s\r\n\r\n", targets[i].line,
			       targets[i].host);
		CHECK_CASE(text, read_text(text, &r) == (int)strlen(text));
		CHECK_CASE(text, r.form == targets[i].form);
		CHECK_CASE(text, http1_span_is(r.path, targets[i].path));
		CHECK_CASE(text, (r.query.p == NULL) == (targets[i].query == NULL));
		CHECK_CASE(text, r.query.p == NULL || http1_span_is(r.query, targets[i].query));
		CHECK_CASE(text, http1_span_is(r.authority, targets[i].authority));
		CHECK_CASE(text, http1_span_is(r.host, targets[i].host));
	}
}

static const struct {
	const char *name, *text;
	int status;
} refused[] = {
	{ "empty first line", "\r\n" HEAD HOST "\r\n", 400 },
	{ "no method", " / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "method no token", "G(T / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "method of 33", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" HOST "\r\n", 501 },
	{ "one word", "GET\r\n\r\n", 400 },
	{ "two words (0.9)", "GET /\r\n\r\n", 400 },
	{ "four words", "GET / / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "two spaces", "GET  / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "space at the end", "GET / HTTP/1.1 \r\n" HOST "\r\n", 400 },
	{ "tab between", "GET\t/\tHTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "http in lower case", "GET / http/1.1\r\n" HOST "\r\n", 400 },
	{ "HTTP/1.2", "GET / HTTP/1.2\r\n" HOST "\r\n", 400 },
	{ "HTTP/1.10", "GET / HTTP/1.10\r\n" HOST "\r\n", 400 },
	{ "HTTP/1.", "GET / HTTP/1.\r\n" HOST "\r\n", 400 },
	{ "HTTP/1,1", "GET / HTTP/1,1\r\n" HOST "\r\n", 400 },
	{ "HTTP/x.1", "GET / HTTP/x.1\r\n" HOST "\r\n", 400 },
	{ "HTTP/:.1", "GET / HTTP/:.1\r\n" HOST "\r\n", 400 },
	{ "HTTP/1.x", "GET / HTTP/1.x\r\n" HOST "\r\n", 400 },
	{ "HTTP/1./", "GET / HTTP/1./\r\n" HOST "\r\n", 400 },
	{ "HTTP/0.9", "GET / HTTP/0.9\r\n" HOST "\r\n", 505 },
	{ "HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
	{ "fragment", "GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "tab in target", "GET /\ta HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "high byte in target", "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "DEL in target", "GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "relative target", "GET a/b HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "other scheme", "GET ftp://x/ HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "scheme only", "GET http:// HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "no host in target", "GET http:///a HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "target of another host", "GET http://y/ HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "target of a longer host", "GET http://x.y/ HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "target with another port", "GET http://x:1/ HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "target with a user", "GET http://u@x/ HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "asterisk for GET", "GET * HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "authority for GET", "GET x:80 HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "CONNECT to a path", "CONNECT / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "CONNECT without port", "CONNECT x HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "CONNECT to port 65536", "CONNECT x:65536 HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "CONNECT with a length", "CONNECT x:1 HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
	  400 },
	{ "CONNECT chunked", "CONNECT x:1 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
	  400 },
	{ "no Host", HEAD "\r\n", 400 },
	{ "two Hosts", HEAD HOST HOST "\r\n", 400 },
	{ "two Hosts in 1.0", "GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400 },
	{ "empty Host", HEAD "Host:\r\n\r\n", 400 },
	{ "Host of two", HEAD "Host: a, b\r\n\r\n", 400 },
	{ "Host with a path", HEAD "Host: a/b\r\n\r\n", 400 },
	{ "Host with a user", HEAD "Host: u@a\r\n\r\n", 400 },
	{ "Host without name", HEAD "Host: :80\r\n\r\n", 400 },
	{ "Host with empty port", HEAD "Host: a:\r\n\r\n", 400 },
	{ "Host with a port of letters", HEAD "Host: a:8o\r\n\r\n", 400 },
	{ "Host with a port of six", HEAD "Host: a:000080\r\n\r\n", 400 },
	{ "Host: open bracket", HEAD "Host: [::1\r\n\r\n", 400 },
	{ "Host: empty brackets", HEAD "Host: []\r\n\r\n", 400 },
	{ "Host: no address", HEAD "Host: [::g]\r\n\r\n", 400 },
	{ "Host: long address",
	  HEAD "Host: [0000000000000000000000000000000000000000000000000]\r\n\r\n", 400 },
	{ "Host: behind brackets", HEAD "Host: [::1]80\r\n\r\n", 400 },
	{ "header without colon", HEAD HOST "X-Y\r\n\r\n", 400 },
	{ "header without name", HEAD HOST ": x\r\n\r\n", 400 },
	{ "space before colon", HEAD HOST "X : y\r\n\r\n", 400 },
	{ "space in name", HEAD HOST "X Y: z\r\n\r\n", 400 },
	{ "high byte in name", HEAD HOST "X\xff: z\r\n\r\n", 400 },
	{ "folded", HEAD HOST "X: y\r\n z\r\n\r\n", 400 },
	{ "folded by tab", HEAD HOST "X: y\r\n\tz\r\n\r\n", 400 },
	{ "first header begins with space", HEAD " " HOST "\r\n", 400 },
	{ "line of a space", HEAD HOST " \r\n\r\n", 400 },
	{ "bare LF", "GET / HTTP/1.1\nHost: x\n\n", 400 },
	{ "bare LF, not complete", "GET / HTTP/1.1\n", 400 },
	{ "bare LF at the end", HEAD HOST "\n", 400 },
	{ "bare CR", HEAD "Host: x\rX: y\r\n\r\n", 400 },
	{ "CR CR LF", HEAD "Host: x\r\r\n\r\n", 400 },
	{ "escape in value", HEAD HOST "X: \x1b[0m\r\n\r\n", 400 },
	{ "vertical tab", HEAD HOST "Transfer-Encoding:\vchunked\r\n\r\n", 400 },
	{ "not HTTP at all", "\x16\x03\x01\x02", 400 },
	{ "length and chunked", HEAD HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	  400 },
	{ "two equal lengths", HEAD HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400 },
	{ "empty length", HEAD HOST "Content-Length:\r\n\r\n", 400 },
	{ "length +1", HEAD HOST "Content-Length: +1\r\n\r\n", 400 },
	{ "length -1", HEAD HOST "Content-Length: -1\r\n\r\n", 400 },
	{ "length 0x1", HEAD HOST "Content-Length: 0x1\r\n\r\n", 400 },
	{ "length 1,1", HEAD HOST "Content-Length: 1,1\r\n\r\n", 400 },
	{ "length 1 1", HEAD HOST "Content-Length: 1 1\r\n\r\n", 400 },
	{ "length 01", HEAD HOST "Content-Length: 01\r\n\r\n", 400 },
	{ "length of 19 digits", HEAD HOST "Content-Length: 1000000000000000000\r\n\r\n", 400 },
	{ "length of 2^64", HEAD HOST "Content-Length: 18446744073709551616\r\n\r\n", 400 },
	{ "coding twice",
	  HEAD HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ "coding empty", HEAD HOST "Transfer-Encoding:\r\n\r\n", 400 },
	{ "coding identity", HEAD HOST "Transfer-Encoding: identity\r\n\r\n", 400 },
	{ "coding gzip, chunked", HEAD HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 400 },
	{ "coding chunked, chunked", HEAD HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 400 },
	{ "coding ,chunked", HEAD HOST "Transfer-Encoding: ,chunked\r\n\r\n", 400 },
	{ "coding \"chunked\"", HEAD HOST "Transfer-Encoding: \"chunked\"\r\n\r\n", 400 },
	{ "coding chunked;q", HEAD HOST "Transfer-Encoding: chunked;q=1\r\n\r\n", 400 },
	{ "coding in 1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ "other expectation", HEAD HOST "Expect: tea\r\n\r\n", 417 },
	{ "two expectations", HEAD HOST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n",
	  417 },
};

static void refuses_what_is_malformed(void)
{
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct http1_request r;

		CHECK_CASE(refused[i].name, read_text(refused[i].text, &r) == -1);
		CHECK_CASE(refused[i].name, fault.status == refused[i].status);
		CHECK_CASE(refused[i].name, fault.words != NULL && fault.words[0] != '\0');
		CHECK_CASE(refused[i].name, http1_reason(fault.status)[0] != '\0');
	}
}

/* The same head is read if only the control byte is not there: so that is the reason. */
static void refuses_every_control_byte_everywhere(void)
{
	static const char good[] = "GET /a HTTP/1.1\r\nHost: x\r\nName: value\r\n\r\n";
	struct http1_request r;

	CHECK(read_text(good, &r) > 0);
	for (size_t at = 0; at < sizeof(good) - 1; at++) {
		for (int c = 0; c <= 0x7f; c = c == 0x1f ? 0x7f : c + 1) {
			char bytes[sizeof(good)];

			if (c == '\t' || good[at] == '\r' || good[at] == '\n')
				continue;
			memcpy(bytes, good, sizeof(good));
			bytes[at] = (char)c;
			CHECK(read_bytes(bytes, sizeof(good) - 1, &r) == -1 && fault.status == 400);
		}
	}
}

static void waits_for_the_rest(void)
{
	static const char text[] = "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n";
	struct http1_request r;
	size_t scanned = 0;
	int n = (int)sizeof(text) - 1;

	for (int i = 0; i < n; i++) {
		CHECK(read_bytes(text, (size_t)i, &r) == 0);
		CHECK(http1_head_end(text, (size_t)i, &scanned) == 0);
		CHECK(scanned <= (size_t)i && scanned + 1 >= (size_t)i);
	}
	CHECK(read_bytes(text, (size_t)n, &r) == n);
	CHECK(http1_head_end(text, (size_t)n, &scanned) == n && scanned == (size_t)n);
	scanned = 0;
	CHECK(http1_head_end("", 0, &scanned) == 0 && scanned == 0);
	CHECK(http1_head_end("\r", 1, &scanned) == -1);
}

static void reads_one_of_two(void)
{
	static const char text[] =
		"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: y\r\n\r\n";
	struct http1_request r;
	int n = read_text(text, &r);

	CHECK(n == ((int)sizeof(text) - 1) / 2);
	CHECK_SPAN(r.path, "/a");
	CHECK(read_text(text + n, &r) == n);
	CHECK_SPAN(r.path, "/b");
}

static const struct {
	const char *version, *fields;
	bool keep_alive;
} connections[] = {
	{ "1.1", "", true },
	{ "1.1", "Connection: keep-alive\r\n", true },
	{ "1.1", "Connection: close\r\n", false },
	{ "1.1", "Connection: a ,\tCLOSE , b\r\n", false },
	{ "1.1", "Connection: a\r\nX: y\r\nConnection: close\r\n", false },
	{ "1.1", "Connection: closed, aclose\r\n", true },
	{ "1.1", "Connection:\r\n", true },
	{ "1.1", "X-Connection: close\r\n", true },
	{ "1.0", "", false },
	{ "1.0", "Connection: Keep-Alive\r\n", true },
	{ "1.0", "Connection: keep-alive, close\r\n", false },
};

static void knows_whether_the_connection_stays(void)
{
	for (size_t i = 0; i < COUNT(connections); i++) {
		struct http1_request r;
		char text[256];

		(void)snprintf(text, sizeof(text), "GET / HTTP/%s\r\n" HOST "%s\r\n",
			       connections[i].version, connections[i].fields);
		CHECK_CASE(text, read_text(text, &r) > 0);
		CHECK_CASE(text, r.keep_alive == connections[i].keep_alive);
	}
}

static const struct {
	const char *fields;
	enum http1_framing framing;
	uint64_t length;
	bool expect;
} bodies[] = {
	{ "", HTTP1_NO_BODY, 0, false },
	{ "Expect: 100-continue\r\n", HTTP1_NO_BODY, 0, false },
	{ "Content-Length: 0\r\nExpect: 100-continue\r\n", HTTP1_LENGTH, 0, false },
	{ "Content-Length: 999999999999999999\r\n", HTTP1_LENGTH, 999999999999999999, false },
	{ "Transfer-Encoding: Chunked\r\nExpect: 100-continue\r\n", HTTP1_CHUNKED, 0, true },
	{ "X-Content-Length: 1\r\nContent_Length: 1\r\n", HTTP1_NO_BODY, 0, false },
};

static void knows_the_body(void)
{
	for (size_t i = 0; i < COUNT(bodies); i++) {
		struct http1_request r;
		char text[256];

		(void)snprintf(text, sizeof(text), "PUT / HTTP/1.1\r\n" HOST "%s\r\n",
			       bodies[i].fields);
		CHECK_CASE(text, read_text(text, &r) > 0);
		CHECK_CASE(text, r.framing == bodies[i].framing);
		CHECK_CASE(text, r.content_length == bodies[i].length);
		CHECK_CASE(text, r.expect_continue == bodies[i].expect);
	}
}

static void reads_http_1_0(void)
{
	struct http1_request r;

	CHECK(read_text("GET /a HTTP/1.0\r\n\r\n", &r) > 0);
	CHECK(r.minor == 0 && r.host.n == 0 && !r.keep_alive);
	CHECK(read_text("GET http://x:1/a HTTP/1.0\r\n\r\n", &r) > 0);
	CHECK_SPAN(r.host, "x:1");
	CHECK(read_text("PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: tea\r\n\r\n", &r) > 0);
	CHECK(!r.expect_continue);
	CHECK(read_text("GET / HTTP/1.0\r\n" HOST WS "\r\n", &r) > 0 && !r.upgrade_websocket);
}

static const char *const no_upgrades[] = {
	"POST / HTTP/1.1\r\n" HOST WS "\r\n",
	HEAD HOST WS "Content-Length: 0\r\n\r\n",
	HEAD HOST WS "Sec-WebSocket-Version: 13\r\n\r\n",
	HEAD HOST WS "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
	HEAD HOST "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n",
	HEAD HOST "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
	HEAD HOST "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
	HEAD HOST "Upgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
	HEAD HOST "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQAA\r\n\r\n", /* 18 bytes */
	HEAD HOST "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j!!==\r\n\r\n",
	HEAD HOST "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: dGhlIA==\r\n\r\n",
};

static void knows_a_websocket(void)
{
	struct http1_request r;

	CHECK(read_text(HEAD HOST WS "\r\n", &r) > 0 && r.upgrade_websocket && r.keep_alive);
	CHECK_SPAN(r.ws_key, "dGhlIHNhbXBsZSBub25jZQ==");
	for (size_t i = 0; i < COUNT(no_upgrades); i++) {
		CHECK_CASE(no_upgrades[i], read_text(no_upgrades[i], &r) > 0);
		CHECK_CASE(no_upgrades[i], !r.upgrade_websocket && r.ws_key.n == 0);
	}
}

static size_t put_many(char *text, int headers)
{
	int n = snprintf(text, 32, HEAD HOST);

	for (int i = 1; i < headers; i++)
		n += snprintf(text + n, 16, "X-%d: y\r\n", i);
	n += snprintf(text + n, 3, "\r\n");
	return (size_t)n;
}

static void bounds_the_number_of_headers(void)
{
	struct http1_request r;
	char text[2048];

	CHECK(read_bytes(text, put_many(text, HTTP1_HEADERS_MAX), &r) > 0);
	CHECK(r.headers_n == HTTP1_HEADERS_MAX);
	CHECK(read_bytes(text, put_many(text, HTTP1_HEADERS_MAX + 1), &r) == -1);
	CHECK(fault.status == 431);
}

/* "GET /aaa... HTTP/1.1" with a target of n bytes. */
static size_t put_long(char *text, const char *method, size_t n)
{
	size_t len = strlen(method);

	memcpy(text, method, len);
	text[len++] = ' ';
	memset(text + len, 'a', n);
	text[len] = '/';
	len += n;
	return len + (size_t)snprintf(text + len, 64, " HTTP/1.1\r\n" HOST "\r\n");
}

static void bounds_the_target(void)
{
	struct http1_request r;
	char *text = malloc(HTTP1_TARGET_MAX * 2);
	size_t n;

	CHECK(text != NULL);
	n = put_long(text, "GET", HTTP1_TARGET_MAX);
	CHECK(read_bytes(text, n, &r) == (int)n && r.path.n == HTTP1_TARGET_MAX);
	CHECK(read_bytes(text, HTTP1_TARGET_MAX, &r) == 0);
	CHECK(read_bytes(text, put_long(text, "GET", HTTP1_TARGET_MAX + 1), &r) == -1);
	CHECK(fault.status == 414);
	n = put_long(text, "GET", HTTP1_TARGET_MAX + 100);
	CHECK(read_bytes(text, n, &r) == -1 && fault.status == 414);
	/* Known before the line has ended. */
	CHECK(read_bytes(text, n - 40, &r) == -1 && fault.status == 414);
	free(text);
}

static void bounds_the_host(void)
{
	struct http1_request r;
	char text[512], name[257];

	memset(name, 'a', sizeof(name));
	(void)snprintf(text, sizeof(text), HEAD "Host: %.255s\r\n\r\n", name);
	CHECK(read_text(text, &r) > 0 && r.host.n == 255);
	(void)snprintf(text, sizeof(text), HEAD "Host: %.256s\r\n\r\n", name);
	CHECK(read_text(text, &r) == -1 && fault.status == 400);
}

static void knows_tokens_and_values(void)
{
	CHECK(http1_is_token("a", 1) && http1_is_token("!#$%&'*+-.^_`|~09azAZ", 21));
	CHECK(!http1_is_token("", 0) && !http1_is_token("\0", 1) && !http1_is_token("a b", 3));
	CHECK(!http1_is_token("a:", 2) && !http1_is_token("\x80", 1));
	CHECK(http1_is_value("", 0) && http1_is_value("a\tb", 3) && http1_is_value("\xff", 1));
	CHECK(!http1_is_value(" a", 2) && !http1_is_value("a\t", 2) && !http1_is_value("\r\n", 2));
	CHECK(!http1_is_value("a\0", 2) && !http1_is_value("\x7f", 1) && !http1_is_value(" ", 1));
	CHECK(http1_is_target("/a", 2) && !http1_is_target("", 0) && !http1_is_target("/ ", 2));
	CHECK(http1_hex('0') == 0 && http1_hex('a') == 10 && http1_hex('F') == 15);
	CHECK(http1_hex('g') == -1 && http1_hex('G') == -1 && http1_hex('/') == -1);
	CHECK(http1_span_is((struct http1_span){ NULL, 0 }, ""));
	CHECK(http1_span_is_nocase((struct http1_span){ NULL, 0 }, ""));
	CHECK(!http1_span_is((struct http1_span){ "A", 1 }, "a"));
	CHECK_STR(http1_method_name(HTTP1_OTHER), "");
	CHECK_STR(http1_reason(200), "OK");
	CHECK_STR(http1_reason(299), "");
}

static void knows_media_types(void)
{
	static const char *const same[] = { "a/b", "a/b;c=d", "a/b ; c=d", "a/b\t;c", "a/b;" };

	for (size_t i = 0; i < COUNT(same); i++) {
		struct http1_span value = { same[i], strlen(same[i]) };

		CHECK_CASE(same[i], http1_span_is(http1_media_type(value), "a/b"));
	}
	CHECK(http1_media_type((struct http1_span){ NULL, 0 }).n == 0);
	CHECK(http1_media_type((struct http1_span){ ";", 1 }).n == 0);
}

TEST_MAIN({ "reads all of a request", reads_all_of_a_request },
	  { "knows the methods", knows_the_methods },
	  { "reads every form of target", reads_every_form_of_target },
	  { "refuses what is malformed", refuses_what_is_malformed },
	  { "refuses every control byte everywhere", refuses_every_control_byte_everywhere },
	  { "waits for the rest", waits_for_the_rest }, { "reads one of two", reads_one_of_two },
	  { "knows whether the connection stays", knows_whether_the_connection_stays },
	  { "knows the body", knows_the_body }, { "reads HTTP/1.0", reads_http_1_0 },
	  { "knows a websocket", knows_a_websocket },
	  { "bounds the number of headers", bounds_the_number_of_headers },
	  { "bounds the target", bounds_the_target }, { "bounds the host", bounds_the_host },
	  { "knows tokens and values", knows_tokens_and_values },
	  { "knows media types", knows_media_types })
