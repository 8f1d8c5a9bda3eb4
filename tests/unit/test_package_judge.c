/* Goal: a policy of packages means what its author wrote, or the error names the place; each rule
 * refuses what it is for and names itself; a layer never allows what another refuses. */
#include "test.h"

#include "advisories.h"
#include "digest.h"
#include "package_facts.h"
#include "package_judge.h"
#include "policy.h"

#define NOW 1800000000000ULL
#define HOUR 3600000ULL
#define DAY (24 * HOUR)
#define SHA_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* Up to three members become the layers of one policy; NULL: the layer has none. */
static struct policy *try_layers(const char *node, const char *tenant, const char *session,
				 struct err *e)
{
	const char *const members[POLICY_LAYERS] = { node, tenant, session };
	static char texts[POLICY_LAYERS][65536];
	const char *layers[POLICY_LAYERS] = { NULL };
	struct policy *p = NULL;
	char *merged = NULL;

	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		if (members[i] == NULL)
			continue;
		(void)snprintf(texts[i], sizeof(texts[i]), "{\"version\":1,\"packages\":%s}",
			       members[i]);
		layers[i] = texts[i];
	}
	if (policy_merge(layers, &merged, e) < 0)
		return NULL;
	CHECK(policy_read(merged, strlen(merged), POLICY_LAYERS, &p, e) == 0);
	free(merged);
	return p;
}

static struct policy *make(const char *node, const char *tenant, const char *session)
{
	struct err e = { 0 };
	struct policy *p = try_layers(node, tenant, session, &e);

	if (p == NULL)
		printf("# %s\n", e.msg);
	CHECK(p != NULL);
	return p;
}

/* "npm:left-pad@1.3.0" as a request. */
static struct package_request request_of(const char *text, enum package_kind kind)
{
	struct package_request r = { .kind = kind };
	const char *colon = strchr(text, ':'), *at = strrchr(text, '@');

	if (at != NULL && at == colon + 1)
		at = NULL;
	CHECK(ecosystem_read(text, (size_t)(colon - text), &r.ecosystem));
	(void)snprintf(r.written, sizeof(r.written), "%.*s",
		       (int)(at == NULL ? strlen(colon + 1) : (size_t)(at - colon - 1)), colon + 1);
	CHECK(r.written[0] == '\0' ||
	      package_name_normal(r.ecosystem, r.written, strlen(r.written), r.name));
	(void)snprintf(r.version, sizeof(r.version), "%s", at == NULL ? "" : at + 1);
	return r;
}

static const char *const hosts[ECOSYSTEMS] = { "pypi.org",	   "registry.npmjs.org",
					       "deb.debian.org",   "index.crates.io",
					       "proxy.golang.org", "github.com",
					       "images.example",   "repo.maven.apache.org",
					       "rubygems.org" };

static struct package_answer ask(const struct policy *p, const char *host, const char *text,
				 enum package_kind kind, const struct package_facts *facts)
{
	struct package_request r = request_of(text, kind);
	struct package_question q = { .request = &r, .facts = facts, .now_ms = NOW };
	struct package_answer a;
	bool files;

	if (host == NULL)
		host = hosts[r.ecosystem];
	q.registry = packages_registry(policy_packages(p), host, 443, NULL, &files);
	package_judge(policy_packages(p), &q, &a);
	CHECK((a.verdict == PACKAGE_REFUSE) == (a.reason[0] != '\0'));
	for (const char *c = a.reason; *c != '\0'; c++)
		CHECK(*c >= ' ' && *c <= '~');
	return a;
}

static bool has_words(const struct package_answer *a, const char *words)
{
	if (words == NULL ? a->verdict == PACKAGE_ALLOW
			  : a->verdict == PACKAGE_REFUSE && strstr(a->reason, words) != NULL)
		return true;
	printf("# verdict %d: %s\n", a->verdict, a->reason);
	return false;
}

