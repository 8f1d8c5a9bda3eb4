/* packages_registry.c - theory of operation
 *
 * Registries: the table of built-in registries, the list of a layer, and the search for the
 * registry of a request. Lists are short (PACKAGE_REGISTRIES_MAX), so they are searched from the
 * front. A built-in registry that no layer lists is still found, after all others. So its packages
 * are judged wherever rules let a request to it pass. */
#include "lib/policy/packages_private.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/units.h"
#include "lib/policy/path.h"

#define HOSTS(...)                                             \
	.files = (const struct package_host[]){ __VA_ARGS__ }, \
	.nfiles =                                              \
		sizeof((const struct package_host[]){ __VA_ARGS__ }) / sizeof(struct package_host)
#define BUILT_IN(eco, word, server) \
	.ecosystem = (eco), .name = (word), .host = { (server), 0, NULL }, .is_implicit = true

/* The archives of distributions are signed and have no times, so their packages count as old
 * enough. A git server has no times, either. A list with a git server gives it this flag for its
 * own layer. */
static const struct packages_entry built_in[] = {
	{ .registry = { BUILT_IN(ECO_PYPI, "pypi", "pypi.org"), .path = "/",
			HOSTS({ "files.pythonhosted.org", 0, "/" }) } },
	{ .registry = { BUILT_IN(ECO_NPM, "npm", "registry.npmjs.org"), .path = "/" } },
	{ .registry = { BUILT_IN(ECO_NPM, "yarn", "registry.yarnpkg.com"), .path = "/",
			HOSTS({ "registry.npmjs.org", 0, "/" }) } },
	{ .registry = { BUILT_IN(ECO_CARGO, "cargo", "index.crates.io"), .path = "/",
			HOSTS({ "static.crates.io", 0, "/" }, { "crates.io", 0, "/" }) } },
	{ .registry = { BUILT_IN(ECO_GO, "go", "proxy.golang.org"), .path = "/",
			.sumdb = "sum.golang.org", HOSTS({ "sum.golang.org", 0, "/" }) } },
	{ .registry = { BUILT_IN(ECO_GEM, "gem", "rubygems.org"), .path = "/",
			HOSTS({ "index.rubygems.org", 0, "/" }) } },
	{ .registry = { BUILT_IN(ECO_MAVEN, "maven", "repo.maven.apache.org"), .path = "/maven2/",
			HOSTS({ "repo1.maven.org", 0, "/maven2/" }) } },
	{ .registry = { BUILT_IN(ECO_APT, "debian", "deb.debian.org"), .path = "/",
			HOSTS({ "security.debian.org", 0, "/" }) },
	  .says_unknown_age = true,
	  .unknown_age = { true, true, true } },
	{ .registry = { BUILT_IN(ECO_APT, "ubuntu", "archive.ubuntu.com"), .path = "/",
			HOSTS({ "security.ubuntu.com", 0, "/" }, { "ports.ubuntu.com", 0, "/" }) },
	  .says_unknown_age = true,
	  .unknown_age = { true, true, true } },
	{ .registry = { BUILT_IN(ECO_GIT, "github", "github.com"), .path = "/",
			HOSTS({ "codeload.github.com", 0, "/" },
			      { "objects.githubusercontent.com", 0, "/" },
			      { "release-assets.githubusercontent.com", 0, "/" },
			      { "raw.githubusercontent.com", 0, "/" },
			      { "media.githubusercontent.com", 0, "/media/" },
			      { "api.github.com", 0, "/repos/" }) },
	  .says_unknown_age = true },
	{ .registry = { BUILT_IN(ECO_GIT, "gitlab", "gitlab.com"), .path = "/" },
	  .says_unknown_age = true },
};

_Static_assert(PACKAGE_REGISTRY_PATH_MAX == PATH_PATTERN_MAX + 1, "a path, a slash, and NUL");

/* ---- built-in registries */

