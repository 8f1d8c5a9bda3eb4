/* Goal: a secret goes where it is bound, in the form that fits the place, and nowhere else. */
#include "egress/secrets/secrets.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <time.h>

#include "lib/base/base64.h"
#include "lib/json/json_scan.h"
#include "egress/secrets/secrets_private.h"
#include "support.h"

#define P1 "cordon_0123456789abcdef0123456789abcdef"
#define P2 "cordon_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
#define P3 "cordon_nohostsnohostsnohostsnohostsnoho"

static const char order[] =
	"{\"policy\":{},\"secrets\":["
	"{\"name\":\"API\",\"value\":\"real-value-1\",\"placeholder\":\"" P1 "\","
	"\"hosts\":[\"api.example.com\",\"*.corp.example\"],\"methods\":[\"GET\",\"POST\"],"
	"\"paths\":[\"/v1/**\"],\"in\":[\"header\",\"basic\",\"body:token\"],\"expires_ms\":5000},"
	"{\"name\":\"B\",\"value\":\"two \\\"q\\\"\\n&=\",\"placeholder\":\"" P2 "\","
	"\"hosts\":[\"api.example.com\"],\"in\":[\"body:token\"]},"
	"{\"name\":\"FREE\",\"value\":\"free-value\",\"placeholder\":\"" P3 "\"}],"
	"\"mask\":[\"further-value\",{\"value\":\"old-value-1\",\"name\":\"API\",\"hosts\":[\"old."
	"example\"]},"
	"{\"value\":\"old-value-2\",\"name\":\"FREE\",\"hosts\":[]}]}";

static int read_order(const char *text, struct secrets **ret, struct err *e)
{
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	int read = secrets_read(root, ret, e);

	json_decref(root);
	return read;
}

static struct secrets *known_order(void)
{
	struct secrets *s = NULL;
	struct err e;

	CHECK(read_order(order, &s, &e) == 0);
	return s;
}

static struct secrets_use good(void)
{
	return (struct secrets_use){ .host = "api.example.com",
				     .method = "POST",
				     .path = "/v1/x",
				     .verified_tls = true,
				     .now_ms = 1000 };
}

static struct http1_span span(const char *text)
{
	return (struct http1_span){ text, strlen(text) };
}

/* The header's value as it is sent. */
static const char *header(const struct secrets *s, struct secrets_use *u, const char *name,
			  const char *value)
{
	static char ret[512];
	char *exact = exact_copy(value, strlen(value));
	int n = secrets_header(s, u, span(name), (struct http1_span){ exact, strlen(value) }, ret,
			       sizeof(ret) - 1);

	free(exact);
	CHECK(n >= 0);
	if (n == 0)
		return value;
	ret[n] = '\0';
	return ret;
}

static void goes_where_it_is_bound(void)
{
	struct secrets *s = known_order();
	struct secrets_use u = good();

	CHECK_STR(header(s, &u, "Authorization", "Bearer " P1), "Bearer real-value-1");
	CHECK_STR(header(s, &u, "X-Key", P1 "," P1), "real-value-1,real-value-1");
	CHECK_STR(u.names, "API");
	CHECK(!u.misused);
	CHECK_STR(header(s, &u, "Accept", "*/*"), "*/*");
	secrets_use_release(&u);
	u = good();
	u.host = "a.corp.example";
	CHECK_STR(header(s, &u, "x", P1), "real-value-1");
	secrets_use_release(&u);
	secrets_free(s);
}