/* A file, with facts of one year ago that say nothing else; words NULL: allowed. */
static bool file_is(const struct policy *p, const char *text, const char *words)
{
	struct package_facts f = {
		.version = "", .file = "", .has_time = true, .time_ms = NOW - 365 * DAY
	};
	struct package_answer a = ask(p, NULL, text, PACKAGE_FILE, &f);

	return has_words(&a, words);
}

static bool meta_is(const struct policy *p, const char *text, const char *words)
{
	struct package_answer a = ask(p, NULL, text, PACKAGE_META, NULL);

	return has_words(&a, words);
}

static const char *fault(const char *member)
{
	static struct err e;
	struct policy *p = try_layers(NULL, NULL, member, &e);

	if (p == NULL)
		return e.msg;
	policy_free(p);
	return "(no error)";
}

static bool fails_with(const char *member, const char *words)
{
	const char *msg = fault(member);

	if (strstr(msg, words) != NULL)
		return true;
	printf("# '%s' for %s\n", msg, member);
	return false;
}

/* ---- documents */

static void errors_name_the_place(void)
{
	CHECK(fails_with("[]", "packages: must be an object"));
	CHECK(fails_with("{\"regs\":[]}", "packages: unknown member 'regs'"));
	CHECK(fails_with("{\"mode\":\"shut\"}", "packages.mode: must be one of: open, pinned"));
	CHECK(fails_with("{\"min_age\":7}", "packages.min_age: must be a time"));
	CHECK(fails_with("{\"min_age\":\"7 days\"}", "packages.min_age: must be a time"));
	CHECK(fails_with("{\"bytes\":\"much\"}", "packages.bytes: must be a size"));
	CHECK(fails_with("{\"file_bytes\":0}", "packages.file_bytes: must be a size"));
	CHECK(fails_with("{\"new_names\":0}", "packages.new_names: must be"));
	CHECK(fails_with("{\"deny\":\"npm:a\"}", "packages.deny: must be a list"));
	CHECK(fails_with("{\"deny\":[\"npm:a\",\"left-pad\"]}", "packages.deny[1]: must be ECO"));
	CHECK(fails_with("{\"deny\":[\"nuget:a\"]}", "packages.deny[0]"));
	CHECK(fails_with("{\"allow\":[\"npm:a b\"]}", "packages.allow[0]"));
	CHECK(fails_with("{\"allow\":[\"npm:**\"]}", "packages.allow[0]"));
	CHECK(fails_with("{\"own\":[\"npm:\"]}", "packages.own[0]"));
	CHECK(fails_with("{\"min_age_except\":[\"npm:a\"]}", "has no effect without min_age"));
	CHECK(fails_with("{\"scripts_except\":[\"npm:a\"]}", "has no effect if scripts"));
	CHECK(fails_with("{\"scripts\":\"no\"}", "packages.scripts: must be one of: allow, ask"));
	CHECK(fails_with("{\"search\":true}", "packages.search: must be one of: deny, allow"));
	CHECK(fails_with("{\"registries\":[\"nexus\"]}",
			 "packages.registries[0]: there is no registry 'nexus'"));
	CHECK(fails_with("{\"registries\":[\"npm\",\"npm\"]}", "registries[1]: is listed twice"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"npm\"}]}",
			 "packages.registries[0].host: is missing"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"rpm\",\"host\":\"a.test\"}]}",
			 "packages.registries[0].ecosystem: must be one of"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"1.2.3.4\"}]}",
			 "packages.registries[0].host: '1.2.3.4' is an address: give it a name"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"a.test:0\"}]}",
			 "is not HOST or HOST:PORT"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"a.test\","
			 "\"path\":\"x\"}]}",
			 "packages.registries[0].path"));
	CHECK(fails_with("{\"registries\":[{\"use\":\"npm\",\"host\":\"a.test\"}]}",
			 "packages.registries[0]: unknown member 'host'"));
}

