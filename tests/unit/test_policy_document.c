/* Goal: a document means what its author wrote, or the error names the place; layers keep each
 * other within their ceilings; what was merged can be read again. */
#include "policy_text.h"

static const char *fault(enum policy_layer layer, const char *text)
{
	static struct err e;
	struct policy *p = NULL;

	e = (struct err){ 0 };
	if (policy_read(text, strlen(text), layer, &p, &e) == 0) {
		policy_free(p);
		return "";
	}
	CHECK(p == NULL && e.msg[0] != '\0');
	return e.msg;
}

static bool fails_with(const char *text, const char *words)
{
	return policy_error_has(fault(POLICY_SESSION, text), words, text);
}

#define RULE(text) "{\"version\":1,\"rules\":[\"a.test\"," text "]}"

static void errors_name_the_place(void)
{
	CHECK(fails_with("", "line 1"));
	CHECK(fails_with("[]", "must be an object"));
	CHECK(fails_with("{\"version\":\"1\"}", "version: must be 1"));
	CHECK(fails_with("{\"version\":null}", "version: must be 1"));
	CHECK(fails_with("{\"version\":2}", "version: must be 1"));
	CHECK(fails_with("{\"version\":1,\"version\":1}", "duplicate"));
	CHECK(fails_with("{\"version\":1,\"rule\":[]}",
			 "unknown member 'rule'; did you mean 'rules'?"));
	CHECK(fails_with("{\"version\":1,\"merged\":true}", "unknown member 'merged'"));
	CHECK(fails_with("{\"version\":1,\"extends\":[\"nope\"]}",
			 "extends: there is no preset 'nope'"));
	CHECK(fails_with("{\"version\":1,\"default\":\"maybe\"}",
			 "default: must be one of: deny, allow"));
	CHECK(fails_with("{\"version\":1,\"private\":[\"10.0.0.0/8\"]}",
			 "private: is allowed in the node"));
	CHECK(fails_with("{\"version\":1,\"ceiling\":[]}", "ceiling: is allowed in"));
	CHECK(fails_with("{\"version\":1,\"rules\":{}}", "rules: must be a list"));
	CHECK(fails_with("{\"version\":1,\"limits\":{\"x\":1}}", "limits: unknown member 'x'"));
	CHECK(fails_with("{\"version\":1,\"limits\":{\"bytes_in\":-1}}",
			 "limits.bytes_in: must be"));
	CHECK(fails_with("{\"version\":1,\"proxy\":{}}", "proxy.address: is missing"));
	CHECK(fails_with("{\"version\":1,\"proxy\":{\"address\":\"::1:80\"}}",
			 "proxy.address: must be"));
}

static void errors_of_rules(void)
{
	CHECK(fails_with(RULE("{\"hots\":\"a\"}"),
			 "rules[1]: unknown member 'hots'; did you mean 'host'?"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"layer\":\"node\"}"), "unknown member 'layer'"));
	CHECK(fails_with(RULE("{\"host\":\"10.0.0.1\"}"), "rules[1].host: '10.0.0.1'"));
	CHECK(fails_with(RULE("{\"host\":[]}"), "rules[1].host: must have 1 to"));
	CHECK(fails_with(RULE("{\"cidr\":\"10.0.0.1/8\"}"), "rules[1].cidr"));
	CHECK(fails_with(RULE("{\"cidr\":\"1.2.3.4\",\"host\":\"a\"}"), "make two rules"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"ports\":[0]}"), "rules[1].ports: item 0"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"ports\":[[2,1]]}"), "rules[1].ports"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"ports\":\"all\"}"), "rules[1].ports"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"paths\":[\"/a/../b\"]}"), "must be written '/b'"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"methods\":[\"G T\"]}"), "rules[1].methods"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"methods\":[\"CONNECT\"]}"), "rules[1].methods"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"headers\":{\"a b\":\"c\"}}"), "rules[1].headers"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"reason\":\"x\"}"), "in rules that deny only"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"name\":\"x\\u0007\"}"), "rules[1].name"));
	CHECK(fails_with(RULE("\"a b\""), "rules[1].host"));
	CHECK(fails_with(RULE("\"a:99999\""), "rules[1].ports"));
	CHECK(fails_with(RULE("\"a:x\""), "is not HOST"));
	CHECK(fails_with(RULE("\"a:0\""), "is not HOST"));
	CHECK(fails_with(RULE("\"/x\""), "is not HOST"));
	CHECK(fails_with(RULE("17"), "rules[1]: must be an object"));
}

