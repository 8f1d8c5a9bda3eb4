/* keeper.h - what the keeper holds for its whole life: the machine's abilities and its own means.
 */
#pragma once

#include "cgroup.h"

struct keeper {
	struct keeper_setup setup;
	struct cgroup_root cgroups;
	int landlock_abi;
	int init_fd;	 /* owned: sealed copy of cordon-init, so that no cell can reach the file */
	int proc_sys_fd; /* owned: /proc/sys */
};
