/* keeper.h - what the keeper holds for its whole life: its abilities and its means. */
#pragma once

#include "cgroup.h"

struct keeper {
	struct keeper_setup setup;
	struct cgroup_root cgroups;
	int landlock_abi;
	int proc_sys_fd; /* owned: /proc/sys */
};

/* Channel A (ops.c). Says HELLO and answers requests until the other end closes; then ends the cell
 * that is not meant to stay. */
int ops_serve(int sock, const struct keeper *k);

/* Says HELLO with the reason why there will be no keeper. */
int ops_refuse(int sock, const struct err *why);
