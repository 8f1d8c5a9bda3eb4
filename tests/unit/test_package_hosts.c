/* One package has one name: at each host of each registry that is built in, below any path of a
 * host whose layout is not known, and however a git server is asked for it. */
#include "test.h"

#include "package_policy.h"
#include "lib/policy/package_recognise.h"

#define EVERYTHING                                                                       \
	"{\"registries\":[\"pypi\",\"npm\",\"yarn\",\"cargo\",\"go\",\"gem\",\"maven\"," \
	"\"debian\","                                                                    \
	"\"ubuntu\",\"github\",\"gitlab\"],\"deny\":[\"pypi:evil\",\"npm:@evil/"         \
	"x\",\"cargo:evil\","                                                            \
	"\"go:evil.com/x\",\"gem:evil\",\"maven:org.evil:*\",\"apt:evil\",\"git:evil/*\"]}"

/* As package_gate.c of cordon-egress asks. url: without its scheme. */
static struct package_answer ask_url(const struct policy *p, const char *method, const char *url)
{
	const struct packages_policy *all = policy_packages(p);
	const char *path = strchr(url, '/'), *query = strchr(url, '?');
	char host[128], text[512];
	struct package_target t = { .host = host, .port = 443, .method = method, .path = text };
	struct package_question q = { .now_ms = NOW };
	struct package_answer a = { .verdict = PACKAGE_BY_RULES };
	struct package_found f;

	(void)snprintf(host, sizeof(host), "%.*s", (int)(path - url), url);
	(void)snprintf(text, sizeof(text), "%.*s",
		       (int)(query == NULL ? strlen(path) : (size_t)(query - path)), path);
	t.query = query == NULL ? NULL : query + 1;
	if (!package_recognise(all, &t, &f))
		return a;
	q.registry = f.registry;
	q.request = &f.request;
	q.path = f.path;
	q.prefix = f.prefix;
	q.git_starts = f.git_starts;
	q.direct = f.has_direct ? &f.direct : NULL;
	q.is_loose = f.is_loose;
	package_judge(all, &q, &a);
	return a;
}

static void refuses(const struct policy *p, const char *const *urls, size_t n, const char *words)
{
	for (size_t i = 0; i < n; i++) {
		bool posts = strncmp(urls[i], "POST ", 5) == 0;
		struct package_answer a =
			ask_url(p, posts ? "POST" : "GET", urls[i] + (posts ? 5 : 0));

		if (a.verdict != PACKAGE_REFUSE || strstr(a.reason, words) == NULL)
			printf("# %s: verdict %d, %s\n", urls[i], a.verdict, a.reason);
		CHECK(a.verdict == PACKAGE_REFUSE && strstr(a.reason, words) != NULL);
	}
}

static void every_host_has_the_same_names(void)
{
	static const char *const urls[] = {
		"pypi.org/simple/evil/",
		"files.pythonhosted.org/packages/aa/evil-1.0-py3-none-any.whl",
		"registry.npmjs.org/@evil%2Fx",
		"registry.npmjs.org/@evil/x/-/x-1.0.0.tgz",
		"registry.yarnpkg.com/@evil/x/-/x-1.0.0.tgz",
		"index.crates.io/ev/il/evil",
		"static.crates.io/crates/evil/evil-1.0.0.crate",
		"crates.io/api/v1/crates/evil/1.0.0/download",
		"proxy.golang.org/evil.com/x/@v/v1.0.0.zip",
		"sum.golang.org/lookup/evil.com/x@v1.0.0",
		"rubygems.org/gems/evil-1.0.gem",
		"index.rubygems.org/gems/evil-1.0.gem",
		"repo.maven.apache.org/maven2/org/evil/lib/1.0/lib-1.0.jar",
		"repo1.maven.org/maven2/org/evil/lib/1.0/lib-1.0.jar",
		"repo1.maven.org/maven2/org/evil/lib/1.0/lib-1.0.pom",
		"deb.debian.org/debian/pool/main/e/evil/evil_1.0_amd64.deb",
		"security.debian.org/debian-security/pool/evil_1.0_amd64.deb",
		"archive.ubuntu.com/ubuntu/pool/evil_1.0_amd64.deb",
		"security.ubuntu.com/ubuntu/pool/evil_1.0_amd64.deb",
		"ports.ubuntu.com/pool/evil_1.0_amd64.deb",
		"github.com/evil/x.git/info/refs?service=git-upload-pack",
		"codeload.github.com/evil/x/tar.gz/refs/heads/a/b",
		"raw.githubusercontent.com/evil/x/main/install.sh",
		"media.githubusercontent.com/media/evil/x/main/model.bin",
		"api.github.com/repos/evil/x/tarball/main",
		"api.github.com/repos/evil/x/contents/setup.py",
		"gitlab.com/evil/x/-/archive/main/x-main.tar.gz",
	};
	struct policy *p = make(NULL, NULL, EVERYTHING);
	static const char *const outside[] = {
		"repo1.maven.org/org/evil/lib/1.0/lib-1.0.jar",
		"repo1.maven.org/other/lib/1.0/lib-1.0.jar",
		"repo.maven.apache.org//maven2/a/lib/1.0/lib-1.0.jar",
		"repo.maven.apache.org/Maven2/a/lib/1.0/lib-1.0.jar"
	};

	refuses(p, urls, COUNT(urls), "is denied by the policy of this session");
	refuses(p, outside, COUNT(outside), "no known request of a package manager");
	policy_free(p);
}