static void contradictions(void)
{
	CHECK(fails_with(RULE("{\"host\":\"a\",\"protocol\":\"tcp\",\"paths\":[\"/\"]}"),
			 "protocol tcp"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"protocol\":\"tcp\",\"tls\":\"pass\"}"),
			 "protocol tcp"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"tls\":\"pass\",\"methods\":[\"GET\"]}"),
			 "tls pass"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"tls\":\"pass\",\"secret\":\"X\"}"), "tls pass"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"tls\":\"pass\",\"class\":\"model\"}"),
			 "tls pass"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"action\":\"deny\",\"secret\":\"X\"}"),
			 "that denies"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"prompts\":true}"), "class model"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"set_headers\":{\"Host\":\"b\"}}"),
			 "cannot be set"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"set_headers\":{\"A\":\"b\\r\\nC: d\"}}"),
			 "set_headers"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"set_headers\":{\"A\":\"${env.X}\"}}"),
			 "${secret.NAME}"));
	CHECK(strstr(fault(POLICY_TENANT, "{\"version\":1,\"ceiling\":[{\"host\":\"a\","
					  "\"secret\":\"X\"}]}"),
		     "ceiling[0].secret: has no effect in a ceiling") != NULL);
	CHECK(strstr(fault(POLICY_TENANT, "{\"version\":1,\"ceiling\":[{\"host\":\"a\","
					  "\"protocol\":\"http\"}]}"),
		     "ceiling[0].protocol: has no effect in a ceiling") != NULL);
	CHECK(fails_with(RULE("{\"host\":\"a\",\"websocket\":1}"),
			 "websocket: must be true or false"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"websocket\":true,\"action\":\"deny\"}"),
			 "websocket: has no effect in a rule that denies"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"websocket\":true,\"tls\":\"pass\"}"),
			 "websocket"));
	CHECK(fails_with(RULE("{\"host\":\"a\",\"websocket\":false,\"protocol\":\"tcp\"}"),
			 "websocket"));
	CHECK(strcmp(fault(POLICY_TENANT, "{\"version\":1,\"ceiling\":[{\"host\":\"a\","
					  "\"websocket\":true}]}"),
		     "") == 0);
}

static void too_much_is_refused(void)
{
	size_t cap = 1 << 20, n;
	char *text = malloc(cap);

	CHECK(text != NULL);
	n = (size_t)snprintf(text, cap, "{\"version\":1,\"rules\":[\"a\"");
	for (int i = 0; i < POLICY_RULES_MAX; i++)
		n += (size_t)snprintf(text + n, cap - n, ",\"a\"");
	(void)snprintf(text + n, cap - n, "]}");
	CHECK(fails_with(text, "more than 4096 rules"));
	n = (size_t)snprintf(text, cap, "{\"version\":1,\"rules\":[\"a\"");
	for (int i = 0; i < 257; i++)
		n += (size_t)snprintf(text + n, cap - n, ",\"a/%d/*/b/**\"", i);
	(void)snprintf(text + n, cap - n, "]}");
	CHECK(fails_with(text, "patterns with several stars"));
	free(text);
}

static enum policy_verdict connect_to(const struct policy *p, const char *host, uint16_t port)
{
	const struct policy_target to = { .host = host, .port = port };
	struct policy_answer a;

	policy_connect(p, &to, &a);
	return a.verdict;
}

static enum policy_verdict ask(const struct policy *p, const char *host, const char *method,
			       const char *path)
{
	const struct policy_target to = { .host = host, .port = 443 };
	const struct policy_request q = { .tls = true, .method = method, .path = path };
	struct policy_answer a;

	policy_ask(p, &to, &q, &a);
	return a.verdict;
}