static void goes_nowhere_else(void)
{
	static const struct {
		const char *host, *method, *path;
		bool plain;
		uint64_t now;
		bool body; /* the other one, B, may still go there */
	} bad[] = { { "api.example.com.evil", "POST", "/v1/x", false, 1000, false },
		    { "evil.example", "POST", "/v1/x", false, 1000, false },
		    { "corp.example", "POST", "/v1/x", false, 1000, false },
		    { NULL, "POST", "/v1/x", false, 1000, false },
		    { "api.example.com", "DELETE", "/v1/x", false, 1000, true },
		    { "api.example.com", "post", "/v1/x", false, 1000, true },
		    { "api.example.com", "POST", "/v2/x", false, 1000, true },
		    { "api.example.com", "POST", "/v1/x", true, 1000, false },
		    { "api.example.com", "POST", "/v1/x", false, 5000, true } };
	struct secrets *s = known_order();

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct secrets_use u = { .host = bad[i].host,
					 .method = bad[i].method,
					 .path = bad[i].path,
					 .verified_tls = !bad[i].plain,
					 .now_ms = bad[i].now };

		CHECK_STR(header(s, &u, "Authorization", "Bearer " P1), "Bearer " P1);
		CHECK(u.misused && u.names == NULL);
		CHECK(secrets_wants_body(s, &u, span("application/json")) == bad[i].body);
	}
	secrets_free(s);
}

static void the_rule_limits_secrets(void)
{
	const char *const free_only[] = { "FREE" };
	struct policy_rule rule = { .secrets = free_only, .nsecrets = 1 };
	struct secrets *s = known_order();
	struct secrets_use u = good();

	CHECK_STR(header(s, &u, "x", P3), P3); /* no hosts, and no rule names it */
	CHECK(u.misused);
	secrets_use_release(&u);
	u = good();
	u.rule = &rule;
	CHECK_STR(header(s, &u, "x", P3), "free-value");
	CHECK(!u.misused);
	CHECK_STR(header(s, &u, "x", P1), P1); /* the rule names others */
	CHECK(u.misused);
	secrets_use_release(&u);
	secrets_free(s);
}

static void in_named_headers(void)
{
	static const char text[] =
		"{\"secrets\":[{\"name\":\"A\",\"value\":\"real-value-1\",\"placeholder\":\"" P1
		"\",\"hosts\":[\"api.example.com\"],\"in\":[\"header:Authorization\",\"header:X-"
		"Key\"]}]}";
	struct secrets *s = NULL;
	struct secrets_use u = good();
	struct err e;

	CHECK(read_order(text, &s, &e) == 0);
	CHECK_STR(header(s, &u, "authorization", "Bearer " P1), "Bearer real-value-1");
	CHECK_STR(header(s, &u, "X-KEY", P1), "real-value-1");
	CHECK(!u.misused);
	CHECK_STR(header(s, &u, "User-Agent", P1), P1);
	CHECK(u.misused && !secrets_wants_body(s, &u, span("application/json")));
	secrets_use_release(&u);
	secrets_free(s);
}

static void only_in_its_place(void)
{
	struct secrets *s = known_order();
	struct secrets_use u = good();
	char small[16];

	CHECK_STR(header(s, &u, "x", P2), P2); /* for a body only */
	CHECK(u.misused);
	secrets_use_release(&u);
	u = good();
	CHECK(secrets_header(s, &u, span("x"), span("Bearer " P1), small, sizeof(small)) == -1);
	secrets_use_release(&u);
	secrets_free(s);
}

static void basic(void)
{
	struct secrets *s = known_order();
	struct secrets_use u = good();
	char value[256] = "Basic ", want[256] = "Basic ";

	base64_encode("user:" P1, strlen("user:" P1), value + 6);
	base64_encode("user:real-value-1", strlen("user:real-value-1"), want + 6);
	CHECK_STR(header(s, &u, "authorization", value), want);
	CHECK_STR(u.names, "API");
	CHECK_STR(header(s, &u, "X-Other", value), value);
	u.verified_tls = false;
	CHECK_STR(header(s, &u, "Authorization", value), value);
	CHECK(u.misused);
	CHECK_STR(header(s, &u, "Authorization", "Basic "), "Basic ");
	CHECK_STR(header(s, &u, "Authorization", "Basic !!!!"), "Basic !!!!");
	secrets_use_release(&u);
	secrets_free(s);
}

