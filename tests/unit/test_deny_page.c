/* Goal: a program gets exactly one answer, whatever bytes the reason holds. */
#include "egress/gateway/deny_page.h"

#include "support.h"

static const char *written(struct buf *b, struct deny_page r)
{
	buf_clear(b);
	deny_page_write(b, &r);
	return buf_text(b);
}

static void says_why(void)
{
	struct buf b = BUF_INIT(DENY_PAGE_MAX);
	struct http1_response r;
	struct http1_fault fault;
	const char *text = written(&b, (struct deny_page){ .status = 403,
							   .denied = true,
							   .reason = "x.example is not allowed",
							   .rule = "no x" });

	CHECK(http1_response_read(text, b.len, HTTP1_GET, &r, &fault) > 0);
	CHECK(r.status == 403 && r.framing == HTTP1_LENGTH && r.keep_alive);
	CHECK_HAS("denied", text, "\r\nX-Cordon-Denied: x.example is not allowed\r\n");
	CHECK_HAS("denied", text, "\r\n\r\nx.example is not allowed (rule: no x)\n");
	text = written(&b, (struct deny_page){ .status = 502, .reason = "gone", .close = true });
	CHECK_HAS("failed", text, "X-Cordon-Failed: gone\r\n");
	CHECK_HAS("failed", text, "Connection: close\r\n");
	CHECK(strstr(text, "policy") == NULL);
	buf_release(&b);
}

static void speaks_json(void)
{
	static const struct http1_header json[] = { { { "Accept", 6 },
						      { "text/html, application/json", 27 } } };
	static const struct http1_header html[] = { { { "Accept", 6 }, { "text/html", 9 } } };
	struct buf b = BUF_INIT(DENY_PAGE_MAX);
	const char *text;

	CHECK(deny_page_wants_json(json, 1) && !deny_page_wants_json(html, 1));
	CHECK(!deny_page_wants_json(NULL, 0));
	text = written(&b, (struct deny_page){ .status = 403,
					       .denied = true,
					       .reason = "a \"b\"",
					       .rule = "r",
					       .json = true });
	CHECK_HAS("json", text,
		  "\r\n\r\n{\"error\":\"denied\",\"reason\":\"a \\\"b\\\"\",\"rule\":\"r\"}");
	buf_release(&b);
}

/* Clients of packages print the reason phrase; npm prints "error" of the body, too. */
static void explains_packages(void)
{
	struct buf b = BUF_INIT(DENY_PAGE_MAX);
	struct http1_response r;
	struct http1_fault fault;
	char reason[400];
	const char *text = written(&b, (struct deny_page){ .status = 403,
							   .denied = true,
							   .reason = "demo 2.0 is\r\n too new",
							   .rule = "r",
							   .package = true });

	CHECK_HAS("phrase", text, "HTTP/1.1 403 demo 2.0 is?? too new\r\n");
	CHECK_HAS("text alone", text, "\r\n\r\ndemo 2.0 is?? too new\n");
	text = written(&b, (struct deny_page){ .status = 403,
					       .denied = true,
					       .reason = "no",
					       .package = true,
					       .json = true });
	CHECK_HAS("npm", text, "\r\n\r\n{\"error\":\"no\"}");
	memset(reason, 'a', sizeof(reason));
	reason[sizeof(reason) - 1] = '\0';
	text = written(&b, (struct deny_page){ .status = 403, .reason = reason, .package = true });
	CHECK(http1_response_read(text, b.len, HTTP1_GET, &r, &fault) > 0 && r.reason.n == 160);
	text = written(&b, (struct deny_page){ .status = 403, .reason = "", .package = true });
	CHECK_HAS("no reason", text, "HTTP/1.1 403 Forbidden\r\n");
	buf_release(&b);
}

static void holds_one_answer(void)
{
	struct buf b = BUF_INIT(DENY_PAGE_MAX);
	struct http1_response r;
	struct http1_fault fault;
	char reason[2000];
	const char *text;
	int head;

	memset(reason, 'a', sizeof(reason));
	memcpy(reason, "x\r\nSet-Cookie: y\r\n\r\nHTTP/1.1 200 OK\xff\x01", 37);
	reason[sizeof(reason) - 1] = '\0';
	text = written(&b, (struct deny_page){ .status = 403, .denied = true, .reason = reason });
	head = http1_response_read(text, b.len, HTTP1_GET, &r, &fault);
	CHECK(head > 0 && http1_find(r.headers, r.headers_n, "set-cookie", NULL) == 0);
	CHECK((size_t)head + r.content_length == b.len);
	text = written(&b, (struct deny_page){ .status = 502, .reason = "", .bodiless = true });
	head = http1_response_read(text, b.len, HTTP1_HEAD, &r, &fault);
	CHECK(head > 0 && (size_t)head == b.len);
	buf_release(&b);
}

TEST_MAIN({ "says_why", says_why }, { "speaks_json", speaks_json },
	  { "explains_packages", explains_packages }, { "holds_one_answer", holds_one_answer })
