/* cgroups.c - finds the cgroup directories for cells, remembers them over a restart of the server,
 * and removes directories of cells that are gone. cgroups_v1.c and cgroups_v2.c have what differs
 * between the versions, cgroups_tables.c reads the kernel's tables. See cgroups.h. */
#include "cgroups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "cgroups_private.h"
#include "io.h"

const struct cgroups_version *cgroups_version(const struct cgroups *c)
{
	return c->version == 1 ? &cgroups_v1 : c->version == 2 ? &cgroups_v2 : NULL;
}

void cgroups_find(struct cgroups *ret)
{
	static struct cgroups_tables t;
	char base[PATH_MAX];
	struct err e;

	*ret = (struct cgroups){ .dirs = { -1, -1, -1, -1, -1 } };
	if (cgroups_read_tables(&t, &e) < 0)
		(void)snprintf(ret->why, sizeof(ret->why), "%.*s", (int)sizeof(ret->why) - 1,
			       e.msg);
	else if (cgroups_mount_point(&t, "cgroup", "memory", base, sizeof(base)) == 0)
		cgroups_v1.find(&t, base, ret);
	else if (cgroups_mount_point(&t, "cgroup2", "", base, sizeof(base)) == 0)
		cgroups_v2.find(&t, base, ret);
	else
		(void)snprintf(ret->why, sizeof(ret->why), "no cgroup file system is mounted");
	if (ret->limits == 0) {
		io_close_all(ret->dirs, CELL_CGROUP_DIRS);
		if (ret->why[0] == '\0')
			(void)snprintf(ret->why, sizeof(ret->why),
				       "no cgroup v%d directory is delegated to this user",
				       ret->version);
		ret->version = 0;
	} else if ((ret->limits & CELL_LIMIT_ALL) != CELL_LIMIT_ALL) {
		(void)snprintf(ret->why, sizeof(ret->why), "cgroup v%d lacks%s%s%s", ret->version,
			       (ret->limits & CELL_LIMIT_MEMORY) ? "" : " memory",
			       (ret->limits & CELL_LIMIT_CPU) ? "" : " cpu",
			       (ret->limits & CELL_LIMIT_PIDS) ? "" : " pids");
	}
}

/* Writes one line for each directory, an empty one where there is none. */
static int write_paths(const struct cgroups *c, int dir_fd, const char *name, struct err *e)
{
	char text[CELL_CGROUP_DIRS * (PATH_MAX + 1)], link[64], fresh[NAME_MAX + 1];
	size_t len = 0;

	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++) {
		ssize_t n = 0;

		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", c->dirs[i]);
		if (c->dirs[i] >= 0)
			n = readlink(link, text + len, PATH_MAX);
		if (n < 0 || n == PATH_MAX)
			return err_set(e, ERR_SYSTEM, "the path of a cgroup is not known");
		len += (size_t)n;
		text[len++] = '\n';
	}
	(void)snprintf(fresh, sizeof(fresh), "%s.new", name);
	(void)unlinkat(dir_fd, fresh, 0);
	OWN_FD fd = openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "open %s", fresh);
	if (io_write_all(fd, text, len, e) < 0)
		return -1;
	if (renameat(dir_fd, fresh, dir_fd, name) < 0)
		return err_sys(e, "rename %s", fresh);
	return 0;
}

/* The directory belongs to cordond, which is exposed to the network. A file in it that another user
 * owns is ignored: otherwise a cordond that was taken over could choose in which cgroups cells are
 * made and processes killed. The file is checked after it was opened: its name can mean another one
 * at any time. */
static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 && st.st_nlink == 1;
}

static bool read_paths(int dir_fd, const char *name, char *ret_text, size_t cap)
{
	OWN_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 || !is_ours(fd) ? -1 : pread(fd, ret_text, cap - 1, 0);

	if (n < 0)
		return false;
	ret_text[n] = '\0';
	return true;
}