static void expands(void)
{
	const char *const both[] = { "FREE", "API" };
	struct policy_rule rule = { .secrets = both, .nsecrets = 2 };
	struct secrets *s = known_order();
	struct secrets_use u = good();
	char ret[64];
	struct err e;
	int n;

	u.rule = &rule;
	n = secrets_expand(s, &u, "Bearer ${secret.FREE}/${secret.API}$", ret, sizeof(ret), &e);
	CHECK(n == 31 && memcmp(ret, "Bearer free-value/real-value-1$", 31) == 0);
	CHECK_STR(u.names, "FREE,API");
	CHECK(secrets_expand(s, &u, "${secret.NONE}", ret, sizeof(ret), &e) < 0);
	CHECK(secrets_expand(s, &u, "${secret.B}", ret, sizeof(ret), &e) < 0);
	CHECK(secrets_expand(s, &u, "${secret.FREE", ret, sizeof(ret), &e) < 0);
	CHECK(secrets_expand(s, &u, "${secret.FREE}", ret, 4, &e) < 0);
	u.now_ms = 9000;
	CHECK(secrets_expand(s, &u, "${secret.API}", ret, sizeof(ret), &e) < 0);
	secrets_use_release(&u);
	secrets_free(s);
}

static void check_body(const char *type, const char *body, const char *want, bool misused)
{
	struct secrets *s = known_order();
	struct secrets_use u = good();
	uint8_t *made = NULL, *exact = exact_copy(body, strlen(body));
	int n = secrets_body(s, &u, span(type), exact, strlen(body), &made);

	CHECK_CASE(body, n >= 0 && u.misused == misused);
	if (want == NULL)
		CHECK_CASE(body, n == 0 && made == NULL && u.names == NULL);
	else
		CHECK_CASE(body, n == (int)strlen(want) && memcmp(made, want, (size_t)n) == 0);
	free(made);
	free(exact);
	secrets_use_release(&u);
	secrets_free(s);
}

static void bodies(void)
{
	const char *json = "application/json; charset=utf-8",
		   *form = "application/x-www-form-urlencoded";

	check_body(json, "{\"a\":[{\"token\": \"x " P1 "\"}],\"n\":1.50}",
		   "{\"a\":[{\"token\": \"x real-value-1\"}],\"n\":1.50}", false);
	check_body(json, "{\"token\":\"" P2 "\"}", "{\"token\":\"two \\\"q\\\"\\u000a&=\"}", false);
	check_body(json, "{\"other\":\"" P1 "\"}", NULL, true);
	check_body(json, "{\"other\":\"" P1 "\",\"token\":\"" P1 "\"}",
		   "{\"other\":\"" P1 "\",\"token\":\"real-value-1\"}", true);
	check_body(json, "{\"token\":{\"x\":\"" P1 "\"}}", NULL, true);
	check_body(json, "{\"token\":[\"" P1 "\"]}", NULL, true);
	check_body(json, "{\"" P1 "\":\"token\"}", NULL, true);
	check_body(json, "{\"token\":\"" P1 "\"", NULL, true); /* no JSON */
	check_body(json, "{\"token\":\"" P1 "\"}}", NULL, true);
	check_body(json, "{\"token\":\"nothing\"}", NULL, false);
	check_body("text/plain", "{\"token\":\"" P1 "\"}", NULL, false);
	check_body(form, "a=1&token=" P2 "&b=2", "a=1&token=two%20%22q%22%0A%26%3D&b=2", false);
	check_body(form, "a=" P1 "&token=z", NULL, true);
	check_body(form, "to%6ben=" P1, "to%6ben=real-value-1", false);
}

/* So many secrets for one field; their placeholders have the longest beginning in common. */
static struct secrets *read_many(size_t n)
{
	static char text[64 * 256];
	struct secrets *s = NULL;
	struct err e;
	int at = snprintf(text, sizeof(text), "{\"secrets\":[");

	for (size_t i = 0; i < n; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "%s{\"name\":\"S%zu\",\"value\":\"value-%zu\",\"placeholder\":"
			       "\"cordon_%030zu%02zu\",\"hosts\":[\"api.example.com\"],"
			       "\"in\":[\"body:token\"]}",
			       i == 0 ? "" : ",", i, i, (size_t)0, i);
	(void)snprintf(text + at, sizeof(text) - (size_t)at, "]}");
	CHECK(read_order(text, &s, &e) == 0);
	return s;
}

