/* Goal: only what pins or lockfiles name is installed, with the digests they name. */
#include "package_policy.h"

#include "lib/packages/digest.h"

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

TEST_MAIN({ "pins_fix_versions_and_digests", pins_fix_versions_and_digests },
	  { "lockfiles_become_pins", lockfiles_become_pins },
	  { "go_mod_alone_is_pinned", go_mod_alone_is_pinned })
