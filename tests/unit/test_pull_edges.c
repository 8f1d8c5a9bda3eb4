/* Goal: each bound of what registries answer cordon-pull is taken at its value, and refused one
 * beyond. */
#include "edge.h"
#include "pull/address.h"
#include "pull/challenge.h"
#include "pull/login.h"
#include "pull/registry_json.h"

static bool challenge(const char *text, size_t len, struct err *e)
{
	const struct http1_header header = { { "www-authenticate", 16 }, { text, len } };
	struct challenge c;

	challenge_read(&header, 1, &c);
	(void)err_set(e, ERR_INVALID, "none");
	return c.kind == CHALLENGE_BEARER;
}

static bool token(const char *text, size_t len, struct err *e)
{
	char *found = registry_json_token(text, len);
	bool is_one = found != NULL;

	(void)err_set(e, ERR_INVALID, "none");
	free(found);
	return is_one;
}

static bool code(const char *text, size_t len, struct err *e)
{
	char found[REGISTRY_ERROR_MAX];

	registry_json_error(text, len, found);
	(void)err_set(e, ERR_INVALID, "none");
	return found[0] != '\0';
}

static bool address(const char *text, size_t len, struct err *e)
{
	struct address a;

	return address_read(text, len, &a, e) == 0;
}

#define BEARER "Bearer realm=\"https://a.test/\""

static void answers(void)
{
	static const struct edge rows[] = {
		{ challenge, "Bearer realm=\"", "r", CHALLENGE_REALM_MAX - 1, "\"", NULL },
		{ challenge, "Bearer realm=", "r", CHALLENGE_REALM_MAX - 1, "", NULL },
		{ challenge, BEARER ",service=\"", "s", CHALLENGE_SERVICE_MAX - 1, "\"", NULL },
		{ challenge, BEARER ",scope=\"", "s", CHALLENGE_SCOPE_MAX - 1, "\"", NULL },
		{ token, "{\"token\":\"", "t", REGISTRY_TOKEN_MAX - 1, "\"}", NULL },
		{ token, "{\"token\":\"t\",\"a\":\"", "x", REGISTRY_JSON_MAX - 20, "\"}", NULL },
		{ token, "{\"token\":\"t\",\"a\":[", "11", 1000 - 3, "]}", NULL },
		{ code, "{\"errors\":[{\"code\":\"", "C", REGISTRY_ERROR_MAX - 1, "\"}]}", NULL },
		{ address, "https://a.test/", "p", ADDRESS_TARGET_MAX - 2, "", NULL },
	};
	struct edge_text t = { 0 };

	edge_try(rows, COUNT(rows));
	for (unsigned more = 0; more < 2; more++) {
		t.len = 0;
		edge_put(&t, "{\"token\":\"t\",\"a\":");
		edge_put_times(&t, "[", 7 + more);
		edge_put_times(&t, "]", 7 + more);
		edge_put(&t, "}");
		edge_expect(token, &t, more > 0, NULL);
	}
	free(t.p);
}

/* The secret of an access key: what is signed with has "AWS4" in front of it. */
static void secrets_of_aws(void)
{
	for (size_t n = 251; n <= 252; n++) {
		char secret[256] = "", ret[AWS_SIGN_MAX];
		struct aws_sign a = { .key_id = "AK",
				      .secret = secret,
				      .region = "eu-central-1",
				      .service = "ecr",
				      .host = "api.test",
				      .type = "application/json",
				      .target = "x",
				      .body = "{}",
				      .date = "20261116T131500Z" };
		struct err e;

		memset(secret, 's', n);
		CHECK((aws_sign(&a, ret, &e) == 0) == (n == 251));
	}
}

/* The longest host, with the longest port behind it, is shown as a whole. One of a byte more is
 * none. */
static void names_of_hosts(void)
{
	char url[HOST_MAX + 64] = "https://", name[ADDRESS_NAME_MAX];
	struct address a;
	struct err e;

	for (size_t n = HOST_MAX - 1; n <= HOST_MAX; n++) {
		size_t at = strlen("https://");

		for (size_t i = 0; i < n; i++)
			url[at + i] = i % 63 == 62 && i + 1 < n ? '.' : 'h';
		(void)snprintf(url + at + n, sizeof(url) - at - n, ":65535/");
		CHECK((address_read(url, strlen(url), &a, &e) == 0) == (n == HOST_MAX - 1));
		if (n == HOST_MAX - 1) {
			address_name(&a, name);
			CHECK(strlen(name) == n + 6 && memcmp(name, url + at, n + 6) == 0);
		}
	}
	CHECK(address_read("https://[fe80:1111:2222:3333:4444:5555:6666:7777]:65535/", 56, &a,
			   &e) == 0);
	address_name(&a, name);
	CHECK_STR(name, "[fe80:1111:2222:3333:4444:5555:6666:7777]:65535");
}

TEST_MAIN({ "answers", answers }, { "secrets of AWS", secrets_of_aws },
	  { "names of hosts", names_of_hosts })
