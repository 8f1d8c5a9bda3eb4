/* Goal: the place that a registry redirects to is recognised as a request for it would be. Files at
 * a storage without names stay what they are. */
#include "support.h"

#include "egress/packages/package_redirect.h"
#include "package_policy.h"

#define REGISTRIES                                                                            \
	"{\"registries\":[\"github\",\"pypi\",\"maven\",\"go\",\"cargo\","                    \
	"{\"ecosystem\":\"oci\",\"host\":\"oci.example\",\"files\":[\"cdn.example\"]},"       \
	"{\"ecosystem\":\"cargo\",\"host\":\"cargo.example\",\"files\":[\"store.example\"]}," \
	"{\"ecosystem\":\"git\",\"host\":\"code.example\",\"files\":[\"files.example\"]}],"   \
	"\"deny\":[\"git:evil/*\"]}"
#define HEX64 "abababababababababababababababababababababababababababababababab"

/* url: without its scheme. */
static bool find(const struct policy *p, enum package_kind kind, const char *url,
		 struct package_place *ret)
{
	const char *path = strchr(url, '/');
	struct endpoint to = { .by_name = true, .port = 443 };

	(void)snprintf(to.host, sizeof(to.host), "%.*s", (int)(path - url), url);
	return package_redirect_place(policy_packages(p), &to, "GET", kind, path, ret);
}

static struct package_place place;

/* name NULL: it tells none. */
static void is_named(const struct policy *p, enum package_kind kind, const char *url,
		     const char *name)
{
	bool found = find(p, kind, url, &place);

	CHECK_CASE(url, found && place.is_named == (name != NULL));
	if (found && name != NULL && place.is_named)
		CHECK_STR(place.found.request.name, name);
}

static void names_are_found(void)
{
	struct policy *p = make(NULL, NULL, REGISTRIES);
	static const struct {
		const char *url, *name;
	} rows[] = {
		{ "github.com/evil/x/archive/refs/tags/1.0.tar.gz", "evil/x" },
		{ "github.com/evil%2Fx/archive/v1.zip", NULL },
		{ "codeload.github.com/evil/x/tar.gz/refs/tags/1.0", "evil/x" },
		{ "code.example/evil/x.git/info/refs?service=git-upload-pack", "evil/x" },
		{ "code.example/a/../evil/x/archive/v1.zip", "evil/x" },
		{ "oci.example/v2/evil/x/blobs/sha256:" HEX64, "evil/x" },
		{ "cdn.example/v2/evil/x/blobs/sha256:" HEX64, "evil/x" },
		{ "files.pythonhosted.org/packages/aa/evil-1.0-py3-none-any.whl", "evil" },
		{ "repo1.maven.org/maven2/org/evil/lib/1.0/lib-1.0.jar", "org.evil:lib" },
		/* a storage */
		{ "cdn.example/registry-v2/docker/registry/v2/blobs/sha256/ab/" HEX64
		  "/data?verify=1-x%3D",
		  NULL },
		{ "cdn.example/v2/blobs/" HEX64, NULL },
		{ "objects.githubusercontent.com/github-production-release-asset-2e65be/1/"
		  "b0e2b7a4-0000-0000-0000-000000000000?X-Amz-Algorithm=AWS4-HMAC-SHA256",
		  NULL },
		{ "release-assets.githubusercontent.com/github-production-release-asset/1/"
		  "b0e2?sp=r",
		  NULL },
		{ "store.example/ab/ab/" HEX64, NULL },
		{ "oci.example/storage/ab/cd", NULL },
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		is_named(p, PACKAGE_FILE, rows[i].url, rows[i].name);
	policy_free(p);
}

static void a_storage_is_not_judged(void)
{
	struct policy *p = make(NULL, NULL, REGISTRIES);

	/* what may be below the name of a denied repository is */
	CHECK(find(p, PACKAGE_FILE, "files.example/evil/x/raw/a", &place) && place.is_judged);
	/* what only resembles a request is, but not where a storage may have any paths */
	CHECK(find(p, PACKAGE_FILE, "code.example/evil/x//info/refs", &place));
	CHECK(place.is_judged && place.found.request.is_lookalike);
	CHECK(find(p, PACKAGE_FILE, "cdn.example/v2/x//blobs/y", &place));
	CHECK(!place.found.request.is_lookalike);
	CHECK(find(p, PACKAGE_FILE, "files.pythonhosted.org/storage/abc", &place));
	CHECK(!place.is_judged);
	CHECK(find(p, PACKAGE_FILE, "nowhere.example/storage/abc", &place) && !place.is_judged);
	policy_free(p);
}

static void malformed_places_are_refused(void)
{
	static const char *const urls[] = { "github.com/../x", "github.com/a%00b",
					    "github.com/a\\b", "github.com/a?b%0",
					    "github.com/a\x7f" };
	struct policy *p = make(NULL, NULL, REGISTRIES);

	for (size_t i = 0; i < COUNT(urls); i++)
		CHECK_CASE(urls[i], !find(p, PACKAGE_FILE, urls[i], &place));
	policy_free(p);
}

/* Of metadata, which sessions with different policies share. */
static void metadata_keeps_its_name(void)
{
	struct policy *p = make(
		NULL, NULL,
		"{\"registries\":[\"pypi\",\"go\",{\"ecosystem\":\"go\",\"host\":\"go.example\","
		"\"files\":[\"mirror.example\"]}]}");
	static const struct {
		const char *url;
		enum ecosystem eco;
		const char *name;
		bool renames;
	} rows[] = {
		{ "pypi.org/simple/demo/", ECO_PYPI, "demo", false },
		{ "pypi.org/simple/Demo/?x", ECO_PYPI, "demo", false },
		{ "pypi.org/simple/evil/", ECO_PYPI, "demo", true },
		{ "pypi.org/storage/evil", ECO_PYPI, "demo", false },
		{ "go.example/evil.com/x/@v/list", ECO_GO, "good.com/x", true },
		{ "mirror.example/goproxy/good.com/x/@v/list", ECO_GO, "good.com/x", false },
		{ "mirror.example/goproxy/evil.com/x/@v/list", ECO_GO, "good.com/x", true },
		{ "go.example/evil.com/x/@v/list", ECO_GO, "", false },
		{ "pypi.org/simple/demo/", ECO_NPM, "demo", true },
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		CHECK_CASE(rows[i].url,
			   find(p, PACKAGE_META, rows[i].url, &place) &&
				   package_redirect_renames(&place, rows[i].eco, rows[i].name) ==
					   rows[i].renames);
	policy_free(p);
}

TEST_MAIN({ "names_are_found", names_are_found },
	  { "a_storage_is_not_judged", a_storage_is_not_judged },
	  { "malformed_places_are_refused", malformed_places_are_refused },
	  { "metadata_keeps_its_name", metadata_keeps_its_name })
