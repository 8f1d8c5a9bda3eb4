/* cell.h - one cell: made, measured, compared with its template, destroyed. */
#pragma once

#include <sys/types.h>

#include "cgroup.h"
#include "ids.h"
#include "keeper.h"

/* Everything the outside holds of a cell. Descriptors are owned; -1 if absent. */
struct cell {
	char id[KEEPER_ID_MAX]; /* "" : free slot */
	bool linger;
	bool idmapped;
	pid_t pid; /* of PID 1, seen from outside */
	int pidfd;
	int userns_fd;
	int store_fd; /* root of the one file system that holds all the cell's writes */
	int root_fd;  /* the cell's / */
	int layers[KEEPER_LAYERS_MAX];
	char layer_at[KEEPER_LAYERS_MAX][KEEPER_PLACE_MAX];
	uint32_t nlayers;
	struct ids ids;
	struct cgroup cgroup;
};

void cell_init(struct cell *c);

/* Makes the cell that the request describes and starts cordon-init in it, with channel_fd as its
 * channel B. fds: layers, then mount sources. On failure nothing of it is left. */
int cell_create(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		int channel_fd, const int *fds, struct err *e) MUST_USE;

/* Writes what the cell changed to out_fd, by a child that has the rights of the cell's root and no
 * others. Returns when it is done. */
int cell_diff(const struct cell *c, const struct keeper *k, int out_fd, struct err *e) MUST_USE;

/* Kills every process, removes the cgroup, lets go of everything; *ret_stat is what it used. */
int cell_destroy(struct cell *c, const struct keeper *k, struct keeper_stat *ret_stat,
		 struct err *e) MUST_USE;
