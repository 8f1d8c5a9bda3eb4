/* Goal: the first rule that matches decides a name, a connection and a request; what is not clearly
 * allowed is refused, with words an agent understands. */
#include "policy_text.h"

static struct policy *make(const char *text)
{
	struct policy *p = policy_make(NULL, NULL, text);

	CHECK(p != NULL);
	return p;
}

static struct policy_answer at(const struct policy *p, const char *host, uint16_t port)
{
	struct policy_target to = { .host = host, .port = port };
	struct policy_answer a;

	if (ip_read(host, strlen(host), &to.ip) == 0)
		to.host = NULL;
	policy_connect(p, &to, &a);
	CHECK(strlen(a.reason) < sizeof(a.reason));
	CHECK((a.verdict == POLICY_REFUSE) == (a.reason[0] != '\0'));
	return a;
}

static struct policy_answer asks(const struct policy *p, const char *host, const char *method,
				 const char *path, const char *query)
{
	struct policy_target to = { .host = host, .port = 443 };
	struct policy_request q = { .tls = true, .method = method, .path = path, .query = query };
	struct policy_answer a;

	policy_ask(p, &to, &q, &a);
	CHECK(a.verdict != POLICY_INSPECT);
	CHECK((a.verdict == POLICY_REFUSE) == (a.reason[0] != '\0'));
	return a;
}

static enum policy_verdict name(const struct policy *p, const char *host)
{
	struct policy_answer a;

	policy_name(p, host, &a);
	CHECK((a.verdict == POLICY_REFUSE) == (a.reason[0] != '\0'));
	return a.verdict;
}

#define RULES(...) "{\"version\":1,\"rules\":[" __VA_ARGS__ "]}"

static void hosts_and_ports(void)
{
	struct policy *p = make(RULES("\"pypi.org\",\"*.example.com:8443\","
				      "{\"host\":\"db.test\",\"ports\":[[5000,5010]],"
				      "\"protocol\":\"tcp\"}"));

	CHECK(at(p, "pypi.org", 443).verdict == POLICY_PERMIT);
	CHECK(at(p, "pypi.org", 80).verdict == POLICY_PERMIT);
	CHECK(at(p, "pypi.org", 8080).verdict == POLICY_REFUSE);
	CHECK_STR(
		at(p, "pypi.org", 8080).reason,
		"pypi.org:8080 is not allowed by this session's network policy (no rule matches); "
		"allowed hosts: pypi.org, *.example.com, db.test");
	CHECK(at(p, "a.b.example.com", 8443).verdict == POLICY_PERMIT);
	CHECK(at(p, "example.com", 8443).verdict == POLICY_REFUSE);
	CHECK(at(p, "a.example.com", 443).verdict == POLICY_REFUSE);
	CHECK(at(p, "db.test", 5010).verdict == POLICY_PERMIT);
	CHECK(at(p, "db.test", 5010).rule->raw);
	CHECK(at(p, "db.test", 5011).verdict == POLICY_REFUSE);
	CHECK(at(p, "93.184.216.34", 443).verdict == POLICY_REFUSE);
	CHECK(name(p, "pypi.org") == POLICY_PERMIT && name(p, "db.test") == POLICY_PERMIT);
	CHECK(name(p, "x.example.com") == POLICY_PERMIT);
	CHECK(name(p, "evil.org") == POLICY_REFUSE && name(p, "pypi.org.evil") == POLICY_REFUSE);
	CHECK(policy_rules(p) == 3 && policy_rule(p, 3) == NULL);
	policy_free(p);
}

static void first_match_decides(void)
{
	struct policy *p = make(RULES("{\"host\":\"bad.example.com\",\"action\":\"deny\","
				      "\"reason\":\"use good.example.com\"},\"*.example.com\","
				      "{\"host\":\"x.example.com\",\"action\":\"deny\"}"));
	struct policy_answer a = at(p, "bad.example.com", 443);

	CHECK(a.verdict == POLICY_REFUSE && a.rule->number == 0);
	CHECK(strstr(a.reason, ": use good.example.com") != NULL);
	CHECK(name(p, "bad.example.com") == POLICY_REFUSE);
	CHECK(at(p, "x.example.com", 443).verdict == POLICY_PERMIT);
	CHECK(at(p, "x.example.com", 443).rule->number == 1);
	policy_free(p);
}

