/* cell_build.h - from a request to a running PID 1: the two processes that make a cell.
 *
 *   keeper ---clone(NEWNS, VM, VFORK)---> builder: root of nothing but its own mount namespace;
 *      |                                  assembles the cell's file system there, then ends
 *      `<--parent--- PID 1 <---clone3(NEWUSER, NEWPID, ...)--- by the builder
 *
 * The mount namespace stays owned by the keeper's user namespace, not by the cell's: whatever
 * capability a cell may get hold of, it cannot mount, unmount or uncover anything. */
#pragma once

#include "root.h"

/* The cell's cgroup and ids are there; adds all the rest. */
int cell_build(struct cell *c, const struct keeper *k, const struct keeper_create *r,
	       int channel_fd, const int *fds, struct err *e) MUST_USE;

/* What the new PID 1 knows. cell_enter.c has the last things it does before it becomes cordon-init.
 */
struct enter_plan {
	const struct keeper *keeper;
	const struct keeper_create *request;
	const struct cell *cell;
	int channel_fd; /* channel B */
	int sync_fd; /* the builder: says one byte when ids and root are there; hears of errors */
};

/* Never returns: becomes cordon-init, or reports a struct err to sync_fd and exits. */
void cell_enter(const struct enter_plan *plan) NORETURN;
