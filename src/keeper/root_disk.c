/* root_disk.c - makes the disk, the file system that holds all writes of a cell (root.h), and
 * directories on it. Called by the builder, which is root of the keeper's user namespace: owners
 * are set as ids outside of the cell. */
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "disk_image.h"

/* What a cell with an image may put into /dev/shm, if its memory is not limited. */
#define SHM_BYTES 67108864ULL

/* The tmpfs with the directories that root.h lists. */
static int make_base(const struct keeper_create *r, struct root_trees *p, struct err *e)
{
	bool image = (r->flags & CELL_DISK_IMAGE) != 0;
	uint64_t shm = r->limits.memory_bytes > 0 ? r->limits.memory_bytes : SHM_BYTES;
	char size[24], inodes[24];
	const struct mounts_option options[] = {
		{ "size", size }, { "nr_inodes", inodes }, { "mode", "0755" }, { NULL, NULL }
	};

	(void)snprintf(size, sizeof(size), "%llu",
		       (unsigned long long)(image ? shm : r->limits.disk_bytes));
	(void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)r->limits.inodes);
	if (mounts_new("tmpfs", options, 0, &p->base, e) < 0)
		return -1;
	if (kernel_move_mount(p->base, AT_FDCWD, "/tmp", 0) < 0)
		return err_sys(e, "attach disk at /tmp");
	if (mkdirat(p->base, "at", 0555) < 0 || mkdirat(p->base, "empty", 0555) < 0 ||
	    mkdirat(p->base, "dev", 0755) < 0 || mknodat(p->base, "none", S_IFREG | 0444, 0) < 0)
		return err_sys(e, "fill disk");
	return 0;
}

/* Mounts the image of the cell's name; attached because overlayfs needs that (root_layers.c). */
static int open_image(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		      struct root_trees *p, struct err *e)
{
	char name[CELL_ID_MAX + 8];
	int disks = cell_disks(k, r->id, name, sizeof(name)), mapped;
	struct stat st;

	if (disks < 0 || k->setup.rootless)
		return err_set(e, ERR_UNSUPPORTED, "disk: images need a server that root started");
	if (disk_image_mount(disks, name, false, &p->disk, e) < 0)
		return -1;
	if (fstat(p->disk, &st) < 0)
		return err_sys(e, "disk");
	if (cgroup_v2_limit_disk(&c->cgroup, st.st_dev, &r->limits, e) < 0)
		return err_wrap(e, "limit of the disk");
	mapped = mounts_idmap(p->disk, c->userns_fd, e);
	if (mapped == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "disk: ext4 of this kernel has no idmapped mounts");
	if (mapped > 0 && kernel_move_mount(p->disk, p->base, "at", 0) < 0)
		return err_sys(e, "attach disk");
	return mapped < 0 ? -1 : 0;
}

int root_make_disk(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		   struct root_trees *p, struct err *e)
{
	if (make_base(r, p, e) < 0)
		return -1;
	if ((r->flags & CELL_DISK_IMAGE) == 0)
		p->disk = fcntl(p->base, F_DUPFD_CLOEXEC, 3);
	else if (open_image(c, k, r, p, e) < 0)
		return -1;
	if ((r->flags & CELL_LINGER) == 0)
		return 0;
	return mounts_copy(p->disk, "", MOUNT_ATTR_RDONLY | MOUNTS_DATA_ONLY, &p->kept, e);
}

int root_make_dir(const struct cell *c, int dir, const char *name, mode_t mode, uint32_t id,
		  struct err *e)
{
	if (mkdirat(dir, name, 0700) < 0 && errno == EEXIST)
		return 0; /* an earlier cell with this image has made it */
	/* chmod after chown, which clears bits; and mkdir is subject to the umask. */
	if (fchownat(dir, name, ids_outside(&c->ids, 'u', id), ids_outside(&c->ids, 'g', id),
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dir, name, mode, 0) < 0)
		return err_sys(e, "disk: mkdir %s", name);
	return 0;
}

int root_place_dir(const struct cell *c, const struct root_trees *p, int on, const char *name,
		   const char *at, mode_t mode, uint32_t id, struct err *e)
{
	int copy = -1;

	if (root_make_dir(c, on, name, mode, id, e) < 0 ||
	    mounts_copy(on, name, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, &copy, e) < 0)
		return -1;
	OWN_FD fd = copy;
	return mounts_place(fd, p->root, at, e);
}
