/* pypi_file.c - see pypi_file.h. Wheels: NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl, in which
 * NAME has no '-'; sdists: NAME-VERSION.tar.gz, in which it may. */
#include "pypi_file.h"

#include <string.h>

static const char *const sdists[] = { ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar" };

bool pypi_file_ok(const char *file)
{
	static const char ok[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+!-";

	return file[0] != '\0' && file[0] != '.' && file[strspn(file, ok)] == '\0';
}

static bool ends(const char *file, const char *end)
{
	size_t n = strlen(file), m = strlen(end);

	return n > m && strcmp(file + n - m, end) == 0;
}

/* How long the name is without the ending of an sdist; 0: no sdist. */
static size_t sdist_stem(const char *file)
{
	for (size_t i = 0; i < COUNT(sdists); i++) {
		if (ends(file, sdists[i]))
			return strlen(file) - strlen(sdists[i]);
	}
	return 0;
}

enum install_code pypi_file_code(const char *file)
{
	if (ends(file, ".whl"))
		return INSTALL_CODE_NO;
	return sdist_stem(file) > 0 ? INSTALL_CODE_YES : INSTALL_CODE_UNKNOWN;
}

static void take(const char *p, size_t n, char ret[PACKAGE_VERSION_MAX])
{
	if (n == 0 || n >= PACKAGE_VERSION_MAX)
		return;
	memcpy(ret, p, n);
	ret[n] = '\0';
}

static bool is_name(const char *p, size_t n, const char *name)
{
	char normal[PACKAGE_NAME_MAX];

	return package_name_normal(ECO_PYPI, p, n, normal) && strcmp(normal, name) == 0;
}

void pypi_file_version(const char *file, const char *name, char ret[PACKAGE_VERSION_MAX])
{
	size_t stem = sdist_stem(file);
	const char *dash = strchr(file, '-');

	ret[0] = '\0';
	if (dash == NULL)
		return;
	if (ends(file, ".whl")) {
		take(dash + 1, strcspn(dash + 1, "-"), ret);
		return;
	}
	for (; dash != NULL && dash < file + stem; dash = strchr(dash + 1, '-')) {
		bool last = memchr(dash + 1, '-', (size_t)(file + stem - dash - 1)) == NULL;

		if (name[0] == '\0' ? last : is_name(file, (size_t)(dash - file), name)) {
			take(dash + 1, (size_t)(file + stem - dash - 1), ret);
			return;
		}
	}
}
