/* cell.h - a cell as the keeper sees it. The functions are called by ops.c, one request at a time:
 *
 *   cell.c         creates a cell and destroys it
 *   adopt.c        finds a lingering cell again, by its name and the pid of its PID 1
 *   diff_reader.c  lists the changes of a cell in its file system
 *   watcher.c      starts the process that answers refused system calls
 *
 * Requests were checked by keeper_msg_check() before: strings end, numbers are in range. A cell of
 * that name need not exist. A cell and its PID 1 are hostile. */
#pragma once

#include <sys/types.h>

#include "cell/keeper/cgroup.h"
#include "cell/keeper/ids.h"
#include "cell/keeper/keeper.h"

/* The state that the keeper holds of a cell. Descriptors are owned, -1 if absent. Between two
 * requests it holds nothing of a lingering cell: adopt_cell() finds it again. */
struct cell {
	char id[CELL_ID_MAX]; /* "": none */
	bool idmapped, redirect, watched;
	pid_t pid; /* of PID 1, seen from outside */
	int pidfd, userns_fd;
	int watcher_fd; /* to the process that will be its watcher. -1: it has none */
	int disk_fd;	/* root directory of the cell's disk (root.h) */
	int root_fd;	/* the cell's / */
	int layers[CELL_LAYERS_MAX];
	char layer_at[CELL_LAYERS_MAX][CELL_PLACE_MAX];
	uint32_t nlayers;
	struct ids ids;
	struct cgroup cgroup;
};

void cell_init(struct cell *c);

/* Close everything. The cell itself continues to run. */
void cell_release(struct cell *c);

/* Make the cell that the request describes and start cordon-init in it, with channel_fd as its
 * channel B. watch_fd: the file of its watcher, with CELL_WATCH. fds: layers, then mount sources.
 * On failure nothing of it is left. */
int cell_create(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		int channel_fd, int watch_fd, const int *fds, struct err *e) MUST_USE;

/* Kill every process, remove the cgroup, release c. *ret is the use of its disk. ERR_CONFLICT if
 * processes are still alive after patience_ms: c is unchanged, and the call can be repeated. */
int cell_destroy(struct cell *c, const struct keeper *k, unsigned patience_ms,
		 struct cell_disk *ret, struct err *e) MUST_USE;

/* Destroy a lingering cell: by its name or, on a machine without cgroups, by its pid. */
int cell_destroy_named(const struct keeper *k, const struct keeper_named *r, unsigned patience_ms,
		       struct err *e) MUST_USE;

/* Return a pidfd of process pid if it belongs to that cell (on a machine without cgroups: to any
 * cell of a keeper in this user namespace), else -1. */
int adopt_open(const struct keeper *k, const char *id, pid_t pid);

/* Open the parts of a lingering cell for DIFF: user namespace, disk, root directory, layers. The
 * caller releases c, also on failure. */
int adopt_cell(struct cell *c, const struct keeper *k, const struct keeper_diff *r,
	       struct err *e) MUST_USE;

/* Start a child that writes the list of changed files to out_fd or, capture, an archive of them,
 * with the rights of the cell's root and no others. It exits by itself. ERR_LIMIT if READERS_MAX of
 * them run. */
int diff_reader_start(const struct cell *c, bool capture, int out_fd, struct err *e) MUST_USE;

/* Reap exited children: readers, and PID 1s of cells. */
void diff_reader_reap(void);

/* In a child: becomes root of that user namespace and of nothing else. */
bool diff_reader_become_root(int userns_fd);

/* Start the cell's watcher, which waits for the listener. flags: of the cell. file_fd:
 * watch_file.h. */
int watcher_start(struct cell *c, int file_fd, uint32_t flags, struct err *e) MUST_USE;
/* Give it the listener of the cell's filter, and close that. */
void watcher_give(struct cell *c, int listener_fd);
