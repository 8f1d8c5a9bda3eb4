/* package_git.c - requests of git over HTTP, smart and dumb, of LFS, and archives that hosts of
 * repositories make. */
#include "package_chars.h"
#include "package_file_name.h"
#include "package_row.h"

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
	{ "GET", "/{names}/-/archive/{version}/{file}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/releases/download/{version}/{file}", PACKAGE_FILE, FORM_GIT_ARCHIVE,
	  NULL },
	{ "GET", "/{names}/archive/refs/tags/{version}.tar.gz", PACKAGE_FILE, FORM_GIT_ARCHIVE,
	  NULL },
	{ "GET", "/{names}/archive/refs/tags/{version}.zip", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/archive/refs/heads/{version}.tar.gz", PACKAGE_FILE, FORM_GIT_ARCHIVE,
	  NULL },
	{ "GET", "/{names}/archive/refs/heads/{version}.zip", PACKAGE_FILE, FORM_GIT_ARCHIVE,
	  NULL },
	{ "GET", "/{names}/archive/{version}.tar.gz", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/archive/{version}.zip", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/tarball/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/zipball/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/tar.gz/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/zip/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/legacy.tar.gz/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/legacy.zip/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/tar.gz/refs/tags/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/zip/refs/tags/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/tar.gz/refs/heads/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
	{ "GET", "/{names}/zip/refs/heads/{version}", PACKAGE_FILE, FORM_GIT_ARCHIVE, NULL },
};

/* "objects/pack/pack-HEX.pack" (or .idx), or "objects/xx/HEX": ids of 40 or 64 digits. */
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

/* People write "org/repo" for "org/repo.git". */
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
	ret->source = row->form == FORM_GIT_ARCHIVE;
	if (row->form == FORM_GIT_LFS_OBJECT)
		return package_is_hex(ret->version, strlen(ret->version), 64);
	if (row->form == FORM_GIT_DUMB && m->file.p != NULL)
		return is_object(strstr(m->name.p + m->name.n, "/objects/") + 9, ret->file);
	return true;
}

const struct package_table package_table_git = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
