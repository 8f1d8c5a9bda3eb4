/* package_row.c - theory of operation
 *
 * Path and pattern are cut at slashes. At most one token of a pattern stands for several segments,
 * so the number of segments tells how many it takes. Each row is tried in one pass, without
 * backtracking. Empty segments are refused, except the last one, for a slash at the end. */
#include "lib/packages/package_row.h"

#include "lib/packages/package_chars.h"

#define SEGMENTS_MAX 48

struct segments {
	size_t n;
	struct package_span at[SEGMENTS_MAX];
};

/* False: an empty segment, or too many segments. */
static bool package_row_cut(const char *path, struct segments *ret)
{
	ret->n = 0;
	if (path[0] != '/')
		return false;
	for (const char *p = path; *p == '/';) {
		size_t n = strcspn(p + 1, "/");

		if (ret->n == SEGMENTS_MAX || (n == 0 && p[1] != '\0'))
			return false;
		ret->at[ret->n++] = (struct package_span){ p + 1, n };
		p += n + 1;
	}
	return true;
}

static bool starts_with(struct package_span s, const char *text, size_t n)
{
	return s.n >= n && memcmp(s.p, text, n) == 0;
}

/* Keep the segment of a token. Tokens differ in their first letter. "{name}" and "{names}" are kept
 * alike. */
static void package_row_keep(const char *token, struct package_span s, struct package_match *ret)
{
	if (token[1] == 'n')
		ret->name = s;
	else if (token[1] == 'v')
		ret->version = s;
	else if (token[1] == 'f')
		ret->file = s;
	else if (token[1] == 'r')
		ret->rest = s;
	else if (token[1] == 'o')
		ret->one = s;
}

/* May the token stand for several segments? */
static bool is_many(struct package_span pattern)
{
	return (pattern.n == 7 && memcmp(pattern.p, "{names}", 7) == 0) ||
	       (pattern.n == 6 && memcmp(pattern.p, "{rest}", 6) == 0);
}

/* Check a segment not kept, so that it cannot carry strange bytes to a server. */
static bool is_harmless(const char *token, struct package_span s)
{
	if (token[1] != 'o')
		return true;
	for (size_t i = 0; i < s.n; i++)
		if (!package_is_alnum(s.p[i]) && !package_is_one_of(s.p[i], "-._~+!:@="))
			return false;
	return true;
}

/* Compare one segment of the path with one of the pattern. */
static bool segment_fits(struct package_span pattern, struct package_span s,
			 struct package_match *ret)
{
	const char *open = memchr(pattern.p, '{', pattern.n);
	const char *close = open == NULL ? NULL : memchr(pattern.p, '}', pattern.n);
	size_t before, behind;

	if (close == NULL)
		return s.n == pattern.n && starts_with(s, pattern.p, pattern.n);
	before = (size_t)(open - pattern.p);
	behind = pattern.n - (size_t)(close + 1 - pattern.p);
	if (s.n <= before + behind || !starts_with(s, pattern.p, before) ||
	    memcmp(s.p + s.n - behind, close + 1, behind) != 0)
		return false;
	s = (struct package_span){ s.p + before, s.n - before - behind };
	package_row_keep(open, s, ret);
	return is_harmless(open, s);
}

/* The segments of a token, including the slashes between them. */
static struct package_span package_row_joined(const struct segments *path, size_t from, size_t n)
{
	const struct package_span *last;

	if (n == 0)
		return (struct package_span){ "", 0 };
	last = &path->at[from + n - 1];
	return (struct package_span){ path->at[from].p,
				      (size_t)(last->p + last->n - path->at[from].p) };
}

/* The token for many segments takes all that the rest of the pattern leaves. "{names}" needs
 * one. */
static bool path_fits_row(const struct segments *pattern, const struct segments *path,
			  struct package_match *ret)
{
	size_t at = 0;

