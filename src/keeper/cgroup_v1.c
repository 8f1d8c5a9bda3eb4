/* cgroup_v1.c - limits of a cell with cgroup v1, where each controller has its own hierarchy, and
 * how PID 1 enters.
 *
 * A process cannot be cloned into a v1 cgroup. So the keeper opens the "tasks" files, and PID 1
 * writes itself into them before anything else. Can be removed when no supported system boots with
 * cgroup v1: of the keeper's other files only cgroup_unified() depends on the version. */
#include <fcntl.h>
#include <unistd.h>

#include "cgroup.h"

enum { DIR_CPU, DIR_CPUACCT, DIR_MEMORY, DIR_PIDS }; /* as CELL_CGROUP_DIRS says */

int cgroup_v1_limit(struct cgroup *g, const struct cell_limits *l, struct err *e)
{
	static const struct cgroup_file files[] = {
		{ DIR_MEMORY, "memory.limit_in_bytes", CGROUP_LIMIT(memory_bytes), 1 },
		{ DIR_MEMORY, "memory.kmem.tcp.limit_in_bytes", CGROUP_LIMIT(memory_bytes), 1,
		  true },
		{ DIR_MEMORY, "memory.memsw.limit_in_bytes", CGROUP_LIMIT(memory_bytes), 1, true },
		{ DIR_CPU, "cpu.cfs_quota_us", CGROUP_LIMIT(cpu_millis), CGROUP_QUOTA_US },
		{ DIR_PIDS, "pids.max", CGROUP_LIMIT(pids), 1 },
	};

	if (cgroup_write_limits(g, files, COUNT(files), l, e) < 0)
		return -1;
	for (unsigned i = 0; i < CELL_CGROUP_UNIFIED; i++) {
		if (g->dirs[i] < 0)
			continue;
		g->enter[i] = openat(g->dirs[i], "tasks", O_WRONLY | O_CLOEXEC);
		if (g->enter[i] < 0)
			return err_sys(e, "open tasks");
	}
	return 0;
}

int cgroup_enter(const struct cgroup *g, struct err *e)
{
	/* "0" is the writing thread itself: the kernel then skips the lock that makes moving
	 * another process slow (cgroup_procs_write_start, since Linux 5.6). */
	for (unsigned i = 0; i < CGROUP_DIRS; i++)
		if (g->enter[i] >= 0 && write(g->enter[i], "0", 1) != 1)
			return err_sys(e, "enter cgroup");
	return 0;
}