static void layers_are_tried_in_order(void)
{
	struct policy *p = policy_make(
		"{\"version\":1,\"rules\":[{\"host\":\"evil.test\",\"action\":\"deny\"}]}",
		"{\"version\":1,\"rules\":[\"corp.test\"],"
		"\"limits\":{\"connections\":5,\"bytes_in\":9}}",
		"{\"version\":1,\"default\":\"allow\",\"rules\":[\"evil.test\"],"
		"\"limits\":{\"connections\":10,\"bytes_out\":7}}");

	CHECK(p != NULL && policy_rules(p) == 3);
	CHECK(policy_rule(p, 0)->layer == POLICY_NODE &&
	      policy_rule(p, 2)->layer == POLICY_SESSION);
	CHECK_STR(policy_rule(p, 2)->name, "session rules[0]");
	CHECK(connect_to(p, "evil.test", 443) == POLICY_REFUSE);
	CHECK(connect_to(p, "corp.test", 443) == POLICY_PERMIT);
	CHECK(connect_to(p, "other.test", 22) == POLICY_PERMIT);
	CHECK(policy_limits(p)->connections == 5 && policy_limits(p)->bytes_in == 9 &&
	      policy_limits(p)->bytes_out == 7);
	policy_free(p);
}

static void ceilings_hold(void)
{
	static const char node[] =
		"{\"version\":1,\"rules\":[\"node.test\"],\"ceiling\":[\"*.corp.test\","
		"{\"host\":\"look.test\",\"methods\":[\"GET\"]}]}";
	static const char session[] =
		"{\"version\":1,\"default\":\"allow\",\"rules\":[\"a.corp.test\","
		"\"evil.test\",{\"host\":\"look.test\",\"tls\":\"pass\"},"
		"{\"host\":\"evil2.test\",\"paths\":[\"/x\"]}]}";
	struct policy *p = policy_make(node, NULL, session);
	struct policy_answer a;

	CHECK(p != NULL);
	CHECK(connect_to(p, "node.test", 443) == POLICY_PERMIT); /* its own layer's */
	CHECK(connect_to(p, "a.corp.test", 443) == POLICY_PERMIT);
	CHECK(connect_to(p, "b.corp.test", 443) == POLICY_PERMIT); /* by default */
	CHECK(connect_to(p, "b.corp.test", 22) == POLICY_REFUSE);
	CHECK(connect_to(p, "evil.test", 443) == POLICY_REFUSE);
	CHECK(connect_to(p, "evil2.test", 443) == POLICY_REFUSE);
	CHECK(connect_to(p, "look.test", 443) == POLICY_REFUSE); /* cannot be looked at */
	CHECK(ask(p, "evil2.test", "GET", "/x") == POLICY_REFUSE);
	CHECK(ask(p, "a.corp.test", "GET", "/x") == POLICY_PERMIT);
	policy_name(p, "evil.test", &a);
	CHECK(a.verdict == POLICY_REFUSE && strstr(a.reason, "node's policy") != NULL);
	policy_name(p, "a.corp.test", &a);
	CHECK(a.verdict == POLICY_PERMIT);
	policy_free(p);
	p = policy_make(node, NULL, "{\"version\":1,\"rules\":[\"look.test\"]}");
	CHECK(connect_to(p, "look.test", 443) == POLICY_INSPECT);
	CHECK(ask(p, "look.test", "GET", "/") == POLICY_PERMIT);
	CHECK(ask(p, "look.test", "POST", "/") == POLICY_REFUSE);
	policy_free(p);
	/* An empty ceiling: nothing of those below. */
	p = policy_make("{\"version\":1,\"ceiling\":[]}", NULL,
			"{\"version\":1,\"default\":\"allow\"}");
	CHECK(connect_to(p, "x.test", 443) == POLICY_REFUSE &&
	      ask(p, "x.test", "GET", "/") == POLICY_REFUSE);
	policy_free(p);
}

