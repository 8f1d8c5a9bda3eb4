/* root.h - a cell's file system, assembled by the builder (cell_build.c) in its own mount
 * namespace.
 *
 * One file system, the disk, limited in bytes and inodes, holds everything that a cell can write:
 * the upper directories of its overlays or, with a read-only root, /tmp and similar directories. So
 * one quota covers all writes. It is a tmpfs or, with CELL_DISK_IMAGE, an ext4 image that outlives
 * the cell (disk_image.h). Its directories:
 *
 *   u0 u1 ..   upper directories: the cell's writes over each layer (DIFF reads these)
 *   w0 w1 ..   overlayfs's work directories. overlayfs removes leftovers
 *   tmp run home   writable places of a cell with a read-only root
 *
 * The base is a tmpfs, the same one unless the disk is an image. Its directories:
 *
 *   shm        /dev/shm
 *   dev        /dev, which no cell can write to
 *   none empty an empty file and an empty directory, mounted over entries of /proc
 *   at         layers and the new root are attached here, one over the other, while the root is
 *              assembled: overlayfs needs attached layers. Each is used by its descriptor
 *
 * The base is attached at /tmp of the builder's mount namespace, volumes' images over it, and all
 * are unmounted with the old root. The overlays and descriptors keep them.
 *
 * An image is idmapped: owners in it are the ids inside of the cell. Ids that the cell does not
 * have cannot own a file there, so while the builder makes files and overlays on it, it has the
 * cell's root as its effective user.
 *
 * Invariant: mounts are made detached, restricted, and only then put into the tree. Paths are
 * resolved inside the new root and can never leave it (mounts.h), /proc and /dev come last, so that
 * they cover all mounts of a request. Nothing is attached at "at" after the new root, since it
 * would be over / of the cell. */
#pragma once

#include "cell/keeper/cell.h"
#include "cell/keeper/mounts.h"

/* The mount trees of a cell. All members are descriptors: cell_build.c closes them as an array. */
struct root_trees {
	int base; /* the tmpfs with the files that the cell cannot write, and /dev/shm */
	int disk; /* the sized file system for all writes */
	int kept; /* the same, read-only: PID 1 of a lingering cell holds it for a later DIFF */
	int layers[CELL_LAYERS_MAX];
	int mounts[CELL_MOUNTS_MAX];
	int proc; /* of the cell's pid namespace */
	int root; /* result: the cell's / */
};

/* Make the disk, the overlays, the request's mounts, /proc and /dev, in this order, and change
 * the root directory. The caller has opened c->userns_fd, p->layers, p->mounts and p->proc. */
int root_assemble(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		  struct root_trees *p, struct err *e) MUST_USE;
