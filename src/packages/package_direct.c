/* package_direct.c - packages that a request names on any host: clients install from URLs, too.
 * Only the path tells: what a server sends for a path without such an ending is not looked at. */
#include <strings.h>

#include "package_chars.h"
#include "package_file_name.h"
#include "package_spelling.h"

struct ending {
	const char *text;
	enum ecosystem ecosystem;
	bool source;
};

static const struct ending endings[] = {
	{ ".whl", ECO_PYPI, false },   { ".egg", ECO_PYPI, false },
	{ ".crate", ECO_CARGO, true }, { ".gem", ECO_GEM, false },
	{ ".deb", ECO_APT, false },    { ".udeb", ECO_APT, false },
	{ ".jar", ECO_MAVEN, false },  { ".war", ECO_MAVEN, false },
	{ ".aar", ECO_MAVEN, false },  { ".tgz", ECO_NPM, true },
	{ ".tar.gz", ECO_PYPI, true }, { ".tar.bz2", ECO_PYPI, true },
	{ ".tar.xz", ECO_PYPI, true }, { ".tar.lzma", ECO_PYPI, true },
	{ ".tbz", ECO_PYPI, true },    { ".txz", ECO_PYPI, true },
	{ ".tlz", ECO_PYPI, true },    { ".tar", ECO_PYPI, true },
	{ ".zip", ECO_PYPI, true },
};

/* Clients compare endings in either case. */
static const struct ending *ending_of(const char *file, size_t n)
{
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t m = strlen(endings[i].text);

		if (n > m && strncasecmp(file + n - m, endings[i].text, m) == 0)
			return &endings[i];
	}
	return NULL;
}

/* NAME-VERSION without its ending. */
static bool read_plain(struct package_request *ret, const struct ending *end)
{
	size_t n = strlen(ret->file) - strlen(end->text), at = package_file_cut(ret->file, n);

	return at != 0 && package_take_name((struct package_span){ ret->file, at - 1 }, ret) &&
	       package_take_version((struct package_span){ ret->file + at, n - at }, ret);
}

static bool read_maven(struct package_request *ret, const char *path, size_t n)
{
	struct package_request layout;
	char copy[PACKAGE_PATH_MAX];

	if (n >= sizeof(copy))
		return false;
	memcpy(copy, path, n);
	copy[n] = '\0';
	package_request_read(ECO_MAVEN, true, "GET", copy, NULL, &layout);
	if (layout.kind != PACKAGE_FILE)
		return false;
	*ret = layout;
	return true;
}

/* The layout of npm's registries, below any path: "/NAME/-/FILE" and "/@SCOPE/NAME/-/FILE". */
static bool read_npm(struct package_request *ret, const char *path, size_t n)
{
	struct package_request layout;
	char copy[PACKAGE_PATH_MAX];
	char *at, *start;

	if (n >= sizeof(copy))
		return false;
	memcpy(copy, path, n);
	copy[n] = '\0';
	at = strstr(copy, "/-/");
	if (at == NULL)
		return false;
	start = memrchr(copy, '/', (size_t)(at - copy));
	if (start != NULL && start > copy && start[1] != '@') {
		char *scope = memrchr(copy, '/', (size_t)(start - copy));

		if (scope != NULL && scope[1] == '@')
			start = scope;
	}
	if (start == NULL)
		return false;
	package_request_read(ECO_NPM, true, "GET", start, NULL, &layout);
	if (layout.kind != PACKAGE_FILE)
		return false;
	layout.source = ret->source;
	*ret = layout;
	return true;
}

static bool read_name(struct package_request *ret, const struct ending *end, const char *path,
		      size_t n)
{
	if (end->ecosystem == ECO_NPM && read_npm(ret, path, n))
		return true;
	if (end->ecosystem == ECO_PYPI)
		return package_file_pypi(ret);
	if (end->ecosystem == ECO_APT)
		return package_file_apt(ret);
	if (end->ecosystem == ECO_GEM)
		return package_file_gem(ret);
	return end->ecosystem == ECO_MAVEN ? read_maven(ret, path, n) : read_plain(ret, end);
}

/* Words such as "zip" are in paths of all kinds: a version with slashes must be a ref, or what it
 * is of must end like an archive. */
static bool is_archive(const struct package_request *r, const char *path)
{
	return r->form != FORM_GIT_ARCHIVE || strchr(r->version, '/') == NULL ||
	       strstr(path, "/refs/") != NULL || strstr(path, "/archive/") != NULL ||
	       r->file[0] != '\0';
}

/* Requests of git, of Go's proxies and of registries of images have a form of their own on any
 * host. */
static bool by_protocol(const char *method, const char *path, const char *query,
			struct package_request *ret)
{
	static const enum ecosystem all[] = { ECO_GIT, ECO_GO, ECO_OCI };

	package_request_read(ECO_GIT, false, method, path, query, ret);
	if (ret->kind != PACKAGE_OTHER && ret->form != FORM_GIT_DUMB && is_archive(ret, path))
		return true;
	/* Pages are called HEAD, too. */
	if (ret->form == FORM_GIT_DUMB && !package_ends_with(path, strlen(path), "/HEAD"))
		return true;
	package_request_read(ECO_GO, false, method, path, query, ret);
	if (ret->kind != PACKAGE_OTHER && ret->kind != PACKAGE_KEY)
		return true;
	package_request_read(ECO_OCI, false, method, path, query, ret);
	if (ret->name[0] != '\0')
		return true;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!package_spelling_resembles(all[i], false, path))
			continue;
		*ret = (struct package_request){ .ecosystem = all[i],
						 .kind = PACKAGE_OTHER,
						 .is_lookalike = true };
		return true;
	}
	return false;
}

/* Without the slashes and blanks at the end, which clients leave out when they name the file. */
static size_t without_end(const char *path, size_t n)
{
	for (;;) {
		if (n > 0 && path[n - 1] == '/')
			n--;
		else if (n > 2 && (strncasecmp(path + n - 3, "%2f", 3) == 0 ||
				   strncmp(path + n - 3, "%20", 3) == 0))
			n -= 3;
		else
			return n;
	}
}

/* Queries do not change what a file is called. */
static bool by_ending(const char *method, const char *path, size_t n, struct package_request *ret)
{
	const char *slash = memrchr(path, '/', n);
	size_t len = slash == NULL ? 0 : n - (size_t)(slash + 1 - path);
	const struct ending *end = slash == NULL ? NULL : ending_of(slash + 1, len);
	struct package_request blank;

	if (end == NULL || (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0))
		return false;
	blank = (struct package_request){ .ecosystem = end->ecosystem,
					  .kind = PACKAGE_FILE,
					  .source = end->source };
	*ret = blank;
	if (!package_take_file((struct package_span){ slash + 1, len }, ret)) {
		*ret = blank;
		return true;
	}
	memcpy(blank.file, ret->file, sizeof(blank.file));
	if (!read_name(ret, end, path, n))
		*ret = blank;
	return true;
}

bool package_request_direct(const char *method, const char *path, const char *query,
			    struct package_request *ret)
{
	if (by_protocol(method, path, query, ret) ||
	    by_ending(method, path, without_end(path, strlen(path)), ret))
		return true;
	*ret = (struct package_request){ .ecosystem = ECO_PYPI, .kind = PACKAGE_OTHER };
	return false;
}
