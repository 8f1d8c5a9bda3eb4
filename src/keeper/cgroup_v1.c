#include <fcntl.h>
#include <stdio.h>

#include "cgroup.h"
#include "io.h"

enum { DIR_CPU, DIR_CPUACCT, DIR_MEMORY, DIR_PIDS }; /* as in struct keeper_setup */

static int put(int dir, const char *file, uint64_t value, struct err *e)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return io_write_file(dir, file, text, e);
}

static int limit_memory(int dir, uint64_t bytes, struct err *e)
{
	if (put(dir, "memory.limit_in_bytes", bytes, e) < 0)
		return -1;
	/* v1 counts socket buffers apart; gone from the newest kernels, which count them with the
	 * rest. */
	if (faccessat(dir, "memory.kmem.tcp.limit_in_bytes", F_OK, 0) == 0 &&
	    put(dir, "memory.kmem.tcp.limit_in_bytes", bytes, e) < 0)
		return -1;
	/* Memory plus swap: without this the limit would only push pages out. The file is absent
	 * where the kernel does not account swap, and then nothing can be pushed out for us. */
	if (faccessat(dir, "memory.memsw.limit_in_bytes", F_OK, 0) == 0)
		return put(dir, "memory.memsw.limit_in_bytes", bytes, e);
	return 0;
}

static int limit_cpu(int dir, uint64_t millis, struct err *e)
{
	if (put(dir, "cpu.cfs_period_us", 100000, e) < 0)
		return -1;
	return put(dir, "cpu.cfs_quota_us", millis * 100, e);
}

static int limit(struct cgroup *g, const struct keeper_limits *l, struct err *e)
{
	if (l->memory_bytes > 0 && limit_memory(g->dirs[DIR_MEMORY], l->memory_bytes, e) < 0)
		return -1;
	if (l->cpu_millis > 0 && limit_cpu(g->dirs[DIR_CPU], l->cpu_millis, e) < 0)
		return -1;
	if (l->pids > 0 && put(g->dirs[DIR_PIDS], "pids.max", l->pids, e) < 0)
		return -1;
	for (unsigned i = 0; i < CGROUP_DIRS; i++) {
		if (g->dirs[i] < 0)
			continue;
		g->enter[i] = openat(g->dirs[i], "tasks", O_WRONLY | O_CLOEXEC);
		if (g->enter[i] < 0)
			return err_sys(e, "open tasks");
	}
	return 0;
}

static void stat(const struct cgroup *g, struct keeper_stat *ret)
{
	/* Often one hierarchy with cpu, and then no directory of its own. */
	int cpuacct = g->dirs[DIR_CPUACCT] < 0 ? g->dirs[DIR_CPU] : g->dirs[DIR_CPUACCT];

	ret->cpu_us = cgroup_number(cpuacct, "cpuacct.usage") / 1000;
	ret->memory_peak_bytes = cgroup_number(g->dirs[DIR_MEMORY], "memory.max_usage_in_bytes");
	ret->oom_kills = cgroup_field(g->dirs[DIR_MEMORY], "memory.oom_control", "oom_kill");
	ret->pids_peak = cgroup_number(g->dirs[DIR_PIDS], "pids.peak"); /* not in every kernel */
	ret->pids_refused = cgroup_field(g->dirs[DIR_PIDS], "pids.events", "max");
}

const struct cgroup_driver cgroup_v1_driver = { .limit = limit, .stat = stat };
