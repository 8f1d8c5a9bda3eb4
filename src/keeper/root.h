/* root.h - a cell's file system, assembled by the builder (cell_build.c) in its own mount
 * namespace.
 *
 * One tmpfs, the disk, sized in bytes and inodes, holds everything a cell can write: the upper
 * directories of its overlays, and with a read-only root /tmp and its like. So there is one quota
 * and nothing outside it. In the disk:
 *
 *   u0 u1 ..   what the cell wrote over each layer (the file system diff reads these)
 *   w0 w1 ..   overlayfs's work directories
 *   tmp run shm home   writable places of a cell with a read-only root, and /dev/shm of every cell
 *   dev        /dev, which no cell can write to
 *   none empty a file and a directory with nothing in them, to cover entries of /proc
 *   at         where layers and the new root are attached, one over the other, while they are
 *              needed: each is reached by its own descriptor
 *
 * The disk is attached to /tmp of the builder's mount namespace and goes away with the old root;
 * overlays and descriptors keep it alive.
 *
 * What must not change: mounts are made detached, restricted, and only then put into the tree;
 * paths are resolved inside the new root and can never leave it (mounts.h); /proc and /dev come
 * last, so that nothing of a request is over them. */
#pragma once

#include "cell.h"
#include "mounts.h"

/* The trees a cell is made of, as detached mounts: descriptors and nothing else. The caller owns
 * them. */
struct root_trees {
	int disk; /* the sized file system for all writes */
	int kept; /* the same, read-only, for a lingering cell's PID 1 to hold */
	int layers[CELL_LAYERS_MAX];
	int mounts[CELL_MOUNTS_MAX];
	int proc; /* of the cell's pid namespace */
	int root; /* result: the cell's / */
};

/* In order: the disk, the layers with a writable one on each, the request's mounts, /proc, /dev,
 * and the new root in place of the old. c->userns_fd must be open, and layers, mounts and proc. */
int root_assemble(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		  struct root_trees *p, struct err *e) MUST_USE;

/* Once, at the keeper's start: which entries of /proc need a cover (root_proc.c). */
void root_find_covers(void);

/* The steps of root_assemble(), each in the file of its name. */

/* root_disk.c: makes the disk and attaches it. */
int root_make_disk(const struct keeper_create *r, struct root_trees *p, struct err *e) MUST_USE;

/* root_disk.c: a directory of the disk; id: inside, of the owner and the group. */
int root_make_dir(const struct cell *c, int dir, const char *name, mode_t mode, uint32_t id,
		  struct err *e) MUST_USE;

/* root_disk.c: a directory of the disk, at a place of the cell. */
int root_place_dir(const struct cell *c, const struct keeper_create *r, struct root_trees *p,
		   const char *name, const char *at, mode_t mode, uint32_t id,
		   struct err *e) MUST_USE;

/* root_layers.c: the layers, each with its overlay; p->root is the result. */
int root_place_layers(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		      struct root_trees *p, struct err *e) MUST_USE;

/* root_mount.c: the i-th mount of the request. */
int root_place_mount(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		     struct root_trees *p, unsigned i, struct err *e) MUST_USE;

int root_place_proc(struct root_trees *p, struct err *e) MUST_USE;

int root_place_dev(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		   struct root_trees *p, struct err *e) MUST_USE;

/* The attributes of everything that is not a template: no devices, and in the locked profile no way
 * to become another user. */
static inline uint64_t root_attrs(const struct keeper_create *r)
{
	return MOUNT_ATTR_NODEV | (r->profile == CELL_LOCKED ? MOUNT_ATTR_NOSUID : 0);
}
