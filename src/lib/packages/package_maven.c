/* package_maven.c - requests of Maven's repository layout (Maven, Gradle). The directories are the
 * group, the artifact and the version, and the name of the file repeats the last two. */
#include <stdio.h>

#include "lib/packages/package_chars.h"
#include "lib/packages/package_row.h"

static const struct package_row rows[] = {
	{ "GET", "/{names}/maven-metadata.xml", PACKAGE_META, FORM_MAVEN_META, NULL },
	{ "GET", "/{names}/maven-metadata.xml.{one}", PACKAGE_FILEMETA, FORM_MAVEN_META, NULL },
	{ "GET", "/{names}/{version}/{file}", PACKAGE_FILE, FORM_NONE, NULL },
	{ "PUT", "/{rest}", PACKAGE_PUBLISH, FORM_NONE, NULL },
};

/* "org/example/tool" is "org.example:tool". */
static bool take_name(struct package_span path, struct package_request *ret)
{
	char text[PACKAGE_NAME_MAX];
	char *colon;

	if (!package_span_text(path, text, sizeof(text)))
		return false;
	colon = strrchr(text, '/');
	if (colon == NULL)
		return false;
	*colon = ':';
	for (char *p = text; p < colon; p++) {
		if (*p == '.')
			return false; /* a second spelling of the group */
		if (*p == '/')
			*p = '.';
	}
	return package_take_name((struct package_span){ text, strlen(text) }, ret);
}

/* The directory of a snapshot has metadata of its own. */
static bool read_meta(struct package_span path, struct package_request *ret)
{
	size_t n = path.n;

	while (n > 0 && path.p[n - 1] != '/')
		n--;
	if (n < 2 || !package_ends_with(path.p + n, path.n - n, "-SNAPSHOT"))
		return take_name(path, ret);
	return take_name((struct package_span){ path.p, n - 1 }, ret) &&
	       package_take_version((struct package_span){ path.p + n, path.n - n }, ret);
}

/* The rest of the file behind "ARTIFACT-VERSION", or NULL. Files of a snapshot have a time instead
 * of "SNAPSHOT". */
static const char *behind_version(const struct package_request *r)
{
	const char *artifact = strchr(r->written, ':') + 1;
	char start[PACKAGE_FILE_MAX];
	size_t n = strlen(r->version), m;

	if (package_ends_with(r->version, n, "-SNAPSHOT"))
		n -= strlen("SNAPSHOT") + 1;
	m = (size_t)snprintf(start, sizeof(start), "%s-%.*s", artifact, (int)n, r->version);
	if (m >= sizeof(start) || strncmp(r->file, start, m) != 0)
		return NULL;
	return r->file[m] == '-' || r->file[m] == '.' ? r->file + m : NULL;
}

/* Signatures and checksums of a file are no files to install. */
static bool read_file(struct package_request *ret)
{
	static const char *const beside[] = { ".sha1", ".md5", ".sha256", ".sha512", ".asc" };
	size_t n = strlen(ret->file);

	if (behind_version(ret) == NULL || strchr(behind_version(ret), '.') == NULL)
		return false;
	if (package_ends_with(ret->file, n, ".pom") || package_ends_with(ret->file, n, ".module")) {
		ret->kind = PACKAGE_FILEMETA;
		ret->form = FORM_MAVEN_POM;
	}
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
		if (package_ends_with(ret->file, n, beside[i]))
			ret->kind = PACKAGE_FILEMETA;
	return true;
}

static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	if (row->kind == PACKAGE_PUBLISH)
		return true;
	if (row->form == FORM_MAVEN_META)
		return read_meta(m->name, ret);
	return take_name(m->name, ret) && package_take_version(m->version, ret) &&
	       package_take_file(m->file, ret) && read_file(ret);
}

const struct package_table package_table_maven = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
