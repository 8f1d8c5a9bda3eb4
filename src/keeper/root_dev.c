/* root_dev.c - /dev of a cell: six device nodes, links, pseudo-terminals of its own, /dev/shm, and
 * the machine id; /dev/kvm for a virtual machine. What must not change: /dev is read-only, and no
 * other file system of a cell allows devices, so a cell has these and no others. */
#include "root.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "cell_layout.h"

static int make_node(int dev, const char *name, dev_t number, struct err *e)
{
	if (mknodat(dev, name, S_IFCHR | 0666, number) < 0 || fchmodat(dev, name, 0666, 0) < 0)
		return err_sys(e, "/dev/%s", name);
	return 0;
}

/* A rootless keeper may not make device nodes: it mounts the machine's, after a check that they are
 * the devices of these names. */
static int borrow_node(int dev, const char *name, dev_t number, struct err *e)
{
	char path[32];
	struct stat st;
	int copy = -1;

	(void)snprintf(path, sizeof(path), "/dev/%s", name);
	if (mounts_copy(AT_FDCWD, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &copy, e) < 0)
		return -1;
	OWN_FD fd = copy;
	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != number)
		return err_set(e, ERR_UNSUPPORTED,
			       "%s of this machine is not the device it should be", path);
	if (mknodat(dev, name, S_IFREG | 0444, 0) < 0)
		return err_sys(e, "%s", path);
	if (kernel_move_mount(fd, dev, name, 0) < 0)
		return err_sys(e, "mount %s", path);
	return 0;
}

static int place_pts(const struct cell *c, int dev, struct err *e)
{
	char gid[16];
	const struct mounts_option options[] = { { "newinstance", NULL }, { "ptmxmode", "0666" },
						 { "mode", "0620" },	  { "max", "64" },
						 { "gid", gid },	  { NULL, NULL } };
	int made = -1;

	(void)snprintf(gid, sizeof(gid), "%u", ids_outside(&c->ids, 'g', 5)); /* group tty */
	if (mounts_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &made, e) < 0)
		return -1;
	OWN_FD pts = made;
	return mounts_place(pts, dev, "pts", e);
}

static int fill_dev(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		    int dev, struct err *e)
{
	int (*node)(int, const char *, dev_t, struct err *) =
		k->setup.rootless ? borrow_node : make_node;
	OWN_FD id = openat(dev, "machine-id", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);

	for (size_t i = 0; i < COUNT(dev_nodes); i++)
		if (node(dev, dev_nodes[i].name, makedev(dev_nodes[i].major, dev_nodes[i].minor),
			 e) < 0)
			return -1;
	if ((r->flags & CELL_KVM) != 0 && node(dev, "kvm", makedev(10, 232), e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(dev_links); i++)
		if (symlinkat(dev_links[i][1], dev, dev_links[i][0]) < 0)
			return err_sys(e, "/dev/%s", dev_links[i][0]);
	if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 || id < 0 ||
	    dprintf(id, "%s\n", r->machine_id) < 0)
		return err_sys(e, "fill /dev");
	return place_pts(c, dev, e);
}

/* /dev is a directory of the base, which saves a file system; its mount allows devices and is made
 * read-only when it is complete. */
int root_place_dev(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		   struct root_trees *p, struct err *e)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	int copy = -1;

	if (mounts_copy(p->base, "dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &copy, e) < 0)
		return -1;
	OWN_FD dev = copy;
	if (mounts_place(dev, p->root, "/dev", e) < 0 || fill_dev(c, k, r, dev, e) < 0 ||
	    root_place_dir(c, p, p->base, "shm", "/dev/shm", 01777, 0, e) < 0)
		return -1;
	/* Only the directory itself, not what is mounted in it. */
	if (kernel_mount_setattr(dev, 0, &read_only) < 0)
		return err_sys(e, "/dev read-only");
	return 0;
}