/* Processor time of one body, in ns: the least of some. */
static uint64_t cost(const struct secrets *s, const uint8_t *body, size_t len)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		struct secrets_use u = good();
		struct timespec a, b;
		uint8_t *made = NULL;
		uint64_t ns;

		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		CHECK(secrets_body(s, &u, span("application/json"), body, len, &made) == 0);
		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		ns = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (uint64_t)b.tv_nsec -
		     (uint64_t)a.tv_nsec;
		least = ns < least ? ns : least;
	}
	return least;
}

/* A body costs about the same with one secret and with many, whatever it is made of. */
static void many_cost_no_more(void)
{
	static const char *const fills[] = { "a", "c", "cordon_", "cordon_00000000000000000000000",
					     "\",\"x\":\"" };
	const size_t len = SECRETS_BODY_MAX;
	uint8_t *body = malloc(len);
	struct secrets *one = read_many(1), *many = read_many(64);

	CHECK(body != NULL);
	for (size_t k = 0; k < COUNT(fills); k++) {
		size_t n = strlen(fills[k]), at = 10;
		uint64_t least, most;

		memcpy(body, "{\"token\":\"", 10);
		for (; at + n + 16 < len; at += n)
			memcpy(body + at, fills[k], n);
		memcpy(body + at, "\"}", 2);
		least = cost(one, body, at + 2);
		most = cost(many, body, at + 2);
		CHECK_CASE(fills[k], most < 8 * least + 1000000);
	}
	secrets_free(one);
	secrets_free(many);
	free(body);
}

static void finds_each_of_many(void)
{
	struct secrets *s = read_many(64);

	for (size_t i = 0; i < 64; i++) {
		struct secrets_use u = good();
		char body[128], want[64];
		uint8_t *made = NULL;
		int n;

		(void)snprintf(body, sizeof(body), "{\"token\":\"cordon_cordon_%030d%02zu\"}", 0,
			       i);
		(void)snprintf(want, sizeof(want), "{\"token\":\"cordon_value-%zu\"}", i);
		n = secrets_body(s, &u, span("application/json"), (uint8_t *)body, strlen(body),
				 &made);
		CHECK_CASE(body, n == (int)strlen(want) && memcmp(made, want, (size_t)n) == 0);
		secrets_use_release(&u);
		free(made);
	}
	secrets_free(s);
}

/* Secrets with names of the most bytes, bound to one host. */
static struct secrets *read_long(size_t n, const char *host)
{
	static char text[64 * 256];
	struct secrets *s = NULL;
	struct err e;
	int at = snprintf(text, sizeof(text), "{\"secrets\":[");

	for (size_t i = 0; i < n; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "%s{\"name\":\"%063zu\",\"value\":\"value-%zu\",\"placeholder\":"
			       "\"cordon_%030zu%02zu\",\"hosts\":[\"%s\"]}",
			       i == 0 ? "" : ",", i, i, (size_t)0, i, host);
	(void)snprintf(text + at, sizeof(text) - (size_t)at, "]}");
	CHECK(read_order(text, &s, &e) == 0);
	return s;
}

static void put_long(const struct secrets *s, struct secrets_use *u, size_t i)
{
	char value[64];

	(void)snprintf(value, sizeof(value), "cordon_%030zu%02zu", (size_t)0, i);
	CHECK(strncmp(header(s, u, "x", value), "value-", 6) == 0);
}

/* Whatever their number: a record without one would hide that it was sent. */
static void names_all(void)
{
	struct secrets *s = read_long(64, "api.example.com");
	struct secrets_use u = good();

	for (size_t i = 0; i < 64; i++)
		put_long(s, &u, i);
	put_long(s, &u, 7);
	CHECK(u.names != NULL && strlen(u.names) == 64 * 64 - 1 && !u.more);
	CHECK(strcmp(u.names + 63 * 64,
		     "000000000000000000000000000000000000000000000000000000000000063") == 0);
	secrets_use_release(&u);
	secrets_free(s);
}

