/* Goal: egress asks a registry for the right document, and an address that leaves the registry is
 * never taken for one of its own. */
#include "egress/packages/package_redirect.h"
#include "egress/packages/package_source.h"

#include "support.h"

static const struct package_host files[] = { { "files.example", 0 }, { "cdn.example", 8443 } };
static const struct package_registry registry = { .ecosystem = ECO_NPM,
						  .name = "r",
						  .host = { "npm.example", 0 },
						  .path = "/p/",
						  .files = files,
						  .nfiles = 2 };

static const char *target(enum ecosystem eco, const char *name, const char *version)
{
	static struct package_source source;
	struct package_request q = { .ecosystem = eco };

	memcpy(q.name, name, strlen(name) + 1);
	memcpy(q.written, name, strlen(name) + 1);
	memcpy(q.version, version, strlen(version) + 1);
	return package_source_of(&registry, &q, &source) ? source.target : "";
}

static void finds_documents(void)
{
	static const struct {
		enum ecosystem eco;
		const char *name, *version, *want;
	} rows[] = {
		{ ECO_NPM, "left", "1.0", "/p/left" },
		{ ECO_NPM, "@s/left", "", "/p/@s%2fleft" },
		{ ECO_PYPI, "demo", "", "/p/simple/demo/" },
		{ ECO_CARGO, "a", "", "/p/1/a" },
		{ ECO_CARGO, "ab", "", "/p/2/ab" },
		{ ECO_CARGO, "Abc", "", "/p/3/a/abc" },
		{ ECO_CARGO, "Serde_json", "", "/p/se/rd/serde_json" },
		{ ECO_GO, "example.com/Mod", "v1.0.0", "/p/example.com/!mod/@v/v1.0.0.info" },
		{ ECO_GO, "example.com/Mod", "", "/p/example.com/!mod/@v/list" },
		{ ECO_GEM, "rack", "", "/p/info/rack" },
		{ ECO_APT, "hello", "1", "" },
		{ ECO_NPM, "", "1", "" },
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		CHECK_STR(target(rows[i].eco, rows[i].name, rows[i].version), rows[i].want);
}

static void knows_its_hosts(void)
{
	static const struct {
		const char *url;
		bool held;
	} rows[] = {
		{ "https://npm.example/x", true },
		{ "HTTPS://NPM.EXAMPLE/x", true },
		{ "https://files.example:443/x", true },
		{ "https://cdn.example:8443/x?y", true },
		{ "/x", true },
		{ "../x/y.whl", true },
		{ "y.whl#sha256=00", true },
		{ "https://cdn.example/x", false },
		{ "https://npm.example:444/x", false },
		{ "http://npm.example/x", false },
		{ "//npm.example/x", false },
		{ "//evil.example/x", false },
		{ "https://evil.example/x", false },
		{ "https://npm.example@evil.example/x", false },
		{ "https://npm.example.evil.example/x", false },
		{ "https://npm.example:443@evil.example/", false },
		{ "https:\\\\evil.example/x", false },
		{ "\\\\evil.example/x", false },
		{ "https://", false },
		{ "https://198.18.0.5/x", false },
		{ "https://npm.example:99999/x", false },
		{ "data:text/html,x", false },
		{ "javascript:alert(1)", false },
	};
	struct package_hosts h;

	CHECK(package_hosts_copy(&h, &registry, true) == 0);
	for (size_t i = 0; i < COUNT(rows); i++)
		CHECK_CASE(rows[i].url,
			   package_hosts_hold(&h, rows[i].url, NULL, NULL) == rows[i].held);
	package_hosts_release(&h);
}

static void splits_addresses(void)
{
	struct endpoint to = { .port = 1 };
	struct package_hosts h;
	const char *rest;

	CHECK(package_hosts_copy(&h, &registry, true) == 0);
	CHECK(package_hosts_hold(&h, "https://cdn.example:8443/a/b?c", &to, &rest));
	CHECK_STR(to.host, "cdn.example");
	CHECK(to.port == 8443);
	CHECK_STR(rest, "/a/b?c");
	CHECK(package_hosts_hold(&h, "https://files.example", &to, &rest));
	CHECK_STR(rest, "/");
	package_hosts_release(&h);
}

/* Keys of the cache: what came in the clear is not what came over TLS, at any port; and the longest
 * entry of a policy fits. */
static void names_a_registry_for_the_cache(void)
{
	static char host[HOST_MAX], path[PACKAGE_REGISTRY_PATH_MAX];
	struct package_registry r = { .ecosystem = ECO_MAVEN,
				      .host = { host, 65535 },
				      .path = path };
	char text[PACKAGE_REGISTRY_TEXT], plain[PACKAGE_REGISTRY_TEXT];

	package_registry_text(&registry, true, text);
	CHECK_STR(text, "npm https://npm.example:443/p/");
	package_registry_text(&(struct package_registry){ .ecosystem = ECO_NPM,
							  .host = { "npm.example", 443 },
							  .path = "/p/" },
			      false, plain);
	CHECK_STR(plain, "npm http://npm.example:443/p/");
	memset(host, 'h', sizeof(host) - 1);
	memset(path, '/', sizeof(path) - 1);
	package_registry_text(&r, true, text);
	CHECK(strlen(text) == strlen("maven https://:65535") + strlen(host) + strlen(path));
	CHECK(strlen(text) < CACHE_REGISTRY_MAX);
}

static void follows_redirects(void)
{
	static const struct {
		const char *location, *host, *target; /* target NULL: not followed */
	} rows[] = {
		{ "/b?c", "npm.example", "/b?c" },
		{ "https://files.example/b#part", "files.example", "/b" },
		{ "https://cdn.example:8443", "cdn.example", "/" },
		{ "", "npm.example", NULL },
		{ "b", "npm.example", NULL },
		{ "http://npm.example/b", "npm.example", NULL },
		{ "https://evil.example/b", "npm.example", NULL },
		{ "//evil.example/b", "npm.example", NULL },
		{ "/b c", "npm.example", NULL },
		{ "/b\r\nX: y", "npm.example", NULL },
	};
	struct package_hosts h;

	CHECK(package_hosts_copy(&h, &registry, true) == 0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct endpoint to = { .by_name = true, .host = "npm.example", .port = 443 };
		char target[PACKAGE_REDIRECT_TARGET_MAX] = "/a", why[POLICY_REASON_MAX] = "";
		unsigned count = 0;

		CHECK_CASE(rows[i].location,
			   package_redirect_read(&h, rows[i].location, &count, &to, target, why) ==
				   (rows[i].target != NULL));
		CHECK_STR(target, rows[i].target != NULL ? rows[i].target : "/a");
		CHECK_STR(to.host, rows[i].host);
		CHECK((why[0] == '\0') == (rows[i].target != NULL));
		count = PACKAGE_REDIRECTS_MAX;
		CHECK(!package_redirect_read(&h, "/b", &count, &to, target, why));
		CHECK_STR(why, "the registry redirects too often");
	}
	package_hosts_release(&h);
	CHECK(package_redirect_is(302) && package_redirect_is(308));
	CHECK(!package_redirect_is(300) && !package_redirect_is(304) && !package_redirect_is(305));
}

TEST_MAIN({ "follows_redirects", follows_redirects }, { "finds_documents", finds_documents },
	  { "knows_its_hosts", knows_its_hosts }, { "splits_addresses", splits_addresses },
	  { "names_a_registry_for_the_cache", names_a_registry_for_the_cache })
