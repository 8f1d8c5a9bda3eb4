/* cgroups.c - theory of operation
 *
 * v1: each controller is its own hierarchy, and the cell's directory goes below the one the caller
 * itself is in (limits of its parents hold for its cells too). v2: one hierarchy; a directory with
 * processes cannot hand out controllers, so root's cells go to the top and an ordinary user's below
 * his own directory, if that was delegated to him and is empty otherwise. Hybrid machines (v2
 * mounted, controllers in v1) count as v1; of their v2 hierarchy servers use only what needs no
 * controller, below their own directory there. */
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

#include "io.h"

enum { DIR_CPU, DIR_CPUACCT, DIR_MEMORY, DIR_PIDS };
static const char *const controllers[] = { "cpu", "cpuacct", "memory", "pids" };

/* ",a,b,c," contains ",b,"? */
static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
		if ((p == list || p[-1] == ',' || p[-1] == ' ') &&
		    (p[n] == '\0' || p[n] == ',' || p[n] == ' ' || p[n] == '\n'))
			return true;
	return false;
}

/* The two files that say where cgroups are, read once. */
struct tables {
	char own[8192];	    /* /proc/self/cgroup: "4:memory:/a/b" */
	char mounts[65536]; /* /proc/self/mounts: "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0
			       0" */
};

/* Copies the next line to ret and returns where the one after it begins; NULL at the end. */
static const char *next_line(const char *text, char *ret, size_t cap)
{
	size_t n = strcspn(text, "\n");

	if (*text == '\0')
		return NULL;
	(void)snprintf(ret, cap, "%.*s", (int)(n < cap ? n : cap - 1), text);
	return text + n + (text[n] == '\n');
}

/* The keeper's own directory in the hierarchy with this controller ("" for v2). */
static int own_path(const struct tables *t, const char *controller, char *ret_path, size_t cap)
{
	char line[PATH_MAX + 64];

	for (const char *at = t->own; (at = next_line(at, line, sizeof(line))) != NULL;) {
		char *list = strchr(line, ':');
		char *path = list == NULL ? NULL : strchr(list + 1, ':');

		if (path == NULL)
			continue;
		*path++ = '\0';
		if (*controller == '\0' ? list[1] == '\0' : list_has(list + 1, controller))
			return (size_t)snprintf(ret_path, cap, "%s", path) < cap ? 0 : -1;
	}
	return -1;
}

/* Where the hierarchy is mounted: looks for the type and, on v1, the option. */
static int mount_point(const struct tables *t, const char *type, const char *option, char *ret_path,
		       size_t cap)
{
	char line[PATH_MAX + 512];

	/* From one line with the type in it to the next; the others are not worth splitting. */
	for (const char *text = t->mounts; (text = strstr(text, " cgroup")) != NULL;) {
		while (text > t->mounts && text[-1] != '\n')
			text--;
		text = next_line(text, line, sizeof(line));
		char *save = NULL;
		char *source = strtok_r(line, " ", &save);
		char *at = strtok_r(NULL, " ", &save);
		char *kind = strtok_r(NULL, " ", &save);
		char *options = strtok_r(NULL, " ", &save);

		if (source != NULL && options != NULL && strcmp(kind, type) == 0 &&
		    (*option == '\0' || list_has(options, option)) &&
		    (size_t)snprintf(ret_path, cap, "%s", at) < cap)
			return 0;
	}
	return -1;
}

/* Opens a directory in which we may make others. */
static int open_dir(const char *base, const char *below)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", base, below) >= sizeof(path) ||
	    faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void find_v1(const struct tables *t, struct cgroups *r)
{
	char base[PATH_MAX], own[PATH_MAX], cpu_base[PATH_MAX] = "";

	r->version = 1;
	for (unsigned i = 0; i < COUNT(controllers); i++) {
		if (mount_point(t, "cgroup", controllers[i], base, sizeof(base)) < 0 ||
		    own_path(t, controllers[i], own, sizeof(own)) < 0)
			continue;
		/* One hierarchy may have several controllers: one directory then does for all. */
		if (i == DIR_CPUACCT && strcmp(base, cpu_base) == 0)
			continue;
		if (i == DIR_CPU)
			(void)snprintf(cpu_base, sizeof(cpu_base), "%s", base);
		r->dirs[i] = open_dir(base, own);
	}
	r->limits = (r->dirs[DIR_CPU] >= 0 ? (unsigned)CELL_LIMIT_CPU : 0) |
		    (r->dirs[DIR_MEMORY] >= 0 ? (unsigned)CELL_LIMIT_MEMORY : 0) |
		    (r->dirs[DIR_PIDS] >= 0 ? (unsigned)CELL_LIMIT_PIDS : 0);
}

unsigned cgroups_enable(int dir)
{
	static const struct {
		const char *word, *enable;
		unsigned limit;
	} wanted[] = {
		{ "cpu", "+cpu", CELL_LIMIT_CPU },
		{ "memory", "+memory", CELL_LIMIT_MEMORY },
		{ "pids", "+pids", CELL_LIMIT_PIDS },
	};
	char have[256];
	unsigned got = 0;
	struct err e;

	for (unsigned i = 0; i < COUNT(wanted); i++) {
		if (io_read_file(dir, "cgroup.subtree_control", have, sizeof(have), &e) < 0)
			return 0;
		if (list_has(have, wanted[i].word) ||
		    io_write_file(dir, "cgroup.subtree_control", wanted[i].enable, &e) == 0)
			got |= wanted[i].limit;
	}
	return got;
}

/* A directory with processes in it cannot hand out all controllers, and we are in the one delegated
 * to us, as when started by systemd-run --scope: we move to one below it. */
