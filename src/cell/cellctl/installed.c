#include "cell/cellctl/installed.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/own.h"
#include "lib/base/str.h"

#define DELETED " (deleted)" /* added by the kernel when another file was installed */

/* Those that a server starts, and those that its keepers start in cells. */
static struct installed_kept {
	const char *name;
	int fd; /* owned. -1: not held */
} kept[] = {
	{ "cordond", -1 },	  { "cordon-keeper", -1 }, { "cordon-init", -1 },
	{ "cordon-shim", -1 },	  { "cordon-egress", -1 }, { "cordon-pull", -1 },
	{ "cordon-storage", -1 }, { "cordon-cache", -1 },  { "cordon-notary", -1 },
};

int installed_path(const char *name, char *ret_path, size_t cap, struct err *e)
{
	ssize_t n = readlink("/proc/self/exe", ret_path, cap - 1);
	char *slash;

	if (n < 0)
		return err_sys(e, "path of this program");
	ret_path[n] = '\0';
	if (n > (ssize_t)strlen(DELETED) && strcmp(ret_path + n - strlen(DELETED), DELETED) == 0)
		ret_path[n - (ssize_t)strlen(DELETED)] = '\0';
	slash = strrchr(ret_path, '/');
	if (slash == NULL || (size_t)(slash + 1 - ret_path) + strlen(name) >= cap)
		return err_set(e, ERR_SYSTEM, "path of this program is too long: %.100s", ret_path);
	str_copy_to(slash + 1, cap - (size_t)(slash + 1 - ret_path), name);
	return 0;
}

static int installed_find(const char *name, int *ret_fd, struct err *e)
{
	char path[PATH_MAX];

	if (installed_path(name, path, sizeof(path), e) < 0)
		return -1;
	/* By descriptor: the program may be in a folder that only this process can enter, such as
	 * /root. */
	OWN_FD fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0 || access(path, X_OK) < 0)
		return err_sys(e, "%s", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void installed_keep(void)
{
	struct err e;

	for (size_t i = 0; i < COUNT(kept); i++)
		IGNORED(installed_find(kept[i].name, &kept[i].fd, &e), "told by its start");
}

int installed_open(const char *name, int *ret_fd, struct err *e)
{
	for (size_t i = 0; i < COUNT(kept); i++) {
		if (strcmp(name, kept[i].name) != 0 || kept[i].fd < 0)
			continue;
		*ret_fd = fcntl(kept[i].fd, F_DUPFD_CLOEXEC, 0);
		return *ret_fd < 0 ? err_sys(e, "%s", name) : 0;
	}
	return installed_find(name, ret_fd, e);
}
