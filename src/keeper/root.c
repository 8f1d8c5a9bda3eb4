/* root.c - assembles a cell's file system, in the order of root_assemble(). See root.h. */
#include "root.h"

#include <fcntl.h>
#include <sys/mount.h>

static int place_writable(const struct cell *c, const struct keeper_create *r, struct root_trees *p,
			  struct err *e)
{
	if ((r->flags & CELL_READ_ONLY) == 0)
		return 0;
	if (root_place_dir(c, p, p->disk, "tmp", "/tmp", 01777, 0, e) < 0 ||
	    root_place_dir(c, p, p->disk, "run", "/run", 0755, 0, e) < 0)
		return -1;
	return root_place_dir(c, p, p->disk, "home", "/home/user", 0755, 1000, e);
}

/* pivot_root(".", ".") puts the old root on top of the new one; it is unmounted at once. */
static int change_root(int root, struct err *e)
{
	if (fchdir(root) < 0)
		return err_sys(e, "enter new root");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(e, "leave old root");
	return 0;
}

/* For an image: works as the cell's root, with the keeper's capabilities (main.c), or as itself. */
static int work_as(const struct keeper_create *r, uid_t uid, gid_t gid, struct err *e)
{
	if ((r->flags & CELL_DISK_IMAGE) != 0 &&
	    (syscall(SYS_setresgid, -1, gid, -1) < 0 || syscall(SYS_setresuid, -1, uid, -1) < 0))
		return err_sys(e, "change the effective user");
	return 0;
}

int root_assemble(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		  struct root_trees *p, struct err *e)
{
	if (root_make_disk(c, k, r, p, e) < 0 ||
	    work_as(r, ids_outside(&c->ids, 'u', 0), ids_outside(&c->ids, 'g', 0), e) < 0 ||
	    root_place_layers(c, k, r, p, e) < 0 || place_writable(c, r, p, e) < 0)
		return -1;
	/* Before /proc and /dev: a mount that the request, or a link in its trees, places there is
	 * covered by the real ones. */
	for (unsigned i = 0; i < r->nmounts; i++)
		if (root_place_mount(c, k, r, p, i, e) < 0)
			return -1;
	if (work_as(r, 0, 0, e) < 0 || root_place_proc(p, e) < 0 ||
	    root_place_dev(c, k, r, p, e) < 0)
		return -1;
	return change_root(p->root, e);
}