static void proxies(void)
{
	static const char session[] =
		"{\"version\":1,\"proxy\":{\"address\":\"[2001:db8::1]:1080\","
		"\"username\":\"u\",\"password\":\"p\"}}";
	struct policy *p = policy_make(NULL, NULL, session);

	CHECK(p != NULL);
	CHECK_STR(policy_proxy(p)->host, "2001:db8::1");
	CHECK(policy_proxy(p)->port == 1080);
	CHECK_STR(policy_proxy(p)->password, "p");
	policy_free(p);
	CHECK(policy_make("{\"version\":1,\"ceiling\":[\"a.test\"]}", NULL, session) == NULL);
	/* What is denied above stays denied, by address and by name. */
	CHECK(policy_make("{\"rules\":[{\"cidr\":\"2001:db8::/32\",\"action\":\"deny\"}]}", NULL,
			  session) == NULL);
	CHECK(policy_make("{}", "{\"rules\":[{\"host\":\"*.test\",\"action\":\"deny\"}]}",
			  "{\"proxy\":{\"address\":\"a.test:1080\"}}") == NULL);
	p = policy_make("{\"rules\":[{\"host\":\"a.test\",\"ports\":[1080]},"
			"{\"host\":\"*.test\",\"action\":\"deny\"}]}",
			NULL, "{\"proxy\":{\"address\":\"a.test:1080\"}}");
	CHECK(p != NULL);
	policy_free(p);
	p = policy_make(NULL, NULL,
			"{\"rules\":[{\"host\":\"*\",\"action\":\"deny\"}],"
			"\"proxy\":{\"address\":\"a.test:1080\"}}");
	CHECK(p != NULL); /* its own rules are about what goes through it */
	policy_free(p);
	p = policy_make("{\"version\":1,\"proxy\":{\"address\":\"Proxy.Corp.test:3128\"}}", NULL,
			session);
	CHECK(p != NULL);
	CHECK_STR(policy_proxy(p)->host, "proxy.corp.test");
	policy_free(p);
	p = policy_make(NULL, NULL, NULL);
	CHECK(p != NULL && policy_proxy(p)->host == NULL);
	CHECK(connect_to(p, "a.test", 443) == POLICY_REFUSE);
	policy_free(p);
}

static bool reaches(const struct policy *p, const char *text)
{
	struct ip ip;

	CHECK(ip_read(text, strlen(text), &ip) == 0);
	return policy_reachable(p, &ip);
}

static void version_may_be_left_out(void)
{
	struct policy *p =
		policy_make("{\"ceiling\":[\"*.test\"]}", "{}", "{\"rules\":[\"a.test\"]}");

	CHECK_STR(fault(POLICY_SESSION, "{}"), "");
	CHECK(p != NULL && policy_rules(p) == 1);
	CHECK(connect_to(p, "a.test", 443) == POLICY_PERMIT);
	policy_free(p);
}

static void private_addresses_are_the_operators(void)
{
	struct policy *p =
		policy_make("{\"version\":1,\"private\":[\"10.1.0.0/16\",\"169.254.0.0/16\"]}",
			    NULL, "{\"version\":1,\"rules\":[{\"cidr\":\"192.168.0.0/16\"}]}");

	CHECK(reaches(p, "93.184.216.34") && reaches(p, "10.1.2.3"));
	CHECK(!reaches(p, "10.2.0.1") && !reaches(p, "192.168.1.1") && !reaches(p, "127.0.0.1"));
	CHECK(!reaches(p, "169.254.169.254")); /* a block does not name it */
	CHECK(!reaches(p, "::1") && !reaches(p, "fd00:ec2::254") && !reaches(p, "100.64.0.1"));
	CHECK(!reaches(p, "::ffff:127.0.0.1") && !reaches(p, "0.0.0.0") &&
	      !reaches(p, "224.0.0.1"));
	policy_free(p);
	p = policy_make("{\"version\":1,\"private\":[\"169.254.169.254\"]}", NULL, NULL);
	CHECK(reaches(p, "169.254.169.254"));
	policy_free(p);
}

static void count(const char *text, void *arg)
{
	CHECK(text[0] != '\0');
	++*(size_t *)arg;
}

static size_t warnings(const char *session)
{
	struct policy *p = policy_make(NULL, NULL, session);
	size_t n = 0;

	CHECK(p != NULL);
	policy_check(p, count, &n);
	policy_free(p);
	return n;
}

