/* cgroups_v2.c - cgroup v2: one hierarchy for all controllers. A directory with processes in it
 * cannot have controllers for its sub-directories. So root's cells are made at the top, and an
 * ordinary user's below the user's own directory, if it is delegated and empty of other processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/cellctl/cgroups_private.h"
#include "cell/cellctl/usage.h"
#include "lib/base/io.h"

/* Enable the controllers that cells need for sub-directories of this one. Return the set of
 * CELL_LIMIT_* that they have now. */
static unsigned cgroups_v2_enable(int dir)
{
	static const struct {
		const char *word, *enable;
		unsigned limit;
	} wanted[] = {
		{ "cpu", "+cpu", CELL_LIMIT_CPU },
		{ "memory", "+memory", CELL_LIMIT_MEMORY },
		{ "pids", "+pids", CELL_LIMIT_PIDS },
		{ "io", "+io", CELL_LIMIT_DISK },
	};
	char have[256];
	unsigned got = 0;
	struct err e;

	for (unsigned i = 0; i < COUNT(wanted); i++) {
		if (io_read_file(dir, "cgroup.subtree_control", have, sizeof(have), &e) < 0)
			return 0;
		if (cgroups_list_has(have, wanted[i].word) ||
		    io_write_file(dir, "cgroup.subtree_control", wanted[i].enable, &e) == 0)
			got |= wanted[i].limit;
	}
	return got;
}

/* Move this process to a sub-directory, so that the user's delegated directory (as by systemd-run
 * --scope) has no processes in it. */
static int cgroups_v2_step_aside(int dir)
{
	struct err e;

	if (mkdirat(dir, "cordon.caller", 0755) < 0 && errno != EEXIST)
		return -1;
	return io_write_file(dir, "cordon.caller/cgroup.procs", "0", &e);
}

static void cgroups_v2_find(const struct cgroups_tables *t, const char *base, struct cgroups *r)
{
	char own[PATH_MAX] = "";

	r->version = 2;
	if (geteuid() != 0 && cgroups_own_path(t, "", own, sizeof(own)) < 0)
		return;
	r->dirs[0] = cgroups_open_dir(base, own);
	if (r->dirs[0] < 0)
		return;
	if (geteuid() == 0 || cgroups_v2_step_aside(r->dirs[0]) == 0)
		r->limits = cgroups_v2_enable(r->dirs[0]);
}

static bool cgroups_v2_passes_on(int dir, unsigned limits)
{
	return cgroups_v2_enable(dir) == limits;
}

static const struct cgroups_source sources[] = {
	{ offsetof(struct usage, cpu_us), 0, "cpu.stat", "usage_usec", 1 },
	{ offsetof(struct usage, memory_bytes), 0, "memory.current", "", 1 },
	{ offsetof(struct usage, memory_peak_bytes), 0, "memory.peak", "", 1 },
	{ offsetof(struct usage, oom_kills), 0, "memory.events", "oom_kill", 1, true },
	{ offsetof(struct usage, pids), 0, "pids.current", "", 1 },
	{ offsetof(struct usage, pids_peak), 0, "pids.peak", "", 1, true },
	{ offsetof(struct usage, pids_refused), 0, "pids.events", "max", 1, true },
};

static const struct cgroups_sum sums[] = {
	{ CELL_LIMIT_MEMORY, 0, "memory.max" },
	{ CELL_LIMIT_PIDS, 0, "pids.max" },
};

const struct cgroups_version cgroups_v2 = {
	.find = cgroups_v2_find,
	.passes_on = cgroups_v2_passes_on,
	.sources = sources,
	.nsources = COUNT(sources),
	.sums = sums,
	.nsums = COUNT(sums),
	.keeper = { .nfiles = 4,
		    .files = { CGROUPS_LIMIT(0, "memory.max", memory_bytes, 1, false),
			       CGROUPS_LIMIT(0, "memory.swap.max", memory_bytes, 0, true),
			       CGROUPS_LIMIT(0, "cpu.max", cpu_millis, CGROUPS_QUOTA_US, false),
			       CGROUPS_LIMIT(0, "pids.max", pids, 1, false) } },
};
