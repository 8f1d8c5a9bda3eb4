/* Goal: a file of which no digest is known is refused where digests are the rule, unless the layer
 * that asks, or the registry as that layer sees it, says otherwise. */
#include "package_policy.h"

#define GO_OF(more) "{\"ecosystem\":\"go\",\"host\":\"go.example\"" more "}"
#define LIST(entry) "{\"registries\":[" entry "]}"

/* words: of the refusal; NULL: it passes. host NULL: a direct URL. */
static bool is(const struct policy *p, const char *host, const char *text, const char *words)
{
	struct package_request r = request_of(text, PACKAGE_FILE);
	struct package_question q = { .request = &r, .now_ms = NOW };
	struct package_answer a = { .verdict = PACKAGE_ALLOW };
	bool files;

	if (host != NULL)
		q.registry = packages_registry(policy_packages(p), host, 443, NULL, &files);
	CHECK((host != NULL) == (q.registry != NULL));
	CHECK(package_judge_unverified(policy_packages(p), &q, &a) == (a.verdict == PACKAGE_ALLOW));
	return has_words(&a, words);
}

static void ecosystems_differ(void)
{
	struct policy *p = make(NULL, NULL, "{}");

	CHECK(is(p, "repo.maven.apache.org", "maven:a:b@1", "has no checksum"));
	CHECK(is(p, "proxy.golang.org", "go:a.b/c@v1", "has no checksum"));
	CHECK(is(p, "registry.npmjs.org", "npm:a@1", "has no checksum"));
	CHECK(is(p, "deb.debian.org", "apt:ab@1", NULL));
	CHECK(is(p, "github.com", "git:a/b@1", NULL));
	CHECK(is(p, NULL, "pypi:a@1", NULL));
	policy_free(p);
}

static void a_layer_says_otherwise(void)
{
	struct policy *p = make(NULL, NULL, "{\"unverified\":\"allow\"}");

	CHECK(is(p, "repo.maven.apache.org", "maven:a:b@1", NULL));
	policy_free(p);
	p = make(NULL, NULL, "{\"unverified\":\"deny\"}");
	CHECK(is(p, "deb.debian.org", "apt:ab@1", "packages.unverified"));
	CHECK(is(p, NULL, "pypi:a@1", "this session wants one"));
	policy_free(p);
	p = make(NULL, NULL,
		 "{\"unverified\":\"deny\",\"registries\":[{\"use\":\"debian\",\"unverified\":"
		 "\"allow\"},\"ubuntu\"]}");
	CHECK(is(p, "deb.debian.org", "apt:ab@1", NULL));
	CHECK(is(p, "archive.ubuntu.com", "apt:ab@1", "has no checksum"));
	policy_free(p);
}

static void a_lower_layer_loosens_nothing(void)
{
	static const char usual[] = LIST(GO_OF("")),
			  loose[] = LIST(GO_OF(",\"unverified\":\"allow\""));
	struct policy *p = make(NULL, usual, loose);

	CHECK(is(p, "go.example", "go:a.b/c@v1", "this tenant wants one"));
	policy_free(p);
	p = make(NULL, loose, usual);
	CHECK(is(p, "go.example", "go:a.b/c@v1", "this session wants one"));
	policy_free(p);
	p = make(NULL, loose, loose);
	CHECK(is(p, "go.example", "go:a.b/c@v1", NULL));
	policy_free(p);
	p = make(NULL, loose, NULL);
	CHECK(is(p, "go.example", "go:a.b/c@v1", NULL));
	policy_free(p);
	p = make("{\"unverified\":\"deny\"}", NULL, "{\"unverified\":\"allow\"}");
	CHECK(is(p, NULL, "pypi:a@1", "this node wants one"));
	policy_free(p);
}

static const char *sumdb(const struct policy *p)
{
	bool files;

	return packages_registry(policy_packages(p), "go.example", 443, NULL, &files)->sumdb;
}

/* A session that names another database could choose the hashes. */
static void the_highest_layer_names_the_database(void)
{
	struct policy *p = make(NULL, LIST(GO_OF(",\"sumdb\":\"sum.tenant\"")),
				LIST(GO_OF(",\"sumdb\":\"sum.session\"")));

	CHECK_STR(sumdb(p), "sum.tenant");
	policy_free(p);
	p = make(NULL, LIST(GO_OF(",\"sumdb\":\"sum.tenant\"")), LIST(GO_OF("")));
	CHECK_STR(sumdb(p), "sum.tenant");
	policy_free(p);
	p = make(NULL, LIST(GO_OF("")), LIST(GO_OF(",\"sumdb\":\"sum.session\"")));
	CHECK_STR(sumdb(p), "sum.session");
	policy_free(p);
	CHECK(fails_with(LIST("{\"ecosystem\":\"npm\",\"host\":\"a.b\",\"sumdb\":\"c.d\"}"),
			 "only go has one"));
	CHECK(fails_with(LIST(GO_OF(",\"sumdb\":\"c.d:80\"")), "without a port"));
	CHECK(fails_with("{\"unverified\":\"ask\"}", "unverified"));
}

static bool database_is(const struct policy *p, const char *name, const char *words)
{
	struct package_request r = { .ecosystem = ECO_GO, .kind = PACKAGE_KEY };
	struct package_question q = { .request = &r, .now_ms = NOW };
	struct package_answer a;
	bool files;

	(void)snprintf(r.file, sizeof(r.file), "%s", name);
	q.registry = packages_registry(policy_packages(p), "go.example", 443, NULL, &files);
	package_judge(policy_packages(p), &q, &a);
	return has_words(&a, words);
}

/* A proxy is asked for databases by name, which could be any text. */
static void other_databases_are_refused(void)
{
	struct policy *p = make(NULL, NULL, LIST(GO_OF(",\"sumdb\":\"sum.example\"")));

	CHECK(database_is(p, "sum.example", NULL));
	CHECK(database_is(p, "sum.golang.org", NULL));
	CHECK(database_is(p, "", NULL));
	CHECK(database_is(p, "secret.example", "is not the checksum database of this registry"));
	policy_free(p);
}

TEST_MAIN({ "other_databases_are_refused", other_databases_are_refused },
	  { "ecosystems_differ", ecosystems_differ },
	  { "a_layer_says_otherwise", a_layer_says_otherwise },
	  { "a_lower_layer_loosens_nothing", a_lower_layer_loosens_nothing },
	  { "the_highest_layer_names_the_database", the_highest_layer_names_the_database })
