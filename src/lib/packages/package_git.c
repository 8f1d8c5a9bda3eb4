/* package_git.c - requests of git over HTTP, smart and dumb, of LFS, and for archives made by
 * repository hosts. Archive versions may have slashes, so archives fit no table row. */
#include "lib/packages/package_chars.h"
#include "lib/packages/package_file_name.h"
#include "lib/packages/package_row.h"

static const struct package_row rows[] = {
	{ "GET", "/{names}/info/refs", PACKAGE_META, FORM_GIT_REFS, "service=git-upload-pack" },
	{ "GET", "/{names}/info/refs", PACKAGE_PUBLISH, FORM_NONE, "service=git-receive-pack" },
	{ "GET", "/{names}/info/refs", PACKAGE_META, FORM_GIT_DUMB, NULL },
	{ "POST", "/{names}/git-upload-pack", PACKAGE_FILE, FORM_GIT_PACK, NULL },
	{ "POST", "/{names}/git-receive-pack", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "GET", "/{names}/HEAD", PACKAGE_META, FORM_GIT_DUMB, NULL },
	{ "GET", "/{names}/objects/info/packs", PACKAGE_META, FORM_GIT_DUMB, NULL },
	{ "GET", "/{names}/objects/info/alternates", PACKAGE_META, FORM_GIT_DUMB, NULL },
	{ "GET", "/{names}/objects/info/http-alternates", PACKAGE_META, FORM_GIT_DUMB, NULL },
	{ "GET", "/{names}/objects/{one}/{file}", PACKAGE_FILE, FORM_GIT_DUMB, NULL },
	{ "POST", "/{names}/info/lfs/objects/batch", PACKAGE_PUBLISH, FORM_GIT_LFS_BATCH, NULL },
	{ "GET", "/{names}/info/lfs/objects/{version}", PACKAGE_FILE, FORM_GIT_LFS_OBJECT, NULL },
	{ "GET", "/{names}/gitlab-lfs/objects/{version}", PACKAGE_FILE, FORM_GIT_LFS_OBJECT, NULL },
};

/* Is it "objects/pack/pack-HEX.pack" (or .idx), or "objects/xx/HEX", with ids of 40 or 64 digits?
 * Any other form is refused, so that the path carries no other data out of the cell. */
static bool is_object(const char *dir, const char *file)
{
	size_t n = strlen(file);

	if (strncmp(dir, "pack/", 5) != 0)
		return package_is_hex(dir, 2, 2) && dir[2] == '/' &&
		       (package_is_hex(file, n, 38) || package_is_hex(file, n, 62));
	if (n < 9 || memcmp(file, "pack-", 5) != 0)
		return false;
	n -= package_ends_with(file, n, ".pack") ? 10 : 9;
	return (package_is_hex(file + 5, n, 40) || package_is_hex(file + 5, n, 64)) &&
	       (strcmp(file + 5 + n, ".pack") == 0 || strcmp(file + 5 + n, ".idx") == 0);
}

/* "org/repo" and "org/repo.git" are the same repository. */
static struct package_span without_git(struct package_span name)
{
	while (name.p != NULL && package_ends_with(name.p, name.n, ".git"))
		name.n -= strlen(".git");
	return name;
}

static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	if (!package_take_name(without_git(m->name), ret) ||
	    !package_take_version(m->version, ret) || !package_take_file(m->file, ret))
		return false;
	if (row->form == FORM_GIT_LFS_OBJECT)
		return package_is_hex(ret->version, strlen(ret->version), 64);
	if (row->form == FORM_GIT_DUMB && m->file.p != NULL)
		return is_object(strstr(m->name.p + m->name.n, "/objects/") + 9, ret->file);
	return true;
}

const struct package_table package_table_git = { rows, sizeof(rows) / sizeof(rows[0]), read_row };

/* ---- archives */

#define SEGMENTS_MAX 48

struct parts {
	size_t n;
	struct package_span at[SEGMENTS_MAX];
};

/* The kind of an archive, by the word behind the repository's name. */
enum archive { IS_NONE, IS_ARCHIVE, IS_REF, IS_RELEASE, IS_LATEST };

static bool package_git_cut(const char *path, struct parts *ret)
{
	ret->n = 0;
	for (const char *p = path; *p == '/';) {
		size_t n = strcspn(p + 1, "/");

		if (ret->n == SEGMENTS_MAX || n == 0)
			return false;
		ret->at[ret->n++] = (struct package_span){ p + 1, n };
		p += n + 1;
	}
	return ret->n > 0;
}

static bool package_git_is(const struct parts *s, size_t i, const char *text)
{
	return i < s->n && s->at[i].n == strlen(text) && memcmp(s->at[i].p, text, s->at[i].n) == 0;
}

static enum archive archive_at(const struct parts *s, size_t i)
{
	static const char *const refs[] = { "tarball", "zipball",	"tar.gz",
					    "zip",     "legacy.tar.gz", "legacy.zip" };

