/* cgroups.h - finds the cgroup directories in which the keeper can make cells' directories. Called
 * by the programs that start a keeper, cordon run and cordon serve, with the rights of their user.
 */
#pragma once

#include <stdbool.h>

#include "lib/wire/keeper_msg.h"

struct cgroups {
	int version; /* 0: none usable */
	int mounted; /* 1 or 2: this version is there, usable or not. 0: none is */
	/* Owned, -1 where missing. v1: cpu, cpuacct, memory, pids, unified. v2: only the first. */
	int dirs[CELL_CGROUP_DIRS];
	unsigned limits; /* set of CELL_LIMIT_* that can be enforced */
	char why[128];	 /* what is missing, as text for users, "" if nothing */
};

/* Never fails: without usable cgroups, limits is 0 and why has the reason. */
void cgroups_find(struct cgroups *ret);
void cgroups_release(struct cgroups *c);
/* Where the program would have limits, for users: "inside `systemd-run ...`, or as root". */
const char *cgroups_advice(const struct cgroups *c, bool is_root);

/* Describe to the keeper how cells are limited by cgroups of this version. All zero without usable
 * cgroups. */
void cgroups_describe(const struct cgroups *c, struct keeper_cgroups *ret);

/* On a machine with v1, finds a v2 hierarchy beside it, with which cells can be frozen and killed
 * at once. Make a directory to try it, so it is for servers and not for every cordon run. */
void cgroups_find_unified(struct cgroups *c);

/* If a v2 hierarchy was found, cells need no directories in a hierarchy cpuacct: v2 counts the time
 * of processors without a controller. One directory is 3 to 6 % of the cost of a session. */
void cgroups_leave_out_cpuacct(struct cgroups *c);

/* The cells of a server are below the cgroup in which it was first started. The next server may be
 * started in another cgroup and must find them: cgroups_remember() writes the paths of the
 * directories to the file dir_fd/name, and cgroups_recall() replaces c's directories by those of
 * the file, if all of them still exist. The file must be where a reboot removes it. */
bool cgroups_recall(struct cgroups *c, int dir_fd, const char *name) MUST_USE;
int cgroups_remember(const struct cgroups *c, int dir_fd, const char *name, struct err *e) MUST_USE;

/* Remove the directories of cells whose keeper was killed: empty ones without a lock of a keeper.
 * Directories of lingering cells stay: their server destroys them. */
void cgroups_sweep(const struct cgroups *c);

/* Remove the directories of one cell whose keeper was killed. Wait up to ten seconds until its
 * processes have exited. */
void cgroups_remove(const struct cgroups *c, const char *id);