/* Whatever is below the name of a repository that is denied. */
static void a_denied_repository_has_no_pages(void)
{
	static const char *const urls[] = {
		"github.com/evil/x",
		"github.com/evil/x/raw/main/a.sh",
		"github.com/Evil//X/blob/main/a",
		"github.com/evil%2Fx/tree/main",
		"github.com/evil/x.git/whatever",
		"github.com/evil/x/raw/main/other-1.0.0.tgz",
		"github.com/evil/x/releases/latest/download/tool.tgz",
		"gitlab.com/api/v4/projects/evil%2Fx/repository/files/a/raw",
	};
	struct policy *p = make(NULL, NULL, EVERYTHING);

	refuses(p, urls, COUNT(urls), "is denied by the policy of this session");
	CHECK(ask_url(p, "GET", "github.com/good/x").verdict == PACKAGE_BY_RULES);
	CHECK(ask_url(p, "GET", "github.com/good/x/blob/main/evil/x").verdict == PACKAGE_BY_RULES);
	policy_free(p);
}

static void what_looks_like_a_request_is_refused(void)
{
	static const char *const urls[] = {
		"github.com/good/x.git/info/refs?service=git-upload-pack&a=1",
		"POST github.com/good/x.git/git-upload-pack?a=1",
		"POST github.com/good//x.git/git-upload-pack",
		"images.example/v2/good/x/manifests/latest?ns=docker.io",
		"images.example/v2/good//x/manifests/latest",
		"any.example/good.com/x/@v/v1.0.0.zip?x",
		"any.example/good.com/x/@v//v1.0.0.zip",
	};
	struct policy *p = make(NULL, NULL,
				"{\"registries\":[\"github\",{\"ecosystem\":\"oci\",\"host\":"
				"\"images.example\"}]}");

	refuses(p, urls, COUNT(urls), "no known request of a package manager");
	CHECK(ask_url(p, "GET", "github.com/good/x/blob/main/README").verdict == PACKAGE_BY_RULES);
	CHECK(ask_url(p, "GET", "images.example/ui/").verdict == PACKAGE_BY_RULES);
	policy_free(p);
}

/* A host whose layout is not known: what stands before a name may be part of it, or not. */
static void refusals_hold_below_any_path(void)
{
	static const char *const denied[] = {
		"mirror.example/repository/maven2/org/evil/lib/1.0/lib-1.0.jar",
		"files.example/some/org/evil/lib/1.0/lib-1.0.jar",
		"files.example/m/org/evil/lib/1.0/lib-1.0.jar",
		"mirror.example/goproxy/evil.com/x/@v/v1.0.0.zip",
		"mirror.example/npm/@evil/x/-/x-1.0.0.tgz",
		"mirror.example/scm/evil/x.git/info/refs?service=git-upload-pack",
	};
	static const char *const own[] = {
		"files.example/some/com/corp/lib/1.0/lib-1.0.jar",
		"mirror.example/goproxy/corp.com/x/@v/list",
	};
	struct policy *p = make(
		NULL, NULL,
		"{\"registries\":[{\"ecosystem\":\"maven\",\"host\":\"maven.example\",\"path\":\"/"
		"m/\","
		"\"files\":[\"files.example\"]}],\"own\":[\"maven:com.corp:*\",\"go:corp.com/*\"],"
		"\"deny\":[\"npm:@evil/x\",\"go:evil.com/x\",\"maven:org.evil:*\",\"git:evil/"
		"*\"]}");

	refuses(p, denied, COUNT(denied), "is denied by the policy of this session");
	refuses(p, own, COUNT(own), "does not exist here");
	policy_free(p);
}

