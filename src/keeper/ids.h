/* ids.h - which ids a cell has, and which of the outside they are.
 *
 * A privileged keeper gives each cell 65,536 ids of its own from a high range, and holds a lock on
 * the slot for as long as it lives, so that no two cells of the machine share one. An ordinary
 * user's keeper first makes itself root of a user namespace (rootless.h); its cells' ids are then
 * the user's subordinate ids, or the user's own alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

#define IDS_RUNS_MAX 3

/* As in uid_map. */
struct ids_run {
	uint32_t inside, outside, count;
};

struct ids {
	struct ids_run uid[IDS_RUNS_MAX], gid[IDS_RUNS_MAX];
	unsigned runs;
	bool setgroups; /* the kernel lets the cell set supplementary groups */
	int slot_fd;	/* owned: holds the lock; -1 for a rootless keeper */
};

/* Takes a free range of the machine, until every copy of slot_fd is closed. */
int ids_take_range(struct ids *ret, struct err *e) MUST_USE;

/* For a rootless keeper with `available` subordinate ids: all of them, or the single id. keep makes
 * uid:gid inside the user outside, so that both can share the files of a mount. */
void ids_rootless(struct ids *ret, uint32_t available, uint32_t uid, uint32_t gid, bool keep);

/* Writes the maps of a process that was born into a new user namespace. */
int ids_write(const struct ids *ids, pid_t pid, struct err *e) MUST_USE;

/* A namespace of a process. The caller owns *ret_fd. */
int ids_open_ns(pid_t pid, const char *name, int *ret_fd, struct err *e) MUST_USE;

/* The outside number of a user ('u') or group ('g') inside; the first there is, if it has none. */
uint32_t ids_outside(const struct ids *ids, char kind, uint32_t inside);

/* A user namespace that turns one outside owner into another: for idmapped mounts of --mount trees.
 * The caller owns *ret_fd. */
int ids_translator(uint32_t from_uid, uint32_t to_uid, uint32_t from_gid, uint32_t to_gid,
		   int *ret_fd, struct err *e) MUST_USE;
