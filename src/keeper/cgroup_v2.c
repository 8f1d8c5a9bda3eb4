#include <stdio.h>

#include "cgroup.h"
#include "io.h"

static int limit(struct cgroup *g, const struct keeper_limits *l, struct err *e)
{
	char text[64];
	int dir = g->dirs[0];

	if (l->memory_bytes > 0) {
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)l->memory_bytes);
		if (io_write_file(dir, "memory.max", text, e) < 0)
			return -1;
		/* Absent where the kernel has no swap accounting. */
		if (faccessat(dir, "memory.swap.max", F_OK, 0) == 0 &&
		    io_write_file(dir, "memory.swap.max", "0", e) < 0)
			return -1;
	}
	if (l->cpu_millis > 0) {
		(void)snprintf(text, sizeof(text), "%llu 100000",
			       (unsigned long long)l->cpu_millis * 100);
		if (io_write_file(dir, "cpu.max", text, e) < 0)
			return -1;
	}
	if (l->pids > 0) {
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)l->pids);
		if (io_write_file(dir, "pids.max", text, e) < 0)
			return -1;
	}
	return 0;
}

static void stat(const struct cgroup *g, struct keeper_stat *ret)
{
	int dir = g->dirs[0];

	ret->cpu_us = cgroup_field(dir, "cpu.stat", "usage_usec");
	ret->memory_peak_bytes = cgroup_number(dir, "memory.peak"); /* since Linux 5.19 */
	ret->oom_kills = cgroup_field(dir, "memory.events", "oom_kill");
	ret->pids_peak = cgroup_number(dir, "pids.peak"); /* not in every kernel */
	ret->pids_refused = cgroup_field(dir, "pids.events", "max");
}

const struct cgroup_driver cgroup_v2_driver = { .limit = limit, .stat = stat };
