/* Goal: each rule about kinds of requests, registries, install code and malicious packages
 * refuses what it is for, and names itself. */
#include "package_policy.h"

#include "lib/packages/advisories.h"

static void code_needs_leave(void)
{
	struct policy *p =
		make(NULL, NULL, "{\"scripts\":\"deny\",\"scripts_except\":[\"npm:esbuild\"]}");
	struct package_facts f = aged(DAY);
	struct package_request r = request_of("pypi:a@1", PACKAGE_FILE);
	struct package_question q = { .request = &r, .now_ms = NOW };
	struct package_answer a;
	bool files;

	f.install_code = INSTALL_CODE_YES;
	a = ask(p, NULL, "npm:a@1", PACKAGE_FILE, &f);
	CHECK(has_words(&a, "a 1 runs code when it is installed, which this session does not"));
	a = ask(p, NULL, "npm:esbuild@1", PACKAGE_FILE, &f);
	CHECK(has_words(&a, NULL));
	f.install_code = INSTALL_CODE_UNKNOWN;
	a = ask(p, NULL, "npm:a@1", PACKAGE_FILE, &f);
	CHECK(has_words(&a, "may run code"));
	f.install_code = INSTALL_CODE_NO;
	a = ask(p, NULL, "npm:a@1", PACKAGE_FILE, &f);
	CHECK(has_words(&a, NULL));
	a = ask(p, NULL, "go:example.com/m@v1", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, NULL));
	f.install_code = INSTALL_CODE_YES; /* hides no version */
	q.facts = &f;
	q.registry = packages_registry(policy_packages(p), "pypi.org", 443, "/", &files);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, "runs code"));
	q.is_in_list = true;
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	q.is_in_list = false;
	q.facts = NULL;
	policy_free(p);
	p = make(NULL, NULL, "{\"sources\":\"ask\"}");
	r.source = true;
	q.registry = packages_registry(policy_packages(p), "pypi.org", 443, "/", &files);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, "is built from source, which needs an approval"));
	policy_free(p);
}

static void kinds_have_switches(void)
{
	static const struct {
		enum package_kind kind;
		const char *member, *words;
	} rows[] = {
		{ PACKAGE_PUBLISH, "{}", "(packages.publish)" },
		{ PACKAGE_PUBLISH, "{\"publish\":\"allow\"}", NULL },
		{ PACKAGE_AUTH, "{}", "(packages.publish)" },
		{ PACKAGE_SEARCH, "{}", "(packages.search)" },
		{ PACKAGE_SEARCH, "{\"search\":\"allow\"}", NULL },
		{ PACKAGE_AUDIT, "{}", "(packages.audit)" },
		{ PACKAGE_AUDIT, "{\"audit\":\"allow\"}", NULL },
		{ PACKAGE_OTHER, "{\"audit\":\"allow\",\"search\":\"allow\",\"publish\":\"allow\"}",
		  "no known request" },
		{ PACKAGE_KEY, "{}", NULL },
		{ PACKAGE_INDEX, "{}", NULL },
		{ PACKAGE_META, "{\"mode\":\"offline\"}",
		  "packages are off in this session; the template must have them" },
		{ PACKAGE_KEY, "{\"mode\":\"offline\"}", "packages are off" },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct policy *p = make(NULL, NULL, rows[i].member);
		struct package_answer a = ask(p, NULL, "npm:a", rows[i].kind, NULL);

		CHECK(has_words(&a, rows[i].words));
		policy_free(p);
	}
}

