/* cgroup.h - limits of one cell, by whichever cgroup version the machine has.
 *
 * A cell's directories are made and limited first and entered afterwards, so that no instruction
 * of the cell runs unlimited: on v2 PID 1 is born inside (CLONE_INTO_CGROUP), on v1 it enters by
 * itself before anything else, which unlike moving it from outside costs no RCU grace period. A v2
 * hierarchy beside v1, where there is one, limits nothing and serves to freeze and to kill.
 *
 * The keeper holds a shared flock on its cell's directories. A directory that can be locked
 * exclusively is a leftover and is removed (cgroups_sweep()), but for those with the sticky bit:
 * lingering cells are known to their server. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "keeper_msg.h"

#define CGROUP_DIRS CELL_CGROUP_DIRS

/* Where cells' directories go: found and opened by the program that starts the keeper
 * (cellctl/cgroups.h). */
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

/* The v2 one of the dirs: what PID 1 is born in, and freezing needs. -1: there is none. */
int cgroup_unified(const struct cgroup_parents *p, const int *dirs);

/* In the new process, before anything else; on v2 it does nothing (cgroup_v1.c). */
int cgroup_enter(const struct cgroup *g, struct err *e) MUST_USE;

/* Opens process pid, if it is in the cell's cgroup; -1 if it is not or there are no cgroups. */
int cgroup_open_member(const struct cgroup_parents *p, const char *id, pid_t pid);

/* Stops or continues every process of the cell; returns when all have stopped. */
int cgroup_freeze(const struct cgroup_parents *p, const char *id, bool on, struct err *e) MUST_USE;

/* Removes the cell's directories, killing every process that is still in them. ERR_CONFLICT if they
 * are not yet dead after patience_ms. What is not there is removed. */
int cgroup_destroy(const struct cgroup_parents *p, const char *id, unsigned patience_ms,
		   struct err *e) MUST_USE;

/* The two versions differ in which files limit what (cgroup_v1.c, cgroup_v2.c). */

#define CGROUP_QUOTA_US \
	100 /* of the default period, 100,000 us, for one thousandth of a processor */

/* A file of one of the cell's directories: gets a limit, unless that is 0. Optional files are
 * absent where the kernel does not count these things apart, or cannot swap: then nothing can
 * escape the limit by them. */
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