static void looks_only_where_it_must(void)
{
	struct policy *p =
		make(RULES("{\"host\":\"a.test\",\"methods\":[\"GET\"],\"paths\":[\"/x/**\"]},"
			   "\"b.test\",{\"host\":\"b.test\",\"paths\":[\"/x\"]},"
			   "{\"host\":\"c.test\",\"tls\":\"terminate\"},"
			   "{\"host\":\"d.test\",\"set_headers\":{\"X-A\":\"b\"}},"
			   "{\"host\":\"e.test\",\"class\":\"model\"},"
			   "{\"host\":\"f.test\",\"tls\":\"pass\"},"
			   "{\"host\":\"g.test\",\"paths\":[\"/x\"],\"action\":\"deny\"}"));

	CHECK(at(p, "a.test", 443).verdict == POLICY_INSPECT);
	CHECK(at(p, "a.test", 443).rule->number == 0);
	CHECK(at(p, "a.test", 8080).verdict == POLICY_REFUSE);
	CHECK(at(p, "b.test", 443).verdict == POLICY_PERMIT);
	CHECK(at(p, "c.test", 443).verdict == POLICY_INSPECT);
	CHECK(at(p, "d.test", 443).verdict == POLICY_INSPECT);
	CHECK(at(p, "e.test", 443).verdict == POLICY_INSPECT);
	CHECK(at(p, "f.test", 443).verdict == POLICY_PERMIT);
	/* Nothing there could be allowed. */
	CHECK(at(p, "g.test", 443).verdict == POLICY_REFUSE);
	CHECK(asks(p, "a.test", "GET", "/x/y", NULL).verdict == POLICY_PERMIT);
	CHECK(asks(p, "a.test", "POST", "/x/y", NULL).verdict == POLICY_REFUSE);
	CHECK(asks(p, "a.test", "GET", "/y", NULL).verdict == POLICY_REFUSE);
	CHECK(strstr(asks(p, "a.test", "POST", "/y", NULL).reason, "POST /y at a.test") != NULL);
	CHECK(name(p, "a.test") == POLICY_PERMIT && name(p, "g.test") == POLICY_REFUSE);
	policy_free(p);
}

static void denials_see_what_lenient_servers_see(void)
{
	struct policy *p = make(RULES("{\"host\":\"a.test\",\"paths\":[\"/admin/**\"],"
				      "\"action\":\"deny\"},\"a.test\""));
	static const char *const bad[] = { "/admin/x",	   "//admin/x", "/admin%2Fx",
					   "/admin;a=b/x", "/admin//x", "/%2Fadmin/x",
					   "/admin%3Ba/x" };

	CHECK(at(p, "a.test", 443).verdict == POLICY_INSPECT);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(asks(p, "a.test", "GET", bad[i], NULL).verdict == POLICY_REFUSE);
	CHECK(asks(p, "a.test", "GET", "/administer", NULL).verdict == POLICY_PERMIT);
	policy_free(p);
	p = make(RULES("{\"host\":\"a.test\",\"paths\":[\"/ok/**\"]}"));
	CHECK(asks(p, "a.test", "GET", "//ok/x", NULL).verdict == POLICY_REFUSE);
	CHECK(asks(p, "a.test", "GET", "/ok%2Fx", NULL).verdict == POLICY_REFUSE);
	policy_free(p);
}

static void queries_and_headers(void)
{
	struct policy *p = make(RULES("{\"host\":\"a.test\",\"query\":{\"k\":\"bad*\"},"
				      "\"action\":\"deny\"},"
				      "{\"host\":\"a.test\",\"query\":{\"k\":\"v*\"},"
				      "\"headers\":{\"X-Who\":\"me*\"}}"));
	const struct policy_target to = { .host = "a.test", .port = 443 };
	struct http1_header h[] = { { { "x-who", 5 }, { "me too", 6 } },
				    { { "X-WHO", 5 }, { "you", 3 } } };
	struct policy_request q = { .tls = true,
				    .method = "GET",
				    .path = "/",
				    .query = "k=v1",
				    .headers = h,
				    .nheaders = 1 };
	struct policy_answer a;

	policy_ask(p, &to, &q, &a);
	CHECK(a.verdict == POLICY_PERMIT && a.rule->number == 1);
	q.nheaders = 2; /* one of them does not fit */
	policy_ask(p, &to, &q, &a);
	CHECK(a.verdict == POLICY_REFUSE);
	q.nheaders = 1;
	q.query = "k=v1&k=bad";
	policy_ask(p, &to, &q, &a);
	CHECK(a.verdict == POLICY_REFUSE && a.rule->number == 0);
	q.query = "%6B=v1&k=w";
	policy_ask(p, &to, &q, &a);
	CHECK(a.verdict == POLICY_REFUSE && a.rule == NULL);
	q.query = NULL;
	policy_ask(p, &to, &q, &a);
	CHECK(a.verdict == POLICY_REFUSE);
	policy_free(p);
	/* Bytes of every kind, also where the pattern has several stars. */
	p = make(RULES("{\"host\":\"a.test\",\"query\":{\"k\":\"*\xc3\xa4*\"},"
		       "\"action\":\"deny\"},\"a.test\""));
	CHECK(asks(p, "a.test", "GET", "/", "k=x%C3%A4y").verdict == POLICY_REFUSE);
	CHECK(asks(p, "a.test", "GET", "/", "k=x%C3%A5y").verdict == POLICY_PERMIT);
	policy_free(p);
}