static int step_aside(int dir)
{
	struct err e;

	if (mkdirat(dir, "cordon.caller", 0755) < 0 && errno != EEXIST)
		return -1;
	return io_write_file(dir, "cordon.caller/cgroup.procs", "0", &e);
}

static void find_v2(const struct tables *t, struct cgroups *r, const char *base)
{
	char own[PATH_MAX] = "";

	r->version = 2;
	if (geteuid() != 0 && own_path(t, "", own, sizeof(own)) < 0)
		return;
	r->dirs[0] = open_dir(base, own);
	if (r->dirs[0] < 0)
		return;
	if (geteuid() == 0 || step_aside(r->dirs[0]) == 0)
		r->limits = cgroups_enable(r->dirs[0]);
}

static int read_tables(struct tables *ret, struct err *e)
{
	if (io_read_file(AT_FDCWD, "/proc/self/cgroup", ret->own, sizeof(ret->own), e) < 0 ||
	    io_read_file(AT_FDCWD, "/proc/self/mounts", ret->mounts, sizeof(ret->mounts), e) < 0)
		return -1;
	return 0;
}

void cgroups_find(struct cgroups *ret)
{
	static struct tables t;
	char base[PATH_MAX];
	struct err e;

	*ret = (struct cgroups){ .dirs = { -1, -1, -1, -1, -1 } };
	if (read_tables(&t, &e) < 0)
		(void)snprintf(ret->why, sizeof(ret->why), "%.*s", (int)sizeof(ret->why) - 1,
			       e.msg);
	else if (mount_point(&t, "cgroup", "memory", base, sizeof(base)) == 0)
		find_v1(&t, ret);
	else if (mount_point(&t, "cgroup2", "", base, sizeof(base)) == 0)
		find_v2(&t, ret, base);
	else
		(void)snprintf(ret->why, sizeof(ret->why), "no cgroup file system is mounted");
	if (ret->limits == 0) {
		io_close_all(ret->dirs, CELL_CGROUP_DIRS);
		if (ret->why[0] == '\0')
			(void)snprintf(ret->why, sizeof(ret->why),
				       "no cgroup v%d directory is delegated to this user",
				       ret->version);
		ret->version = 0;
	} else if (ret->limits != CELL_LIMIT_ALL) {
		(void)snprintf(ret->why, sizeof(ret->why), "cgroup v%d lacks%s%s%s", ret->version,
			       (ret->limits & CELL_LIMIT_MEMORY) ? "" : " memory",
			       (ret->limits & CELL_LIMIT_CPU) ? "" : " cpu",
			       (ret->limits & CELL_LIMIT_PIDS) ? "" : " pids");
	}
}

/* Are cells possible below this directory, and can they be frozen there? */
static bool try_unified(int dir)
{
	char name[64], file[96];
	bool ok;

	(void)snprintf(name, sizeof(name), "cordon.try.%d", (int)getpid());
	(void)snprintf(file, sizeof(file), "%s/cgroup.freeze", name);
	if (mkdirat(dir, name, 0755) < 0)
		return false;
	ok = faccessat(dir, file, W_OK, AT_EACCESS) == 0;
	(void)unlinkat(dir, name, AT_REMOVEDIR);
	return ok;
}

void cgroups_find_unified(struct cgroups *c)
{
	static struct tables t;
	char base[PATH_MAX], own[PATH_MAX];
	struct err e;

	if (c->version != 1 || read_tables(&t, &e) < 0 ||
	    mount_point(&t, "cgroup2", "", base, sizeof(base)) < 0 ||
	    own_path(&t, "", own, sizeof(own)) < 0)
		return;
	OWN_FD dir = open_dir(base, own);
	if (dir >= 0 && try_unified(dir))
		c->dirs[CELL_CGROUP_UNIFIED] = TAKE_FD(dir);
}

/* One line for each directory, empty where there is none. */
static int write_paths(const struct cgroups *c, int dir_fd, const char *name, struct err *e)
{
	char text[CELL_CGROUP_DIRS * (PATH_MAX + 1)], link[64];
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
	OWN_FD fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, "open %s", name);
	return io_write_all(fd, text, len, e);
}

/* The folder is cordond's, who faces the network: a file in it that is not ours says nothing, or we
 * would make cells, and kill what is in them, wherever he likes. */
static bool is_ours(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
	       st.st_nlink == 1;
}

/* In the same hierarchy as the one that was found, so it is a cgroup, and of the right controller.
 */
static int open_cgroup(const char *path, int found)
{
	OWN_FD fd = open_dir(path, "");
	struct stat a, b;

	if (fd < 0 || fstat(fd, &a) < 0 || fstat(found, &b) < 0 || a.st_dev != b.st_dev)
		return -1;
	return TAKE_FD(fd);
}

/* Opens what the lines say; false unless it is just what c has, elsewhere or not. */
static bool open_paths(const char *text, const struct cgroups *c, int ret_dirs[CELL_CGROUP_DIRS])
{
	char line[PATH_MAX];

	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++) {
		text = next_line(text, line, sizeof(line));
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
	struct err e;

	if (!is_ours(dir_fd, name) || io_read_file(dir_fd, name, text, sizeof(text), &e) < 0 ||
	    !open_paths(text, c, dirs)) {
		io_close_all(dirs, CELL_CGROUP_DIRS);
		return false;
	}
	io_close_all(c->dirs, CELL_CGROUP_DIRS);
	memcpy(c->dirs, dirs, sizeof(dirs));
	return true;
}

int cgroups_remember(const struct cgroups *c, int dir_fd, const char *name, struct err *e)
{
	if (!is_ours(dir_fd, name))
		(void)unlinkat(dir_fd, name, 0);
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
		/* Locked, and the name still means what we have locked: then only we can remove it.
		 */
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
