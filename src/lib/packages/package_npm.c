/* package_npm.c - requests of npm, yarn, pnpm and bun. Clients escape the slash of a scope or not.
 * Both spellings are read alike (package_request.c writes a slash). */
#include "lib/packages/package_chars.h"
#include "lib/packages/package_file_name.h"
#include "lib/packages/package_row.h"

static const struct package_row rows[] = {
	{ "GET", "/-/all", PACKAGE_INDEX, FORM_ALL_NAMES, "*" },
	{ "GET", "/-/v1/search", PACKAGE_SEARCH, FORM_NONE, "*" },
	{ "GET", "/-/whoami", PACKAGE_AUTH, FORM_NONE, NULL },
	{ "GET", "/-/npm/v1/user", PACKAGE_AUTH, FORM_NONE, NULL },
	{ "GET", "/-/npm/v1/tokens", PACKAGE_AUTH, FORM_NONE, "*" },
	{ "POST", "/-/npm/v1/tokens", PACKAGE_AUTH, FORM_NONE, NULL },
	{ "DELETE", "/-/npm/v1/tokens/{rest}", PACKAGE_AUTH, FORM_NONE, NULL },
	{ "POST", "/-/v1/login", PACKAGE_AUTH, FORM_NONE, NULL },
	{ "PUT", "/-/user/{rest}", PACKAGE_AUTH, FORM_NONE, NULL },
	{ "GET", "/-/npm/v1/keys", PACKAGE_KEY, FORM_NONE, NULL },
	{ "GET", "/-/npm/v1/attestations/{rest}", PACKAGE_KEY, FORM_NPM_ATTESTATION, NULL },
	{ "POST", "/-/npm/v1/security/advisories/bulk", PACKAGE_AUDIT, FORM_NONE, NULL },
	{ "POST", "/-/npm/v1/security/audits", PACKAGE_AUDIT, FORM_NONE, NULL },
	{ "POST", "/-/npm/v1/security/audits/quick", PACKAGE_AUDIT, FORM_NONE, NULL },
	{ "PUT", "/-/package/{names}/dist-tags/{one}", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "DELETE", "/-/package/{names}/dist-tags/{one}", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "POST", "/-/package/{names}/access", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "GET", "/{names}", PACKAGE_META, FORM_NPM_PACKUMENT, NULL },
	{ "GET", "/{names}/{version}", PACKAGE_META, FORM_NPM_ONE, NULL },
	{ "GET", "/{names}/-/{file}", PACKAGE_FILE, FORM_NONE, NULL },
	{ "PUT", "/{names}", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "PUT", "/{names}/-rev/{one}", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "DELETE", "/{names}/-rev/{one}", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "DELETE", "/{names}/-/{one}/-rev/{one}", PACKAGE_PUBLISH, FORM_NONE, NULL },
};

/* Read BASE-VERSION.tgz, where BASE is the name without its scope. */
static bool read_file(struct package_request *ret)
{
	const char *slash = strchr(ret->name, '/');
	const char *base = slash == NULL ? ret->name : slash + 1;
	size_t n = strlen(ret->file), m = strlen(base);

	if (!package_ends_with(ret->file, n, ".tgz") || n < m + 6 ||
	    memcmp(ret->file, base, m) != 0 || ret->file[m] != '-')
		return false;
	return package_take_version((struct package_span){ ret->file + m + 1, n - m - 5 }, ret);
}

/* Read NAME@VERSION. The name leaves the machine, so it is judged. */
static bool read_attestation(struct package_span rest, struct package_request *ret)
{
	const char *at = rest.n < 2 ? NULL : memrchr(rest.p + 1, '@', rest.n - 1);
	size_t n = at == NULL ? 0 : (size_t)(at - rest.p);

	return at != NULL && package_take_name((struct package_span){ rest.p, n }, ret) &&
	       package_take_version((struct package_span){ at + 1, rest.n - n - 1 }, ret);
}

static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	if (row->form == FORM_NPM_ATTESTATION)
		return read_attestation(m->rest, ret);
	return package_take_name(m->name, ret) && package_take_version(m->version, ret) &&
	       package_rest_ok(m->rest) && package_take_file(m->file, ret) &&
	       (m->file.p == NULL || read_file(ret));
}

const struct package_table package_table_npm = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
