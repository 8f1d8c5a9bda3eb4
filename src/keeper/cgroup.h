/* cgroup.h - limits of one cell, with cgroup v1 or v2. Called by cell.c and ops.c.
 *
 * What must not change: a cell's directories are made and limited before a process enters them, so
 * that no instruction of the cell runs without limits. On v2, PID 1 starts in its cgroup
 * (CLONE_INTO_CGROUP). On v1, PID 1 enters by itself as its first action; if another process moved
 * it there, the kernel would wait for an RCU grace period. Where a v2 hierarchy is mounted beside
 * v1, it limits nothing; it is used to freeze and to kill.
 *
 * The keeper holds a shared flock on the directories of its cell. A directory that can be locked
 * exclusively belongs to no keeper and is removed by cellctl's cgroups_sweep(), unless it has the
 * sticky bit: those belong to lingering cells, which their server destroys. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "keeper_msg.h"

#define CGROUP_DIRS CELL_CGROUP_DIRS

/* The directories in which cells' directories are made. The program that starts the keeper finds
 * and opens them (cellctl/cgroups.h). */
struct cgroup_parents {
	uint32_t version;      /* 0: no usable cgroups */
	int dirs[CGROUP_DIRS]; /* owned; -1 where a controller is missing */
};

struct cgroup {
	int dirs[CGROUP_DIRS];	/* owned, -1 if absent; nothing but descriptors here */
	int enter[CGROUP_DIRS]; /* owned: v1 "tasks" files, opened by the keeper for PID 1 */
};

void cgroup_release(struct cgroup *g); /* the directories stay */

/* Makes and limits the cell's directories. On failure nothing is left. */
int cgroup_create(const struct cgroup_parents *p, const struct keeper_create *r, struct cgroup *ret,
		  struct err *e) MUST_USE;

/* The v2 directory among dirs: PID 1 starts in it, and freezing needs it. -1: there is none. */
int cgroup_unified(const struct cgroup_parents *p, const int *dirs);

/* Called by the new PID 1 before anything else; does nothing on v2 (cgroup_v1.c). */
int cgroup_enter(const struct cgroup *g, struct err *e) MUST_USE;

/* Returns a pidfd of process pid if it is in the cell's cgroup, else -1. */
int cgroup_open_member(const struct cgroup_parents *p, const char *id, pid_t pid);

/* Freezes or thaws every process of the cell; returns when all are frozen. */
int cgroup_freeze(const struct cgroup_parents *p, const char *id, bool on, struct err *e) MUST_USE;

/* Kills every process of the cell and removes its directories. ERR_CONFLICT if processes are alive
 * after patience_ms. A cell without directories is a success: a repeated call works. */
int cgroup_destroy(const struct cgroup_parents *p, const char *id, unsigned patience_ms,
		   struct err *e) MUST_USE;

/* For cgroup_v1.c and cgroup_v2.c, which differ in the files that set limits. */

#define CGROUP_QUOTA_US \
	100 /* of the default period, 100,000 us, for one thousandth of a processor */

/* A file of one of the cell's directories. The limit is written to it, unless it is 0 (no limit).
 * Optional files are missing where the kernel does not count the resource apart or cannot swap;
 * then the other limits cover it. */
struct cgroup_file {
	unsigned dir; /* index */
	const char *name;
	size_t limit;	/* offset in struct cell_limits */
	uint64_t times; /* what is written is the limit times this; 0: nothing is allowed */
	bool optional;
};

#define CGROUP_LIMIT(member) offsetof(struct cell_limits, member)

int cgroup_write_limits(const struct cgroup *g, const struct cgroup_file *files, size_t n,
			const struct cell_limits *l, struct err *e) MUST_USE;

int cgroup_v1_limit(struct cgroup *g, const struct cell_limits *l, struct err *e) MUST_USE;
int cgroup_v2_limit(struct cgroup *g, const struct cell_limits *l, struct err *e) MUST_USE;

/* How fast the cell may read from and write to the device of its disk, an image. Without a v2
 * hierarchy that limits, such limits fail. */
int cgroup_v2_limit_disk(const struct cgroup *g, dev_t device, const struct cell_limits *l,
			 struct err *e) MUST_USE;
