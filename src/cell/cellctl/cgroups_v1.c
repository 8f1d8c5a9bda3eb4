/* cgroups_v1.c - cgroup v1: each controller has its own hierarchy. Cells' directories are made
 * below the directory of the calling process, so limits of that hold for its cells, too. Hybrid
 * machines (v2 mounted, controllers in v1) count as v1. Servers use their v2 hierarchy only for
 * what needs no controller: freezing and killing. */
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/cellctl/cgroups_private.h"
#include "cell/cellctl/usage.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

enum { DIR_CPU, DIR_CPUACCT, DIR_MEMORY, DIR_PIDS }; /* as CELL_CGROUP_DIRS says */
static const char *const controllers[] = { "cpu", "cpuacct", "memory", "pids" };

static void cgroups_v1_find(const struct cgroups_tables *t, const char *memory_base,
			    struct cgroups *r)
{
	char base[PATH_MAX], own[PATH_MAX], cpu_base[PATH_MAX] = "";

	r->version = 1;
	for (unsigned i = 0; i < COUNT(controllers); i++) {
		if (cgroups_mount_point(t, "cgroup", controllers[i], base, sizeof(base)) < 0 ||
		    cgroups_own_path(t, controllers[i], own, sizeof(own)) < 0)
			continue;
		/* cpu and cpuacct may share a hierarchy: then one directory is enough. */
		if (i == DIR_CPUACCT && strcmp(base, cpu_base) == 0)
			continue;
		if (i == DIR_CPU)
			str_copy(cpu_base, base);
		r->dirs[i] = cgroups_open_dir(base, own);
	}
	r->limits = (r->dirs[DIR_CPU] >= 0 ? (unsigned)CELL_LIMIT_CPU : 0) |
		    (r->dirs[DIR_MEMORY] >= 0 ? (unsigned)CELL_LIMIT_MEMORY : 0) |
		    (r->dirs[DIR_PIDS] >= 0 ? (unsigned)CELL_LIMIT_PIDS : 0);
}

static bool cgroups_v1_passes_on(int dir, unsigned limits)
{
	return true; /* v1 needs nothing for it */
}

static const struct cgroups_source sources[] = {
	/* A cell has a directory in cpuacct only without a cgroup2 beside it. */
	{ offsetof(struct usage, cpu_us), CELL_CGROUP_UNIFIED, "cpu.stat", "usage_usec", 1 },
	{ offsetof(struct usage, cpu_us), DIR_CPUACCT, "cpuacct.usage", "", 1000, .or_first = true,
	  .if_none = true },
	{ offsetof(struct usage, memory_bytes), DIR_MEMORY, "memory.usage_in_bytes", "", 1 },
	{ offsetof(struct usage, memory_peak_bytes), DIR_MEMORY, "memory.max_usage_in_bytes", "",
	  1 },
	{ offsetof(struct usage, oom_kills), DIR_MEMORY, "memory.oom_control", "oom_kill", 1,
	  true },
	{ offsetof(struct usage, pids), DIR_PIDS, "pids.current", "", 1 },
	{ offsetof(struct usage, pids_peak), DIR_PIDS, "pids.peak", "", 1, true },
	{ offsetof(struct usage, pids_refused), DIR_PIDS, "pids.events", "max", 1, true },
};

static const struct cgroups_sum sums[] = {
	{ CELL_LIMIT_MEMORY, DIR_MEMORY, "memory.limit_in_bytes" },
	{ CELL_LIMIT_PIDS, DIR_PIDS, "pids.max" },
};

/* A process cannot be cloned into a v1 cgroup. So the keeper opens the files "tasks", and PID 1
 * writes itself into them before anything else. */
const struct cgroups_version cgroups_v1 = {
	.find = cgroups_v1_find,
	.passes_on = cgroups_v1_passes_on,
	.sources = sources,
	.nsources = COUNT(sources),
	.sums = sums,
	.nsums = COUNT(sums),
	.keeper = { .unified = CELL_CGROUP_UNIFIED,
		    .enter = "tasks",
		    .nfiles = 5,
		    .files = { CGROUPS_LIMIT(DIR_MEMORY, "memory.limit_in_bytes", memory_bytes, 1,
					     false),
			       CGROUPS_LIMIT(DIR_MEMORY, "memory.kmem.tcp.limit_in_bytes",
					     memory_bytes, 1, true),
			       CGROUPS_LIMIT(DIR_MEMORY, "memory.memsw.limit_in_bytes",
					     memory_bytes, 1, true),
			       CGROUPS_LIMIT(DIR_CPU, "cpu.cfs_quota_us", cpu_millis,
					     CGROUPS_QUOTA_US, false),
			       CGROUPS_LIMIT(DIR_PIDS, "pids.max", pids, 1, false) } },
};

/* Can directories be made below this one, and be frozen? */
static bool cgroups_v1_try_unified(int dir)
{
	char name[64], file[96];
	bool ok;

	/* Servers in different pid namespaces may have the same number. */
	(void)snprintf(name, sizeof(name), "cordon.try.%d.%llx", (int)getpid(),
		       (unsigned long long)clock_now_ns());
	(void)snprintf(file, sizeof(file), "%s/cgroup.freeze", name);
	if (mkdirat(dir, name, 0755) < 0)
		return false;
	ok = faccessat(dir, file, W_OK, AT_EACCESS) == 0;
	(void)unlinkat(dir, name, AT_REMOVEDIR);
	return ok;
}

void cgroups_find_unified(struct cgroups *c)
{
	static struct cgroups_tables t;
	char base[PATH_MAX], own[PATH_MAX];
	struct err e;

	if (c->version != 1 || cgroups_read_tables(&t, &e) < 0 ||
	    cgroups_mount_point(&t, "cgroup2", "", base, sizeof(base)) < 0 ||
	    cgroups_own_path(&t, "", own, sizeof(own)) < 0)
		return;
	OWN_FD dir = cgroups_open_dir(base, own);
	if (dir >= 0 && cgroups_v1_try_unified(dir))
		c->dirs[CELL_CGROUP_UNIFIED] = TAKE_FD(dir);
}

void cgroups_leave_out_cpuacct(struct cgroups *c)
{
	if (c->version == 1 && c->dirs[CELL_CGROUP_UNIFIED] >= 0)
		io_close_all(&c->dirs[DIR_CPUACCT], 1);
}
