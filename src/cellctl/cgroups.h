/* cgroups.h - where on this machine cells' cgroups can be, for the keeper to be started with. */
#pragma once

#include <stdbool.h>

#include "keeper_msg.h"

struct cgroups {
	int version; /* 0: none usable */
	/* Owned; -1 where missing. v1: cpu, cpuacct, memory, pids, unified; v2: only the first. */
	int dirs[CELL_CGROUP_DIRS];
	unsigned limits; /* set of CELL_LIMIT_* that can be enforced */
	char why[128];	 /* what is missing, for people; "" if nothing */
};

/* Looks at the machine. Never fails: without cgroups, limits is 0 and why says why. */
void cgroups_find(struct cgroups *ret);
void cgroups_release(struct cgroups *c);

/* On a v1 machine, looks for a v2 hierarchy beside it, with which cells can be frozen and killed at
 * once. Tries it by making a directory, so it is for servers, not for every cordon run. */
void cgroups_find_unified(struct cgroups *c);

/* Cells of a server are below the cgroup it was first started in, and the next one, maybe started
 * elsewhere, must find them: cgroups_remember() writes the directories into the file dir_fd/name,
 * cgroups_recall() takes those of the file, if they are all there still. The file belongs where a
 * reboot removes it. */
bool cgroups_recall(struct cgroups *c, int dir_fd, const char *name) MUST_USE;
int cgroups_remember(const struct cgroups *c, int dir_fd, const char *name, struct err *e) MUST_USE;

/* Removes what killed keepers left behind: directories that no keeper holds and that are empty, but
 * for those of lingering cells, which are known to their server. */
void cgroups_sweep(const struct cgroups *c);

/* Removes those of one cell whose keeper was killed. Its processes may still be dying, which on a
 * busy machine takes a while: waits up to ten seconds. */
void cgroups_remove(const struct cgroups *c, const char *id);
