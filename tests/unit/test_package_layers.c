/* Goal: a layer never allows what another refuses. */
#include "package_policy.h"

static void layers_are_asked_one_by_one(void)
{
	struct policy *p = make("{\"min_age\":\"1d\"}", "{\"deny\":[\"npm:x\"]}",
				"{\"min_age\":\"3d\",\"bytes\":\"1M\"}");
	struct package_facts f = aged(2 * DAY);
	struct package_answer a = ask(p, NULL, "npm:a@1", PACKAGE_FILE, &f);

	CHECK_STR(a.rule, "session packages.min_age");
	f = aged(HOUR);
	a = ask(p, NULL, "npm:a@1", PACKAGE_FILE, &f);
	CHECK_STR(a.rule, "node packages.min_age");
	CHECK(has_words(&a, "this node wants 24 h"));
	a = ask(p, NULL, "npm:x@1", PACKAGE_FILE, &f);
	CHECK_STR(a.rule, "tenant packages.deny[0]");
	policy_free(p);
	p = make("{\"bytes\":\"1G\",\"file_bytes\":\"1M\"}", NULL,
		 "{\"bytes\":\"2G\",\"file_bytes\":100,\"new_names\":7}");
	CHECK(packages_limits(policy_packages(p))->bytes == 1U << 30);
	CHECK(packages_limits(policy_packages(p))->file_bytes == 100);
	CHECK(packages_limits(policy_packages(p))->new_names == 7);
	policy_free(p);
}

static void lower_registries_are_among_the_upper(void)
{
	struct err e = { 0 };
	struct policy *p = try_layers("{\"registries\":[\"npm\",\"pypi\"]}", NULL,
				      "{\"registries\":[\"cargo\"]}", &e);

	CHECK(p == NULL && strstr(e.msg, "index.crates.io (cargo) of the session's policy is not "
					 "among those of the node's") != NULL);
	p = try_layers("{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"n.test\"}]}", NULL,
		       "{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"n.test\",\"files\":"
		       "[\"evil.test\"]}]}",
		       &e);
	CHECK(p == NULL);
	p = make("{\"registries\":[\"npm\",\"pypi\"]}", "{}", "{\"registries\":[\"pypi\"]}");
	CHECK(file_is(p, "pypi:a@1", NULL));
	CHECK(file_is(p, "npm:a@1", "npm is not among the registries of this policy"));
	policy_free(p);
	p = make("{\"registries\":[\"npm\"]}", NULL, "{\"deny\":[\"npm:x\"]}");
	CHECK(file_is(p, "npm:a@1", NULL) && file_is(p, "pypi:a@1", "of this policy (npm)"));
	policy_free(p);
}

/* What a session says of a registry does not loosen what the node demands. */
static void lower_flags_loosen_nothing(void)
{
	struct policy *p = make("{\"min_age\":\"7d\",\"own\":[\"npm:@ours/*\"]}", NULL,
				"{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"evil.test\","
				"\"private\":true,\"unknown_age\":\"allow\"}]}");
	struct package_facts none = { .version = "" };
	struct package_answer a = ask(p, "evil.test", "npm:@ours/x@1", PACKAGE_FILE, &none);

	CHECK(has_words(&a, "does not exist here"));
	a = ask(p, "evil.test", "npm:b@1", PACKAGE_FILE, &none);
	CHECK(has_words(&a, "has no known age, this node wants 7 days"));
	policy_free(p);
	/* The tenant demands pins, and the session has them. */
	p = make(NULL, "{\"mode\":\"pinned\"}", "{\"pins\":{\"npm:a\":[\"1.0\"]}}");
	CHECK(file_is(p, "npm:a@1.0", NULL) && file_is(p, "npm:a@2.0", "this tenant installs"));
	policy_free(p);
	p = make(NULL, "{\"mode\":\"pinned\",\"pins\":{\"npm:b\":[\"1.0\"]}}",
		 "{\"pins\":{\"npm:a\":[\"1.0\"]}}");
	CHECK(file_is(p, "npm:a@1.0", "is not pinned") && file_is(p, "npm:b@1.0", NULL));
	policy_free(p);
}

