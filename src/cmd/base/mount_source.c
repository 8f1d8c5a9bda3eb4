/* mount_source.c - see mount_source.h.
 *
 * A read-only mount protects its files only: sockets below it can be used, and the owner's secrets
 * can be read. So folders with sockets of the machine's services, its secrets or its users' keys
 * are refused without the caller's explicit permission. */
#include "cmd/base/mount_source.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/own.h"

enum reach {
	ITSELF,	       /* the folder, but nothing below it */
	ITS_CHILDREN,  /* and the folders in it */
	ALL_BELOW,     /* and everything below it */
	WHEN_WRITABLE, /* everything below it, in a writable mount */
};

struct mount_source_kept {
	const char *path;
	enum reach reach;
	const char *why;
};

static const struct mount_source_kept machine[] = {
	{ "/", ITSELF, "it is the whole machine" },
	{ "/proc", ALL_BELOW, "it controls the machine's kernel and processes" },
	{ "/sys", ALL_BELOW, "it controls the machine's kernel" },
	{ "/dev", ALL_BELOW, "it has the machine's devices" },
	{ "/run", ALL_BELOW, "it has sockets of the machine's services" },
	{ "/etc", ALL_BELOW, "it has the machine's secrets and settings" },
	{ "/boot", ALL_BELOW, "it has the machine's kernel" },
	{ "/root", ITSELF, "it has keys and sockets of root" },
	{ "/home", ITS_CHILDREN, "it has keys and sockets of a user" },
	{ "/var", ITSELF, "it has data of the machine's services" },
	{ "/var/lib", ITSELF, "it has data of the machine's services" },
	{ "/usr", WHEN_WRITABLE, "it has the machine's programs" },
};

/* How many parts below dir path is. 0: dir itself, -1: not below it. */
static int depth_below(const char *path, const char *dir)
{
	size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
	int depth = 0;

	if (strncmp(path, dir, n) != 0 || (path[n] != '\0' && path[n] != '/'))
		return -1;
	for (; path[n] != '\0'; n++)
		depth += path[n] == '/' && path[n + 1] != '\0';
	return depth;
}

/* Compare its path, free of links, and its identity under another path (a bind mount). */
static bool mount_source_opens(const char *path, const struct stat *st, bool writable,
			       const struct mount_source_kept *k)
{
	static const int reach[] = {
		[ITSELF] = 0, [ITS_CHILDREN] = 1, [ALL_BELOW] = INT_MAX, [WHEN_WRITABLE] = INT_MAX
	};
	int below = depth_below(path, k->path);
	struct stat other;

	if (k->reach == WHEN_WRITABLE && !writable)
		return false;
	if (below >= 0 ? below <= reach[k->reach] : depth_below(k->path, path) > 0)
		return true;
	return stat(k->path, &other) == 0 && other.st_dev == st->st_dev &&
	       other.st_ino == st->st_ino;
}

int mount_source_check(int source_fd, bool writable, const char *const *own, size_t nown,
		       const char *escape, struct err *e)
{
	char link[32], path[PATH_MAX];
	struct stat st;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", source_fd);
	if (fstat(source_fd, &st) < 0 || realpath(link, path) == NULL)
		return err_sys(e, "path of the source");
	for (size_t i = 0; i < COUNT(machine) + nown; i++) {
		char real[PATH_MAX];
		struct mount_source_kept k = { NULL, ALL_BELOW, "it has data of Cordon itself" };

		if (i < COUNT(machine)) {
			k = machine[i];
			if (realpath(k.path, real) != NULL) /* /home may be a link */
				k.path = real;
		} else if (own[i - COUNT(machine)] != NULL && own[i - COUNT(machine)][0] != '\0') {
			k.path = realpath(own[i - COUNT(machine)], real);
		}
		if (k.path != NULL && mount_source_opens(path, &st, writable, &k))
			return err_set(e, ERR_DENIED,
				       "%.200s is or has %.200s: %s; %s allows it all the same",
				       path, k.path, k.why, escape);
	}
	return 0;
}
