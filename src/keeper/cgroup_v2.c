/* cgroup_v2.c - limits of a cell in the unified hierarchy. PID 1 is started in it
 * (CLONE_INTO_CGROUP), so there is nothing to enter. */

#include <stdio.h>
#include <sys/sysmacros.h>

#include "cgroup.h"
#include "io.h"

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

int cgroup_v2_limit_disk(const struct cgroup *g, dev_t device, const struct cell_limits *l,
			 struct err *e)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "%u:%u", major(device), minor(device));

	if (l->read_bps > 0)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " rbps=%llu",
			      (unsigned long long)l->read_bps);
	if (l->write_bps > 0)
		(void)snprintf(text + n, sizeof(text) - (size_t)n, " wbps=%llu",
			       (unsigned long long)l->write_bps);
	if (l->read_bps == 0 && l->write_bps == 0)
		return 0;
	return io_write_file(g->dirs[0], "io.max", text, e);
}
