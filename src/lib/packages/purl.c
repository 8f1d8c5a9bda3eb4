#include "lib/packages/purl.h"

#include <assert.h>
#include <string.h>

#include "lib/base/own.h"
#include "lib/base/str.h"

/* The type of each ecosystem, with the namespace where the specification demands one. Git
 * repositories have no type of their own. */
static const char *const types[] = {
	[ECO_PYPI] = "pypi/",	[ECO_NPM] = "npm/",	[ECO_APT] = "deb/debian/",
	[ECO_CARGO] = "cargo/", [ECO_GO] = "golang/",	[ECO_GIT] = "generic/",
	[ECO_OCI] = "oci/",	[ECO_MAVEN] = "maven/", [ECO_GEM] = "gem/",
};
static_assert(COUNT(types) == ECOSYSTEMS, "every ecosystem has a type");

struct purl_text {
	char *to;
	size_t n;
};

/* PURL_MAX has room for the longest names, so nothing is cut. */
static void purl_put(struct purl_text *t, char c)
{
	if (t->n + 1 < PURL_MAX)
		t->to[t->n++] = c;
}

static void put_escaped(struct purl_text *t, unsigned char c)
{
	static const char digits[] = "0123456789ABCDEF";

	purl_put(t, '%');
	purl_put(t, digits[c >> 4]);
	purl_put(t, digits[c & 15]);
}

/* Escape a part. keep: bytes not escaped, beside letters, digits and the marks of URLs. */
static void put_part(struct purl_text *t, const char *from, const char *keep)
{
	for (; *from != '\0'; from++) {
		unsigned char c = (unsigned char)*from;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    strchr(".-_~", c) != NULL || strchr(keep, c) != NULL)
			purl_put(t, (char)c);
		else
			put_escaped(t, c);
	}
}

/* Bring a name into the form of the specification: lower-case for some types, group and artifact
 * apart. */
static void in_form(enum ecosystem eco, char *name)
{
	for (char *at = name; *at != '\0'; at++) {
		if ((eco == ECO_PYPI || eco == ECO_GO || eco == ECO_OCI || eco == ECO_APT) &&
		    *at >= 'A' && *at <= 'Z')
			*at = (char)(*at - 'A' + 'a');
		if (eco == ECO_PYPI && *at == '_')
			*at = '-';
		if (eco == ECO_MAVEN && *at == ':')
			*at = '/';
	}
}

void purl_write(enum ecosystem eco, const char *name, const char *version, char ret[PURL_MAX])
{
	struct purl_text t = { .to = ret };
	char form[PACKAGE_NAME_MAX];

	str_copy(form, name);
	in_form(eco, form);
	for (const char *at = "pkg:"; *at != '\0'; at++)
		purl_put(&t, *at);
	for (const char *at = types[eco]; *at != '\0'; at++)
		purl_put(&t, *at);
	put_part(&t, form, "/");
	if (version[0] != '\0') {
		purl_put(&t, '@');
		put_part(&t, version, ":");
	}
	ret[t.n] = '\0';
}
