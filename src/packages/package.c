/* package.c - names of ecosystems, and names and versions of packages. */
#include "package.h"

#include <string.h>

static const char *const ecosystem_names[ECOSYSTEMS] = {
	[ECO_PYPI] = "pypi",   [ECO_NPM] = "npm",     [ECO_APT] = "apt",
	[ECO_CARGO] = "cargo", [ECO_GO] = "go",	      [ECO_GIT] = "git",
	[ECO_OCI] = "oci",     [ECO_MAVEN] = "maven", [ECO_GEM] = "gem",
};

const char *ecosystem_name(enum ecosystem eco)
{
	return (unsigned)eco < ECOSYSTEMS ? ecosystem_names[eco] : "";
}

bool ecosystem_read(const char *text, size_t n, enum ecosystem *ret)
{
	for (unsigned i = 0; i < ECOSYSTEMS; i++) {
		if (strlen(ecosystem_names[i]) == n && memcmp(ecosystem_names[i], text, n) == 0) {
			*ret = (enum ecosystem)i;
			return true;
		}
	}
	return false;
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z');
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_one_of(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* Letters, digits and the signs of `more`; the first one no sign. */
static bool plain(const char *p, size_t n, const char *more)
{
	if (n == 0 || !is_alnum(p[0]))
		return false;
	for (size_t i = 1; i < n; i++)
		if (!is_alnum(p[i]) && !is_one_of(p[i], more))
			return false;
	return true;
}

static bool plain_lower(const char *p, size_t n, const char *more)
{
	for (size_t i = 0; i < n; i++)
		if (lower(p[i]) != p[i])
			return false;
	return plain(p, n, more);
}

/* Segments between slashes, each plain. A segment of dots only is none: the first byte is no sign.
 */
static bool plain_path(const char *p, size_t n, const char *more)
{
	size_t start = 0;

	for (size_t i = 0; i <= n; i++) {
		if (i < n && p[i] != '/')
			continue;
		if (!plain(p + start, i - start, more))
			return false;
		start = i + 1;
	}
	return true;
}

static bool as_it_stands(const char *p, size_t n, char *ret)
{
	memcpy(ret, p, n);
	ret[n] = '\0';
	return true;
}

static bool pypi_name(const char *p, size_t n, char *ret)
{
	size_t out = 0;

	if (!plain(p, n, "-_.") || !is_alnum(p[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = is_one_of(p[i], "-_.") ? '-' : lower(p[i]);

		if (c != '-' || ret[out - 1] != '-')
			ret[out++] = c;
	}
	ret[out] = '\0';
	return true;
}

static bool npm_name(const char *p, size_t n, char *ret)
{
	const char *slash = n > 0 && p[0] == '@' ? memchr(p, '/', n) : NULL;
	size_t scope = slash == NULL ? 0 : (size_t)(slash - p) + 1;

	if (n > 214 || (n > 0 && p[0] == '@' && slash == NULL))
		return false;
	if (scope > 0 && !plain(p + 1, scope - 2, "-_.~"))
		return false;
	return plain(p + scope, n - scope, "-_.~") && as_it_stands(p, n, ret);
}

static bool apt_name(const char *p, size_t n, char *ret)
{
	return n >= 2 && plain_lower(p, n, "+.-") && as_it_stands(p, n, ret);
}

static bool cargo_name(const char *p, size_t n, char *ret)
{
	if (n > 64 || !plain(p, n, "-_") || is_digit(p[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		ret[i] = p[i] == '_' ? '-' : lower(p[i]);
	ret[n] = '\0';
	return true;
}

static bool go_name(const char *p, size_t n, char *ret)
{
	return plain_path(p, n, "-._~") && as_it_stands(p, n, ret);
}

static bool git_name(const char *p, size_t n, char *ret)
{
	if (n > 4 && memcmp(p + n - 4, ".git", 4) == 0)
		n -= 4;
	if (!plain_path(p, n, "-._~+"))
		return false;
	for (size_t i = 0; i < n; i++)
		ret[i] = lower(p[i]);
	ret[n] = '\0';
	return true;
}

static bool oci_name(const char *p, size_t n, char *ret)
{
	for (size_t i = 0; i < n; i++)
		if (lower(p[i]) != p[i])
			return false;
	return plain_path(p, n, "-._") && as_it_stands(p, n, ret);
}

static bool maven_name(const char *p, size_t n, char *ret)
{
	const char *colon = n == 0 ? NULL : memchr(p, ':', n);
	size_t group = colon == NULL ? 0 : (size_t)(colon - p);

	return colon != NULL && plain(p, group, "-._") && plain(colon + 1, n - group - 1, "-._") &&
	       as_it_stands(p, n, ret);
}

static bool gem_name(const char *p, size_t n, char *ret)
{
	return plain(p, n, "-_.") && as_it_stands(p, n, ret);
}

bool package_name_normal(enum ecosystem eco, const char *p, size_t n, char ret[PACKAGE_NAME_MAX])
{
	static bool (*const read[ECOSYSTEMS])(const char *, size_t, char *) = {
		[ECO_PYPI] = pypi_name,	  [ECO_NPM] = npm_name,	    [ECO_APT] = apt_name,
		[ECO_CARGO] = cargo_name, [ECO_GO] = go_name,	    [ECO_GIT] = git_name,
		[ECO_OCI] = oci_name,	  [ECO_MAVEN] = maven_name, [ECO_GEM] = gem_name,
	};

	ret[0] = '\0';
	if (n == 0 || n >= PACKAGE_NAME_MAX || (unsigned)eco >= ECOSYSTEMS)
		return false;
	if (read[eco](p, n, ret))
		return true;
	ret[0] = '\0';
	return false;
}

bool package_version_ok(enum ecosystem eco, const char *p, size_t n)
{
	static const char *const signs[ECOSYSTEMS] = {
		[ECO_PYPI] = ".+!-_", [ECO_NPM] = ".+-_",   [ECO_APT] = ".+-~:",
		[ECO_CARGO] = ".+-",  [ECO_GO] = ".+-_",    [ECO_GIT] = ".+-_~/",
		[ECO_OCI] = ".-_:",   [ECO_MAVEN] = ".+-_", [ECO_GEM] = ".-_",
	};

	return (unsigned)eco < ECOSYSTEMS && n < PACKAGE_VERSION_MAX && plain(p, n, signs[eco]);
}