/* port 0: any. Requests in plain HTTP are recognised, too, where a rule lets them pass. */
static bool fits_host(const struct package_host *h, const char *host, uint16_t port)
{
	if (strcmp(h->name, host) != 0)
		return false;
	if (port == 0 || h->port != 0)
		return port == 0 || h->port == port;
	return port == 443 || port == 80;
}

/* The prefix of paths at a host of a built-in registry with the same ecosystem. Names are the same
 * for every policy, whatever path an entry has. NULL: none, or unknown. */
static const char *known_prefix(enum ecosystem eco, const char *host)
{
	for (size_t i = 0; i < COUNT(built_in); i++) {
		const struct package_registry *r = &built_in[i].registry;

		if (r->ecosystem != eco)
			continue;
		if (fits_host(&r->host, host, 0))
			return r->path;
		for (size_t k = 0; k < r->nfiles; k++)
			if (fits_host(&r->files[k], host, 0))
				return r->files[k].path;
	}
	return NULL;
}

/* ---- reading */

static const struct packages_entry *find_word(const char *word)
{
	for (size_t i = 0; i < COUNT(built_in); i++)
		if (strcmp(built_in[i].registry.name, word) == 0)
			return &built_in[i];
	return NULL;
}

static int no_word(const char *at, const char *word, struct err *e)
{
	char known[128] = "";

	for (size_t i = 0; i < COUNT(built_in); i++)
		(void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			       i == 0 ? "" : ", ", built_in[i].registry.name);
	return policy_value_fail(e, at, "", "there is no registry '%.40s'; there are %s", word,
				 known);
}

/* Read HOST or HOST:PORT. */
static int read_host(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		     const char *name, struct package_host *ret, struct err *e)
{
	const char *text = NULL, *colon;
	char host[HOST_MAX];
	uint64_t port = 0;
	struct err why;
	struct ip ip;
	size_t n;

	if (v == NULL)
		return policy_value_fail(e, at, name, "is missing");
	if (policy_value_text(v, HOST_MAX + 6, at, name, &text, e) < 0)
		return -1;
	colon = strchr(text, ':');
	n = colon == NULL ? strlen(text) : (size_t)(colon - text);
	if (ip_read(text, n, &ip) == 0 || text[0] == '[')
		return policy_value_fail(
			e, at, name,
			"'%.80s' is an address: give it a name, which a registry's "
			"certificate has",
			text);
	if (host_normal(text, n, host) < 0 ||
	    (colon != NULL && units_count(colon + 1, 1, 65535, &port, &why) < 0))
		return policy_value_fail(e, at, name, "'%.80s' is not HOST or HOST:PORT", text);
	ret->port = (uint16_t)port;
	ret->name = package_arena_keep(p, a, host, strlen(host));
	return ret->name == NULL ? policy_no_memory(e) : 0;
}

static int read_files(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		      struct package_registry *r, struct err *e)
{
	size_t n = json_array_size(v);
	struct package_host *hosts;

	if (v == NULL)
		return 0;
	if (!json_is_array(v) || n > PACKAGE_FILE_HOSTS_MAX)
		return policy_value_fail(e, at, "files", "must be a list of at most %d hosts",
					 PACKAGE_FILE_HOSTS_MAX);
	hosts = policy_alloc(p, n, sizeof(*hosts));
	if (hosts == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++)
		if (read_host(p, a, json_array_get(v, i), at, "files", &hosts[i], e) < 0)
			return -1;
	r->files = hosts;
	r->nfiles = n;
	return 0;
}

/* The path is kept with a final slash, so that "/simple" does not match "/simpler". */
static int read_path(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		     struct package_registry *r, struct err *e)
{
	const char *text = "/";
	struct err why;
	size_t n;

	if (policy_value_text(v, PACKAGE_REGISTRY_PATH_MAX - 2, at, "path", &text, e) < 0)
		return -1;
	n = strlen(text);
	if (strchr(text, '*') != NULL || path_pattern_check(text, &why) < 0)
		return policy_value_fail(e, at, "path", "must be a path such as /simple/");
	r->path = package_arena_keep(p, a, text, n);
	if (r->path != NULL && text[n - 1] != '/') {
		char whole[PACKAGE_REGISTRY_PATH_MAX];

		(void)snprintf(whole, sizeof(whole), "%s/", text);
		r->path = package_arena_keep(p, a, whole, n + 1);
	}
	return r->path == NULL ? policy_no_memory(e) : 0;
}

