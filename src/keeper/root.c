/* root.c - assembles a cell's file system, in the order of root_assemble(). See root.h. */
#include "root.h"

#include <fcntl.h>
#include <sys/mount.h>

static int place_writable(const struct cell *c, const struct keeper_create *r, struct root_trees *p,
			  struct err *e)
{
	if ((r->flags & CELL_READ_ONLY) == 0)
		return 0;
	if (root_place_dir(c, r, p, "tmp", "/tmp", 01777, 0, e) < 0 ||
	    root_place_dir(c, r, p, "run", "/run", 0755, 0, e) < 0)
		return -1;
	return root_place_dir(c, r, p, "home", "/home/user", 0755, 1000, e);
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

int root_assemble(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		  struct root_trees *p, struct err *e)
{
	if (root_make_disk(r, p, e) < 0 || root_place_layers(c, k, r, p, e) < 0 ||
	    place_writable(c, r, p, e) < 0)
		return -1;
	/* Before /proc and /dev: a mount that the request, or a link in its trees, places there is
	 * covered by the real ones. */
	for (unsigned i = 0; i < r->nmounts; i++)
		if (root_place_mount(c, k, r, p, i, e) < 0)
			return -1;
	if (root_place_proc(p, e) < 0 || root_place_dev(c, k, r, p, e) < 0)
		return -1;
	return change_root(p->root, e);
}
