/* cell.h - one cell as the keeper sees it: made (cell.c), found again (adopt.c), read
 * (diff_reader.c), destroyed (cell.c). ops.c calls these, one request at a time.
 */
#pragma once

#include <sys/types.h>

#include "cgroup.h"
#include "ids.h"
#include "keeper.h"

/* Everything that is held of a cell outside it. Descriptors are owned; -1 if absent. Of a lingering
 * one nothing is held between requests: adopt_cell() finds it again. */
struct cell {
	char id[CELL_ID_MAX]; /* "": none */
	bool idmapped, redirect;
	pid_t pid; /* of PID 1, seen from outside */
	int pidfd, userns_fd;
	int disk_fd; /* root of the one file system that holds all the cell's writes */
	int root_fd; /* the cell's / */
	int layers[CELL_LAYERS_MAX];
	char layer_at[CELL_LAYERS_MAX][CELL_PLACE_MAX];
	uint32_t nlayers;
	struct ids ids;
	struct cgroup cgroup;
};

void cell_init(struct cell *c);

/* Closes everything. The cell itself goes on. */
void cell_release(struct cell *c);

/* Opens a layer's or mount's source below a root that was given for this use (KEEPER_ROOT_*).
 * *ret_fd is the caller's also on failure, if it is not -1. */
int cell_open_source(const struct keeper *k, const struct cell_source *from, uint32_t use,
		     int *ret_fd, struct err *e) MUST_USE;

/* Makes the cell that the request describes and starts cordon-init in it, with channel_fd as its
 * channel B. fds: layers, then mount sources. On failure nothing of it is left. */
int cell_create(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		int channel_fd, const int *fds, struct err *e) MUST_USE;

/* Kills every process, removes the cgroup, lets go of everything; *ret is what the disk held.
 * ERR_CONFLICT if they are not dead after patience_ms. */
int cell_destroy(struct cell *c, const struct keeper *k, unsigned patience_ms,
		 struct cell_disk *ret, struct err *e) MUST_USE;

/* The same for a lingering cell, by name; without cgroups, by its pid. */
int cell_destroy_named(const struct keeper *k, const struct keeper_named *r, unsigned patience_ms,
		       struct err *e) MUST_USE;

/* Opens process pid, if it is of that cell; without cgroups, of any cell of ours. -1 if not. */
int adopt_open(const struct keeper *k, const char *id, pid_t pid);

/* Finds what comparing a lingering cell with its layers needs. The caller releases it, also on
 * failure. */
int adopt_cell(struct cell *c, const struct keeper *k, const struct keeper_diff *r,
	       struct err *e) MUST_USE;

/* Starts a child that writes what the cell changed to out_fd, with the rights of the cell's root
 * and no others; it ends by itself. ERR_LIMIT if too many are at it. */
int diff_reader_start(const struct cell *c, int out_fd, struct err *e) MUST_USE;

/* Collects readers and PID 1s that have ended. */
void diff_reader_reap(void);