/* Some servers read "post" as "POST". */
static void methods_without_case(void)
{
	struct policy *p = make(RULES("{\"host\":\"a.test\",\"methods\":[\"POST\"],"
				      "\"action\":\"deny\"},"
				      "{\"host\":\"a.test\",\"methods\":[\"GET\",\"x\"]}"));

	CHECK(asks(p, "a.test", "x", "/", NULL).verdict == POLICY_PERMIT);
	CHECK(asks(p, "a.test", "get", "/", NULL).verdict == POLICY_REFUSE);
	CHECK(asks(p, "a.test", "POST", "/", NULL).rule->number == 0);
	CHECK(asks(p, "a.test", "pOST", "/", NULL).rule != NULL);
	policy_free(p);
}

static void addresses(void)
{
	struct policy *p = make(RULES("\"*\",{\"cidr\":\"93.184.0.0/16\",\"ports\":\"any\"},"
				      "{\"cidr\":[\"2001:4860::/32\"],\"methods\":[\"GET\"]}"));

	CHECK(at(p, "93.184.216.34", 22).verdict == POLICY_PERMIT);
	CHECK(at(p, "93.185.0.1", 443).verdict == POLICY_REFUSE);
	CHECK(at(p, "2001:4860::8888", 443).verdict == POLICY_INSPECT);
	CHECK(at(p, "anything.at.all", 443).verdict == POLICY_PERMIT);
	policy_free(p);
	p = make("{\"version\":1,\"default\":\"allow\"}");
	CHECK(at(p, "93.185.0.1", 22).verdict == POLICY_PERMIT);
	CHECK(at(p, "x.y", 22).verdict == POLICY_PERMIT && at(p, "x.y", 22).rule == NULL);
	CHECK(name(p, "x.y") == POLICY_PERMIT);
	policy_free(p);
	p = make(RULES("{\"ports\":[443]}"));
	CHECK(at(p, "93.185.0.1", 443).verdict == POLICY_PERMIT);
	CHECK(at(p, "x.y", 443).verdict == POLICY_PERMIT &&
	      at(p, "x.y", 80).verdict == POLICY_REFUSE);
	policy_free(p);
}

static void secrets_need_tls(void)
{
	struct policy *p = make(RULES("{\"host\":\"a.test\",\"secret\":\"ONE\",\"set_headers\":"
				      "{\"Authorization\":\"Bearer ${secret.TWO}\"}}"));
	const struct policy_target to = { .host = "a.test", .port = 80 };
	struct policy_request q = { .method = "GET", .path = "/" };
	struct policy_answer a;

	CHECK(policy_rule(p, 0)->nsecrets == 2);
	CHECK_STR(policy_rule(p, 0)->secrets[1], "TWO");
	policy_ask(p, &to, &q, &a);
	CHECK(a.verdict == POLICY_REFUSE && strstr(a.reason, "https only") != NULL);
	CHECK(strstr(a.reason, "Bearer") == NULL);
	q.tls = true;
	policy_ask(p, &to, &q, &a);
	CHECK(a.verdict == POLICY_PERMIT);
	policy_free(p);
}

static void long_names_do_not_break_reasons(void)
{
	char host[HTTP1_METHOD_MAX * 8];
	struct policy *p = make(RULES("\"a-rather-long-name-of-a-host.example.com\","
				      "\"another-rather-long-name-of-a-host.example.com\","
				      "\"yet-another-rather-long-name-of-a-host.example.com\","
				      "\"b.test\""));

	memset(host, 'a', sizeof(host));
	for (size_t i = 40; i < sizeof(host); i += 41)
		host[i] = '.';
	host[250] = '\0';
	CHECK(at(p, host, 443).verdict == POLICY_REFUSE);
	CHECK(strstr(at(p, "c.test", 443).reason, "; allowed hosts: a-rather") != NULL);
	CHECK(strstr(at(p, "c.test", 443).reason, ", ...") != NULL);
	policy_free(p);
}