static void errors_of_pins(void)
{
	CHECK(fails_with("{\"pins\":[]}", "packages.pins: must be an object"));
	CHECK(fails_with("{\"pins\":{\"requests\":[]}}", "packages.pins.requests: must be ECO"));
	CHECK(fails_with("{\"pins\":{\"npm:a@1\":[]}}", "packages.pins.npm:a@1: must be ECO"));
	CHECK(fails_with("{\"pins\":{\"npm:*\":[]}}", "packages.pins.npm:*: must be ECO"));
	CHECK(fails_with("{\"pins\":{\"npm:a\":\"1\"}}", "must be a list of versions"));
	CHECK(fails_with("{\"pins\":{\"npm:a\":[\"\"]}}", "does not begin with a version"));
	CHECK(fails_with("{\"pins\":{\"npm:a\":[\"1.0 md5:aa\"]}}", "is not a digest"));
	CHECK(fails_with("{\"pins\":{\"npm:a\":[\"1.0 "
			 "sha1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]}}",
			 "is too weak"));
}

/* ---- rules, one by one */

static void names_are_compared_in_normal_form(void)
{
	struct policy *p = make(NULL, NULL,
				"{\"deny\":[\"npm:left-pad@1.3.0\",\"pypi:Evil_Pkg\","
				"\"pypi:*-nightly\",\"npm:@bad/*\",\"cargo:a_b\",\"npm:c@1.*\"]}");

	CHECK(file_is(p, "npm:left-pad@1.3.0", "(packages.deny[0])"));
	CHECK(file_is(p, "npm:left-pad@1.3.1", NULL));
	CHECK(file_is(p, "npm:left-pad", "packages.deny[0]")); /* a version that is not told */
	CHECK(meta_is(p, "npm:left-pad", NULL));
	CHECK(file_is(p, "pypi:evil.pkg@1", "packages.deny[1]"));
	CHECK(meta_is(p, "pypi:EVIL--pkg", "packages.deny[1]"));
	CHECK(file_is(p, "pypi:torch_nightly@2", "packages.deny[2]"));
	CHECK(file_is(p, "npm:@bad/x@2", "packages.deny[3]"));
	CHECK(file_is(p, "npm:@ba/x@2", NULL));
	CHECK(file_is(p, "cargo:A-B@1", "packages.deny[4]"));
	CHECK(file_is(p, "npm:c@1.9", "packages.deny[5]"));
	CHECK(file_is(p, "npm:c@2.9", NULL));
	policy_free(p);
}

/* Whatever letters a name has: those that stand for a star while it is read are others. */
static void stars_are_where_they_were_written(void)
{
	struct policy *p = make(NULL, NULL,
				"{\"deny\":[\"npm:zqxa*\",\"npm:*zqxazqx\",\"pypi:ZQX_*-b\","
				"\"npm:zqstarqz-*\"]}");

	CHECK(file_is(p, "npm:zqxa1@1", "packages.deny[0]"));
	CHECK(file_is(p, "npm:zqx1@1", NULL));
	CHECK(file_is(p, "npm:1zqxazqx@1", "packages.deny[1]"));
	CHECK(file_is(p, "npm:1zqx@1", NULL));
	CHECK(file_is(p, "pypi:zqx-a.b@1", "packages.deny[2]"));
	CHECK(file_is(p, "npm:zqstarqz-1@1", "packages.deny[3]"));
	policy_free(p);
}

static void only_what_is_allowed(void)
{
	struct policy *p = make(NULL, NULL, "{\"allow\":[\"pypi:*\",\"npm:a@1.0\"]}");

	CHECK(file_is(p, "pypi:anything@1", NULL));
	CHECK(file_is(p, "npm:a@1.0", NULL));
	CHECK(file_is(p, "npm:a@1.1", "(packages.allow)"));
	CHECK(file_is(p, "npm:a", "(packages.allow)"));
	CHECK(meta_is(p, "npm:a", NULL));
	CHECK(meta_is(p, "npm:ab", "ab is not in the list of packages that this session allows"));
	policy_free(p);
}