/* A server leads to another one: names stay, each once, and those of the last server are known. */
static void names_of_earlier_servers(void)
{
	const char *const api = "api.example.com";
	struct secrets *s = read_long(3, api), *one = read_long(1, api),
		       *moved = read_long(3, "b.example");
	struct secrets_use u = good(), next = good();

	for (size_t i = 0; i < 3; i++)
		put_long(s, &u, i);
	CHECK_STR(secrets_use_here(&u), u.names);
	CHECK(!secrets_revoked(s, s, &u) && secrets_revoked(s, one, &u) &&
	      secrets_revoked(s, moved, &u));
	secrets_use_next(&u, &next);
	CHECK(strlen(u.names) == 3 * 64 - 1 && *secrets_use_here(&u) == '\0');
	/* their values count, not whether they may be sent here */
	CHECK(!secrets_revoked(s, s, &u) && secrets_revoked(s, one, &u) &&
	      !secrets_revoked(s, moved, &u));
	for (size_t i = 3; i-- > 0;) {
		put_long(s, &u, i);
		CHECK(strlen(u.names) == 3 * 64 - 1 &&
		      strlen(secrets_use_here(&u)) == (3 - i) * 64 - 1);
	}
	CHECK(secrets_revoked(s, moved, &u));
	next.host = "none.example";
	secrets_use_next(&u, &next);
	secrets_use_next(&u, &next);
	CHECK(strlen(u.names) == 3 * 64 - 1 && *secrets_use_here(&u) == '\0');
	secrets_use_release(&u);
	secrets_free(s);
	secrets_free(one);
	secrets_free(moved);
}

static void masks_all(void)
{
	struct secrets *s = known_order();
	char text[] = "real-value-1 free-value further-value cmVhbC12YWx1ZS0x";

	CHECK(secrets_mask(s) != NULL && secrets_mask(NULL) == NULL);
	(void)mask_text(secrets_mask(s), NULL, (uint8_t *)text, strlen(text));
	CHECK_STR(text, "************ ********** ************* ****************");
	secrets_free(s);
}

static struct secrets_sent sent;

/* Which of the values a server can know, as a text of their numbers: API, B, FREE, and those of
 * "mask": a text, the old API, the old FREE. */
static const char *known(struct secrets *s, const char *rules, const char *host)
{
	static char ret[16];
	struct policy *p = NULL;
	struct policy_target to = { .host = host, .port = 8443 };
	struct mask_pick pick;
	char text[512];
	size_t n = 0;
	struct err e;
	bool any;

	(void)snprintf(text, sizeof(text), "{\"rules\":[%s]}", rules);
	CHECK(policy_read(text, strlen(text), POLICY_SESSION, &p, &e) == 0);
	CHECK(secrets_bind(s, p, &e) == 0);
	any = secrets_known_there(s, p, &sent, &to, &pick);
	for (size_t i = 0; i < 6; i++)
		if (mask_pick_has(&pick, i))
			ret[n++] = (char)('0' + i);
	ret[n] = '\0';
	CHECK(any == (n > 0));
	policy_free(p);
	return ret;
}

/* By binding or by any rule, whatever its path and port; nowhere else. */
static void which_servers_can_know(void)
{
	static const char named[] = "{\"host\":\"two.example\",\"paths\":[\"/put\"],"
				    "\"set_headers\":{\"x\":\"${secret.FREE}\"}},"
				    "{\"host\":\"two.example\"}";
	struct secrets *s = known_order();

	CHECK_STR(known(s, "{\"host\":\"*\"}", "api.example.com"), "01");
	CHECK_STR(known(s, "{\"host\":\"*\"}", "a.corp.example"), "0");
	CHECK_STR(known(s, "{\"host\":\"*\"}", "old.example"), "4");
	CHECK_STR(known(s, "{\"host\":\"*\"}", "www.example"), "");
	CHECK_STR(known(s, named, "two.example"), "25");
	CHECK_STR(known(s, named, "three.example"), "");
	secrets_sent_add(&sent, "three.example", "OTHER,FREE");
	CHECK_STR(known(s, "", "three.example"), "25"); /* it was sent there once */
	CHECK_STR(known(s, "", "two.example"), "");
	for (int i = 0; i < 2 * SECRETS_SENT_MAX; i++) {
		char host[32];

		(void)snprintf(host, sizeof(host), "h%d.example", i);
		secrets_sent_add(&sent, host, "API");
	}
	CHECK(sent.n == SECRETS_SENT_MAX && secrets_sent_has(&sent, "h1023.example", "API"));
	secrets_sent_release(&sent);
	secrets_free(s);
}

