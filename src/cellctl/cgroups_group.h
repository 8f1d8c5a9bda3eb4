/* cgroups_group.h - one cgroup around all cells of a server, with limits on their sum.
 *
 * Each cell has limits of its own, but a hundred cells that use all they may could still take the
 * machine's memory and process ids, and with them the daemons. The group's limits are enforced by
 * the kernel on what is really used: cells run out, the machine does not. */
#pragma once

#include "cgroups.h"

/* Not CELL_CGROUP_PREFIX: cgroups_sweep() removes empty directories with that one. */
#define CGROUPS_GROUP_PREFIX "cordon.server-"

/* Limits of the group; 0: a share of what the machine has (cgroups_group.c). */
struct cgroups_sums {
	uint64_t memory_bytes;
	uint64_t pids;
};

/* Makes the group below each directory of c that limits something, and lets c's directories be the
 * group's. `name` is unique to the server among those of the same parent. */
int cgroups_group_make(struct cgroups *c, const char *name, struct err *e) MUST_USE;

/* Sets the limits of the group that c's directories are; repeatable. Directories that are no group
 * of ours (a server of an earlier version made its cells there) are left alone: *ret_bounded says
 * whether all limits hold. */
int cgroups_group_bound(const struct cgroups *c, const struct cgroups_sums *sums, bool *ret_bounded,
			struct err *e) MUST_USE;

/* Marks the group as one whose server runs, for as long as a process has c's directories open: a
 * shared flock. Without it the cells count as orphans (orphans.h). False: it could not be taken. */
bool cgroups_group_hold(const struct cgroups *c) MUST_USE;

/* Removes the group if no cell is in it. */
void cgroups_group_remove(const struct cgroups *c);
