/* root_disk.c - makes the disk, the tmpfs that holds all writes of a cell (root.h), and directories
 * on it. Called by the builder, which is root of the keeper's user namespace: owners are set as ids
 * outside of the cell. */
#include "root.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

int root_make_disk(const struct keeper_create *r, struct root_trees *p, struct err *e)
{
	char size[24], inodes[24];
	const struct mounts_option options[] = {
		{ "size", size }, { "nr_inodes", inodes }, { "mode", "0755" }, { NULL, NULL }
	};

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)r->limits.disk_bytes);
	(void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)r->limits.inodes);
	if (mounts_new("tmpfs", options, 0, &p->disk, e) < 0)
		return -1;
	if (kernel_move_mount(p->disk, AT_FDCWD, "/tmp", 0) < 0)
		return err_sys(e, "attach disk at /tmp");
	if (mkdirat(p->disk, "at", 0555) < 0 || mkdirat(p->disk, "empty", 0555) < 0 ||
	    mkdirat(p->disk, "dev", 0755) < 0 || mknodat(p->disk, "none", S_IFREG | 0444, 0) < 0)
		return err_sys(e, "fill disk");
	if ((r->flags & CELL_LINGER) == 0)
		return 0;
	return mounts_copy(p->disk, "", MOUNT_ATTR_RDONLY | MOUNTS_DATA_ONLY, &p->kept, e);
}

int root_make_dir(const struct cell *c, int dir, const char *name, mode_t mode, uint32_t id,
		  struct err *e)
{
	/* chmod after chown, which clears bits; and mkdir is subject to the umask. */
	if (mkdirat(dir, name, 0700) < 0 ||
	    fchownat(dir, name, ids_outside(&c->ids, 'u', id), ids_outside(&c->ids, 'g', id),
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dir, name, mode, 0) < 0)
		return err_sys(e, "disk: mkdir %s", name);
	return 0;
}

int root_place_dir(const struct cell *c, const struct keeper_create *r, struct root_trees *p,
		   const char *name, const char *at, mode_t mode, uint32_t id, struct err *e)
{
	int copy = -1;

	if (root_make_dir(c, p->disk, name, mode, id, e) < 0 ||
	    mounts_copy(p->disk, name, root_attrs(r) | MOUNT_ATTR_NOSUID, &copy, e) < 0)
		return -1;
	OWN_FD fd = copy;
	return mounts_place(fd, p->root, at, e);
}