	*ret = (struct package_match){ { NULL, 0 } };
	for (size_t i = 0; i < pattern->n; i++) {
		size_t left = pattern->n - i - 1, n = path->n - at;

		if (!is_many(pattern->at[i])) {
			if (n == 0 || !segment_fits(pattern->at[i], path->at[at++], ret))
				return false;
			continue;
		}
		if (n < left + (pattern->at[i].n == 7))
			return false;
		package_row_keep(pattern->at[i].p, package_row_joined(path, at, n - left), ret);
		at += n - left;
	}
	return at == path->n;
}

/* A query that the row does not expect could change the meaning of the request. */
static bool query_fits(const char *want, const char *query)
{
	if (query == NULL)
		return want == NULL || strcmp(want, "*") == 0;
	return want != NULL && (strcmp(want, "*") == 0 || strcmp(want, query) == 0);
}

/* The first row that fits and whose names can be read wins. A row that fits only by its form leaves
 * the request to the rows behind it. */
bool package_table_find(enum ecosystem eco, const struct package_table *t, const char *method,
			const char *path, const char *query, struct package_request *ret)
{
	const char *as = strcmp(method, "HEAD") == 0 ? "GET" : method;
	struct segments cut_path, cut_row;
	struct package_match m;

	if (package_row_cut(path, &cut_path))
		for (size_t i = 0; i < t->n; i++) {
			const struct package_row *row = &t->rows[i];

			if (strcmp(as, row->method) != 0 || !query_fits(row->query, query) ||
			    !package_row_cut(row->pattern, &cut_row) ||
			    !path_fits_row(&cut_row, &cut_path, &m))
				continue;
			*ret = (struct package_request){ .ecosystem = eco,
							 .kind = row->kind,
							 .form = row->form };
			if (t->read(row, &m, ret))
				return true;
		}
	*ret = (struct package_request){ .ecosystem = eco, .kind = PACKAGE_OTHER };
	return false;
}

/* "%2B" is the only escape that stays in a normal path, all others are refused. */
bool package_span_text(struct package_span s, char *ret, size_t cap)
{
	size_t out = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '%') {
			if (s.n - i < 3 || memcmp(s.p + i, "%2B", 3) != 0)
				return false;
			c = '+';
			i += 2;
		}
		if (out + 1 >= cap)
			return false;
		ret[out++] = c;
	}
	ret[out] = '\0';
	return true;
}

/* A row may have a name twice, in the path and in the file. Both must be the same package. */
bool package_take_name(struct package_span name, struct package_request *ret)
{
	char normal[PACKAGE_NAME_MAX], written[PACKAGE_NAME_MAX];

	if (name.p == NULL)
		return true;
	if (!package_span_text(name, written, sizeof(written)) ||
	    !package_name_normal(ret->ecosystem, written, strlen(written), normal))
		return false;
	if (ret->name[0] != '\0')
		return strcmp(ret->name, normal) == 0;
	memcpy(ret->name, normal, sizeof(ret->name));
	memcpy(ret->written, written, sizeof(ret->written));
	return true;
}

/* As package_take_name(): two versions in one request must be the same text. */
bool package_take_version(struct package_span version, struct package_request *ret)
{
	char text[PACKAGE_VERSION_MAX];

	if (version.p == NULL)
		return true;
	if (!package_span_text(version, text, sizeof(text)) ||
	    !package_version_ok(ret->ecosystem, text, strlen(text)))
		return false;
	if (ret->version[0] != '\0')
		return strcmp(ret->version, text) == 0;
	memcpy(ret->version, text, sizeof(ret->version));
	return true;
}

/* The name may have letters, digits and a few signs only, so it is safe in records. */
bool package_take_file(struct package_span file, struct package_request *ret)
{
	if (file.p == NULL)
		return true;
	return package_span_text(file, ret->file, sizeof(ret->file)) &&
	       package_is_plain(ret->file, strlen(ret->file), "._+~!:-");
}
