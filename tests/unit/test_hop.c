/* Goal: both proxies know the same headers as those of one connection, by name and because
 * Connection names them; and know which headers rename a request. */
#include "lib/http/hop.h"
#include "lib/http/override_header.h"

#include "support.h"

static struct http1_span span(const char *text)
{
	return (struct http1_span){ text, strlen(text) };
}

static bool is_hop(const char *connection, const char *name)
{
	struct http1_header headers[] = { { span("Connection"), span(connection) } };
	struct hop h = hop_of(headers, *connection != '\0' ? 1 : 0);

	return hop_is(&h, span(name));
}

static void knows_names_of_one_connection(void)
{
	static const char *const hop[] = {
		"Connection", "content-LENGTH",	   "Keep-Alive", "Proxy-Anything", "TE",
		"Trailer",    "Transfer-Encoding", "Upgrade",	 "HTTP2-Settings"
	};
	static const char *const others[] = { "Accept", "Proxy", "Te-x", "Trailers", "Host", "" };

	for (size_t i = 0; i < COUNT(hop); i++)
		CHECK_CASE(hop[i], is_hop("", hop[i]));
	for (size_t i = 0; i < COUNT(others); i++)
		CHECK_CASE(others[i], !is_hop("", others[i]));
}

static void knows_what_connection_names(void)
{
	char many[HOP_CONNECTION_MAX + 2];

	CHECK(is_hop("close, X-Mine", "x-mine") && !is_hop("close, X-Mine", "x-mines"));
	CHECK(!is_hop("close", "x-mine"));
	memset(many, 'a', sizeof(many));
	memcpy(many, "x-mine,", 7);
	many[HOP_CONNECTION_MAX] = '\0';
	CHECK(is_hop(many, "x-mine"));
	many[HOP_CONNECTION_MAX] = 'a';
	many[HOP_CONNECTION_MAX + 1] = '\0';
	CHECK(!is_hop(many, "x-mine")); /* too long to be looked at */
	CHECK(is_hop(many, "upgrade"));
}

static void knows_headers_that_rename(void)
{
	static const char *const renames[] = {
		"X-HTTP-Method-Override", "x-original-url", "Forwarded", "X-Forwarded-Host",
		"Transfer_Encoding",	  "X_Role",	    "X.Role",	 "X-Rewrite-URL"
	};
	static const char *const others[] = { "Accept", "X-Forwarded-For", "X-Role", "Cookie",
					      "X-Amz-Date" };

	for (size_t i = 0; i < COUNT(renames); i++)
		CHECK_CASE(renames[i], override_header_is(span(renames[i])));
	for (size_t i = 0; i < COUNT(others); i++)
		CHECK_CASE(others[i], !override_header_is(span(others[i])));
}

TEST_MAIN({ "knows names of one connection", knows_names_of_one_connection },
	  { "knows what Connection names", knows_what_connection_names },
	  { "knows headers that rename", knows_headers_that_rename })
