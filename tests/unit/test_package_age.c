/* Goal: what is too young, or has no age that counts, is refused. */
#include "package_policy.h"

static void young_versions_wait(void)
{
	struct policy *p =
		make(NULL, NULL, "{\"min_age\":\"7d\",\"min_age_except\":[\"npm:@ours/*\"]}");
	struct package_facts young = aged(3 * HOUR), old = aged(8 * DAY), none = { .version = "" };
	struct package_answer a = ask(p, NULL, "pypi:demo-pkg@2.0", PACKAGE_FILE, &young);

	CHECK_STR(a.reason,
		  "demo-pkg 2.0 is 3 h old, this session wants 7 days (packages.min_age)");
	CHECK_STR(a.rule, "session packages.min_age");
	a = ask(p, NULL, "pypi:demo-pkg@2.0", PACKAGE_FILE, &old);
	CHECK(has_words(&a, NULL));
	a = ask(p, NULL, "pypi:demo-pkg@2.0", PACKAGE_FILE, NULL);
	CHECK(a.verdict == PACKAGE_NEEDS_FACTS);
	a = ask(p, NULL, "pypi:demo-pkg@2.0", PACKAGE_FILE, &none);
	CHECK(has_words(&a, "has no known age"));
	a = ask(p, NULL, "npm:@ours/x@2.0", PACKAGE_FILE, &young);
	CHECK(has_words(&a, NULL));
	a = ask(p, NULL, "pypi:demo-pkg", PACKAGE_META, NULL);
	CHECK(has_words(&a, NULL));
	young.time_ms = NOW + DAY; /* from the future: new */
	a = ask(p, NULL, "pypi:demo-pkg@2.0", PACKAGE_FILE, &young);
	CHECK(has_words(&a, "is 0 s old"));
	/* At another host nobody tells. */
	a = ask(p, "files.example", "pypi:demo-pkg@2.0", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, "has no known age"));
	policy_free(p);
}

static void first_sight_counts(void)
{
	struct policy *p = make(NULL, NULL, "{\"min_age\":\"7d\"}");
	struct package_request r = request_of("go:example.com/m@v1.0.0", PACKAGE_FILE);
	struct package_facts old = aged(300 * DAY), none = { .version = "" };
	struct package_question q = { .request = &r, .facts = &old, .now_ms = NOW };
	struct package_answer a;
	bool files;

	q.registry = packages_registry(policy_packages(p), "proxy.golang.org", 443, "/", &files);
	package_judge(policy_packages(p), &q, &a); /* the author's time alone is not believed */
	CHECK(has_words(&a, "has no known age"));
	q.first_seen_ms = NOW - 5 * 60000;
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, "was first seen 5 min ago"));
	q.first_seen_ms = NOW - 8 * DAY;
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	r = request_of("cargo:m@1.0.0", PACKAGE_FILE); /* an index without times */
	q.facts = &none;
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	q.first_seen_ms = NOW - DAY;
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, "was first seen 24 h ago"));
	policy_free(p);
	p = make(NULL, NULL, "{\"min_age\":\"7d\",\"unknown_age\":\"allow\"}");
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	policy_free(p);
}

/* git has no times. Who lists a git server says that this is well, and nobody else. */
static void git_servers_have_no_times(void)
{
	struct package_facts none = { .version = "", .file = "" };
	struct policy *p = make(NULL, NULL, "{\"min_age\":\"7d\",\"registries\":[\"github\"]}");
	struct package_answer a = ask(p, NULL, "git:o/r", PACKAGE_FILE, &none);

	CHECK(has_words(&a, NULL));
	policy_free(p);
	p = make(NULL, NULL,
		 "{\"min_age\":\"7d\",\"registries\":[{\"use\":\"github\",\"unknown_age\":"
		 "\"deny\"}]}");
	a = ask(p, NULL, "git:o/r", PACKAGE_FILE, &none);
	CHECK(has_words(&a, "has no known age"));
	policy_free(p);
	p = make(NULL, NULL, "{\"min_age\":\"7d\"}");
	a = ask(p, NULL, "git:o/r", PACKAGE_FILE, &none);
	CHECK(has_words(&a, "has no known age, this session wants"));
	policy_free(p);
	p = make("{\"min_age\":\"7d\"}", NULL, "{\"registries\":[\"github\",\"debian\"]}");
	a = ask(p, NULL, "git:o/r", PACKAGE_FILE, &none);
	CHECK(has_words(&a, "has no known age, this node wants"));
	a = ask(p, NULL, "apt:bash@5", PACKAGE_FILE, &none);
	CHECK(has_words(&a, NULL));
	policy_free(p);
}

TEST_MAIN({ "young_versions_wait", young_versions_wait },
	  { "first_sight_counts", first_sight_counts },
	  { "git_servers_have_no_times", git_servers_have_no_times })