/* A lookup in Go's checksum database tells a server the name and the version. */
static void lookups_of_checksums_are_judged(void)
{
	static const struct {
		const char *member, *what, *words;
	} rows[] = {
		{ "{\"deny\":[\"go:a.b/bad\"]}", "go:a.b/bad@v1.0.0", "is denied" },
		{ "{\"deny\":[\"go:a.b/c@v1.1.0\"]}", "go:a.b/c@v1.1.0", "is denied" },
		{ "{\"deny\":[\"go:a.b/c@v1.1.0\"]}", "go:a.b/c@v1.0.0", NULL },
		{ "{\"own\":[\"go:corp.example/*\"]}", "go:corp.example/x@v1.0.0",
		  "belongs to a private registry" },
		{ "{\"allow\":[\"go:a.b/c\"]}", "go:a.b/d@v1.0.0", "is not in the list" },
		{ "{\"mode\":\"pinned\",\"pins\":{\"go:a.b/c\":[\"v1.0.0\"]}}", "go:a.b/d@v1.0.0",
		  "is not pinned" },
		{ "{\"mode\":\"pinned\",\"pins\":{\"go:a.b/c\":[\"v1.0.0\"]}}",
		  "go:a.b/c@v1.0.0-data", "is not pinned" },
		{ "{\"mode\":\"pinned\",\"pins\":{\"go:a.b/c\":[\"v1.0.0\"]}}", "go:a.b/c@v1.0.0",
		  NULL },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct policy *p = make(NULL, NULL, rows[i].member);
		struct package_answer a = ask(p, NULL, rows[i].what, PACKAGE_KEY, NULL);

		CHECK(has_words(&a, rows[i].words));
		policy_free(p);
	}
}

static void registries_are_a_list(void)
{
	struct policy *p = make(NULL, NULL, "{\"registries\":[\"npm\",\"github\"]}");
	struct package_answer a;

	CHECK(file_is(p, "npm:a@1", NULL));
	CHECK(file_is(p, "pypi:a@1",
		      "pypi is not among the registries of this policy (npm, github)"));
	CHECK(file_is(p, "apt:bash@5", "system packages (apt) are off"));
	CHECK(file_is(p, "git:o/r", NULL));
	a = ask(p, NULL, "git:o/r", PACKAGE_OTHER, NULL); /* a web page */
	CHECK(a.verdict == PACKAGE_BY_RULES);
	a = ask(p, "files.example", "npm:a@1", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, NULL));
	a = ask(p, "github.com", "apt:bash@5", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, "is a system package"));
	a = ask(p, "files.example", "apt:bash@5", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, "is a system package"));
	policy_free(p);
	p = make(NULL, NULL,
		 "{\"direct\":\"deny\",\"registries\":[\"debian\"],\"min_age\":\"7d\"}");
	CHECK(file_is(p, "apt:bash@5", NULL));
	a = ask(p, "files.example", "npm:a@1", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, "(packages.direct)"));
	policy_free(p);
	p = make(NULL, NULL, "{}"); /* no list: built-in ones, but not apt */
	CHECK(file_is(p, "pypi:a@1", NULL));
	CHECK(file_is(p, "apt:bash@5", "system packages (apt) are off"));
	policy_free(p);
}

static void advisories_refuse(void)
{
	static const char text[] = ADVISORIES_MAGIC "1800000000 3\n"
						    "npm evil * MAL-2025-1\n"
						    "npm half-bad 1.0.0 MAL-2025-2\n"
						    "npm half-bad 1.0.1 MAL-2025-3\n";
	struct policy *p = make(NULL, NULL, "{}");
	struct package_request r = request_of("npm:evil", PACKAGE_META);
	struct advisories list;
	struct package_question q = { .request = &r, .now_ms = NOW, .advisories = &list };
	struct package_answer a;

	CHECK(advisories_open(text, sizeof(text) - 1, &list) && list.lines == 3);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, "evil is known as malicious: MAL-2025-1 (packages.advisories)"));
	r = request_of("npm:half-bad", PACKAGE_META);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	r = request_of("npm:half-bad@1.0.1", PACKAGE_FILE);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, "MAL-2025-3"));
	r = request_of("npm:half-bad@1.0.2", PACKAGE_FILE);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	r = request_of("npm:evi@1", PACKAGE_FILE);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	policy_free(p);
	p = make(NULL, NULL, "{\"advisories\":\"ignore\"}");
	r = request_of("npm:evil@1", PACKAGE_FILE);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	policy_free(p);
}

TEST_MAIN({ "code_needs_leave", code_needs_leave }, { "kinds_have_switches", kinds_have_switches },
	  { "lookups_of_checksums_are_judged", lookups_of_checksums_are_judged },
	  { "registries_are_a_list", registries_are_a_list },
	  { "advisories_refuse", advisories_refuse })
