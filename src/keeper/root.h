/* root.h - a cell's file system, assembled by the builder (cell_build.c) in its own mount
 * namespace.
 *
 * One file system, the disk, limited in bytes and inodes, holds everything that a cell can write:
 * the upper directories of its overlays or, with a read-only root, /tmp and similar directories. So
 * one quota covers all writes. It is a tmpfs or, with CELL_DISK_IMAGE, an ext4 image that outlives
 * the cell (disk_image.h). Its directories:
 *
 *   u0 u1 ..   upper directories: what the cell wrote over each layer (DIFF reads these)
 *   w0 w1 ..   overlayfs's work directories; what is left in them overlayfs removes
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
 * What must not change: mounts are made detached, restricted, and only then put into the tree;
 * paths are resolved inside the new root and can never leave it (mounts.h); /proc and /dev come
 * last, so that nothing of a request is over them; nothing is attached at "at" after the new root,
 * since it would be over / of the cell. */
#pragma once

#include "cell.h"
#include "mounts.h"

/* The mount trees of a cell. All members are descriptors: cell_build.c closes them as an array. */
struct root_trees {
	int base; /* the tmpfs with what the cell cannot write, and /dev/shm */
	int disk; /* the sized file system for all writes */
	int kept; /* the same, read-only: PID 1 of a lingering cell holds it for a later DIFF */
	int layers[CELL_LAYERS_MAX];
	int mounts[CELL_MOUNTS_MAX];
	int proc; /* of the cell's pid namespace */
	int root; /* result: the cell's / */
};

/* Makes the disk, the overlays, the request's mounts, /proc and /dev, in this order, and changes
 * the root directory. The caller has opened c->userns_fd, p->layers, p->mounts and p->proc. */
int root_assemble(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		  struct root_trees *p, struct err *e) MUST_USE;

/* Called once, at the keeper's start: finds which entries of /proc need a cover (root_proc.c). */
void root_find_covers(void);

/* The steps of root_assemble(), each in the file of its name. */

/* root_disk.c: makes the base and the disk, and attaches them. */
int root_make_disk(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		   struct root_trees *p, struct err *e) MUST_USE;

/* root_disk.c: makes a directory on the disk, unless an image has it already; id: of its owner and
 * group, inside. */
int root_make_dir(const struct cell *c, int dir, const char *name, mode_t mode, uint32_t id,
		  struct err *e) MUST_USE;

/* root_disk.c: makes a directory of the disk or the base (`on`) and mounts it at a path of the
 * cell. */
int root_place_dir(const struct cell *c, const struct root_trees *p, int on, const char *name,
		   const char *at, mode_t mode, uint32_t id, struct err *e) MUST_USE;

/* root_layers.c: attaches the layers and makes their overlays; sets p->root. */
int root_place_layers(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		      struct root_trees *p, struct err *e) MUST_USE;

/* root_mount.c: attaches the i-th mount of the request. */
int root_place_mount(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		     struct root_trees *p, unsigned i, struct err *e) MUST_USE;

int root_place_proc(struct root_trees *p, struct err *e) MUST_USE;

int root_place_dev(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		   struct root_trees *p, struct err *e) MUST_USE;

/* Mount attributes of layers and overlays: no devices; in the locked profile no set-id programs. */
static inline uint64_t root_attrs(const struct keeper_create *r)
{
	return MOUNT_ATTR_NODEV | (r->profile == CELL_LOCKED ? MOUNT_ATTR_NOSUID : 0);
}
