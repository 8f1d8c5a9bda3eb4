/* keeper.h - what the keeper holds for its whole life: what it was started with, and what it found
 * out at its start. Nothing of it changes afterwards. */
#pragma once

#include "cgroup.h"

struct keeper {
	struct keeper_setup setup;
	struct cgroup_parents cgroups;
	int landlock_abi;
	int proc_sys_fd; /* owned: /proc/sys */
};

/* Channel A (ops.c). Sends HELLO and answers requests until the other end closes; then ends the
 * cell that does not linger. */
int ops_serve(int sock, const struct keeper *k);

/* Sends HELLO with the reason why the keeper cannot work. */
int ops_refuse(int sock, const struct err *why);