static int read_ecosystem(const json_t *v, const char *at, enum ecosystem *ret, struct err *e)
{
	const char *text = json_string_value(v);

	if (text == NULL || !ecosystem_read(text, strlen(text), ret))
		return policy_value_fail(e, at, "ecosystem",
					 "must be one of: pypi, npm, apt, cargo, go, git, oci, "
					 "maven, gem");
	return 0;
}

int packages_unverified_read(const json_t *v, const char *at, enum packages_unverified *ret,
			     struct err *e)
{
	static const char *const words[] = { "allow", "deny" };
	const json_t *given = json_object_get(v, "unverified");
	size_t word = 0;

	if (given == NULL)
		return 0;
	if (policy_value_word(given, words, COUNT(words), at, "unverified", &word, e) < 0)
		return -1;
	*ret = word == 0 ? UNVERIFIED_ALLOW : UNVERIFIED_DENY;
	return 0;
}

/* Read the name of Go's checksum database, a host. */
static int read_sumdb(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		      struct package_registry *r, struct err *e)
{
	struct package_host host = { 0 };

	if (v == NULL)
		return 0;
	if (r->ecosystem != ECO_GO)
		return policy_value_fail(e, at, "sumdb", "has no effect: only go has one");
	if (read_host(p, a, v, at, "sumdb", &host, e) < 0)
		return -1;
	if (host.port != 0)
		return policy_value_fail(e, at, "sumdb", "must be a host without a port");
	r->sumdb = host.name;
	return 0;
}

/* Absent flags keep their value, which may come from the built-in entry. */
static int read_flags(const json_t *v, const char *at, struct packages_entry *ret, struct err *e)
{
	static const char *const words[] = { "deny", "allow" };
	size_t age = ret->says_unknown_age ? 1 : 0;

	if (policy_value_bool(json_object_get(v, "private"), at, "private", &ret->says_private, e) <
		    0 ||
	    policy_value_word(json_object_get(v, "unknown_age"), words, COUNT(words), at,
			      "unknown_age", &age, e) < 0 ||
	    packages_unverified_read(v, at, &ret->says_unverified, e) < 0)
		return -1;
	ret->says_unknown_age = age == 1;
	return 0;
}

/* Read {"use": "github", ...}: a built-in registry with other flags. */
static int read_use(const json_t *v, const char *at, struct packages_entry *ret, struct err *e)
{
	static const char *const members[] = { "use", "private", "unknown_age", "unverified" };
	const char *word = json_string_value(json_object_get(v, "use"));
	const struct packages_entry *known = word == NULL ? NULL : find_word(word);

	if (policy_value_known(v, members, COUNT(members), at, e) < 0)
		return -1;
	if (known == NULL)
		return no_word(at, word == NULL ? "" : word, e);
	*ret = *known;
	return read_flags(v, at, ret, e);
}

static int read_object(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		       struct packages_entry *ret, struct err *e)
{
	static const char *const members[] = { "ecosystem", "host",	   "path",	 "files",
					       "private",   "unknown_age", "unverified", "sumdb" };
	struct package_registry *r = &ret->registry;

	if (json_object_get(v, "use") != NULL)
		return read_use(v, at, ret, e);
	if (policy_value_known(v, members, COUNT(members), at, e) < 0 ||
	    read_ecosystem(json_object_get(v, "ecosystem"), at, &r->ecosystem, e) < 0 ||
	    read_host(p, a, json_object_get(v, "host"), at, "host", &r->host, e) < 0 ||
	    read_path(p, a, json_object_get(v, "path"), at, r, e) < 0 ||
	    read_files(p, a, json_object_get(v, "files"), at, r, e) < 0 ||
	    read_sumdb(p, a, json_object_get(v, "sumdb"), at, r, e) < 0)
		return -1;
	r->name = r->host.name;
	r->base = known_prefix(r->ecosystem, r->host.name);
	return read_flags(v, at, ret, e);
}

