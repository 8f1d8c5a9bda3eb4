/* Goal: registries open their hosts within what rules and ceilings allow, and requests are
 * read where packages could come from. */
#include "package_policy.h"

static enum policy_verdict asked(const struct policy *p, const char *host, uint16_t port,
				 const char *path, struct policy_answer *ret)
{
	const struct policy_target to = { .host = host, .port = port };
	const struct policy_request q = { .tls = port != 80, .method = "GET", .path = path };

	policy_ask(p, &to, &q, ret);
	return ret->verdict;
}

static void registries_open_their_hosts(void)
{
	struct policy *p = make_documents(
		NULL, "{\"packages\":{\"registries\":[\"npm\",\"debian\",{\"ecosystem\":\"pypi\","
		      "\"host\":\"p.test:8443\",\"path\":\"/py\"}]},\"rules\":[{\"host\":"
		      "\"registry.npmjs.org\",\"paths\":[\"/bad\"],\"action\":\"deny\"}]}");
	const struct policy_target npm = { .host = "registry.npmjs.org", .port = 443 };
	struct policy_answer a;

	policy_name(p, "registry.npmjs.org", &a);
	CHECK(a.verdict == POLICY_PERMIT);
	policy_name(p, "pypi.org", &a);
	CHECK(a.verdict == POLICY_REFUSE);
	policy_connect(p, &npm, &a);
	CHECK(a.verdict == POLICY_INSPECT);
	CHECK(asked(p, "registry.npmjs.org", 443, "/a", &a) == POLICY_PERMIT && a.by_registry);
	CHECK(asked(p, "registry.npmjs.org", 443, "/bad", &a) == POLICY_REFUSE);
	CHECK(asked(p, "registry.npmjs.org", 80, "/a", &a) == POLICY_REFUSE);
	CHECK(asked(p, "registry.npmjs.org", 8443, "/a", &a) == POLICY_REFUSE);
	CHECK(asked(p, "deb.debian.org", 80, "/a", &a) == POLICY_PERMIT);
	CHECK(asked(p, "deb.debian.org", 8080, "/a", &a) == POLICY_REFUSE);
	CHECK(asked(p, "p.test", 8443, "/py/a", &a) == POLICY_PERMIT);
	CHECK(asked(p, "p.test", 8443, "/other", &a) == POLICY_REFUSE);
	CHECK(asked(p, "p.test", 443, "/py/a", &a) == POLICY_REFUSE);
	policy_free(p);
	p = make_documents("{\"rules\":[{\"host\":\"registry.npmjs.org\",\"action\":\"deny\"}]}",
			   "{\"packages\":{\"registries\":[\"npm\"]}}");
	policy_name(p, "registry.npmjs.org", &a);
	CHECK(a.verdict == POLICY_REFUSE);
	policy_connect(p, &npm, &a);
	CHECK(a.verdict == POLICY_REFUSE);
	CHECK(asked(p, "registry.npmjs.org", 443, "/a", &a) == POLICY_REFUSE);
	policy_free(p);
}

/* A rule may let requests to other ports pass, and their packages are judged, too. */
static void registries_are_known_at_every_port(void)
{
	static const uint16_t ports[] = { 443, 80, 8443, 1, 65535 };

	for (size_t i = 0; i < COUNT(ports); i++) {
		const struct package_registry *r;
		bool files;

		r = packages_registry(NULL, "registry.npmjs.org", ports[i], "/a", &files);
		CHECK(r != NULL && r->ecosystem == ECO_NPM && r->is_implicit && !files);
		r = packages_registry(NULL, "files.pythonhosted.org", ports[i], "/a", &files);
		CHECK(r != NULL && r->ecosystem == ECO_PYPI && files);
	}
}

/* A client that cannot resolve the name could not say why. */
static void offline_hosts_exist(void)
{
	struct policy *p = make_documents(NULL, "{\"packages\":{\"mode\":\"offline\"}}");
	struct policy_answer a;

	policy_name(p, "pypi.org", &a);
	CHECK(a.verdict == POLICY_PERMIT);
	CHECK(asked(p, "pypi.org", 443, "/simple/a/", &a) == POLICY_PERMIT && a.by_registry);
	CHECK(meta_is(p, "pypi:a", "packages are off in this session"));
	policy_name(p, "other.test", &a);
	CHECK(a.verdict == POLICY_REFUSE);
	policy_free(p);
}

