/* ids.h - the user and group ids of a cell, and their translation: "inside" is the number in the
 * cell, "outside" the number in the keeper's user namespace.
 *
 * A privileged keeper gives each cell a range of 65,536 ids that no other cell of the machine has:
 * each range is a slot, a file with a lock that lasts as long as the cell. A rootless keeper is
 * root of a user namespace (cell/cellctl/rootless.h). Its cells have the user's subordinate ids or,
 * if there are none, the user's own id only.
 *
 * Called by cell.c, cell_build.c and the root_*.c files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

#define IDS_RUNS_MAX 3

/* One line of a uid_map or gid_map. */
struct ids_run {
	uint32_t inside, outside, count;
};

struct ids {
	struct ids_run uid[IDS_RUNS_MAX], gid[IDS_RUNS_MAX];
	unsigned runs;
	bool setgroups; /* the kernel lets the cell set supplementary groups */
	int slot_fd;	/* owned: holds the lock, -1 for a rootless keeper */
};

/* Reserve a free range of the machine. It is free again when every copy of slot_fd is closed. */
int ids_take_range(struct ids *ret, struct err *e) MUST_USE;

/* The ids of a rootless keeper's cell: all subordinate ids if `available` is enough, else the
 * single id. keep: uid:gid inside is the user outside, so that cell and user can share files of a
 * mount. */
void ids_rootless(struct ids *ret, uint32_t available, uint32_t uid, uint32_t gid, bool keep);

/* Write the id maps of a process in a new user namespace. */
int ids_write(const struct ids *ids, pid_t pid, struct err *e) MUST_USE;

/* Open the namespace `name` of a process. The caller owns *ret_fd. */
int ids_open_ns(pid_t pid, const char *name, int *ret_fd, struct err *e) MUST_USE;

/* The outside number of a user ('u') or group ('g') inside. An id without one gets the first number
 * of the first range. */
uint32_t ids_outside(const struct ids *ids, char kind, uint32_t inside);

/* Make a user namespace that maps one outside owner to another, for idmapped mounts of the
 * request's mounts. The caller owns *ret_fd. */
int ids_translator(uint32_t from_uid, uint32_t to_uid, uint32_t from_gid, uint32_t to_gid,
		   int *ret_fd, struct err *e) MUST_USE;
