/* cgroup.c - what both cgroup versions have in common. */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "io.h"

static void release(struct cgroup *g)
{
	io_close_all(g->enter, CGROUP_DIRS);
	io_close_all(g->dirs, CGROUP_DIRS);
}

/* Between mkdir and flock somebody's sweep may take the directory for a leftover. It removes only
 * what it has locked, so once we hold our lock, either the directory is still there and stays, or
 * it is gone and we make it again. */
static int make_dir(int parent, const char *name, int *ret_fd, struct err *e)
{
	for (int tries = 0; tries < 8; tries++) {
		struct stat ours, there;

		if (mkdirat(parent, name, 0755) < 0)
			return err_sys(e, "mkdir cgroup %s", name);
		OWN_FD fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && flock(fd, LOCK_SH) == 0 && fstat(fd, &ours) == 0 &&
		    fstatat(parent, name, &there, 0) == 0 && ours.st_ino == there.st_ino) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
	}
	return err_set(e, ERR_CONFLICT, "cgroup %s: removed again and again", name);
}

int cgroup_create(const struct cgroup_root *root, const char *id,
		  const struct keeper_limits *limits, struct cgroup *ret, struct err *e)
{
	struct cgroup g = { .dirs = { -1, -1, -1, -1 }, .enter = { -1, -1, -1, -1 } };

	(void)snprintf(g.name, sizeof(g.name), "%s%s", KEEPER_CGROUP_PREFIX, id);
	for (unsigned i = 0; root->driver != NULL && i < CGROUP_DIRS; i++)
		if (root->dirs[i] >= 0 && make_dir(root->dirs[i], g.name, &g.dirs[i], e) < 0)
			goto undo;
	if (root->driver != NULL && root->driver->limit(&g, limits, e) < 0)
		goto undo;
	*ret = g;
	return 0;
undo:
	for (unsigned i = 0; i < CGROUP_DIRS; i++)
		if (g.dirs[i] >= 0)
			(void)unlinkat(root->dirs[i], g.name, AT_REMOVEDIR);
	release(&g);
	return -1;
}

int cgroup_born_in(const struct cgroup_root *root, const struct cgroup *g)
{
	return root->driver == &cgroup_v2_driver ? g->dirs[0] : -1;
}

int cgroup_enter(const struct cgroup *g, struct err *e)
{
	/* "0" is the writer itself: the kernel skips the lock that makes moving others slow
	 * (cgroup_procs_write_start, since Linux 5.6). */
	for (unsigned i = 0; i < CGROUP_DIRS; i++)
		if (g->enter[i] >= 0 && write(g->enter[i], "0", 1) != 1)
			return err_sys(e, "enter cgroup %s", g->name);
	return 0;
}

void cgroup_stat(const struct cgroup_root *root, const struct cgroup *g, struct keeper_stat *ret)
{
	if (root->driver != NULL)
		root->driver->stat(g, ret);
}

int cgroup_destroy(const struct cgroup_root *root, struct cgroup *g, struct err *e)
{
	int result = 0;

	for (unsigned i = 0; i < CGROUP_DIRS; i++) {
		unsigned wait_ms = 1;

		if (g->dirs[i] < 0)
			continue;
		while (unlinkat(root->dirs[i], g->name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
			struct timespec ts = { .tv_nsec = (long)wait_ms * 1000000 };

			if (errno != EBUSY || wait_ms > 512) {
				result = err_sys(e, "rmdir cgroup %s", g->name);
				break;
			}
			(void)nanosleep(&ts, NULL);
			wait_ms *= 2;
		}
	}
	release(g);
	return result;
}

uint64_t cgroup_number(int dir_fd, const char *file)
{
	char text[64];
	struct err e;

	if (dir_fd < 0 || io_read_file(dir_fd, file, text, sizeof(text), &e) < 0)
		return 0;
	return strtoull(text, NULL, 10);
}

uint64_t cgroup_field(int dir_fd, const char *file, const char *word)
{
	char text[4096];
	struct err e;
	size_t n = strlen(word);

	if (dir_fd < 0 || io_read_file(dir_fd, file, text, sizeof(text), &e) < 0)
		return 0;
	for (const char *p = text; p != NULL; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, word, n) == 0 && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
	}
	return 0;
}
