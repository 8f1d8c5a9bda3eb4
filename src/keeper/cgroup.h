/* cgroup.h - limits of one cell, by whichever cgroup version the machine has.
 *
 * A cell's directories are made and limited first and entered afterwards, so that no instruction
 * of the cell runs unlimited: on v2 PID 1 is born inside (CLONE_INTO_CGROUP), on v1 it enters by
 * itself before anything else, which unlike moving it from outside costs no RCU grace period.
 *
 * The keeper holds a shared flock on the directories while it lives. Whoever can lock one
 * exclusively has found a dead keeper's leftovers and removes them (cgroups_sweep). */
#pragma once

#include <stdbool.h>

#include "keeper_msg.h"

#define CGROUP_DIRS KEEPER_CGROUP_DIRS

struct cgroup_driver;

/* Where cells' directories go: found and opened by whoever starts the keeper (cgroups.h). */
struct cgroup_root {
	const struct cgroup_driver *driver; /* NULL: no usable cgroups */
	int dirs[CGROUP_DIRS];		    /* owned; -1 where a controller is missing */
};

struct cgroup {
	int dirs[CGROUP_DIRS];	/* owned, -1 if absent */
	int enter[CGROUP_DIRS]; /* owned: v1 "tasks" files, opened by the keeper for PID 1 */
	char name[KEEPER_ID_MAX + sizeof(KEEPER_CGROUP_PREFIX)];
};

/* What a version must know how to do; the rest is common. */
struct cgroup_driver {
	int (*limit)(struct cgroup *, const struct keeper_limits *, struct err *e);
	void (*stat)(const struct cgroup *, struct keeper_stat *ret);
};

/* Makes and limits the cell's directories. On failure nothing is left. */
int cgroup_create(const struct cgroup_root *root, const char *id,
		  const struct keeper_limits *limits, struct cgroup *ret, struct err *e) MUST_USE;

/* For clone3: the directory to be born in, or -1 if PID 1 must call cgroup_enter(). */
int cgroup_born_in(const struct cgroup_root *root, const struct cgroup *g);

/* In the new process, before anything else. */
int cgroup_enter(const struct cgroup *g, struct err *e) MUST_USE;

void cgroup_stat(const struct cgroup_root *root, const struct cgroup *g, struct keeper_stat *ret);

/* The cell's processes must be dead. Waits for the kernel to agree, up to a second. */
int cgroup_destroy(const struct cgroup_root *root, struct cgroup *g, struct err *e) MUST_USE;

extern const struct cgroup_driver cgroup_v1_driver, cgroup_v2_driver;

/* For the drivers: number in a file, 0 if it is not there; number behind a word in a file. */
uint64_t cgroup_number(int dir_fd, const char *file);
uint64_t cgroup_field(int dir_fd, const char *file, const char *word);