	if (package_git_is(s, i, "archive"))
		return IS_ARCHIVE;
	if (package_git_is(s, i, "releases") && package_git_is(s, i + 1, "download"))
		return IS_RELEASE;
	if (package_git_is(s, i, "releases") && package_git_is(s, i + 1, "latest") &&
	    package_git_is(s, i + 2, "download"))
		return IS_LATEST;
	for (size_t k = 0; k < sizeof(refs) / sizeof(refs[0]); k++)
		if (package_git_is(s, i, refs[k]))
			return IS_REF;
	return IS_NONE;
}

/* Deeper in a path, files may have these words as names, too. There a version is one segment, or a
 * ref. */
static bool may_be_deep(const struct parts *s, size_t i)
{
	return s->n == i + 2 || package_git_is(s, i + 1, "refs") ||
	       package_git_is(s, i, "releases");
}

/* Find the word that ends the name of the repository, behind OWNER/REPO if present. 0: none. */
static size_t find_word(const struct parts *s)
{
	static const size_t usual[] = { 2, 1 };

	for (size_t i = 1; i + 1 < s->n; i++)
		if (package_git_is(s, i, "-") && package_git_is(s, i + 1, "archive"))
			return i;
	for (size_t k = 0; k < sizeof(usual) / sizeof(usual[0]); k++)
		if (archive_at(s, usual[k]) != IS_NONE)
			return usual[k];
	for (size_t i = 3; i + 1 < s->n; i++)
		if (archive_at(s, i) != IS_NONE && may_be_deep(s, i))
			return i;
	return 0;
}

/* Join segments to one text, from index `from` to before `to`. */
static struct package_span package_git_between(const struct parts *s, size_t from, size_t to)
{
	if (from >= to || to > s->n)
		return (struct package_span){ "", 0 };
	return (struct package_span){ s->at[from].p,
				      (size_t)(s->at[to - 1].p + s->at[to - 1].n - s->at[from].p) };
}

static bool cut_ending(struct package_span *s)
{
	static const char *const endings[] = { ".tar.gz", ".zip",     ".tgz",
					       ".tar",	  ".tar.bz2", ".bundle" };

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		if (!package_ends_with(s->p, s->n, endings[i]))
			continue;
		s->n -= strlen(endings[i]);
		return true;
	}
	return false;
}

/* Read a branch, a tag, another ref, or a commit. Its slashes may be escaped. */
static bool take_ref(struct package_span s, struct package_request *ret)
{
	static const char *const kinds[] = { "refs/heads/", "refs/tags/" };
	char text[PACKAGE_VERSION_MAX];
	size_t n = 0, skip = 0;

	for (size_t i = 0; i < s.n; i++) {
		bool escaped = s.n - i >= 3 && memcmp(s.p + i, "%2F", 3) == 0;

		if (n + 1 >= sizeof(text))
			return false;
		text[n++] = s.p[i];
		if (escaped) {
			text[n - 1] = '/';
			i += 2;
		}
	}
	text[n] = '\0';
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strncmp(text, kinds[i], strlen(kinds[i])) == 0)
			skip = strlen(kinds[i]);
	if (strstr(text, "//") != NULL || n == skip || text[n - 1] == '/')
		return false;
	return package_take_version((struct package_span){ text + skip, n - skip }, ret);
}

/* GitLab's archives repeat the name in a file behind the ref, releases have a file of any name. */
static bool take_archive(const struct parts *s, size_t i, struct package_request *ret)
{
	bool of_gitlab = package_git_is(s, i, "-");
	size_t at = of_gitlab ? i + 1 : i;
	enum archive kind = archive_at(s, at);
	size_t from = at + (kind == IS_LATEST ? 3 : kind == IS_RELEASE ? 2 : 1);
	bool has_file = kind == IS_LATEST || kind == IS_RELEASE || (of_gitlab && s->n > from + 1);
	struct package_span version = package_git_between(s, from, has_file ? s->n - 1 : s->n);

	if (from >= s->n || !package_take_name(without_git(package_git_between(s, 0, i)), ret) ||
	    (has_file && !package_take_file(s->at[s->n - 1], ret)))
		return false;
	if (kind == IS_LATEST)
		return s->n == from + 1 &&
		       package_take_version((struct package_span){ "latest", 6 }, ret);
	if (kind == IS_ARCHIVE && !has_file && !cut_ending(&version))
		return false;
	return take_ref(version, ret);
}

bool package_git_archive(const char *method, const char *path, struct package_request *ret)
{
	struct parts s;
	size_t i;

	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return false;
	if (!package_git_cut(path, &s))
		return false;
	i = find_word(&s);
	*ret = (struct package_request){
		.ecosystem = ECO_GIT, .kind = PACKAGE_FILE, .form = FORM_GIT_ARCHIVE, .source = true
	};
	return i > 0 && take_archive(&s, i, ret);
}
