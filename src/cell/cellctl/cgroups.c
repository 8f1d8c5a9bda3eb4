/* cgroups.c - finds the cgroup directories for cells, remembers them over a restart of the server,
 * and removes directories of ended cells. cgroups_v1.c and cgroups_v2.c have what differs between
 * the versions. See cgroups.h. */
#include "cell/cellctl/cgroups.h"

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
#include <unistd.h>

#include "cell/cellctl/cgroups_private.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

/* The kernel's tables, /proc/self/cgroup and /proc/self/mounts: the mounted cgroup file systems,
 * and the place of this process in them. */

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
			return str_copy_to(ret_path, cap, path) ? 0 : -1;
	}
	return -1;
}

int cgroups_mount_point(const struct cgroups_tables *t, const char *type, const char *option,
			char *ret_path, size_t cap)
{
	char line[PATH_MAX + 512];

	/* Only lines with the type are split: there may be thousands of others. */
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
		    str_copy_to(ret_path, cap, at))
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

const struct cgroups_version *cgroups_version(const struct cgroups *c)
{
	return c->version == 1 ? &cgroups_v1 : c->version == 2 ? &cgroups_v2 : NULL;
}

void cgroups_describe(const struct cgroups *c, struct keeper_cgroups *ret)
{
	const struct cgroups_version *v = cgroups_version(c);

	*ret = v == NULL ? (struct keeper_cgroups){ 0 } : v->keeper;
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
	else if (cgroups_mount_point(&t, "cgroup", "memory", base, sizeof(base)) == 0) {
		ret->mounted = 1;
		cgroups_v1.find(&t, base, ret);
	} else if (cgroups_mount_point(&t, "cgroup2", "", base, sizeof(base)) == 0) {
		ret->mounted = 2;
		cgroups_v2.find(&t, base, ret);
	} else
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

/* Only v2 lets a service manager hand a directory to a user. */
const char *cgroups_advice(const struct cgroups *c, bool is_root)
{
	if (is_root)
		return "where cgroup v2 (or v1 with cpu, memory and pids) is mounted writable";
	if (c->mounted == 2)
		return "inside `systemd-run --user --scope -p Delegate=yes`, or as root";
	return "as root, or on a machine booted with cgroup v2 "
	       "(systemd.unified_cgroup_hierarchy=1)";
}

/* Write one line for each directory, an empty one where there is none. */
static int cgroups_write_paths(const struct cgroups *c, int dir_fd, const char *name, struct err *e)
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

/* The directory belongs to cordond, and cordond is exposed to the network. Another user's file in
 * it is ignored: otherwise an attacker inside cordond could choose in which cgroups cells are made
 * and processes killed. The file is checked after it was opened: its name can mean another one at
 * any time. */
static bool cgroups_is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 && st.st_nlink == 1;
}

static bool cgroups_read_paths(int dir_fd, const char *name, char *ret_text, size_t cap)
{
	OWN_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 || !cgroups_is_ours(fd) ? -1 : pread(fd, ret_text, cap - 1, 0);

	if (n < 0)
		return false;
	ret_text[n] = '\0';
	return true;
}

/* Open a directory of the file. It must be in the same hierarchy as the found one: then it is a
 * cgroup of the right controller. */
static int cgroups_open_cgroup(const char *path, int found)
{
	OWN_FD fd = cgroups_open_dir(path, "");
	struct stat a, b;

	if (fd < 0 || fstat(fd, &a) < 0 || fstat(found, &b) < 0 || a.st_dev != b.st_dev)
		return -1;
	return TAKE_FD(fd);
}

/* Open the directories of the file. False unless it has one for each directory of c and no others.
 */
static bool cgroups_open_paths(const char *text, const struct cgroups *c,
			       int ret_dirs[CELL_CGROUP_DIRS])
{
	char line[PATH_MAX];

	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++) {
		text = cgroups_next_line(text, line, sizeof(line));
		if (text == NULL || (line[0] != '\0') != (c->dirs[i] >= 0))
			return false;
		ret_dirs[i] = line[0] == '\0' ? -1 : cgroups_open_cgroup(line, c->dirs[i]);
		if (line[0] != '\0' && ret_dirs[i] < 0)
			return false;
	}
	return true;
}

bool cgroups_recall(struct cgroups *c, int dir_fd, const char *name)
{
	static char text[CELL_CGROUP_DIRS * (PATH_MAX + 1) + 1];
	int dirs[CELL_CGROUP_DIRS] = { -1, -1, -1, -1, -1 };

	if (!cgroups_read_paths(dir_fd, name, text, sizeof(text)) ||
	    !cgroups_open_paths(text, c, dirs)) {
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
	return cgroups_write_paths(c, dir_fd, name, e);
}

void cgroups_release(struct cgroups *c)
{
	io_close_all(c->dirs, CELL_CGROUP_DIRS);
}

static void cgroups_sweep_dir(int parent)
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
		/* Locked, and the name still means the locked directory: no other process removes
		 * or uses it now. */
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
			cgroups_sweep_dir(c->dirs[i]);
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
