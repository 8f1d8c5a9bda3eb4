/* root_layers.c - the template's layers: each is attached read-only, and each place gets an overlay
 * of its layers, whose upper directory is on the disk. Where the file system has idmapped mounts,
 * the layer's owners are translated to the cell's.
 *
 * What must not change: layers are shared by all cells, so none may become writable. */
#include "root.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Attaches layer i at "at" of the base, read-only and idmapped. */
static int attach_layer(struct cell *c, const struct keeper *k, const struct keeper_create *r,
			struct root_trees *p, unsigned i, struct err *e)
{
	int mapped;

	if (mounts_restrict(p->layers[i], MOUNT_ATTR_RDONLY | root_attrs(r), e) < 0)
		return -1;
	mapped = mounts_idmap(p->layers[i], c->userns_fd, e);
	if (mapped < 0)
		return -1;
	/* Owners of stored layers are ids of cells: without translation no cell has them, but in a
	 * rootless keeper's namespace, where they are stored as its cells without mounts have them.
	 */
	if (mapped == 0 && cell_is_stored(k, &r->layer_from[i]) &&
	    (!k->setup.rootless || (r->nmounts > 0 && k->setup.subordinate > 0)))
		return err_set(e, ERR_UNSUPPORTED,
			       k->setup.rootless
				       ? "a rootless cell with stored layers can have no mounts"
				       : "the file system of storage_dir has no idmapped mounts");
	if (mapped == 0)
		c->idmapped = false;
	if (kernel_move_mount(p->layers[i], p->base, "at", 0) < 0)
		return err_sys(e, "attach layer %u", i);
	return 0;
}

/* Without idmapped mounts the owners of the layers do not exist in the cell, and its users would
 * not own their homes. So these directories are made in the upper directory with the right owners.
 */
static int own_places(const struct cell *c, int upper, struct err *e)
{
	static const struct {
		const char *path;
		mode_t mode;
		uint32_t id;
	} places[] = {
		{ "etc", 0755, 0 },	  { "home", 0755, 0 },	   { "home/user", 0755, 1000 },
		{ "root", 0700, 0 },	  { "run", 0755, 0 },	   { "tmp", 01777, 0 },
		{ "var", 0755, 0 },	  { "var/tmp", 01777, 0 }, { "var/lib", 0755, 0 },
		{ "var/cache", 0755, 0 }, { "var/log", 0755, 0 },  { "opt", 0755, 0 },
		{ "srv", 0755, 0 },	  { "mnt", 0755, 0 },
	};

	for (size_t i = 0; i < COUNT(places); i++)
		if (root_make_dir(c, upper, places[i].path, places[i].mode, places[i].id, e) < 0)
			return -1;
	return 0;
}

/* Layers first to end - 1, one over the other, as overlayfs wants them: the highest first. Its
 * option is at most 255 bytes long, so the layers are named by their descriptors' numbers alone:
 * the current directory is /proc/self/fd. */
static void name_layers(const struct root_trees *p, unsigned first, unsigned end, char *ret,
			size_t cap)
{
	size_t at = 0;

	for (unsigned i = end; i > first && at < cap; i--)
		at += (size_t)snprintf(ret + at, cap - at, i == end ? "%d" : ":%d",
				       p->layers[i - 1]);
}

/* The overlay of the layers first to end - 1, which is that of the place with this number.
 * overlayfs before Linux 6.15 accepts attached layers only, named by paths. */
static int make_overlay(struct cell *c, const struct keeper *k, const struct keeper_create *r,
			struct root_trees *p, unsigned first, unsigned end, unsigned place,
			struct err *e)
{
	uint64_t attrs = root_attrs(r);
	int fd = -1;
	char name[16], lower[256], upper[32], work[32];
	const struct mounts_option options[] = {
		{ "lowerdir", lower },
		{ "upperdir", upper },
		{ "workdir", work },
		/* Not what the machine's configuration says: attributes of layers name no files. */
		{ "redirect_dir", "nofollow" },
		{ "metacopy", "off" },
		/* a rootless keeper may not write trusted.* attributes */
		{ k->setup.rootless ? "userxattr" : NULL, NULL },
		{ NULL, NULL }
	};

	for (const char *kind = "uw"; *kind != '\0'; kind++) {
		(void)snprintf(name, sizeof(name), "%c%u", *kind, place);
		if (root_make_dir(c, p->disk, name, 0755, 0, e) < 0)
			return -1;
	}
	/* In a cell with a single id the template belongs to that id already; and owners of stored
	 * layers are right. */
	if (place == 0 && !c->idmapped && (!k->setup.rootless || k->setup.subordinate > 0) &&
	    !cell_is_stored(k, &r->layer_from[end - 1])) {
		OWN_FD dir = openat(p->disk, "u0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || own_places(c, dir, e) < 0)
			return -1;
	}
	name_layers(p, first, end, lower, sizeof(lower));
	(void)snprintf(upper, sizeof(upper), "%d/u%u", p->disk, place);
	(void)snprintf(work, sizeof(work), "%d/w%u", p->disk, place);
	/* Read-only cells have overlays, too, so that they do not see inodes of the machine. */
	if ((r->flags & CELL_READ_ONLY) != 0)
		attrs |= MOUNT_ATTR_RDONLY;
	return mounts_new("overlay", options, attrs, &fd, e) < 0 ? -1 : fd;
}

int root_place_layers(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		      struct root_trees *p, struct err *e)
{
	c->idmapped = true;
	for (unsigned i = 0; i < r->nlayers; i++)
		if (attach_layer(c, k, r, p, i, e) < 0)
			return -1;
	if (chdir("/proc/self/fd") < 0)
		return err_sys(e, "chdir to /proc/self/fd");
	for (unsigned i = 0, end, place = 0; i < r->nlayers; i = end, place++) {
		for (end = i + 1; end < r->nlayers; end++)
			if (strcmp(r->layer_at[end], r->layer_at[i]) != 0)
				break;
		OWN_FD fd = make_overlay(c, k, r, p, i, end, place, e);
		if (fd < 0)
			return err_wrap(e, "layer at %s", r->layer_at[i]);
		if (i > 0 && mounts_place(fd, p->root, r->layer_at[i], e) < 0)
			return -1;
		if (i == 0) {
			if (kernel_move_mount(fd, p->base, "at", 0) < 0)
				return err_sys(e, "attach root");
			p->root = TAKE_FD(fd);
		}
	}
	return 0;
}
