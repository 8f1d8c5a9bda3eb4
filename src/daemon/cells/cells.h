/* cells.h - shared by all cells of the node: the keepers, the directory of sockets, the
 * descriptors.
 *
 * A member of struct core, which sets it up. live_cell.c and pool.c use it. The files of
 * src/daemon/cells do not depend on sessions or the store: a cell calls functions of its owner
 * (live_cell_events). */
#pragma once

#include "cell/cellctl/cell_ops.h"
#include "daemon/cells/fd_budget.h"
#include "daemon/cells/keeper_link.h"

struct cells {
	struct loop *loop; /* borrowed */
	struct keeper_link keeper;
	int dir_fd;		       /* owned: RUN/cells */
	struct fd_budget fds;	       /* of the whole process */
	const struct cgroups *cgroups; /* borrowed: where those of cells are */
	bool watch;		       /* refused system calls of cells are counted */
	uint64_t unattended_ms;	       /* how long a cell lives without a server */
	unsigned ending;	       /* cells in removal */
	uint64_t failed;	       /* cells that could not be made, since the start */
};

/* Open nothing: dir_fd is -1. keeper.on_hello, on_hung and arg are set by the caller. */
void cells_init(struct cells *cs, struct loop *l, unsigned nkeepers);
void cells_release(struct cells *cs);

/* The use of the cell of that level and id, or its last use before its remains were removed. It
 * opens files of the kernel. */
void cells_usage(const struct cells *cs, const struct cell_level *level, const char *id,
		 enum usage_detail detail, struct usage *ret);

/* End every unknown cell with a socket in the directory. */
int cells_end_unknown(struct cells *cs, bool (*is_known)(void *arg, const char *id), void *arg,
		      struct err *e) MUST_USE;