/* A policy of so many rules for one host, each of which names so many secrets. */
static struct policy *policy_of(size_t rules, size_t names)
{
	const size_t cap = rules * (names * 8 + 64) + 64;
	char *text = malloc(cap);
	size_t n = (size_t)snprintf(text, cap, "{\"rules\":[");
	struct policy *p = NULL;
	struct err e;

	for (size_t r = 0; r < rules; r++) {
		n += (size_t)snprintf(text + n, cap - n, "%s{\"host\":\"two.example\",\"secret\":[",
				      r == 0 ? "" : ",");
		for (size_t i = 0; i < names; i++)
			n += (size_t)snprintf(text + n, cap - n, "%s\"S%zu\"", i == 0 ? "" : ",",
					      i % 64);
		n += (size_t)snprintf(text + n, cap - n, "]}");
	}
	n += (size_t)snprintf(text + n, cap - n, "]}");
	CHECK(policy_read(text, n, POLICY_SESSION, &p, &e) == 0);
	free(text);
	return p;
}

/* Processor time of some requests, in ns: the least of some. */
static uint64_t known_cost(const struct secrets *s, const struct policy *p)
{
	struct policy_target to = { .host = "two.example", .port = 443 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		struct timespec a, b;
		struct mask_pick pick;
		uint64_t ns;

		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		for (int k = 0; k < 4; k++)
			CHECK(!secrets_known_there(s, p, &sent, &to, &pick));
		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		ns = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (uint64_t)b.tv_nsec -
		     (uint64_t)a.tv_nsec;
		least = ns < least ? ns : least;
	}
	return least;
}

/* What a request costs does not depend on how many secrets its rules name. */
static void names_cost_a_request_nothing(void)
{
	struct secrets *few = read_many(64), *many = read_many(64);
	struct policy *one = policy_of(500, 1), *all = policy_of(500, 256);
	uint64_t least, most;
	struct err e;

	CHECK(secrets_bind(few, one, &e) == 0 && secrets_bind(many, all, &e) == 0);
	least = known_cost(few, one);
	most = known_cost(many, all);
	CHECK(most < 4 * least + 1000000);
	policy_free(one);
	policy_free(all);
	secrets_free(few);
	secrets_free(many);
}

static void refuses_bad_orders(void)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{\"secrets\":{}}",
		"{\"secrets\":[{}]}",
		"{\"secrets\":[{\"name\":\"a\"}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"\"}]}",
		"{\"secrets\":[{\"name\":\"a,b\",\"value\":\"v\"}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"placeholder\":\"short\"}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"hosts\":[\"1.2.3.4\"]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"hosts\":[1]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"paths\":[\"x\"]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"in\":[\"cookie\"]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"in\":[\"body:\"]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"in\":[\"header:\"]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"in\":[\"header:a b\"]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"value\":\"v\",\"expires_ms\":\"1\"}]}",
		"{\"mask\":[1]}",
		"{\"mask\":[{\"value\":\"v\"}]}",
		"{\"mask\":[{\"value\":\"v\",\"name\":\"a\",\"hosts\":[1]}]}",
	};
	struct secrets *s = NULL;
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], read_order(bad[i], &s, &e) < 0 && s == NULL);
	CHECK(read_order("{}", &s, &e) == 0 && secrets_mask(s) == NULL);
	secrets_free(s);
}