/* Random members, asked about random packages: with one more layer never more is allowed. */
static void a_layer_never_allows_more(void)
{
	static const char *const members[] = {
		"{}",
		"{\"min_age\":\"7d\"}",
		"{\"min_age\":\"2h\",\"unknown_age\":\"allow\"}",
		"{\"min_age\":\"30d\",\"min_age_except\":[\"npm:a*\",\"pypi:*\"]}",
		"{\"allow\":[\"npm:*\",\"pypi:a\"]}",
		"{\"allow\":[\"npm:ab@1\",\"go:*\",\"cargo:*\",\"pypi:*b\"]}",
		"{\"deny\":[\"npm:ab\",\"pypi:*\"]}",
		"{\"deny\":[\"npm:a@1\",\"npm:a*b\",\"cargo:a\"]}",
		"{\"own\":[\"npm:a*\",\"pypi:ab\"]}",
		"{\"scripts\":\"deny\"}",
		"{\"scripts\":\"ask\",\"scripts_except\":[\"npm:*\"]}",
		"{\"sources\":\"deny\"}",
		"{\"mode\":\"pinned\",\"pins\":{\"npm:a\":[\"1 " SHA_A "\"],\"pypi:ab\":[\"1\"]}}",
		"{\"mode\":\"offline\"}",
		"{\"pins\":{\"npm:a\":[\"1 " SHA_B "\"]}}",
		"{\"search\":\"allow\",\"publish\":\"allow\"}",
		"{\"search\":\"allow\",\"audit\":\"allow\",\"direct\":\"deny\"}",
		"{\"file_bytes\":10}",
	};
	static const char *const names[] = { "npm:a",	       "npm:a@1",  "npm:ab@1",	"npm:ab@2",
					     "npm:b@1",	       "pypi:a@1", "pypi:ab@1", "cargo:a@1",
					     "go:a.test/b@v1", "apt:ab@1" };
	unsigned seed = 7, allowed = 0;

	for (int round = 0; round < 1500; round++) {
		const char *layers[4][3] = { { 0 } }, *pick[3];
		struct package_answer a[4];
		struct package_facts f = aged((uint64_t)(unsigned)rand_r(&seed) % (40 * DAY));
		const char *name = names[(size_t)rand_r(&seed) % COUNT(names)];
		enum package_kind kind = (enum package_kind)(rand_r(&seed) % PACKAGE_KINDS);
		bool direct = rand_r(&seed) % 4 == 0;

		f.size = (uint64_t)(unsigned)rand_r(&seed) % 20;
		f.install_code = (enum install_code)(rand_r(&seed) % 3);
		for (size_t i = 0; i < 3; i++)
			pick[i] = members[(size_t)rand_r(&seed) % COUNT(members)];
		for (size_t i = 0; i < 3; i++)
			layers[0][i] = layers[i + 1][i] = pick[i];
		for (size_t i = 0; i < 4; i++) {
			struct policy *p = make(layers[i][0], layers[i][1], layers[i][2]);

			a[i] = ask(p, direct ? "any.test" : NULL, name, kind, &f);
			policy_free(p);
		}
		CHECK((a[0].verdict == PACKAGE_ALLOW) ==
		      (a[1].verdict == PACKAGE_ALLOW && a[2].verdict == PACKAGE_ALLOW &&
		       a[3].verdict == PACKAGE_ALLOW));
		allowed += a[0].verdict == PACKAGE_ALLOW;
	}
	CHECK(allowed > 50);
}

TEST_MAIN({ "layers_are_asked_one_by_one", layers_are_asked_one_by_one },
	  { "lower_registries_are_among_the_upper", lower_registries_are_among_the_upper },
	  { "lower_flags_loosen_nothing", lower_flags_loosen_nothing },
	  { "a_layer_never_allows_more", a_layer_never_allows_more })
