/* package_spelling.c - theory of operation
 *
 * The path is cut into segments as the most generous server would do it. An escaped slash is a
 * slash. Empty segments do not count. A segment ends at ';', and dots and escaped blanks at its end
 * are dropped. Segments are compared without case, the last three at a time. */
#include "lib/packages/package_spelling.h"

#include <string.h>
#include <strings.h>

#include "lib/packages/package_chars.h"

struct segment {
	const char *p;
	size_t n;
};

/* The last segments, the newest first. */
struct window {
	struct segment at[3];
	size_t index; /* of the newest, from 0 */
	bool in_v2;   /* the first segment was "v2" */
};

static bool package_spelling_is(struct segment s, const char *text)
{
	return s.n == strlen(text) && strncasecmp(s.p, text, s.n) == 0;
}

static bool is_any(struct segment s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (package_spelling_is(s, list[i]))
			return true;
	return false;
}

#define IS_ANY(s, list) is_any((s), (list), sizeof(list) / sizeof((list)[0]))

/* The length of a slash in either spelling, or 0. */
static size_t package_spelling_slash(const char *p)
{
	if (p[0] == '/')
		return 1;
	return p[0] == '%' && strncasecmp(p, "%2f", 3) == 0 ? 3 : 0;
}

static struct segment package_spelling_trimmed(const char *p, size_t n)
{
	const char *parameter = memchr(p, ';', n);

	if (parameter != NULL)
		n = (size_t)(parameter - p);
	for (;;) {
		if (n > 0 && (p[n - 1] == '.' || p[n - 1] == '+'))
			n--;
		else if (n > 2 && strncmp(p + n - 3, "%20", 3) == 0)
			n -= 3;
		else
			return (struct segment){ p, n };
	}
}

/* Take the next non-empty segment. False: the path has ended. */
static bool package_spelling_next(const char **at, struct segment *ret)
{
	for (;;) {
		const char *start;

		while (package_spelling_slash(*at) > 0)
			*at += package_spelling_slash(*at);
		if (**at == '\0')
			return false;
		start = *at;
		while (**at != '\0' && package_spelling_slash(*at) == 0)
			(*at)++;
		*ret = package_spelling_trimmed(start, (size_t)(*at - start));
		if (ret->n > 0)
			return true;
	}
}

static bool is_hex_pair(struct segment s)
{
	return s.n == 2 && strspn(s.p, "0123456789abcdefABCDEF") >= 2;
}

static bool is_of_git(const struct window *w)
{
	static const char *const services[] = { "git-upload-pack", "git-receive-pack",
						"git-upload-archive" };
	struct segment now = w->at[0], before = w->at[1];

	if (IS_ANY(now, services))
		return true;
	if (package_spelling_is(before, "info"))
		return package_spelling_is(now, "refs") || package_spelling_is(now, "lfs");
	if (package_spelling_is(before, "objects"))
		return package_spelling_is(now, "pack") || package_spelling_is(now, "info") ||
		       is_hex_pair(now);
	return package_spelling_is(before, "gitlab-lfs") && package_spelling_is(now, "objects");
}

/* Behind OWNER/REPO, or behind the "-" that ends a name of GitLab. */
static bool is_archive(const struct window *w)
{
	static const char *const words[] = { "archive", "tarball",	 "zipball",   "tar.gz",
					     "zip",	"legacy.tar.gz", "legacy.zip" };

	if ((w->index == 2 || package_spelling_is(w->at[1], "-")) && IS_ANY(w->at[0], words))
		return true;
	/* GitLab's API, with an ending or without: "/repository/archive.tar.gz?sha=main". */
	if (package_spelling_is(w->at[1], "repository") && w->at[0].n >= 7 &&
	    strncasecmp(w->at[0].p, "archive", 7) == 0 && (w->at[0].n == 7 || w->at[0].p[7] == '.'))
		return true;
	return package_spelling_is(w->at[0], "download") &&
	       (package_spelling_is(w->at[1], "releases") ||
		(package_spelling_is(w->at[1], "latest") &&
		 package_spelling_is(w->at[2], "releases")));
}

static bool is_of_oci(const struct window *w, bool at_registry)
{
	static const char *const words[] = { "manifests", "blobs", "referrers" };

	if (!w->in_v2 || at_registry)
		return w->in_v2;
	return w->index > 2 && (IS_ANY(w->at[1], words) || (package_spelling_is(w->at[1], "tags") &&
							    package_spelling_is(w->at[0], "list")));
}

static bool is_of_go(const struct window *w)
{
	return package_spelling_is(w->at[0], "@v") || package_spelling_is(w->at[0], "@latest");
}

bool package_spelling_resembles(enum ecosystem eco, bool at_registry, const char *path)
{
	struct window w = { .at = { { "", 0 }, { "", 0 }, { "", 0 } } };
	struct segment now;

	for (size_t i = 0; package_spelling_next(&path, &now); i++) {
		w.at[2] = w.at[1];
		w.at[1] = w.at[0];
		w.at[0] = now;
		w.index = i;
		w.in_v2 |= i == 0 && package_spelling_is(now, "v2");
		if (eco == ECO_GIT && (is_of_git(&w) || (at_registry && is_archive(&w))))
			return true;
		if ((eco == ECO_OCI && is_of_oci(&w, at_registry)) ||
		    (eco == ECO_GO && is_of_go(&w)))
			return true;
	}
	return false;
}