static void own_names_are_nowhere_else(void)
{
	struct policy *p =
		make(NULL, NULL,
		     "{\"own\":[\"npm:@ours/*\"],\"registries\":[\"npm\",{\"ecosystem\":\"npm\","
		     "\"host\":\"npm.ours.example\",\"private\":true}]}");
	struct package_answer a = ask(p, NULL, "npm:@ours/x", PACKAGE_META, NULL);

	CHECK(has_words(&a, "@ours/x does not exist here") && a.is_absent);
	CHECK_STR(a.rule, "session packages.own");
	a = ask(p, "npm.ours.example", "npm:@ours/x", PACKAGE_META, NULL);
	CHECK(has_words(&a, NULL) && !a.is_absent);
	a = ask(p, "files.example", "npm:@ours/x@1", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, "does not exist here"));
	policy_free(p);
}

static struct package_facts aged(uint64_t age)
{
	return (struct package_facts){
		.version = "", .file = "", .has_time = true, .time_ms = NOW - age
	};
}

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

static void pins_fix_versions_and_digests(void)
{
	struct policy *p = make(NULL, NULL,
				"{\"mode\":\"pinned\",\"pins\":{\"pypi:Requests\":[\"2.32.3 " SHA_A
				" " SHA_B "\"],\"npm:a\":[\"1.0\"]}}");
	struct package_facts f = aged(DAY);
	struct package_answer a = ask(p, NULL, "pypi:requests@2.32.3", PACKAGE_FILE, NULL);
	struct digest one;

	CHECK(has_words(&a, NULL) && a.pins[POLICY_SESSION].n == 2);
	CHECK(digest_read(SHA_B, strlen(SHA_B), &one) && package_answer_accepts(&a, &one));
	one.bytes[31] ^= 1;
	CHECK(!package_answer_accepts(&a, &one));
	f.digest = one;
	a = ask(p, NULL, "pypi:requests@2.32.3", PACKAGE_FILE, &f);
	CHECK(has_words(&a, "requests 2.32.3 has another digest in the registry than its pin"));
	CHECK(file_is(p, "pypi:requests@2.32.4", "is not pinned"));
	CHECK(meta_is(p, "pypi:requests", NULL));
	CHECK(meta_is(p, "pypi:reqeusts", "is not pinned"));
	CHECK(file_is(p, "npm:a@1.0", NULL));
	CHECK(file_is(p, "pypi:", "pinned packages only"));
	policy_free(p);
}

#define SRI                                         \
	"sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/" \
	"SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="

static void lockfiles_become_pins(void)
{
	static const char lock[] =
		"{\\\"lockfileVersion\\\":3,\\\"packages\\\":{\\\"\\\":{},"
		"\\\"node_modules/a\\\":{\\\"version\\\":\\\"1.0.0\\\",\\\"resolved\\\":"
		"\\\"https://registry.npmjs.org/a/-/a-1.0.0.tgz\\\",\\\"integrity\\\":\\\"" SRI
		"\\\"}}}";
	char member[2048];
	struct package_answer a;
	struct policy *p;
	struct digest one;

	(void)snprintf(member, sizeof(member),
		       "{\"mode\":\"pinned\",\"lockfiles\":[{\"name\":\"package-lock.json\","
		       "\"text\":\"%s\"},{\"name\":\"requirements.txt\",\"text\":"
		       "\"Requests==2.32.3\\n\"}]}",
		       lock);
	p = make(NULL, NULL, member);
	a = ask(p, NULL, "npm:a@1.0.0", PACKAGE_FILE, NULL);
	CHECK(has_words(&a, NULL) && a.pins[POLICY_SESSION].n == 1);
	CHECK(digest_read(SRI, strlen(SRI), &one) && package_answer_accepts(&a, &one));
	CHECK(file_is(p, "npm:a@1.0.1", "is not pinned"));
	CHECK(file_is(p, "pypi:requests@2.32.3", NULL));
	policy_free(p);
	CHECK(fails_with("{\"lockfiles\":5}", "packages.lockfiles: must be a list"));
	CHECK(fails_with("{\"lockfiles\":[{\"name\":\"a.txt\",\"text\":\"\"}]}",
			 "packages.lockfiles[0].name: must be the name of a lockfile"));
	CHECK(fails_with("{\"lockfiles\":[{\"name\":\"package-lock.json\",\"text\":\"[\"}]}",
			 "packages.lockfiles[0] (package-lock.json)"));
	CHECK(fails_with("{\"lockfiles\":[{\"name\":\"go.sum\",\"txt\":\"[\"}]}",
			 "packages.lockfiles[0]: unknown member 'txt'"));
}

