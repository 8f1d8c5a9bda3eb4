/* cgroups_group.h - one cgroup around all cells of a server, with limits on their sum.
 *
 * Each cell has limits of its own, but many cells that use their limits fully could take all memory
 * and process ids of the machine. The kernel enforces the group's limits on what all cells really
 * use together, so cells fail before the machine and its daemons do. Called by cordon serve. */
#pragma once

#include "cell/cellctl/cgroups.h"

/* Different from CELL_CGROUP_PREFIX: cgroups_sweep() removes empty directories with that prefix. */
#define CGROUPS_GROUP_PREFIX "cordon.server-"

/* Limits of the group. 0: a share of the machine's (KEPT_MEMORY, KEPT_PIDS in cgroups_group.c). */
struct cgroups_sums {
	uint64_t memory_bytes;
	uint64_t pids;
};

/* Make a directory of the group below each directory of c, and replace c's directories by them.
 * `name` is unique to the server among the groups of one parent. */
int cgroups_group_make(struct cgroups *c, const char *name, struct err *e) MUST_USE;

/* Set the limits of the group, whose directories are c's. Repeatable. Directories outside of a
 * group (an earlier version made cells there) stay as they are, and *ret_bounded is false then. */
int cgroups_group_bound(const struct cgroups *c, const struct cgroups_sums *sums, bool *ret_bounded,
			struct err *e) MUST_USE;

/* Take a shared flock on the group, which marks its server as running for as long as a process has
 * c's directories open. Cells of a group without the lock count as orphans (orphans.h). False: it
 * could not be taken. */
bool cgroups_group_hold(const struct cgroups *c) MUST_USE;

/* Remove the group if no cell is in it. */
void cgroups_group_remove(const struct cgroups *c);
