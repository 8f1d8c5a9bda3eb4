/* package_direct.c - finds packages in requests to any host, because clients install from URLs,
 * too. Only the path counts. Answers to paths without a known ending are not examined. */
#include <strings.h>

#include "lib/packages/package_chars.h"
#include "lib/packages/package_file_name.h"
#include "lib/packages/package_spelling.h"

/* The ending of a package file. source: building it runs code of the package. */
struct ending {
	const char *text;
	enum ecosystem ecosystem;
	bool source;
};

static const struct ending endings[] = {
	{ ".whl", ECO_PYPI, false },	 { ".egg", ECO_PYPI, false },
	{ ".crate", ECO_CARGO, true },	 { ".gem", ECO_GEM, false },
	{ ".deb", ECO_APT, false },	 { ".udeb", ECO_APT, false },
	{ ".ddeb", ECO_APT, false },	 { ".jar", ECO_MAVEN, false },
	{ ".war", ECO_MAVEN, false },	 { ".aar", ECO_MAVEN, false },
	{ ".tgz", ECO_NPM, true },	 { ".tar.gz", ECO_PYPI, true },
	{ ".tar.bz2", ECO_PYPI, true },	 { ".tar.xz", ECO_PYPI, true },
	{ ".tar.lzma", ECO_PYPI, true }, { ".tar.lz", ECO_PYPI, true },
	{ ".tar.zst", ECO_PYPI, true },	 { ".tbz", ECO_PYPI, true },
	{ ".txz", ECO_PYPI, true },	 { ".tlz", ECO_PYPI, true },
	{ ".tar", ECO_PYPI, true },	 { ".zip", ECO_PYPI, true },
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

/* Read NAME-VERSION without its ending. */
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

/* Read the layout of npm's registries below any path: "/NAME/-/FILE" and "/@SCOPE/NAME/-/FILE". */
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

/* A file whose name cannot be read is still a package, but without a name. */
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

/* Is it an archive of a repository? Words such as "zip" occur in all kinds of paths. So a version
 * with slashes must be a ref, or the file must end like an archive. */
static bool is_archive(const struct package_request *r, const char *path)
{
	return r->form != FORM_GIT_ARCHIVE || strchr(r->version, '/') == NULL ||
	       strstr(path, "/refs/") != NULL || strstr(path, "/archive/") != NULL ||
	       r->file[0] != '\0';
}

/* Requests for git, Go's proxies and image registries have forms of their own on any host. */
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

/* A query does not change the name of a file, and servers differ in which methods they answer with
 * it. file: the last segment of the path, which has n bytes. */
static bool by_ending(const char *path, const char *file, size_t n, struct package_request *ret)
{
	size_t len = n - (size_t)(file - path);
	const struct ending *end = ending_of(file, len);
	struct package_request blank;

	if (end == NULL)
		return false;
	blank = (struct package_request){ .ecosystem = end->ecosystem,
					  .kind = PACKAGE_FILE,
					  .source = end->source };
	*ret = blank;
	if (!package_take_file((struct package_span){ file, len }, ret)) {
		*ret = blank;
		return true;
	}
	memcpy(blank.file, ret->file, sizeof(blank.file));
	if (!read_name(ret, end, path, n))
		*ret = blank;
	return true;
}

/* The length of the escape at the end of the path, or 0. */
static size_t package_direct_escape(const char *path, size_t n, const char *text)
{
	return n > 2 && strncasecmp(path + n - 3, text, 3) == 0 ? 3 : 0;
}

/* The length without slashes, dots and blanks at the end. Clients and servers drop these when they
 * name the file. */
static size_t without_end(const char *path, size_t n)
{
	for (;;) {
		if (n > 0 && strchr("/.+", path[n - 1]) != NULL)
			n--;
		else if (package_direct_escape(path, n, "%2f") > 0 ||
			 package_direct_escape(path, n, "%20") > 0)
			n -= 3;
		else
			return n;
	}
}

/* The length up to the last ';' of the file, in either spelling. 0: there is none. */
static size_t without_parameter(const char *path, const char *file, size_t n)
{
	for (; path + n > file; n--)
		if (path[n - 1] == ';')
			return n - 1;
		else if (package_direct_escape(path, n, "%3b") > 0)
			return n - 3;
	return 0;
}

/* Servers and clients differ in what they drop at the end, so the path is tried with each end. */
static bool by_any_ending(const char *path, struct package_request *ret)
{
	const char *file = NULL;
	size_t n = strlen(path);

	while (n > 0) {
		size_t trimmed = without_end(path, n);

		if (file == NULL || trimmed <= (size_t)(file - path)) {
			file = memrchr(path, '/', trimmed);
			if (file == NULL)
				return false;
			file++;
		}
		if (by_ending(path, file, trimmed, ret))
			return true;
		n = without_parameter(path, file, trimmed);
	}
	return false;
}

bool package_request_direct(const char *method, const char *path, const char *query,
			    struct package_request *ret)
{
	if (by_protocol(method, path, query, ret) || by_any_ending(path, ret))
		return true;
	*ret = (struct package_request){ .ecosystem = ECO_PYPI, .kind = PACKAGE_OTHER };
	return false;
}
