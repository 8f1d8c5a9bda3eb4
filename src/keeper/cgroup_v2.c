/* cgroup_v2.c - limits of a cell in the unified hierarchy. PID 1 is started in it
 * (CLONE_INTO_CGROUP), so there is nothing to enter. */

#include "cgroup.h"

int cgroup_v2_limit(struct cgroup *g, const struct cell_limits *l, struct err *e)
{
	static const struct cgroup_file files[] = {
		{ 0, "memory.max", CGROUP_LIMIT(memory_bytes), 1 },
		{ 0, "memory.swap.max", CGROUP_LIMIT(memory_bytes), 0, true },
		{ 0, "cpu.max", CGROUP_LIMIT(cpu_millis), CGROUP_QUOTA_US },
		{ 0, "pids.max", CGROUP_LIMIT(pids), 1 },
	};

	return cgroup_write_limits(g, files, COUNT(files), l, e);
}
