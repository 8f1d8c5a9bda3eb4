#include "front/e2b/base/token.h"

#include <string.h>

#include "support.h"

static const struct token_key key = { { 1, 2, 3 } }, other = { { 1, 2, 4 } };

static struct http1_span span(const char *text)
{
	return (struct http1_span){ text, strlen(text) };
}

static void belongs_to_its_sandbox(void)
{
	char a[TOKEN_MAX], again[TOKEN_MAX], id[STORE_ID_MAX];

	token_make(&key, TOKEN_ENVD, "i0123456789abcdef", a);
	token_make(&key, TOKEN_ENVD, "i0123456789abcdef", again);
	CHECK_STR(a, again);
	CHECK(token_check(&key, TOKEN_ENVD, "i0123456789abcdef", span(a)));
	CHECK(!token_check(&key, TOKEN_TRAFFIC, "i0123456789abcdef", span(a)));
	CHECK(!token_check(&key, TOKEN_ENVD, "i0123456789abcdee", span(a)));
	CHECK(!token_check(&other, TOKEN_ENVD, "i0123456789abcdef", span(a)));
	CHECK(token_id(span(a), id));
	CHECK_STR(id, "i0123456789abcdef");
	a[strlen(a) - 1] = a[strlen(a) - 1] == '0' ? '1' : '0';
	CHECK(!token_check(&key, TOKEN_ENVD, "i0123456789abcdef", span(a)));
	a[strlen(a) - 1] = '\0';
	CHECK(!token_check(&key, TOKEN_ENVD, "i0123456789abcdef", span(a)));
	CHECK(!token_check(&key, TOKEN_ENVD, "i0123456789abcdef", span("")));
}

/* RFC 4231, case 2, would need a short key; this one was made with Python's hmac. */
static void is_an_hmac(void)
{
	char a[TOKEN_MAX];

	token_make(&key, TOKEN_ENVD, "iabc", a);
	CHECK_STR(a, "iabc"
		     "518c978bfa6d83af7775b999624069297f961284db4fdef06a15713cbf6098c5");
}

static void no_token(void)
{
	char long_one[200], id[STORE_ID_MAX];

	memset(long_one, 'a', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	for (size_t n = 0; n < sizeof(long_one); n++) { /* its id has room, with its NUL */
		struct http1_span part = { long_one, n };

		CHECK(token_id(part, id) == (n > 64 && n - 64 < sizeof(id)));
	}
	CHECK(!token_id(span(""), id));
	CHECK(!token_id(span("0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"), id));
	CHECK(!token_id(span(long_one), id));
	CHECK(!token_id(span("../etc/passwd/0123456789012345678901234567890123456789012345678901234"
			     "567890123456789"),
			id));
}

/* The vector of the contract. */
static void signatures(void)
{
	static const char token[] = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";
	static const char good[] = "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E";

	CHECK(token_signed(token, "hello.txt", "read", "user", "", good));
	CHECK(!token_signed(token, "hello.txt", "write", "user", "", good));
	CHECK(!token_signed(token, "hello.txt", "read", "root", "", good));
	CHECK(!token_signed(token, "hello.tx", "read", "user", "", good));
	CHECK(!token_signed(token, "hello.txt", "read", "user", "5", good));
	CHECK(!token_signed("x", "hello.txt", "read", "user", "", good));
	CHECK(!token_signed(token, "hello.txt", "read", "user", "", ""));
	CHECK(!token_signed(token, "hello.txt", "read", "user", "",
			    "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E="));
}

TEST_MAIN({ "a token belongs to one sandbox, one use, one node", belongs_to_its_sandbox },
	  { "it is an HMAC-SHA256", is_an_hmac }, { "what is no token has no id", no_token },
	  { "signatures as in the contract", signatures })
