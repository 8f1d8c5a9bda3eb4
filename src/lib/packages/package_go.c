/* package_go.c - requests of Go's module proxies and of the checksum database, which a proxy passes
 * on. In paths, "!x" is written for "X", and a capital is invalid. In a request to a database
 * behind a proxy, the file is the name of the database. */
#include "lib/packages/package_chars.h"
#include "lib/packages/package_file_name.h"
#include "lib/packages/package_row.h"

#define TILE_PARTS_MAX 8 /* 2^30 records have 6 */

static const struct package_row rows[] = {
	{ "GET", "/{names}/@v/list", PACKAGE_META, FORM_GO_LIST, NULL },
	{ "GET", "/{names}/@latest", PACKAGE_META, FORM_GO_LATEST, NULL },
	{ "GET", "/{names}/@v/{version}.info", PACKAGE_FILEMETA, FORM_GO_INFO, NULL },
	{ "GET", "/{names}/@v/{version}.mod", PACKAGE_FILEMETA, FORM_GO_MOD, NULL },
	{ "GET", "/{names}/@v/{version}.zip", PACKAGE_FILE, FORM_GO_ZIP, NULL },
	{ "GET", "/lookup/{rest}", PACKAGE_KEY, FORM_GO_SUMDB, NULL },
	{ "GET", "/sumdb/{one}/lookup/{rest}", PACKAGE_KEY, FORM_GO_SUMDB, NULL },
	{ "GET", "/tile/{rest}", PACKAGE_KEY, FORM_NONE, NULL },
	{ "GET", "/sumdb/{one}/tile/{rest}", PACKAGE_KEY, FORM_NONE, NULL },
	{ "GET", "/latest", PACKAGE_KEY, FORM_NONE, NULL },
	{ "GET", "/sumdb/{one}/latest", PACKAGE_KEY, FORM_NONE, NULL },
	{ "GET", "/sumdb/{one}/supported", PACKAGE_KEY, FORM_NONE, NULL },
};

/* Undo "!x". False: a capital, or "!" without a small letter. */
static bool package_go_unescape(struct package_span s, char *ret, size_t cap)
{
	char text[PACKAGE_NAME_MAX];
	size_t out = 0;

	if (!package_span_text(s, text, sizeof(text)))
		return false;
	for (const char *p = text; *p != '\0'; p++) {
		char c = *p;

		if (package_is_upper(c))
			return false;
		if (c == '!') {
			if (!(p[1] >= 'a' && p[1] <= 'z'))
				return false;
			c = (char)(*++p - 'a' + 'A');
		}
		if (out + 1 >= cap)
			return false;
		ret[out++] = c;
	}
	ret[out] = '\0';
	return true;
}

static bool package_go_take(struct package_span name, struct package_span version,
			    struct package_request *ret)
{
	char module[PACKAGE_NAME_MAX], text[PACKAGE_VERSION_MAX];

	if (!package_go_unescape(name, module, sizeof(module)) ||
	    !package_take_name((struct package_span){ module, strlen(module) }, ret))
		return false;
	if (version.p == NULL)
		return true;
	return package_go_unescape(version, text, sizeof(text)) &&
	       package_take_version((struct package_span){ text, strlen(text) }, ret);
}

/* Read MODULE@VERSION. The name leaves the machine, so it is judged. */
static bool read_lookup(struct package_span rest, struct package_request *ret)
{
	const char *at = memchr(rest.p, '@', rest.n);
	size_t n = at == NULL ? 0 : (size_t)(at - rest.p);

	return at != NULL && package_go_take((struct package_span){ rest.p, n },
					     (struct package_span){ at + 1, rest.n - n - 1 }, ret);
}

static bool is_number(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!package_is_digit(p[i]))
			return false;
	return n > 0 && n <= 3;
}

/* Is it a part of a tile's path: "8", "data", "x001", "234", "234.p", "17"? */
static bool is_tile_part(const char *p, size_t n)
{
	if (n == 4 && memcmp(p, "data", 4) == 0)
		return true;
	if (package_ends_with(p, n, ".p"))
		return is_number(p, n - 2);
	return p[0] == 'x' ? n == 4 && is_number(p + 1, 3) : is_number(p, n);
}

/* Is it HEIGHT/LEVEL/NUMBER? A program could hide only a few digits in such a path. */
static bool is_tile(struct package_span rest)
{
	size_t parts = 0, n;

	for (size_t at = 0; at < rest.n; at += n + 1, parts++) {
		const char *slash = memchr(rest.p + at, '/', rest.n - at);

		n = slash == NULL ? rest.n - at : (size_t)(slash - rest.p) - at;
		if (n == 0 || !is_tile_part(rest.p + at, n))
			return false;
	}
	return parts >= 3 && parts <= TILE_PARTS_MAX && rest.p[rest.n - 1] != '/';
}

/* Take the name of the database that a proxy is asked for: a host, compared by the policy. */
static bool take_database(struct package_span one, struct package_request *ret)
{
	for (size_t i = 0; i < one.n; i++)
		if (!package_is_digit(one.p[i]) && !(one.p[i] >= 'a' && one.p[i] <= 'z') &&
		    !package_is_one_of(one.p[i], ".-"))
			return false;
	return one.p == NULL || package_take_file(one, ret);
}

static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	if (!take_database(m->one, ret))
		return false;
	if (row->form == FORM_GO_SUMDB)
		return read_lookup(m->rest, ret);
	if (row->kind == PACKAGE_KEY)
		return m->rest.p == NULL || is_tile(m->rest);
	if (!package_go_take(m->name, m->version, ret))
		return false;
	return (row->form != FORM_GO_MOD && row->form != FORM_GO_ZIP) || ret->version[0] == 'v';
}

const struct package_table package_table_go = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
