/* build.h - from a request to a running PID 1: the two processes that make a cell.
 *
 *   keeper ---clone(NEWNS, VM, VFORK)---> builder: root of nothing but its own mount namespace;
 *      |                                  assembles the cell's file system there, then ends
 *      `<--parent--- PID 1 <---clone3(NEWUSER, NEWPID, ...)--- by the builder
 *
 * The mount namespace stays owned by the keeper's user namespace, not by the cell's: whatever
 * capability a cell may get hold of, it cannot mount, unmount or uncover anything. */
#pragma once

#include "cell.h"

/* The cell's cgroup and ids are there; adds all the rest. */
int build_cell(struct cell *c, const struct keeper *k, const struct keeper_create *r,
	       int channel_fd, const int *fds, struct err *e) MUST_USE;