/* Opens a directory of the file. It must be in the same hierarchy as the one that was found, so
 * that it is a cgroup of the right controller. */
static int open_cgroup(const char *path, int found)
{
	OWN_FD fd = cgroups_open_dir(path, "");
	struct stat a, b;

	if (fd < 0 || fstat(fd, &a) < 0 || fstat(found, &b) < 0 || a.st_dev != b.st_dev)
		return -1;
	return TAKE_FD(fd);
}

/* Opens the directories of the file; false unless it has one for each directory of c and no others.
 */
static bool open_paths(const char *text, const struct cgroups *c, int ret_dirs[CELL_CGROUP_DIRS])
{
	char line[PATH_MAX];

	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++) {
		text = cgroups_next_line(text, line, sizeof(line));
		if (text == NULL || (line[0] != '\0') != (c->dirs[i] >= 0))
			return false;
		ret_dirs[i] = line[0] == '\0' ? -1 : open_cgroup(line, c->dirs[i]);
		if (line[0] != '\0' && ret_dirs[i] < 0)
			return false;
	}
	return true;
}

bool cgroups_recall(struct cgroups *c, int dir_fd, const char *name)
{
	static char text[CELL_CGROUP_DIRS * (PATH_MAX + 1) + 1];
	int dirs[CELL_CGROUP_DIRS] = { -1, -1, -1, -1, -1 };

	if (!read_paths(dir_fd, name, text, sizeof(text)) || !open_paths(text, c, dirs)) {
		io_close_all(dirs, CELL_CGROUP_DIRS);
		return false;
	}
	io_close_all(c->dirs, CELL_CGROUP_DIRS);
	memcpy(c->dirs, dirs, sizeof(dirs));
	/* A group that an earlier version made may not pass on what only some cells need. */
	if ((c->limits & CELL_LIMIT_DISK) != 0 &&
	    !cgroups_version(c)->passes_on(c->dirs[0], c->limits))
		c->limits &= ~(unsigned)CELL_LIMIT_DISK;
	return true;
}

int cgroups_remember(const struct cgroups *c, int dir_fd, const char *name, struct err *e)
{
	return write_paths(c, dir_fd, name, e);
}

void cgroups_release(struct cgroups *c)
{
	io_close_all(c->dirs, CELL_CGROUP_DIRS);
}

static void sweep_dir(int parent)
{
	struct stat ours, there;
	OWN_FD fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d == NULL)
		return;
	(void)TAKE_FD(fd);
	for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
		if (strncmp(entry->d_name, CELL_CGROUP_PREFIX, strlen(CELL_CGROUP_PREFIX)) != 0)
			continue;
		OWN_FD one = openat(parent, entry->d_name,
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		/* Locked, and the name still means the directory that is locked: no other process
		 * removes or uses it now. */
		if (one >= 0 && fstat(one, &ours) == 0 && (ours.st_mode & S_ISVTX) == 0 &&
		    flock(one, LOCK_EX | LOCK_NB) == 0 &&
		    fstatat(parent, entry->d_name, &there, 0) == 0 && ours.st_ino == there.st_ino)
			(void)unlinkat(parent, entry->d_name, AT_REMOVEDIR);
	}
	(void)closedir(d);
}

void cgroups_sweep(const struct cgroups *c)
{
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++)
		if (c->dirs[i] >= 0)
			sweep_dir(c->dirs[i]);
}

void cgroups_remove(const struct cgroups *c, const char *id)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	char name[CELL_ID_MAX + sizeof(CELL_CGROUP_PREFIX)];
	unsigned tries = 2000;

	(void)snprintf(name, sizeof(name), "%s%s", CELL_CGROUP_PREFIX, id);
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++)
		while (c->dirs[i] >= 0 && unlinkat(c->dirs[i], name, AT_REMOVEDIR) < 0 &&
		       errno == EBUSY && tries-- > 0)
			(void)nanosleep(&pause, NULL);
}