/* A listed registry is no longer implicit: its hosts are open. */
static int read_one(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		    struct packages_entry *ret, struct err *e)
{
	const char *word = json_string_value(v);
	const struct packages_entry *known = word == NULL ? NULL : find_word(word);

	if (word != NULL && known == NULL)
		return no_word(at, word, e);
	if (known != NULL)
		*ret = *known;
	else if (read_object(p, a, v, at, ret, e) < 0)
		return -1;
	ret->registry.is_implicit = false;
	return 0;
}

int packages_registry_read(struct policy *p, struct package_arena *a, const json_t *v,
			   const char *at, struct packages_entries *ret, struct err *e)
{
	size_t n = json_array_size(v);

	*ret = (struct packages_entries){ .given = v != NULL };
	if (v == NULL)
		return 0;
	if (!json_is_array(v) || n > PACKAGE_REGISTRIES_MAX)
		return policy_value_fail(e, at, "registries", "must be a list of at most %d",
					 PACKAGE_REGISTRIES_MAX);
	ret->list = policy_alloc(p, n, sizeof(*ret->list));
	if (ret->list == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++) {
		char place[96];

		(void)snprintf(place, sizeof(place), "%s.registries[%zu]", at, i);
		if (read_one(p, a, json_array_get(v, i), place, &ret->list[i], e) < 0)
			return -1;
		for (size_t k = 0; k < i; k++)
			if (packages_registry_same(&ret->list[k].registry, &ret->list[i].registry))
				return policy_value_fail(e, place, "", "is listed twice");
		ret->n++;
	}
	return 0;
}

/* ---- finding */

bool packages_registry_same(const struct package_registry *a, const struct package_registry *b)
{
	return a->ecosystem == b->ecosystem && a->host.port == b->host.port &&
	       strcmp(a->host.name, b->host.name) == 0 && strcmp(a->path, b->path) == 0;
}

const struct packages_entry *packages_built_in(const struct package_registry *like)
{
	for (size_t i = 0; i < COUNT(built_in); i++)
		if (packages_registry_same(&built_in[i].registry, like))
			return &built_in[i];
	return NULL;
}

static bool is_files(const struct package_registry *r, const char *host, uint16_t port)
{
	for (size_t i = 0; i < r->nfiles; i++)
		if (fits_host(&r->files[i], host, port))
			return true;
	return false;
}

/* Is the port named by the entry, or 443? */
static bool opens_port(const struct package_registry *r, const struct package_host *h,
		       uint16_t port)
{
	return h->port != 0 || port == 0 || port == 443 || r->ecosystem == ECO_APT;
}

bool packages_registry_opens(const struct package_registry *r, const char *host, uint16_t port,
			     bool plain)
{
	if (r->is_implicit || (plain && r->ecosystem != ECO_APT))
		return false;
	if (fits_host(&r->host, host, port) && opens_port(r, &r->host, port))
		return true;
	for (size_t i = 0; i < r->nfiles; i++)
		if (fits_host(&r->files[i], host, port) && opens_port(r, &r->files[i], port))
			return true;
	return false;
}

/* The length of a slash in either spelling, or 0. */
static size_t slash_at(const char *p)
{
	if (p[0] == '/')
		return 1;
	return strncmp(p, "%2F", 3) == 0 ? 3 : 0;
}

/* Does the path begin with the prefix, for a server that merges slashes, decodes escaped slashes,
 * and ignores case? */
static bool begins_like(const char *path, const char *prefix)
{
	while (*prefix != '\0') {
		if (*prefix != '/') {
			if (strncasecmp(path, prefix, 1) != 0)
				return false;
			path++;
			prefix++;
			continue;
		}
		if (slash_at(path) == 0)
			return false;
		while (slash_at(path) > 0)
			path += slash_at(path);
		prefix++;
	}
	return true;
}

