/* package_pypi.c - requests of PyPI (pip, uv, poetry). Pages are at /simple/, files anywhere: the
 * directories of a file are a digest, so its name and version come from the file's name. */
#include <string.h>

#include "lib/packages/package_file_name.h"
#include "lib/packages/package_row.h"

static const struct package_row rows[] = {
	{ "GET", "/simple/", PACKAGE_INDEX, FORM_ALL_NAMES, NULL },
	{ "GET", "/simple/{name}/", PACKAGE_META, FORM_PYPI_SIMPLE, NULL },
	{ "GET", "/simple/{name}", PACKAGE_META, FORM_PYPI_SIMPLE, NULL },
	{ "GET", "/pypi/{name}/json", PACKAGE_META, FORM_PYPI_JSON, NULL },
	{ "GET", "/pypi/{name}/{version}/json", PACKAGE_META, FORM_PYPI_JSON_ONE, NULL },
	{ "GET", "/integrity/{name}/{version}/{file}/provenance", PACKAGE_FILEMETA, FORM_NONE,
	  NULL },
	{ "GET", "/simple/{name}/{file}.metadata", PACKAGE_FILEMETA, FORM_NONE, NULL },
	{ "GET", "/simple/{name}/{file}", PACKAGE_FILE, FORM_NONE, NULL },
	{ "POST", "/legacy/", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "GET", "/search", PACKAGE_SEARCH, FORM_NONE, "*" },
	{ "GET", "/search/", PACKAGE_SEARCH, FORM_NONE, "*" },
	{ "POST", "/pypi", PACKAGE_SEARCH, FORM_NONE, NULL },
	{ "POST", "/pypi/", PACKAGE_SEARCH, FORM_NONE, NULL },
	{ "GET", "/{rest}/{file}.metadata", PACKAGE_FILEMETA, FORM_NONE, NULL },
	{ "GET", "/{rest}/{file}.provenance", PACKAGE_FILEMETA, FORM_NONE, NULL },
	{ "GET", "/{rest}/{file}.asc", PACKAGE_FILEMETA, FORM_NONE, NULL },
	{ "GET", "/{rest}/{file}", PACKAGE_FILE, FORM_NONE, NULL },
};

/* Below /simple/, files are only beside the page of their own name. */
static bool is_below_pages(struct package_span rest)
{
	return rest.n >= 6 && memcmp(rest.p, "simple", 6) == 0 && (rest.n == 6 || rest.p[6] == '/');
}

static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	return package_take_name(m->name, ret) && package_take_version(m->version, ret) &&
	       package_rest_ok(m->rest) && !is_below_pages(m->rest) &&
	       package_take_file(m->file, ret) && (m->file.p == NULL || package_file_pypi(ret));
}

const struct package_table package_table_pypi = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
