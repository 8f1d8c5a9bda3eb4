/* Values of headers: one that is taken as equal to a text is that text, or its base64; and a page
 * of another host is never allowed. Input: header value, newline, text. */
#include "fuzz.h"

#include <stdio.h>
#include <strings.h>

#include "lib/base/base64.h"
#include "lib/mcp/server/mcp_request.h"

unsigned long fuzz_accepted;

static void check_equal(struct http1_span value, struct json_span text)
{
	char encoded[BASE64_LENGTH(MCP_NAME_MAX) + 1], whole[sizeof(encoded) + 16];

	if (!mcp_header_is(value, text))
		return;
	fuzz_accepted++;
	if (value.n == text.n && memcmp(value.p, text.p, text.n) == 0)
		return;
	assert(text.n <= MCP_NAME_MAX);
	base64_encode(text.p, text.n, encoded);
	(void)snprintf(whole, sizeof(whole), "=?base64?%s?=", encoded);
	assert(http1_span_is(value, whole));
}

static bool ends_in(struct http1_span s, const char *tail)
{
	size_t n = strlen(tail);

	return s.n >= n && strncasecmp(s.p + s.n - n, tail, n) == 0;
}

static void check_origin(struct http1_span origin, struct http1_span host)
{
	static const char *const hosts[] = { "ours.example", NULL };

	if (mcp_origin_allowed(origin, host, hosts, true)) {
		fuzz_accepted++;
		assert(!ends_in(origin, "evil.example") && !ends_in(host, "evil.example"));
	}
	if (mcp_origin_allowed(origin, host, hosts, false) && ends_in(origin, "evil.example"))
		assert(ends_in(host, "evil.example"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size);
	const char *end = size == 0 ? NULL : memchr(text, '\n', size);
	size_t n = end == NULL ? size : (size_t)(end - text);
	char *value = fuzz_copy(text, n);
	size_t rest = end == NULL ? 0 : size - n - 1;
	char *other = fuzz_copy(end == NULL ? text : end + 1, rest);

	check_equal((struct http1_span){ value, n }, (struct json_span){ other, rest });
	check_origin((struct http1_span){ value, n }, (struct http1_span){ other, rest });
	check_origin((struct http1_span){ 0 }, (struct http1_span){ other, rest });
	free(other);
	free(value);
	free(text);
	return 0;
}
