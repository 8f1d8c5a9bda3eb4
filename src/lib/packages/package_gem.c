/* package_gem.c - requests of RubyGems (gem, bundler). */
#include "lib/packages/package_chars.h"
#include "lib/packages/package_file_name.h"
#include "lib/packages/package_row.h"

static const struct package_row rows[] = {
	{ "GET", "/versions", PACKAGE_INDEX, FORM_GEM_VERSIONS, NULL },
	{ "GET", "/names", PACKAGE_INDEX, FORM_ALL_NAMES, NULL },
	{ "GET", "/specs.4.8.gz", PACKAGE_INDEX, FORM_GEM_VERSIONS, NULL },
	{ "GET", "/latest_specs.4.8.gz", PACKAGE_INDEX, FORM_GEM_VERSIONS, NULL },
	{ "GET", "/prerelease_specs.4.8.gz", PACKAGE_INDEX, FORM_GEM_VERSIONS, NULL },
	{ "GET", "/info/{name}", PACKAGE_META, FORM_GEM_INFO, NULL },
	{ "GET", "/api/v1/versions/{name}.json", PACKAGE_META, FORM_GEM_JSON, NULL },
	{ "GET", "/api/v1/gems/{name}.json", PACKAGE_META, FORM_GEM_JSON, NULL },
	{ "GET", "/quick/Marshal.4.8/{file}.gemspec.rz", PACKAGE_FILEMETA, FORM_NONE, NULL },
	{ "GET", "/gems/{file}.gem", PACKAGE_FILE, FORM_NONE, NULL },
	{ "GET", "/api/v1/search.json", PACKAGE_SEARCH, FORM_NONE, "*" },
	{ "POST", "/api/v1/gems", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "DELETE", "/api/v1/gems/yank", PACKAGE_PUBLISH, FORM_NONE, "*" },
	{ "GET", "/api/v1/api_key", PACKAGE_AUTH, FORM_NONE, NULL },
	{ "POST", "/api/v1/api_key", PACKAGE_AUTH, FORM_NONE, NULL },
};

/* A file tells name and version by itself. */
static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	if (!package_take_name(m->name, ret))
		return false;
	if (m->file.p == NULL)
		return true;
	return package_take_file((struct package_span){ m->file.p, strlen(m->file.p) }, ret) &&
	       package_file_gem(ret);
}

const struct package_table package_table_gem = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
