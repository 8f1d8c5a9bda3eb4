/* orphans.h - finds cells that belong to no running server, for cordon doctor.
 *
 * Cells outlive their server. If the server does not come back, they end by themselves after their
 * lease (cell/init/pid1/agentd.h), except frozen ones, and directories of their cgroups stay. All
 * cells of a server are below one group (cgroups_group.h), on which the server holds a lock while
 * it runs: a group that can be locked exclusively has no server. Every mounted cgroup file system
 * is searched, because a server may have been started in any cgroup.
 *
 * On a machine without cgroups, cells are found by their PID 1. They count as orphans if no cordond
 * runs on the machine.
 *
 * Changes nothing. Needs no privilege, but finds more with it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "lib/wire/cell_spec.h"

#define ORPHANS_MAX 16384 /* more cells than a machine can have id ranges for */

struct orphan {
	char id[CELL_ID_MAX]; /* "": not known */
	pid_t pid1;	      /* 0: no process runs in it */
	unsigned processes;
	bool frozen;
	unsigned ndirs;
	char *dirs[CELL_CGROUP_DIRS]; /* owned: of its cgroups */
};

struct orphans {
	struct orphan *list; /* owned */
	size_t n;
	bool more; /* there may be more: ORPHANS_MAX or DIRS_MAX was reached */
	size_t ngroups;
	char **groups; /* owned: paths of groups without a server, at most ORPHANS_MAX */
};

/* Fail only if out of memory. */
int orphans_find(struct orphans *ret, struct err *e) MUST_USE;
void orphans_release(struct orphans *o);

/* Is this the name (comm, with its newline) of a program for PID 1 of cells? */
bool orphans_is_pid1_name(const char *comm);
