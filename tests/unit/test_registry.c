/* What cordon-pull reads of registries: challenges, tokens, addresses; and its channel. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "lib/wire/pull_msg.h"
#include "pull/address.h"
#include "pull/challenge.h"
#include "pull/login.h"
#include "pull/registry_json.h"

static struct challenge read_challenge(const char *value)
{
	const struct http1_header headers[] = { { { "Server", 6 }, { "x", 1 } },
						{ { "www-authenticate", 16 },
						  { value, strlen(value) } } };
	struct challenge c;

	challenge_read(headers, 2, &c);
	return c;
}

static void a_challenge_is_read(void)
{
	struct challenge c = read_challenge("Bearer realm=\"https://a.test/t\",service=\"s "
					    "x\",scope=\"repository:a/b:pull,push\"");

	CHECK(c.kind == CHALLENGE_BEARER && strcmp(c.realm, "https://a.test/t") == 0);
	CHECK(strcmp(c.service, "s x") == 0 && strcmp(c.scope, "repository:a/b:pull,push") == 0);
	CHECK(read_challenge("Basic realm=\"x\"").kind == CHALLENGE_BASIC);
	CHECK(read_challenge("Negotiate").kind == CHALLENGE_NONE);
	CHECK(read_challenge("").kind == CHALLENGE_NONE);
	CHECK(read_challenge("Bearer").kind == CHALLENGE_NONE); /* nobody to ask */
	c = read_challenge("Basic realm=x, BEARER realm=\"q\\\"\" , scope = y");
	CHECK(c.kind == CHALLENGE_BEARER && strcmp(c.realm, "q\"") == 0 &&
	      strcmp(c.scope, "y") == 0);
	CHECK(read_challenge("Bearer realm=\"a\",realm=\"b\"").kind == CHALLENGE_NONE);
	CHECK(read_challenge("Bearer realm=\"open").kind == CHALLENGE_NONE);
	CHECK(read_challenge("Basic realm=x, Bearer realm=\"open").kind == CHALLENGE_BASIC);
}

static bool token_is(const char *text, const char *want)
{
	char *token = registry_json_token(text, strlen(text));
	bool same = want == NULL ? token == NULL : token != NULL && strcmp(token, want) == 0;

	free(token);
	return same;
}

static void a_token_can_be_sent(void)
{
	char code[REGISTRY_ERROR_MAX];

	CHECK(token_is("{\"token\":\"ab.c-d_e=\"}", "ab.c-d_e="));
	CHECK(token_is("{\"access_token\":\"x\",\"expires_in\":3}", "x"));
	CHECK(token_is("{\"token\":\"\",\"access_token\":\"x\"}", "x"));
	CHECK(token_is("{\"token\":\"a\\r\\nX: y\"}", NULL));
	CHECK(token_is("{\"token\":\"a b\"}", NULL));
	CHECK(token_is("{\"token\":1}", NULL));
	CHECK(token_is("[]", NULL) && token_is("", NULL) && token_is("{", NULL));
	registry_json_error("{\"errors\":[{\"code\":\"DENIED\"}]}", 30, code);
	CHECK(strcmp(code, "DENIED") == 0);
	registry_json_error("{\"errors\":[{\"code\":\"a\\nb\"}]}", 28, code);
	CHECK(code[0] == '\0');
}

static bool refused(const char *url)
{
	struct address a;
	struct err e;

	return address_read(url, strlen(url), &a, &e) < 0;
}

static void addresses_are_https_or_loopback(void)
{
	struct address a, b;
	struct err e;
	char name[ADDRESS_NAME_MAX];

	CHECK(address_read("https://Reg.Test/v2/", 20, &a, &e) == 0 && a.tls && a.port == 443);
	CHECK(strcmp(a.host, "reg.test") == 0 && strcmp(a.target, "/v2/") == 0);
	CHECK(address_read("http://[::1]:5000", 17, &b, &e) == 0 && !b.tls && b.port == 5000);
	address_name(&b, name);
	CHECK(strcmp(name, "[::1]:5000") == 0 && strcmp(b.target, "/") == 0);
	CHECK(refused("http://reg.test/") && refused("http://10.0.0.1/") &&
	      refused("ftp://x.test/"));
	CHECK(refused("https://u@x.test/") && refused("https://x.test:0/") &&
	      refused("https://x.test:99999/"));
	CHECK(refused("https://0x7f.1/") && refused("https:///x") && refused("https://x.test/a b"));
	CHECK(address_follow(&a, "/x?y", 4, &b, &e) == 0 && address_same_origin(&a, &b));
	CHECK(strcmp(b.target, "/x?y") == 0);
	CHECK(address_follow(&a, "//c.test", 8, &b, &e) == 0 && strcmp(b.host, "c.test") == 0 &&
	      b.tls);
	CHECK(address_follow(&a, "http://c.test", 13, &b, &e) < 0);
	CHECK(address_of_registry("localhost:5000", &b, &e) == 0 && !b.tls && b.port == 5000);
	CHECK(address_of_registry("reg.test", &b, &e) == 0 && b.tls && b.port == 443);
}