static void doubtful_rules_are_reported(void)
{
	CHECK(warnings(RULE("\"b.test\"")) == 0);
	CHECK(warnings(RULE("\"a.test\"")) == 1);
	CHECK(warnings(RULE("\"a.test:8080\"")) == 0);
	CHECK(warnings(RULE("\"*.b.test\",\"x.b.test/y\"")) == 1);
	CHECK(warnings(RULE("\"*.b.test\",\"b.test\"")) == 0);
	CHECK(warnings(RULE("\"x.b.test/y\",\"x.b.test\"")) == 0);
	CHECK(warnings(RULE("\"*.x.b.test\",\"*.b.test\"")) == 0);
	CHECK(warnings(RULE("\"*.b.test\",\"*.x.b.test\"")) == 1);
	CHECK(warnings(RULE("\"192.168.0.0/16\"")) == 1);
	CHECK(warnings(RULE("\"93.184.216.0/24\",\"93.184.216.34\"")) == 1);
}

static void presets_do_what_their_names_promise(void)
{
	const char *summary = NULL;
	struct policy *p;
	size_t n = 0;

	for (const char *name; (name = policy_preset_name(n, &summary)) != NULL; n++) {
		CHECK_STR(fault(POLICY_SESSION, policy_preset(name)), "");
		CHECK(summary != NULL && *summary != '\0');
	}
	CHECK(n == 13 && policy_preset("nope") == NULL);
	p = policy_make(NULL, NULL, policy_preset("none"));
	CHECK(connect_to(p, "a.test", 443) == POLICY_REFUSE);
	policy_free(p);
	p = policy_make(NULL, NULL, policy_preset("deny"));
	CHECK(connect_to(p, "a.test", 443) == POLICY_REFUSE);
	policy_free(p);
	p = policy_make(NULL, NULL,
			"{\"version\":1,\"extends\":[\"pypi\",\"github-read\",\"openai\"],"
			"\"rules\":[{\"host\":\"files.pythonhosted.org\",\"action\":\"deny\"}]}");
	CHECK(connect_to(p, "files.pythonhosted.org", 443) == POLICY_REFUSE); /* own rules first */
	CHECK(ask(p, "pypi.org", "GET", "/simple/x/") == POLICY_PERMIT);
	CHECK(ask(p, "pypi.org", "POST", "/legacy/") == POLICY_REFUSE);
	CHECK(ask(p, "github.com", "POST", "/o/r.git/git-upload-pack") == POLICY_PERMIT);
	CHECK(ask(p, "github.com", "POST", "/o/r.git/git-receive-pack") == POLICY_REFUSE);
	CHECK(ask(p, "github.com", "GET", "/o/r") == POLICY_PERMIT);
	CHECK(ask(p, "api.openai.com", "POST", "/v1/responses") == POLICY_PERMIT);
	CHECK(ask(p, "api.openai.com", "POST", "/v1/files") == POLICY_REFUSE);
	CHECK(ask(p, "api.openai.com", "GET", "/v1/responses") == POLICY_PERMIT); /* a WebSocket */
	CHECK(policy_answers_refused(p));
	policy_free(p);
}

static void presets_of_agents(void)
{
	static const char gemini[] = "generativelanguage.googleapis.com";
	struct policy *p = policy_make(NULL, NULL, policy_preset("claude-code"));

	CHECK(policy_answers_refused(p));
	CHECK(ask(p, "api.anthropic.com", "POST", "/v1/messages") == POLICY_PERMIT);
	CHECK(ask(p, "api.anthropic.com", "HEAD", "/") == POLICY_PERMIT);
	CHECK(ask(p, "api.anthropic.com", "GET", "/api/hello") == POLICY_PERMIT);
	CHECK(ask(p, "api.anthropic.com", "GET", "/api/claude_code/settings") == POLICY_REFUSE);
	CHECK(ask(p, "platform.claude.com", "GET", "/v1/oauth/hello") == POLICY_PERMIT);
	CHECK(ask(p, "platform.claude.com", "POST", "/v1/oauth/token") == POLICY_REFUSE);
	policy_free(p);
	p = policy_make(NULL, NULL, policy_preset("codex"));
	CHECK(policy_answers_refused(p) && connect_to(p, "chatgpt.com", 443) == POLICY_REFUSE);
	CHECK(ask(p, "api.openai.com", "POST", "/v1/responses") == POLICY_PERMIT);
	policy_free(p);
	p = policy_make(NULL, NULL, policy_preset("gemini"));
	CHECK(ask(p, gemini, "POST", "/v1beta/models/g:streamGenerateContent") == POLICY_PERMIT);
	CHECK(ask(p, gemini, "GET", "/v1beta/models") == POLICY_PERMIT);
	CHECK(ask(p, gemini, "POST", "/v1beta/files") == POLICY_REFUSE);
	policy_free(p);
}

