/* package.c - see package.h. One function for each ecosystem's names, and one set of signs for its
 * versions. */
#include "lib/packages/package.h"

#include "lib/packages/package_chars.h"

static const char *const ecosystem_names[ECOSYSTEMS] = {
	[ECO_PYPI] = "pypi",   [ECO_NPM] = "npm",     [ECO_APT] = "apt",
	[ECO_CARGO] = "cargo", [ECO_GO] = "go",	      [ECO_GIT] = "git",
	[ECO_OCI] = "oci",     [ECO_MAVEN] = "maven", [ECO_GEM] = "gem",
};

const char *ecosystem_name(enum ecosystem eco)
{
	return (unsigned)eco < ECOSYSTEMS ? ecosystem_names[eco] : "";
}

/* Words of ecosystems are compared exactly. */
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

static bool has_upper(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (package_is_upper(p[i]))
			return true;
	return false;
}

/* Is it a list of plain segments between slashes? One byte of `first` may stand in front of each. A
 * segment of dots only is refused, since its first byte is a sign. */
static bool is_plain_path(const char *p, size_t n, const char *first, const char *more)
{
	size_t start = 0;

	for (size_t i = 0; i <= n; i++) {
		if (i < n && p[i] != '/')
			continue;
		if (start < i && package_is_one_of(p[start], first))
			start++;
		if (!package_is_plain(p + start, i - start, more))
			return false;
		start = i + 1;
	}
	return true;
}

/* The normal form is the name itself. ret has room for PACKAGE_NAME_MAX. */
static bool as_it_stands(const char *p, size_t n, char *ret)
{
	memcpy(ret, p, n);
	ret[n] = '\0';
	return true;
}

/* PEP 503. */
static bool pypi_name(const char *p, size_t n, char *ret)
{
	size_t out = 0;

	if (!package_is_plain(p, n, "-_.") || !package_is_alnum(p[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = package_lower(p[i]);

		if (package_is_one_of(c, "-_."))
			c = '-';
		if (c != '-' || ret[out - 1] != '-') /* the first byte is no sign */
			ret[out++] = c;
	}
	ret[out] = '\0';
	return true;
}

/* 214 bytes is npm's own bound. */
static bool npm_name(const char *p, size_t n, char *ret)
{
	const char *slash = p[0] == '@' ? memchr(p, '/', n) : NULL;
	size_t scope = slash == NULL ? 0 : (size_t)(slash - p) + 1;

	if (n > 214 || (p[0] == '@' && slash == NULL))
		return false;
	if (scope > 0 && !package_is_plain(p + 1, scope - 2, "-_.~"))
		return false;
	return package_is_plain(p + scope, n - scope, "-_.~") && as_it_stands(p, n, ret);
}

static bool apt_name(const char *p, size_t n, char *ret)
{
	return n >= 2 && !has_upper(p, n) && package_is_plain(p, n, "+.-") &&
	       as_it_stands(p, n, ret);
}

/* 64 bytes is the bound of crates.io. */
static bool cargo_name(const char *p, size_t n, char *ret)
{
	if (n > 64 || !package_is_plain(p, n, "-_") || package_is_digit(p[0]))
		return false;
	for (size_t i = 0; i < n; i++) {
		ret[i] = package_lower(p[i]);
		if (ret[i] == '_')
			ret[i] = '-';
	}
	ret[n] = '\0';
	return true;
}

static bool go_name(const char *p, size_t n, char *ret)
{
	return is_plain_path(p, n, "", "-._~") && as_it_stands(p, n, ret);
}

/* Hosts of repositories ignore case, and treat "r" and "r.git" as one repository. */
static bool git_name(const char *p, size_t n, char *ret)
{
	while (package_ends_with(p, n, ".git"))
		n -= 4;
	if (!is_plain_path(p, n, "_~", "-._~+"))
		return false;
	for (size_t i = 0; i < n; i++)
		ret[i] = package_lower(p[i]);
	ret[n] = '\0';
	return true;
}

static bool oci_name(const char *p, size_t n, char *ret)
{
	return !has_upper(p, n) && is_plain_path(p, n, "", "-._") && as_it_stands(p, n, ret);
}

static bool maven_name(const char *p, size_t n, char *ret)
{
	const char *colon = memchr(p, ':', n);
	size_t group = colon == NULL ? 0 : (size_t)(colon - p);

	return colon != NULL && package_is_plain(p, group, "-._") &&
	       package_is_plain(colon + 1, n - group - 1, "-._") && as_it_stands(p, n, ret);
}

static bool gem_name(const char *p, size_t n, char *ret)
{
	return package_is_plain(p, n, "-_.") && as_it_stands(p, n, ret);
}

/* The one entry to all forms of names. A refused name leaves "" in ret, whatever its reader has
 * written. */
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

	return (unsigned)eco < ECOSYSTEMS && n < PACKAGE_VERSION_MAX &&
	       package_is_plain(p, n, signs[eco]);
}
