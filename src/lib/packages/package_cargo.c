/* package_cargo.c - requests of cargo: the sparse index, files, the web API. The old index is a git
 * repository, and needs no row here. */
#include "lib/packages/package_chars.h"
#include "lib/packages/package_row.h"

static const struct package_row rows[] = {
	{ "GET", "/config.json", PACKAGE_INDEX, FORM_CARGO_CONFIG, NULL },
	{ "GET", "/1/{name}", PACKAGE_META, FORM_CARGO_INDEX, NULL },
	{ "GET", "/2/{name}", PACKAGE_META, FORM_CARGO_INDEX, NULL },
	{ "GET", "/{rest}/{name}", PACKAGE_META, FORM_CARGO_INDEX, NULL },
	{ "GET", "/crates/{name}/{file}.crate", PACKAGE_FILE, FORM_NONE, NULL },
	{ "GET", "/crates/{name}/{version}/download", PACKAGE_FILE, FORM_NONE, NULL },
	{ "GET", "/api/v1/crates/{name}/{version}/download", PACKAGE_FILE, FORM_NONE, NULL },
	{ "GET", "/api/v1/crates", PACKAGE_SEARCH, FORM_NONE, "*" },
	{ "GET", "/api/v1/crates/{name}", PACKAGE_META, FORM_CARGO_API, NULL },
	{ "PUT", "/api/v1/crates/new", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "DELETE", "/api/v1/crates/{name}/{version}/yank", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "PUT", "/api/v1/crates/{name}/{version}/unyank", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "GET", "/api/v1/crates/{name}/owners", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "PUT", "/api/v1/crates/{name}/owners", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "DELETE", "/api/v1/crates/{name}/owners", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "GET", "/me", PACKAGE_AUTH, FORM_NONE, NULL },
	{ "GET", "/api/v1/me", PACKAGE_AUTH, FORM_NONE, NULL },
};

/* Are these the directories of the name in the index: "1", "2", "3/a", "ab/cd"? All are
 * lower-case. */
static bool index_dirs_fit(const struct package_match *m, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (package_is_upper(name[i]))
			return false;
	if (m->rest.p == NULL) /* "/1/a", "/2/ab" */
		return m->name.p[-2] == (char)('0' + n);
	if (n == 3)
		return m->rest.n == 3 && memcmp(m->rest.p, "3/", 2) == 0 && m->rest.p[2] == name[0];
	return n > 3 && m->rest.n == 5 && memcmp(m->rest.p, name, 2) == 0 && m->rest.p[2] == '/' &&
	       memcmp(m->rest.p + 3, name + 2, 2) == 0;
}

/* Read NAME-VERSION. The name is in the path, too. */
static bool read_file(struct package_span file, struct package_request *ret)
{
	size_t n = strlen(ret->written);

	if (file.n < n + 2 || memcmp(file.p, ret->written, n) != 0 || file.p[n] != '-')
		return false;
	return package_take_file((struct package_span){ file.p, file.n + strlen(".crate") }, ret) &&
	       package_take_version((struct package_span){ file.p + n + 1, file.n - n - 1 }, ret);
}

static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	if (!package_take_name(m->name, ret) || !package_take_version(m->version, ret))
		return false;
	if (row->form == FORM_CARGO_INDEX)
		return index_dirs_fit(m, ret->written);
	return m->file.p == NULL || read_file(m->file, ret);
}

const struct package_table package_table_cargo = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