/* Rate a registry: the length of its path prefix, 0 for a host of files, -1 if it does not fit. */
static int packages_registry_rank(const struct package_registry *r, const char *host, uint16_t port,
				  const char *path)
{
	if (fits_host(&r->host, host, port) && (path == NULL || begins_like(path, r->path)))
		return (int)strlen(r->path);
	return is_files(r, host, port) ? 0 : -1;
}

static bool has_pages(enum ecosystem eco)
{
	return eco == ECO_GIT || eco == ECO_OCI;
}

/* Find the entry with the highest rank. known: the built-in registry of that host. NULL: none, or
 * any entry will do. An entry of a policy cannot claim the host for another ecosystem, because its
 * packages would have other names. */
static const struct packages_entry *find_best(const struct packages_entry *list, size_t n,
					      const char *host, uint16_t port, const char *path,
					      const struct packages_entry *known, bool *ret_files)
{
	const struct packages_entry *best = NULL;
	int best_rank = -1;

	for (size_t i = 0; i < n; i++) {
		int one = packages_registry_rank(&list[i].registry, host, port, path);

		if (one <= best_rank ||
		    (known != NULL && known->registry.ecosystem != list[i].registry.ecosystem))
			continue;
		best = &list[i];
		best_rank = one;
	}
	*ret_files = best_rank == 0;
	return best;
}

/* At any port, because an entry may name another port. */
static const struct packages_entry *find_known(const char *host)
{
	bool files;

	return find_best(built_in, COUNT(built_in), host, 0, NULL, NULL, &files);
}

bool packages_is_git_host(const char *host)
{
	const struct packages_entry *known = find_known(host);

	return known != NULL && known->registry.ecosystem == ECO_GIT;
}

const struct packages_entry *packages_entry_find(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files)
{
	const struct packages_entry *found = NULL, *known;

	*ret_files = false;
	if (host == NULL)
		return NULL;
	known = find_known(host);
	/* The repositories of a git server may contain registries of other ecosystems. */
	if (p != NULL)
		found = find_best(p->registries.list, p->registries.n, host, port, path,
				  known != NULL && !has_pages(known->registry.ecosystem) ? known
											 : NULL,
				  ret_files);
	if (found != NULL)
		return found;
	/* At every port, since a host of a registry may answer at several ones. */
	return find_best(built_in, COUNT(built_in), host, 0, path, NULL, ret_files);
}

const struct package_registry *packages_registry(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files)
{
	const struct packages_entry *found = packages_entry_find(p, host, port, path, ret_files);

	return found == NULL ? NULL : &found->registry;
}

/* The prefix without its final slash. -1: the path is not below it. */
static int packages_registry_behind(const char *path, const char *prefix)
{
	return strncmp(path, prefix, strlen(prefix)) == 0 ? (int)strlen(prefix) - 1 : -1;
}

int packages_registry_prefix(const struct package_registry *r, const char *host, uint16_t port,
			     const char *path, bool *ret_known)
{
	const char *known = known_prefix(r->ecosystem, host);

	*ret_known = true;
	if (known != NULL)
		return packages_registry_behind(path, known);
	if (fits_host(&r->host, host, port) && begins_like(path, r->path))
		return packages_registry_behind(path, r->path);
	for (size_t i = 0; i < r->nfiles; i++) {
		if (!fits_host(&r->files[i], host, port))
			continue;
		*ret_known = false;
		return packages_registry_behind(path, r->path) < 0
			       ? 0
			       : packages_registry_behind(path, r->path);
	}
	return -1;
}

const struct package_registry *packages_registry_for(const struct packages_policy *p,
						     enum ecosystem eco)
{
	for (size_t i = 0; p != NULL && i < p->registries.n; i++)
		if (p->registries.list[i].registry.ecosystem == eco)
			return &p->registries.list[i].registry;
	for (size_t i = 0; i < COUNT(built_in); i++)
		if (built_in[i].registry.ecosystem == eco)
			return &built_in[i].registry;
	return NULL;
}
