/* root.h - the file system of a cell, assembled in the builder's mount namespace. */
#pragma once

#include "cell.h"

/* The trees a cell is made of, as detached mounts: descriptors and nothing else, owned by the
 * caller. */
struct root_parts {
	int store; /* the sized file system for all writes */
	int layers[KEEPER_LAYERS_MAX];
	int mounts[KEEPER_MOUNTS_MAX];
	int proc; /* of the cell's pid namespace */
	int root; /* result: the cell's / */
};

/* Once, at the start: which entries of /proc need a cover. Most belong to the machine's root and
 * nobody else may open them, the cell's root included; those do not. */
void root_learn_proc(void);

/* In order: the store, the layers with a writable one on each, /proc, /dev, the request's mounts,
 * and the new root in place of the old. c->userns_fd must be open, and layers, mounts and proc. */
int root_assemble(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		  struct root_parts *p, struct err *e) MUST_USE;
