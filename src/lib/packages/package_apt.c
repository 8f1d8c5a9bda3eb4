/* package_apt.c - requests of apt: indexes below dists/, or beside the packages of a flat
 * repository, and package files anywhere else. The last segments of a path tell its kind. */
#include <stdio.h>

#include "lib/packages/package_chars.h"
#include "lib/packages/package_file_name.h"
#include "lib/packages/package_row.h"

static const struct package_row rows[] = {
	{ "GET", "/{rest}/InRelease", PACKAGE_INDEX, FORM_APT_RELEASE, NULL },
	{ "GET", "/{rest}/Release", PACKAGE_INDEX, FORM_APT_RELEASE, NULL },
	{ "GET", "/{rest}/Release.gpg", PACKAGE_INDEX, FORM_APT_RELEASE, NULL },
	{ "GET", "/{rest}/Packages", PACKAGE_META, FORM_APT_PACKAGES, NULL },
	{ "GET", "/{rest}/Packages.{one}", PACKAGE_META, FORM_APT_PACKAGES, NULL },
	{ "GET", "/{rest}/by-hash/{name}/{version}", PACKAGE_META, FORM_APT_BY_HASH, NULL },
	{ "GET", "/{rest}/Packages.diff/{one}", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/Sources.diff/{one}", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/Sources", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/Sources.{one}", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/i18n/Translation-{one}", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/i18n/Index", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/Contents-{one}", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/dep11/{one}", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/cnf/Commands-{one}", PACKAGE_META, FORM_APT_LIST, NULL },
	{ "GET", "/{rest}/{file}", PACKAGE_FILE, FORM_NONE, NULL },
	{ "GET", "/{rest}/{one}.asc", PACKAGE_KEY, FORM_NONE, NULL },
	{ "GET", "/{rest}/{one}.gpg", PACKAGE_KEY, FORM_NONE, NULL },
};

/* The path behind dists/, "" in a flat repository. */
static struct package_span package_apt_suite(struct package_span rest)
{
	for (size_t i = 0; i + 6 <= rest.n; i++)
		if ((i == 0 || rest.p[i - 1] == '/') && memcmp(rest.p + i, "dists/", 6) == 0)
			return (struct package_span){ rest.p + i + 6, rest.n - i - 6 };
	return (struct package_span){ "", 0 };
}

/* The digits must fit the algorithm, so that the path carries no other data out of the cell. */
static bool read_by_hash(const struct package_match *m, struct package_request *ret)
{
	static const struct {
		const char *name;
		size_t digits;
	} sums[] = { { "SHA256", 64 }, { "SHA512", 128 }, { "SHA1", 40 }, { "MD5Sum", 32 } };

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		if (m->name.n == strlen(sums[i].name) &&
		    memcmp(m->name.p, sums[i].name, m->name.n) == 0 &&
		    package_is_hex(m->version.p, m->version.n, sums[i].digits)) {
			(void)snprintf(ret->version, sizeof(ret->version), "%s:%.*s", sums[i].name,
				       (int)m->version.n, m->version.p);
			return true;
		}
	return false;
}

static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	if (!package_rest_ok(m->rest))
		return false;
	if (row->form == FORM_APT_RELEASE)
		return package_span_text(package_apt_suite(m->rest), ret->version,
					 sizeof(ret->version));
	if (row->form == FORM_APT_BY_HASH)
		return read_by_hash(m, ret);
	if (row->kind != PACKAGE_FILE)
		return true;
	return package_apt_suite(m->rest).n == 0 && package_take_file(m->file, ret) &&
	       package_file_apt(ret);
}

const struct package_table package_table_apt = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
