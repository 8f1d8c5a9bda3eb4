/* keeper.h - the keeper's state: its setup and its descriptors. Set by main.c, constant afterwards.
 */
#pragma once

#include "cell/keeper/cgroup.h"

struct keeper {
	struct keeper_setup setup;
	struct cgroup_parents cgroups;
	int shim_fd;	 /* borrowed: KEEPER_FD_SHIM. -1: cordon-shim is not installed */
	int proc_sys_fd; /* owned: /proc/sys */
};

/* ops.c: sends HELLO and answers requests until the other end of channel A closes. Then destroys
 * the cell that does not linger. */
int ops_serve(int sock, const struct keeper *k);

/* Send HELLO with the reason why the keeper cannot work. */
int ops_refuse(int sock, const struct err *why);
