/* orphans.h - cells that belong to no running server: what cordon doctor lists.
 *
 * A server's cells outlive it. If it is gone for good, they end by themselves after their lease
 * (init/lease.h), but frozen ones do not, and the directories of their cgroups stay. All cells of a
 * server are below one group (cgroups_group.h), on which the server holds a lock as long as it
 * runs: a group that can be locked exclusively has no server. Groups are searched in every cgroup
 * file system that is mounted, because a server may have been started anywhere.
 *
 * Where there are no cgroups, cells are known by their PID 1 alone: they count as orphans if there
 * is no cordond at all on the machine.
 *
 * Reads only; needs no privilege, but sees more with it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cell_spec.h"
#include "err.h"

#define ORPHANS_MAX 16384 /* more cells than a machine can have id ranges for */

struct orphan {
	char id[CELL_ID_MAX]; /* "": not known */
	pid_t pid1;	      /* 0: nothing runs in it */
	unsigned processes;
	bool frozen;
	unsigned ndirs;
	char *dirs[CELL_CGROUP_DIRS]; /* owned: of its cgroups */
};

struct orphans {
	struct orphan *list; /* owned */
	size_t n;
	bool more; /* than ORPHANS_MAX, or than were looked at */
	size_t ngroups;
	char **groups; /* owned: of servers that are gone; at most ORPHANS_MAX */
};

/* Looks at the machine. Fails only if out of memory. */
int orphans_find(struct orphans *ret, struct err *e) MUST_USE;
void orphans_release(struct orphans *o);
