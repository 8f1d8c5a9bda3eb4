#include "cell/cellctl/cgroups_group.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "cell/cellctl/cgroups_private.h"
#include "lib/base/io.h"

#define KEPT_MEMORY 8 /* 1/8 of the machine's memory is never used by cells */
#define KEPT_PIDS 4   /* and 1/4 of its process ids */

/* Replace dirs[i] by the directory of that name below it. */
static int cgroups_step_into(struct cgroups *c, unsigned i, const char *name, struct err *e)
{
	if (mkdirat(c->dirs[i], name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make cgroup %s", name);
	OWN_FD group = openat(c->dirs[i], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (group < 0)
		return err_sys(e, "open cgroup %s", name);
	if (!cgroups_version(c)->passes_on(group, c->limits))
		return err_set(e, ERR_SYSTEM, "cgroup %s does not pass its controllers on", name);
	io_close_all(&c->dirs[i], 1);
	c->dirs[i] = TAKE_FD(group);
	return 0;
}

int cgroups_group_make(struct cgroups *c, const char *name, struct err *e)
{
	char full[64];

	(void)snprintf(full, sizeof(full), CGROUPS_GROUP_PREFIX "%s", name);
	for (unsigned i = 0; i < CELL_CGROUP_UNIFIED; i++)
		if (c->dirs[i] >= 0 && cgroups_step_into(c, i, full, e) < 0)
			return -1;
	return 0;
}

/* The last component of the directory's path. "" if it is not known. */
static void cgroups_name_of(int dir, char *ret_name, size_t cap)
{
	char link[64], path[PATH_MAX];
	ssize_t n;
	const char *slash;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	slash = strrchr(path, '/');
	(void)snprintf(ret_name, cap, "%.*s", (int)cap - 1, slash == NULL ? "" : slash + 1);
}

static bool cgroups_is_group(int dir)
{
	char name[NAME_MAX + 1];

	cgroups_name_of(dir, name, sizeof(name));
	return strncmp(name, CGROUPS_GROUP_PREFIX, strlen(CGROUPS_GROUP_PREFIX)) == 0;
}

/* The smaller of the two bounds that Linux has on process ids. 0: unknown. */
static uint64_t cgroups_machine_pids(void)
{
	static const char *const files[] = { "/proc/sys/kernel/pid_max",
					     "/proc/sys/kernel/threads-max" };
	uint64_t least = 0;
	char text[32];
	struct err e;

	for (size_t i = 0; i < COUNT(files); i++) {
		uint64_t n = io_read_file(AT_FDCWD, files[i], text, sizeof(text), &e) < 0
				     ? 0
				     : strtoull(text, NULL, 10);

		if (n > 0 && (least == 0 || n < least))
			least = n;
	}
	return least;
}

static int cgroups_sum_of(const struct cgroups_sum *l, const struct cgroups_sums *sums,
			  uint64_t *ret, struct err *e)
{
	struct sysinfo machine;

	*ret = l->bit == CELL_LIMIT_MEMORY ? sums->memory_bytes : sums->pids;
	if (*ret > 0)
		return 0;
	if (l->bit == CELL_LIMIT_MEMORY) {
		if (sysinfo(&machine) < 0)
			return err_sys(e, "memory of the machine");
		*ret = (uint64_t)machine.totalram * machine.mem_unit;
		*ret -= *ret / KEPT_MEMORY;
	} else {
		*ret = cgroups_machine_pids();
		*ret -= *ret / KEPT_PIDS;
	}
	return *ret > 0 ? 0 : err_set(e, ERR_SYSTEM, "the machine's process ids are not known");
}

int cgroups_group_bound(const struct cgroups *c, const struct cgroups_sums *sums, bool *ret_bounded,
			struct err *e)
{
	const struct cgroups_version *v = cgroups_version(c);
	char text[32];
	uint64_t sum;

	*ret_bounded = v != NULL;
	for (size_t i = 0; v != NULL && i < v->nsums; i++) {
		const struct cgroups_sum *l = &v->sums[i];
		int dir = c->dirs[l->dir];

		if ((c->limits & l->bit) == 0 || dir < 0 || !cgroups_is_group(dir)) {
			*ret_bounded = false;
			continue;
		}
		if (cgroups_sum_of(l, sums, &sum, e) < 0)
			return -1;
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)sum);
		if (io_write_file(dir, l->file, text, e) < 0)
			return err_wrap(e, "limit of all cells");
	}
	return 0;
}

/* orphans_find() holds the lock exclusively for a moment, so a try that fails is repeated. */
bool cgroups_group_hold(const struct cgroups *c)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	for (unsigned i = 0; i < CELL_CGROUP_UNIFIED; i++) {
		unsigned tries = 200;

		if (c->dirs[i] < 0 || !cgroups_is_group(c->dirs[i]))
			continue;
		while (flock(c->dirs[i], LOCK_SH | LOCK_NB) < 0)
			if (tries-- == 0)
				return false;
			else
				(void)nanosleep(&pause, NULL);
	}
	return true;
}

void cgroups_group_remove(const struct cgroups *c)
{
	char name[NAME_MAX + 1];

	for (unsigned i = 0; i < CELL_CGROUP_UNIFIED; i++) {
		if (c->dirs[i] < 0 || !cgroups_is_group(c->dirs[i]))
			continue;
		cgroups_name_of(c->dirs[i], name, sizeof(name));
		OWN_FD parent = openat(c->dirs[i], "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (parent >= 0)
			(void)unlinkat(parent, name, AT_REMOVEDIR);
	}
}
