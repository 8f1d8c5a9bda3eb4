/* cgroups_tables.c - reads /proc/self/cgroup and /proc/self/mounts: which cgroup file systems are
 * mounted, and where in them this process is. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cgroups_private.h"
#include "io.h"

bool cgroups_list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
		if ((p == list || p[-1] == ',' || p[-1] == ' ') &&
		    (p[n] == '\0' || p[n] == ',' || p[n] == ' ' || p[n] == '\n'))
			return true;
	return false;
}

const char *cgroups_next_line(const char *text, char *ret, size_t cap)
{
	size_t n = strcspn(text, "\n");

	if (*text == '\0')
		return NULL;
	(void)snprintf(ret, cap, "%.*s", (int)(n < cap ? n : cap - 1), text);
	return text + n + (text[n] == '\n');
}

int cgroups_read_tables(struct cgroups_tables *ret, struct err *e)
{
	if (io_read_file(AT_FDCWD, "/proc/self/cgroup", ret->own, sizeof(ret->own), e) < 0 ||
	    io_read_file(AT_FDCWD, "/proc/self/mounts", ret->mounts, sizeof(ret->mounts), e) < 0)
		return -1;
	return 0;
}

int cgroups_own_path(const struct cgroups_tables *t, const char *controller, char *ret_path,
		     size_t cap)
{
	char line[PATH_MAX + 64];

	for (const char *at = t->own; (at = cgroups_next_line(at, line, sizeof(line))) != NULL;) {
		char *list = strchr(line, ':');
		char *path = list == NULL ? NULL : strchr(list + 1, ':');

		if (path == NULL)
			continue;
		*path++ = '\0';
		if (*controller == '\0' ? list[1] == '\0' : cgroups_list_has(list + 1, controller))
			return (size_t)snprintf(ret_path, cap, "%s", path) < cap ? 0 : -1;
	}
	return -1;
}

int cgroups_mount_point(const struct cgroups_tables *t, const char *type, const char *option,
			char *ret_path, size_t cap)
{
	char line[PATH_MAX + 512];

	/* Only lines that have the type in them are split: there may be thousands of others. */
	for (const char *text = t->mounts; (text = strstr(text, " cgroup")) != NULL;) {
		while (text > t->mounts && text[-1] != '\n')
			text--;
		text = cgroups_next_line(text, line, sizeof(line));
		char *save = NULL;
		char *source = strtok_r(line, " ", &save);
		char *at = strtok_r(NULL, " ", &save);
		char *kind = strtok_r(NULL, " ", &save);
		char *options = strtok_r(NULL, " ", &save);

		if (source != NULL && options != NULL && strcmp(kind, type) == 0 &&
		    (*option == '\0' || cgroups_list_has(options, option)) &&
		    (size_t)snprintf(ret_path, cap, "%s", at) < cap)
			return 0;
	}
	return -1;
}

int cgroups_open_dir(const char *base, const char *below)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", base, below) >= sizeof(path) ||
	    faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
