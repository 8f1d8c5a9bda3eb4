/* cgroup.h - limits of one cell, by whichever cgroup version the machine has.
 *
 * A cell's directories are made and limited first and entered afterwards, so that no instruction
 * of the cell runs unlimited: on v2 PID 1 is born inside (CLONE_INTO_CGROUP), on v1 it enters by
 * itself before anything else, which unlike moving it from outside costs no RCU grace period. A v2
 * hierarchy beside v1, where there is one, limits nothing and serves to freeze and to kill.
 *
 * The keeper holds a shared flock on its cell's directories. Whoever can lock one exclusively has
 * found leftovers and removes them (cgroups_sweep), but for those with the sticky bit: lingering
 * cells are in their server's books. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "keeper_msg.h"

#define CGROUP_DIRS CELL_CGROUP_DIRS

/* Where cells' directories go: found and opened by whoever starts the keeper (cgroups.h). */
struct cgroup_root {
	uint32_t version;      /* 0: no usable cgroups */
	int dirs[CGROUP_DIRS]; /* owned; -1 where a controller is missing */
};

struct cgroup {
	int dirs[CGROUP_DIRS];	/* owned, -1 if absent; nothing but descriptors here */
	int enter[CGROUP_DIRS]; /* owned: v1 "tasks" files, opened by the keeper for PID 1 */
};

void cgroup_release(struct cgroup *g); /* the directories stay */

/* Makes and limits the cell's directories. On failure nothing is left. */
int cgroup_create(const struct cgroup_root *root, const struct keeper_create *r, struct cgroup *ret,
		  struct err *e) MUST_USE;

/* The v2 one of the dirs: what PID 1 is born in, and freezing needs. -1: there is none. */
int cgroup_unified(const struct cgroup_root *root, const int *dirs);

/* In the new process, before anything else. */
int cgroup_enter(const struct cgroup *g, struct err *e) MUST_USE;

/* Opens process pid, if it is in the cell's cgroup; -1 if it is not or there are no cgroups. */
int cgroup_open_member(const struct cgroup_root *root, const char *id, pid_t pid);

/* Stops or continues every process of the cell; returns when all have stopped. */
int cgroup_freeze(const struct cgroup_root *root, const char *id, bool on, struct err *e) MUST_USE;

/* Removes the cell's directories, killing whoever is still in them. ERR_CONFLICT if they are not
 * yet dead after patience_ms. What is not there is removed. */
int cgroup_destroy(const struct cgroup_root *root, const char *id, unsigned patience_ms,
		   struct err *e) MUST_USE;
