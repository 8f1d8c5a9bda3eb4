/* cell.h - a cell as the keeper sees it. The functions are called by ops.c, one request at a time:
 *
 *   cell.c         creates a cell and destroys it
 *   adopt.c        finds a lingering cell again, by its name and the pid of its PID 1
 *   diff_reader.c  lists what a cell changed in its file system
 *
 * Requests were checked by keeper_msg_check() before: strings end, numbers are in range. Whether a
 * cell of that name exists, and what is in it, is not known: a cell and its PID 1 are hostile. */
#pragma once

#include <sys/types.h>

#include "cgroup.h"
#include "ids.h"
#include "keeper.h"

/* What the keeper holds of a cell. Descriptors are owned; -1 if absent. Between two requests it
 * holds nothing of a lingering cell: adopt_cell() finds it again. */
struct cell {
	char id[CELL_ID_MAX]; /* "": none */
	bool idmapped, redirect;
	pid_t pid; /* of PID 1, seen from outside */
	int pidfd, userns_fd;
	int disk_fd; /* root directory of the cell's disk (root.h) */
	int root_fd; /* the cell's / */
	int layers[CELL_LAYERS_MAX];
	char layer_at[CELL_LAYERS_MAX][CELL_PLACE_MAX];
	uint32_t nlayers;
	struct ids ids;
	struct cgroup cgroup;
};

void cell_init(struct cell *c);

/* Closes everything. The cell itself continues to run. */
void cell_release(struct cell *c);

/* Opens the source of a layer or a mount, below a root that the operator allows for this use
 * (KEEPER_ROOT_*). Links are not followed; nothing outside of the root is reached. *ret_fd is the
 * caller's also on failure, if it is not -1. */
int cell_open_source(const struct keeper *k, const struct cell_source *from, uint32_t use,
		     int *ret_fd, struct err *e) MUST_USE;

/* Is this source an image of a volume? */
bool cell_is_image(const struct cell_source *from);
/* Is this source a volume: "UUID/data" or "UUID/image" below the root of volumes? */
bool cell_is_volume(const struct keeper *k, const struct cell_source *from);

/* The directory with the images of disks, or -1, and the name of the image of a cell. */
int cell_disks(const struct keeper *k, const char *id, char *ret_name, size_t cap);

/* Is it a layer of cordon-storage, with owners that are ids of cells? */
bool cell_is_stored(const struct keeper *k, const struct cell_source *from);

/* Makes the cell that the request describes and starts cordon-init in it, with channel_fd as its
 * channel B. fds: layers, then mount sources. On failure nothing of it is left. */
int cell_create(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		int channel_fd, const int *fds, struct err *e) MUST_USE;

/* Kills every process, removes the cgroup, releases c; *ret is what the disk held. ERR_CONFLICT if
 * processes are still alive after patience_ms: c is unchanged, and the call can be repeated. */
int cell_destroy(struct cell *c, const struct keeper *k, unsigned patience_ms,
		 struct cell_disk *ret, struct err *e) MUST_USE;

/* The same for a lingering cell: by its name or, on a machine without cgroups, by its pid. */
int cell_destroy_named(const struct keeper *k, const struct keeper_named *r, unsigned patience_ms,
		       struct err *e) MUST_USE;

/* Returns a pidfd of process pid if it belongs to that cell (on a machine without cgroups: to any
 * cell of a keeper in this user namespace), else -1. */
int adopt_open(const struct keeper *k, const char *id, pid_t pid);

/* Opens what DIFF needs of a lingering cell: user namespace, disk, root directory, layers. The
 * caller releases c, also on failure. */
int adopt_cell(struct cell *c, const struct keeper *k, const struct keeper_diff *r,
	       struct err *e) MUST_USE;

/* Starts a child that writes the list of changed files to out_fd or, capture, what they are now,
 * with the rights of the cell's root and no others. It exits by itself. ERR_LIMIT if READERS_MAX of
 * them run. */
int diff_reader_start(const struct cell *c, bool capture, int out_fd, struct err *e) MUST_USE;

/* Reaps children that have exited: readers, and PID 1s of cells. */
void diff_reader_reap(void);
