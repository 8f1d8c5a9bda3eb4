/* cgroup.h - limits of one cell. Called by cell.c and ops.c.
 *
 * The differences between cgroup v1 and v2 are data of the setup message (struct keeper_cgroups):
 * the files that hold the limits, and the file by which PID 1 enters. The code here is the same for
 * both.
 *
 * Invariant: a cell's directories are made and limited before a process enters them, so that no
 * instruction of the cell runs without limits. PID 1 starts in the v2 directory, if there is one
 * (CLONE_INTO_CGROUP). Into v1 directories no process can be cloned. PID 1 enters those by itself
 * as its first action: if another process moved it, the kernel would wait for an RCU grace period.
 * A v2 hierarchy beside v1 limits nothing. It freezes and kills.
 *
 * The keeper holds a shared flock on the directories of its cell. A directory that can be locked
 * exclusively belongs to no keeper and is removed by cellctl's cgroups_sweep(), unless it has the
 * sticky bit: those belong to lingering cells, which their server destroys. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/wire/keeper_msg.h"

/* The directories in which cells' directories are made. The program that starts the keeper finds
 * and opens them (cell/cellctl/cgroups.h). */
struct cgroup_parents {
	const struct keeper_cgroups *how;
	int dirs[CELL_CGROUP_DIRS]; /* owned, -1 where a controller is missing, all if none is
				       usable */
};

struct cgroup {
	int dirs[CELL_CGROUP_DIRS];  /* owned, -1 if absent. This structure has descriptors only */
	int enter[CELL_CGROUP_DIRS]; /* owned: the files by which PID 1 enters, opened by the keeper
				      */
};

void cgroup_release(struct cgroup *g); /* the directories stay */

/* Make and limit the cell's directories. On failure nothing is left. */
int cgroup_create(const struct cgroup_parents *p, const struct keeper_create *r, struct cgroup *ret,
		  struct err *e) MUST_USE;

/* Limit how fast the cell may read from and write to the device of its disk, an image. Fail if
 * there are such limits and no v2 hierarchy that limits. */
int cgroup_limit_disk(const struct cgroup *g, dev_t device, const struct cell_limits *l,
		      struct err *e) MUST_USE;

/* The v2 directory among dirs: PID 1 starts in it, and freezing needs it. -1: there is none. */
int cgroup_unified(const struct cgroup_parents *p, const int *dirs);

/* Called by the new PID 1 before anything else: enters the directories other than the v2 one. */
int cgroup_enter(const struct cgroup *g, struct err *e) MUST_USE;

/* Return a pidfd of process pid if it is in the cell's cgroup, else -1. */
int cgroup_open_member(const struct cgroup_parents *p, const char *id, pid_t pid);

/* Freeze or thaw every process of the cell. Return when all are frozen. REASON_NOT_FROZEN: a
 * process does not come out of a system call in time. No program of the cell executes an
 * instruction then, either: the kernel stops that process before it returns to its program. The
 * cell stays so until it is thawed. */
int cgroup_freeze(const struct cgroup_parents *p, const char *id, bool on, struct err *e) MUST_USE;

/* Kill every process of the cell and remove its directories. ERR_CONFLICT if processes are alive
 * after patience_ms. A cell without directories is a success: a repeated call works. */
int cgroup_destroy(const struct cgroup_parents *p, const char *id, unsigned patience_ms,
		   struct err *e) MUST_USE;