/* An entry of a lower layer cannot make pages of the packages that a layer above judges. */
static void no_entry_hides_a_built_in_registry(void)
{
	static const char *const urls[] = { "static.crates.io/crates/evil/1.0.0/download",
					    "index.crates.io/ev/il/evil" };
	struct policy *p = make(
		"{\"deny\":[\"cargo:evil\"]}", NULL,
		"{\"registries\":[{\"ecosystem\":\"git\",\"host\":\"static.crates.io\"},"
		"{\"ecosystem\":\"oci\",\"host\":\"x.example\",\"files\":[\"index.crates.io\"]}]}");

	refuses(p, urls, COUNT(urls), "is ");
	policy_free(p);
}

/* The path of an entry says which requests it answers for, never what a package is called: else a
 * session could give a package that a layer above refuses, or does not allow, another name. */
static void no_entry_gives_another_name(void)
{
	static const struct {
		const char *entry, *url;
	} rows[] = {
		{ "git\",\"host\":\"github.com\",\"path\":\"/evil/",
		  "github.com/evil/x/info/refs?service=git-upload-pack" },
		{ "git\",\"host\":\"github.com\",\"path\":\"/evil/",
		  "POST github.com/evil/x/git-upload-pack" },
		{ "git\",\"host\":\"github.com\",\"path\":\"/evil/",
		  "github.com/evil/x/raw/main/a.sh" },
		{ "git\",\"host\":\"github.com\",\"path\":\"/evil/x/",
		  "github.com/evil/x/archive/refs/tags/v1.zip" },
		{ "git\",\"host\":\"code.example\",\"path\":\"/scm/evil/",
		  "code.example/scm/evil/x/info/refs?service=git-upload-pack" },
		{ "git\",\"host\":\"code.example\",\"path\":\"/scm/evil/",
		  "code.example/scm/evil/x/raw/main/a.sh" },
		{ "git\",\"host\":\"code.example\",\"path\":\"/evil/x/",
		  "code.example/evil/x/archive/main.zip" },
		{ "oci\",\"host\":\"github.com\",\"path\":\"/", "github.com/evil/x/raw/main/a.sh" },
		{ "apt\",\"host\":\"github.com\",\"path\":\"/",
		  "github.com/evil/x/raw/main/a_1.0_amd64.deb" },
		{ "apt\",\"host\":\"github.com\",\"path\":\"/",
		  "github.com/evil/x/raw/main/Packages" },
		{ "go\",\"host\":\"proxy.golang.org\",\"path\":\"/evil.com/",
		  "proxy.golang.org/evil.com/x/@v/v1.0.0.zip" },
		{ "go\",\"host\":\"proxy.golang.org:8443\",\"path\":\"/evil.com/",
		  "proxy.golang.org/evil.com/x/@v/v1.0.0.zip" },
		{ "go\",\"host\":\"proxy.example\",\"path\":\"/go/!ab.com/",
		  "proxy.example/go/!ab.com/x/@v/v1.0.0.zip" },
		{ "go\",\"host\":\"a.example\",\"files\":[\"proxy.golang.org\"],\"path\":\"/"
		  "evil.com/",
		  "proxy.golang.org/evil.com/x/@v/v1.0.0.zip" },
		{ "npm\",\"host\":\"registry.npmjs.org\",\"path\":\"/@evil/",
		  "registry.npmjs.org/@evil/x/-/x-1.0.0.tgz" },
		{ "maven\",\"host\":\"repo.maven.apache.org\",\"path\":\"/maven2/org/",
		  "repo.maven.apache.org/maven2/org/evil/lib/1.0/lib-1.0.jar" },
		{ "maven\",\"host\":\"repo.maven.apache.org\",\"path\":\"/",
		  "repo.maven.apache.org/maven2/org/evil/lib/1.0/lib-1.0.jar" },
		{ "go\",\"host\":\"proxy.example\",\"path\":\"/",
		  "proxy.example/go/evil.com/x/@v/v1.0.0.zip" },
		{ "git\",\"host\":\"code.example\",\"path\":\"/",
		  "code.example/scm/evil/x/info/refs?service=git-upload-pack" },
		{ "npm\",\"host\":\"code.example\",\"path\":\"/evil/x/archive/",
		  "code.example/evil/x/archive/main.zip" },
		{ "npm\",\"host\":\"code.example\",\"path\":\"/v2/evil/x/",
		  "code.example/v2/evil/x/manifests/latest" },
		{ "oci\",\"host\":\"media.githubusercontent.com\",\"path\":\"/",
		  "media.githubusercontent.com/media/evil/x/main/m.bin" },
		{ "apt\",\"host\":\"files.pythonhosted.org\",\"path\":\"/",
		  "files.pythonhosted.org/packages/aa/evil_pkg-1.0.tar.gz" },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char entry[512];
		struct policy *p;

		(void)snprintf(entry, sizeof(entry), "{\"registries\":[{\"ecosystem\":\"%s\"}]}",
			       rows[i].entry);
		p = make("{\"deny\":[\"git:evil/*\",\"go:evil.com/*\",\"go:Ab.com/*\",\"npm:@evil/"
			 "*\","
			 "\"maven:org.evil:*\",\"pypi:evil-pkg\",\"oci:evil/*\"]}",
			 NULL, entry);
		refuses(p, &rows[i].url, 1, "is ");
		policy_free(p);
	}
}

