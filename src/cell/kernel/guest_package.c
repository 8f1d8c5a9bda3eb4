/* guest_package.c - see guest_package.h. */
#include "cell/kernel/guest_package.h"

#include <stdio.h>
#include <string.h>

#include "cell/kernel/guest_tool.h"

#define META_PACKAGE "linux-image-cloud-amd64"
#define VERSION_MAX 64

/* The first word behind a key, up to a blank or the end of the line. */
static bool guest_package_find_word(const char *text, const char *key, char *ret, size_t cap)
{
	const char *at = strstr(text, key);

	if (at == NULL)
		return false;
	at += strlen(key);
	(void)snprintf(ret, cap, "%.*s", (int)strcspn(at, " \n"), at);
	return true;
}

int guest_package_find(char ret_name[GUEST_PACKAGE_MAX], struct err *e)
{
	static const char *const argv[] = { "apt-cache", "depends", META_PACKAGE, NULL };
	static const char prefix[] = "linux-image-";
	char text[4096];

	if (guest_tool_read(argv, text, sizeof(text), e) < 0)
		return err_wrap(e, "find " META_PACKAGE);
	if (guest_package_find_word(text, "Depends: ", ret_name, GUEST_PACKAGE_MAX) &&
	    strncmp(ret_name, prefix, strlen(prefix)) == 0)
		return 0;
	return err_set(e, ERR_NOT_FOUND,
		       "apt knows no " META_PACKAGE ": run apt-get update, or give the "
		       "package with --deb");
}

/* The version that apt would install. */
static int guest_package_find_version(const char *package, char ret[VERSION_MAX], struct err *e)
{
	const char *const argv[] = { "apt-cache", "show", "--no-all-versions", package, NULL };
	char text[4096];

	if (guest_tool_read(argv, text, sizeof(text), e) < 0)
		return err_wrap(e, "find %s", package);
	if (!guest_package_find_word(text, "\nVersion: ", ret, VERSION_MAX))
		return err_set(e, ERR_NOT_FOUND, "apt knows no %s", package);
	return 0;
}

/* By Debian's order of versions. dpkg fails if the first one is not the earlier one. */
static bool guest_package_is_earlier(const char *a, const char *b)
{
	const char *const argv[] = { "dpkg", "--compare-versions", a, "lt", b, NULL };
	const struct guest_tool t = { .argv = argv, .dir = -1, .in = -1, .out = -1 };
	struct err ignored;

	return guest_tool_run(&t, &ignored) == 0;
}

int guest_package_newest(const char *installed, char ret[GUEST_PACKAGE_MAX], bool *ret_is_newer,
			 struct err *e)
{
	char name[GUEST_PACKAGE_MAX], version[VERSION_MAX], old[VERSION_MAX];
	const char *first = strchr(installed, '_'), *last = strrchr(installed, '_');

	if (guest_package_find(name, e) < 0 || guest_package_find_version(name, version, e) < 0)
		return -1;
	(void)snprintf(ret, GUEST_PACKAGE_MAX, "%.60s_%s", name, version);
	*ret_is_newer = false;
	if (first == last)
		return 0;
	(void)snprintf(old, sizeof(old), "%.*s", (int)(last - first - 1), first + 1);
	*ret_is_newer = guest_package_is_earlier(old, version);
	return 0;
}