/* go.sum lists go.mod of modules that are not installed. */
static void go_mod_alone_is_pinned(void)
{
	struct policy *p =
		make(NULL, NULL,
		     "{\"mode\":\"pinned\",\"pins\":{\"go:example.com/m\":[\"v1.0.0/go.mod\"]}}");
	struct package_request r = request_of("go:example.com/m@v1.0.0", PACKAGE_FILEMETA);
	struct package_question q = { .request = &r, .now_ms = NOW };
	struct package_answer a;
	bool files;

	r.form = FORM_GO_MOD;
	q.registry = packages_registry(policy_packages(p), "proxy.golang.org", 443, "/", &files);
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, NULL));
	r.form = FORM_GO_ZIP;
	r.kind = PACKAGE_FILE;
	package_judge(policy_packages(p), &q, &a);
	CHECK(has_words(&a, "is not pinned"));
	policy_free(p);
}

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

/* ---- layers */

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

/* ---- rules of the network */

static enum policy_verdict asked(const struct policy *p, const char *host, uint16_t port,
				 const char *path, struct policy_answer *ret)
{
	const struct policy_target to = { .host = host, .port = port };
	const struct policy_request q = { .tls = port != 80, .method = "GET", .path = path };

	policy_ask(p, &to, &q, ret);
	return ret->verdict;
}

static struct policy *make_documents(const char *node, const char *session)
{
	const char *layers[POLICY_LAYERS] = { node, NULL, session };
	struct policy *p = NULL;
	struct err e = { 0 };
	char *merged = NULL;

	if (policy_merge(layers, &merged, &e) < 0 ||
	    policy_read(merged, strlen(merged), POLICY_LAYERS, &p, &e) < 0)
		printf("# %s\n", e.msg);
	free(merged);
	CHECK(p != NULL);
	return p;
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
	CHECK(asked(p, "deb.debian.org", 80, "/a", &a) == POLICY_PERMIT);
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

TEST_MAIN({ "errors_name_the_place", errors_name_the_place }, { "errors_of_pins", errors_of_pins },
	  { "names_are_compared_in_normal_form", names_are_compared_in_normal_form },
	  { "only_what_is_allowed", only_what_is_allowed },
	  { "own_names_are_nowhere_else", own_names_are_nowhere_else },
	  { "young_versions_wait", young_versions_wait },
	  { "first_sight_counts", first_sight_counts },
	  { "pins_fix_versions_and_digests", pins_fix_versions_and_digests },
	  { "lockfiles_become_pins", lockfiles_become_pins },
	  { "go_mod_alone_is_pinned", go_mod_alone_is_pinned },
	  { "code_needs_leave", code_needs_leave }, { "kinds_have_switches", kinds_have_switches },
	  { "lookups_of_checksums_are_judged", lookups_of_checksums_are_judged },
	  { "stars_are_where_they_were_written", stars_are_where_they_were_written },
	  { "registries_are_a_list", registries_are_a_list },
	  { "advisories_refuse", advisories_refuse },
	  { "layers_are_asked_one_by_one", layers_are_asked_one_by_one },
	  { "lower_registries_are_among_the_upper", lower_registries_are_among_the_upper },
	  { "lower_flags_loosen_nothing", lower_flags_loosen_nothing },
	  { "git_servers_have_no_times", git_servers_have_no_times },
	  { "a_layer_never_allows_more", a_layer_never_allows_more },
	  { "registries_open_their_hosts", registries_open_their_hosts },
	  { "offline_hosts_exist", offline_hosts_exist }, { "the_preset", the_preset },
	  { "ceilings_stay", ceilings_stay }, { "requests_are_read", requests_are_read },
	  { "unread_rules_are_errors_with_pins", unread_rules_are_errors_with_pins })