static void the_preset(void)
{
	struct policy *p = make_documents(NULL, "{\"extends\":[\"packages\"]}");
	struct policy_answer a;

	CHECK(asked(p, "pypi.org", 443, "/simple/a/", &a) == POLICY_PERMIT && a.by_registry);
	CHECK(asked(p, "deb.debian.org", 80, "/debian/", &a) == POLICY_REFUSE);
	CHECK(file_is(p, "pypi:a@1", NULL) && file_is(p, "cargo:a@1", NULL));
	CHECK(file_is(p, "go:a.test/b@v1", NULL));
	policy_free(p);
	/* Members of one's own replace those of the preset, one by one. */
	p = make_documents(NULL, "{\"extends\":[\"packages\"],\"packages\":{\"min_age_except\":"
				 "[\"npm:a\"],\"deny\":[\"npm:b\"]}}");
	CHECK(asked(p, "pypi.org", 443, "/simple/a/", &a) == POLICY_PERMIT);
	CHECK(file_is(p, "npm:b@1", "packages.deny[0]") && file_is(p, "npm:a@1", NULL));
	policy_free(p);
	p = make_documents(NULL,
			   "{\"extends\":[\"packages\"],\"packages\":{\"mode\":\"offline\"}}");
	CHECK(meta_is(p, "pypi:a", "packages are off"));
	policy_free(p);
}

static void ceilings_stay(void)
{
	struct policy *p = make_documents("{\"ceiling\":[\"*.corp.test\"]}",
					  "{\"packages\":{\"registries\":[\"npm\"]}}");
	struct policy_answer a;

	policy_name(p, "registry.npmjs.org", &a);
	CHECK(a.verdict == POLICY_REFUSE);
	CHECK(asked(p, "registry.npmjs.org", 443, "/a", &a) == POLICY_REFUSE);
	policy_free(p);
	/* The layer with the ceiling lists it itself. */
	p = make_documents(
		"{\"ceiling\":[\"*.corp.test\"],\"packages\":{\"registries\":[\"npm\"]}}",
		"{\"rules\":[\"registry.npmjs.org\"]}");
	policy_name(p, "registry.npmjs.org", &a);
	CHECK(a.verdict == POLICY_PERMIT);
	CHECK(asked(p, "registry.npmjs.org", 443, "/a", &a) == POLICY_PERMIT && a.by_registry);
	policy_free(p);
}

static enum policy_verdict connected(const struct policy *p, const char *host)
{
	const struct policy_target to = { .host = host, .port = 443 };
	struct policy_answer a;

	policy_connect(p, &to, &a);
	return a.verdict;
}

static void requests_are_read(void)
{
	struct policy *p =
		make_documents(NULL, "{\"rules\":[\"a.test\",{\"host\":[\"b.test\",\"pypi.org\"],"
				     "\"tls\":\"pass\"}],\"packages\":{}}");

	CHECK(connected(p, "a.test") == POLICY_INSPECT);
	CHECK(connected(p, "b.test") == POLICY_PERMIT); /* its author's own exception */
	CHECK(connected(p, "pypi.org") == POLICY_INSPECT);
	policy_free(p);
	p = make_documents("{\"packages\":{\"min_age\":\"7d\"}}",
			   "{\"rules\":[{\"host\":\"b.test\",\"tls\":\"pass\"},{\"host\":"
			   "\"c.test\",\"protocol\":\"tcp\"}]}");
	CHECK(connected(p, "b.test") == POLICY_REFUSE);
	CHECK(connected(p, "c.test") == POLICY_REFUSE);
	policy_free(p);
	p = make_documents("{\"packages\":{}}", "{\"default\":\"allow\"}");
	CHECK(connected(p, "any.test") == POLICY_INSPECT);
	policy_free(p);
}

static void unread_rules_are_errors_with_pins(void)
{
	const char *layers[POLICY_LAYERS] = { NULL, NULL,
					      "{\"rules\":[{\"host\":\"b.test\",\"tls\":\"pass\"}],"
					      "\"packages\":{\"mode\":\"pinned\"}}" };
	struct err e = { 0 };
	char *merged = NULL;

	CHECK(policy_merge(layers, &merged, &e) < 0);
	CHECK(strstr(e.msg, "rules[0]: tls pass and protocol tcp cannot be used") != NULL);
}

TEST_MAIN({ "registries_open_their_hosts", registries_open_their_hosts },
	  { "registries are known at every port", registries_are_known_at_every_port },
	  { "offline_hosts_exist", offline_hosts_exist }, { "the_preset", the_preset },
	  { "ceilings_stay", ceilings_stay }, { "requests_are_read", requests_are_read },
	  { "unread_rules_are_errors_with_pins", unread_rules_are_errors_with_pins })