static void a_listed_host_is_named_exactly(void)
{
	struct address a = { .tls = true, .host = "reg.test", .port = 5000 };

	CHECK(address_is_listed(&a, "x.test, reg.test") && address_is_listed(&a, "reg.test:5000"));
	CHECK(!address_is_listed(&a, "reg.test:443") && !address_is_listed(&a, ""));
	CHECK(!address_is_listed(&a, "*") && !address_is_listed(&a, "*.test"));
}

/* The example of AWS's documentation, but for the headers that are signed: made by another
 * implementation. */
static void a_request_to_aws_is_signed(void)
{
	struct aws_sign a = { .key_id = "AKIDEXAMPLE",
			      .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
			      .region = "us-east-1",
			      .service = "ecr",
			      .host = "api.ecr.us-east-1.amazonaws.com",
			      .type = "application/x-amz-json-1.1",
			      .target = "A.B",
			      .body = "{}" };
	char text[AWS_SIGN_MAX], secret[400];
	struct err e = { 0 };

	aws_sign_date("2015-08-30T12:36:00.123Z", a.date);
	CHECK(strcmp(a.date, "20150830T123600Z") == 0);
	CHECK(aws_sign(&a, text, &e) == 0);
	CHECK(strcmp(text,
		     "AWS4-HMAC-SHA256 "
		     "Credential=AKIDEXAMPLE/20150830/us-east-1/ecr/aws4_request, "
		     "SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
		     "Signature="
		     "1348ade6d099a3975012202233e91ff3b224debd03d3e0917100c71ef2b470e7") == 0);
	memset(secret, 's', sizeof(secret) - 1);
	secret[sizeof(secret) - 1] = '\0';
	a.secret = secret;
	CHECK(aws_sign(&a, text, &e) < 0 && e.code == ERR_INVALID);
}

static void a_message_comes_back_as_it_was(void)
{
	static uint8_t bytes[FRAME_HEAD + PULL_REQUEST_MAX];
	const struct pull_msg m = { .type = PULL_START,
				    .pull = 7,
				    .start = { .host = "h",
					       .path = "p",
					       .reference = "t",
					       .user = "u",
					       .password = "w",
					       .mirror = "",
					       .open_hosts = "h",
					       .deadline_ms = 5,
					       .patience_ms = 6,
					       .aws = true } };
	struct pull_msg got;
	struct frame f;
	struct err e;
	int n = pull_msg_write(&m, bytes, sizeof(bytes));

	CHECK(n > 0 && frame_read(bytes, (size_t)n, PULL_REQUEST_MAX, &f, &e) == n);
	CHECK(pull_msg_read(&f, &got, &e) == 0 && got.pull == 7 && got.start.deadline_ms == 5);
	CHECK(strcmp(got.start.password, "w") == 0 && strcmp(got.start.open_hosts, "h") == 0);
	CHECK(got.start.aws);
	for (uint32_t len = 0; len < f.len; len++) {
		struct frame cut = { .type = f.type, .len = len, .body = f.body };

		CHECK(pull_msg_read(&cut, &got, &e) < 0);
	}
	f.type = PULL_BLOB_DONE; /* too long, and without the number of a blob */
	CHECK(pull_msg_read(&f, &got, &e) < 0);
	CHECK(pull_msg_write(&m, bytes, 20) < 0);
}

TEST_MAIN({ "a challenge is read", a_challenge_is_read },
	  { "a token can be sent", a_token_can_be_sent },
	  { "addresses are https or loopback", addresses_are_https_or_loopback },
	  { "a listed host is named exactly", a_listed_host_is_named_exactly },
	  { "a request to AWS is signed", a_request_to_aws_is_signed },
	  { "a message comes back as it was", a_message_comes_back_as_it_was })