/* The lowest layer that has the member decides; names are answered where none has it. */
static void refused_names(void)
{
	static const char answer[] = "{\"refused_names\":\"answer\"}",
			  none[] = "{\"refused_names\":\"nxdomain\"}";
	struct policy *p = policy_make(NULL, NULL, "{\"rules\":[\"a.test\"]}");

	CHECK(policy_answers_refused(p));
	policy_free(p);
	p = policy_make(none, NULL, policy_preset("deny"));
	CHECK(!policy_answers_refused(p));
	policy_free(p);
	p = policy_make(none, NULL, answer);
	CHECK(policy_answers_refused(p));
	policy_free(p);
	p = policy_make(answer, NULL, none);
	CHECK(!policy_answers_refused(p));
	policy_free(p);
	p = policy_make(NULL, NULL, "{\"extends\":\"deny\",\"refused_names\":\"nxdomain\"}");
	CHECK(!policy_answers_refused(p));
	policy_free(p);
	p = policy_make(NULL, NULL, policy_preset("deny"));
	CHECK(policy_answers_refused(p));
	policy_free(p);
	CHECK(strstr(fault(POLICY_SESSION, "{\"refused_names\":\"maybe\"}"), "refused_names") !=
	      NULL);
}

static void shorthand(void)
{
	struct policy *p =
		policy_make(NULL, NULL,
			    "{\"version\":1,\"rules\":[\"A.test/simple\",\"b.test:8080/x/\","
			    "\"c.test/*/y\",\"93.184.216.34:22\",\"[2001:4860::1]:443\"]}");

	CHECK(p != NULL);
	CHECK(ask(p, "a.test", "PUT", "/simple") == POLICY_PERMIT);
	CHECK(ask(p, "a.test", "PUT", "/simple/z") == POLICY_PERMIT);
	CHECK(ask(p, "a.test", "PUT", "/simplest") == POLICY_REFUSE);
	CHECK(connect_to(p, "b.test", 8080) == POLICY_INSPECT &&
	      connect_to(p, "b.test", 80) == POLICY_REFUSE);
	CHECK(ask(p, "c.test", "GET", "/x/y") == POLICY_PERMIT);
	CHECK(ask(p, "c.test", "GET", "/x/y/z") == POLICY_REFUSE);
	policy_free(p);
}

/* Where a layer above looks at requests, no rule below gives them another meaning. */
static void set_headers_rename_nothing(void)
{
	static const char names[] = "{\"ceiling\":[\"a.test\"]}";
	static const char looks[] = "{\"ceiling\":[{\"host\":\"a.test\",\"methods\":[\"GET\"],"
				    "\"headers\":{\"X-Role\":\"user\"}}]}";
	static const char *const headers[] = { "X-HTTP-Method-Override", "X-Original-URL", "X_Role",
					       "X-Role" };

	for (size_t i = 0; i < COUNT(headers); i++) {
		char session[160];
		struct policy *p;

		(void)snprintf(session, sizeof(session),
			       "{\"rules\":[{\"host\":\"a.test\",\"set_headers\":{\"%s\":\"x\"}}]}",
			       headers[i]);
		p = policy_make(names, NULL, session);
		CHECK(p != NULL);
		policy_free(p);
		CHECK(policy_make(looks, NULL, session) == NULL);
	}
}

TEST_MAIN({ "set headers rename nothing", set_headers_rename_nothing },
	  { "errors name the place", errors_name_the_place },
	  { "errors of rules", errors_of_rules }, { "contradictions", contradictions },
	  { "too much is refused", too_much_is_refused },
	  { "layers are tried in order", layers_are_tried_in_order },
	  { "ceilings hold", ceilings_hold }, { "proxies", proxies },
	  { "version may be left out", version_may_be_left_out },
	  { "private addresses are the operator's", private_addresses_are_the_operators },
	  { "doubtful rules are reported", doubtful_rules_are_reported },
	  { "presets do what their names promise", presets_do_what_their_names_promise },
	  { "presets of agents", presets_of_agents }, { "refused names", refused_names },
	  { "shorthand", shorthand })