/* Nor does it make a name that a layer above allows. */
static void no_entry_makes_an_allowed_name(void)
{
	static const char *const urls[] = {
		"proxy.golang.org/other.com/ours.com/x/@v/v1.0.0.zip",
		"gitlab.com/other/ours/x/info/refs?service=git-upload-pack",
		"registry.npmjs.org/@other/ours/-/ours-1.0.0.tgz",
	};
	struct policy *p = make(
		NULL, "{\"allow\":[\"go:ours.com/*\",\"git:ours/*\",\"npm:ours\"]}",
		"{\"registries\":["
		"{\"ecosystem\":\"go\",\"host\":\"proxy.golang.org\",\"path\":\"/other.com/\"},"
		"{\"ecosystem\":\"git\",\"host\":\"gitlab.com\",\"path\":\"/other/\"},"
		"{\"ecosystem\":\"npm\",\"host\":\"registry.npmjs.org\",\"path\":\"/@other/\"}]}");

	refuses(p, urls, COUNT(urls), "is not in the list of packages");
	policy_free(p);
}

/* A path still says for which requests an entry opens its host. */
static void the_path_of_an_entry_narrows_it(void)
{
	struct policy *p = make(NULL, NULL,
				"{\"registries\":[{\"ecosystem\":\"git\",\"host\":\"github.com\","
				"\"path\":\"/ours/\",\"unknown_age\":\"allow\"}],"
				"\"allow\":[\"git:ours/*\"]}");
	static const char *const others[] = {
		"github.com/other/x/info/refs?service=git-upload-pack"
	};

	CHECK(ask_url(p, "GET", "github.com/ours/x/info/refs?service=git-upload-pack").verdict ==
	      PACKAGE_ALLOW);
	refuses(p, others, COUNT(others), "is not among the registries of this policy");
	policy_free(p);
}

/* Nothing but the manifest tells the tag of an image. */
static void a_tag_of_an_image_is_denied(void)
{
	static const char *const tags[] = { "images.example/v2/lib/x/manifests/bad" };
	struct policy *p = make("{\"deny\":[\"oci:lib/x@bad\"]}", NULL,
				"{\"registries\":[{\"ecosystem\":\"oci\",\"host\":"
				"\"images.example\"}]}");

	refuses(p, tags, COUNT(tags), "is denied by the policy of this node");
	CHECK(ask_url(p, "GET", "images.example/v2/lib/x/manifests/good").verdict == PACKAGE_ALLOW);
	policy_free(p);
}

static void archives_of_an_api_are_refused(void)
{
	static const char *const urls[] = {
		"gitlab.com/api/v4/projects/1/repository/archive",
		"gitlab.com/api/v4/projects/1/repository/archive.tar.gz?sha=main",
		"gitlab.com/good/x/repository/archive.zip",
	};
	struct policy *p = make(NULL, NULL, "{\"registries\":[\"gitlab\"]}");

	refuses(p, urls, COUNT(urls), "no known request of a package manager");
	CHECK(ask_url(p, "GET", "gitlab.com/api/v4/projects/1/repository/files/archive/raw")
		      .verdict == PACKAGE_BY_RULES);
	policy_free(p);
}

TEST_MAIN({ "every_host_has_the_same_names", every_host_has_the_same_names },
	  { "a_denied_repository_has_no_pages", a_denied_repository_has_no_pages },
	  { "what_looks_like_a_request_is_refused", what_looks_like_a_request_is_refused },
	  { "refusals_hold_below_any_path", refusals_hold_below_any_path },
	  { "no_entry_hides_a_built_in_registry", no_entry_hides_a_built_in_registry },
	  { "no_entry_gives_another_name", no_entry_gives_another_name },
	  { "no_entry_makes_an_allowed_name", no_entry_makes_an_allowed_name },
	  { "the_path_of_an_entry_narrows_it", the_path_of_an_entry_narrows_it },
	  { "a_tag_of_an_image_is_denied", a_tag_of_an_image_is_denied },
	  { "archives_of_an_api_are_refused", archives_of_an_api_are_refused })
