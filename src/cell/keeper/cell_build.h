/* cell_build.h - makes a cell: from a checked request to a running PID 1. Called by cell.c, when
 * the cell's cgroup exists and its ids are reserved. Three processes take part:
 *
 *   keeper   clones the builder (CLONE_NEWNS | CLONE_VM | CLONE_VFORK) and sleeps until it exits
 *   builder  has a mount namespace of its own, and the keeper's memory and descriptors. Clones
 *            PID 1, assembles the cell's file system (root.h), exits. cell_build.c
 *   PID 1    starts in the cell's user and pid namespaces, as a child of the keeper. Gives up its
 *            rights one by one and executes cordon-init. cell_enter.c
 *
 * Invariant: the mount namespace is owned by the keeper's user namespace, not by the
 * cell's. So no capability that a cell may get lets it mount, unmount or uncover anything. */
#pragma once

#include "cell/keeper/root.h"

/* c->cgroup and c->ids are set. Fill in the rest of c. fds: layers, then mount sources. */
int cell_build(struct cell *c, const struct keeper *k, const struct keeper_create *r,
	       int channel_fd, const int *fds, struct err *e) MUST_USE;

/* The builder passes this to the new PID 1. */
struct enter_plan {
	const struct keeper *keeper;
	const struct keeper_create *request;
	const struct cell *cell;
	int channel_fd; /* channel B */
	int sync_fd;	/* to the builder, which sends one byte when ids and root are ready */
};

/* Never returns: executes cordon-init, or sends a struct err over sync_fd and exits. */
void cell_enter(const struct enter_plan *plan) NORETURN;