/* start, n times the item with commas, end; "##" in it becomes a number. */
static const char *repeated(const char *start, const char *item, size_t n, const char *comma,
			    const char *end)
{
	static char text[8192];
	size_t len = (size_t)snprintf(text, sizeof(text), "%s", start);

	for (size_t i = 0; i < n; i++) {
		size_t from = len;
		char *number;

		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? comma : "",
					item);
		number = strstr(text + from, "##");
		if (number != NULL) {
			number[0] = (char)('0' + i / 10);
			number[1] = (char)('0' + i % 10);
		}
	}
	CHECK(len + strlen(end) < sizeof(text));
	(void)snprintf(text + len, sizeof(text) - len, "%s", end);
	return text;
}

/* Each bound is taken at its value and refused one beyond. */
static void bounds(void)
{
#define SECRET "{\"name\":\"a\",\"value\":\"value\""
	static const struct {
		const char *start, *item, *comma, *end;
		size_t bound;
	} rows[] = {
		{ "{\"secrets\":[", SECRET ",\"placeholder\":\"" P1 "##\"}", ",", "]}",
		  SECRETS_MAX },
		{ "{\"secrets\":[{\"name\":\"", "n", "", "\",\"value\":\"value\"}]}",
		  SECRETS_NAME_MAX - 1 },
		{ "{\"mask\":[{\"value\":\"value\",\"name\":\"", "n", "", "\"}]}",
		  SECRETS_NAME_MAX - 1 },
		{ "{\"secrets\":[" SECRET ",\"hosts\":[", "\"a.test\"", ",", "]}]}",
		  SECRETS_LIST_MAX },
		{ "{\"secrets\":[" SECRET ",\"methods\":[", "\"GET\"", ",", "]}]}",
		  SECRETS_LIST_MAX },
		{ "{\"secrets\":[" SECRET ",\"paths\":[", "\"/a\"", ",", "]}]}", SECRETS_LIST_MAX },
		{ "{\"secrets\":[" SECRET ",\"in\":[", "\"header:A\"", ",", "]}]}",
		  SECRETS_LIST_MAX },
		{ "{\"secrets\":[" SECRET ",\"in\":[", "\"body:a\"", ",", "]}]}",
		  SECRETS_LIST_MAX },
	};
#undef SECRET

	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t more = 0; more < 2; more++) {
			struct secrets *s = NULL;
			struct err e = { 0 };
			int done = read_order(repeated(rows[i].start, rows[i].item,
						       rows[i].bound + more, rows[i].comma,
						       rows[i].end),
					      &s, &e);

			CHECK_CASE(rows[i].start, (done < 0) == (more > 0));
			CHECK(more == 0 || e.msg[0] != '\0');
			secrets_free(s);
		}
}

static bool opens; /* the JSON library wanted a file */

/* In the place of libc's, for the library: as in a confined process. */
int open(const char *path, int flags, ...);
int open(const char *path, int flags, ...)
{
	opens = true;
	errno = ENOSYS;
	return -1;
}

/* Without a seed of its own the library looks for one with the first object. */
static void tables_are_seeded(void)
{
	json_t *first;

	secrets_prepare();
	first = json_object();
	CHECK(first != NULL && !opens);
	json_decref(first);
}

TEST_MAIN({ "tables are seeded", tables_are_seeded },
	  { "goes where it is bound", goes_where_it_is_bound },
	  { "goes nowhere else", goes_nowhere_else },
	  { "the rule limits secrets", the_rule_limits_secrets },
	  { "in named headers", in_named_headers }, { "only in its place", only_in_its_place },
	  { "basic", basic }, { "expands", expands }, { "bodies", bodies },
	  { "many cost no more", many_cost_no_more }, { "finds each of many", finds_each_of_many },
	  { "names all", names_all }, { "names of earlier servers", names_of_earlier_servers },
	  { "masks all", masks_all }, { "which servers can know", which_servers_can_know },
	  { "names cost a request nothing", names_cost_a_request_nothing },
	  { "refuses bad orders", refuses_bad_orders }, { "bounds", bounds })