static void count_host(const char *host, void *arg)
{
	++*(size_t *)arg;
}

static void many_rules(void)
{
	static char text[1 << 20];
	size_t n = (size_t)snprintf(text, sizeof(text), "{\"version\":1,\"rules\":["), hosts = 0;
	struct policy *p;

	for (int i = 0; i < 4000; i++)
		n += (size_t)snprintf(
			text + n, sizeof(text) - n,
			"{\"host\":[\"h%d.test\",\"*.h%d.test\"],\"paths\":[\"/%d\"]},", i,
			i % 1000, i);
	(void)snprintf(text + n, sizeof(text) - n, "\"*.test\"]}");
	p = make(text);
	CHECK(asks(p, "h3999.test", "GET", "/3999", NULL).rule->number == 3999);
	CHECK(asks(p, "h3999.test", "GET", "/1", NULL).rule->number == 4000);
	CHECK(asks(p, "a.b.h7.test", "GET", "/2007", NULL).rule->number == 2007);
	CHECK(asks(p, "a.b.h7.test", "GET", "/2008", NULL).rule->number == 4000);
	CHECK(asks(p, "test", "GET", "/", NULL).verdict == POLICY_REFUSE);
	policy_each_host(p, count_host, &hosts);
	CHECK(hosts == 4000);
	policy_free(p);
}

static void ceilings_are_for_what_can_be_named(void)
{
	static const char node[] = "{\"ceiling\":[{\"host\":\"a.test\",\"ports\":\"any\"}]}";
	static const char raw[] =
		RULES("{\"host\":\"a.test\",\"ports\":[22],\"protocol\":\"tcp\"}");
	struct policy *p = policy_make(node, NULL, "{\"default\":\"allow\"}");

	CHECK(at(p, "a.test", 443).verdict == POLICY_PERMIT && !at(p, "a.test", 443).raw);
	CHECK(at(p, "b.test", 443).verdict == POLICY_REFUSE);
	policy_free(p);
	p = policy_make(node, NULL, raw);
	CHECK(at(p, "a.test", 22).verdict == POLICY_REFUSE);
	policy_free(p);
	p = policy_make(NULL, NULL, raw);
	CHECK(at(p, "a.test", 22).verdict == POLICY_PERMIT && at(p, "a.test", 22).raw);
	policy_free(p);
	p = policy_make(NULL, NULL, "{\"default\":\"allow\"}");
	CHECK(at(p, "b.test", 22).verdict == POLICY_PERMIT && at(p, "b.test", 22).raw);
	policy_free(p);
}

static void what_is_compared_above_is_not_set_below(void)
{
	static const char set[] = RULES("{\"host\":\"a.test\",\"set_headers\":{\"x-mode\":\"w\"}}");
	static const char *const nodes[] = {
		"{\"ceiling\":[{\"host\":\"a.test\",\"headers\":{\"X-Mode\":\"r\"}}]}",
		RULES("{\"host\":\"a.test\",\"headers\":{\"X-Mode\":\"w\"},\"action\":\"deny\"}"),
	};

	for (size_t i = 0; i < COUNT(nodes); i++)
		CHECK(policy_make(nodes[i], NULL, set) == NULL);
	struct policy *p = policy_make(RULES("{\"host\":\"a.test\",\"headers\":{\"X-Other\":\"w\"},"
					     "\"action\":\"deny\"}"),
				       NULL, set);

	CHECK(p != NULL);
	policy_free(p);
}

TEST_MAIN({ "hosts and ports", hosts_and_ports }, { "first match decides", first_match_decides },
	  { "looks only where it must", looks_only_where_it_must },
	  { "denials see what lenient servers see", denials_see_what_lenient_servers_see },
	  { "queries and headers", queries_and_headers },
	  { "methods without case", methods_without_case }, { "addresses", addresses },
	  { "secrets need TLS", secrets_need_tls },
	  { "long names do not break reasons", long_names_do_not_break_reasons },
	  { "many rules", many_rules },
	  { "ceilings are for what can be named", ceilings_are_for_what_can_be_named },
	  { "what is compared above is not set below", what_is_compared_above_is_not_set_below })
