/* root.c - assembles a cell's file system, in the order of root_assemble(). See root.h.
 *
 * Called by the builder as root of the keeper's user namespace: owners are set as ids outside of
 * the cell. Invariants, beside the list of root.h:
 *
 *   layers  are shared by all cells, so none may become writable
 *   mounts  have no devices and no set-id programs, and are read-only unless the request says
 *           writable. The source is an open descriptor: from the user of cordon run, or opened
 *           below a root of the server's operator (source_open())
 *   /proc   is that of the cell's pid namespace. Entries that show data of the machine are covered
 *   /dev    is read-only, and no other file system of a cell allows devices, so a cell has the
 *           device nodes made here and no others */
#include "cell/keeper/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "cell/keeper/disk_image.h"
#include "cell/keeper/source.h"
#include "lib/base/io.h"
#include "lib/wire/cell_layout.h"

/* The size of /dev/shm in a cell with an image and without a memory limit. */
#define SHM_BYTES 67108864ULL

/* The tmpfs with the directories that root.h lists. */
static int root_make_base(const struct keeper_create *r, struct root_trees *p, struct err *e)
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

/* Mount the image of the cell's name. Attached, because overlayfs needs that
 * (root_make_overlay()). */
static int root_open_image(const struct cell *c, const struct keeper *k,
			   const struct keeper_create *r, struct root_trees *p, struct err *e)
{
	char name[CELL_ID_MAX + 8];
	int disks = source_disks(k, r->id, name, sizeof(name)), mapped;
	struct stat st;

	if (disks < 0 || k->setup.common.rootless)
		return err_set(e, ERR_UNSUPPORTED, "disk: images need a server that root started");
	if (disk_image_mount(disks, name, false, &p->disk, e) < 0)
		return -1;
	if (fstat(p->disk, &st) < 0)
		return err_sys(e, "disk");
	if (cgroup_limit_disk(&c->cgroup, st.st_dev, &r->limits, e) < 0)
		return err_wrap(e, "limit of the disk");
	mapped = mounts_idmap(p->disk, c->userns_fd, e);
	if (mapped == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "disk: ext4 of this kernel has no idmapped mounts");
	if (mapped > 0 && kernel_move_mount(p->disk, p->base, "at", 0) < 0)
		return err_sys(e, "attach disk");
	return mapped < 0 ? -1 : 0;
}

static int root_make_disk(const struct cell *c, const struct keeper *k,
			  const struct keeper_create *r, struct root_trees *p, struct err *e)
{
	if (root_make_base(r, p, e) < 0)
		return -1;
	if ((r->flags & CELL_DISK_IMAGE) == 0)
		p->disk = fcntl(p->base, F_DUPFD_CLOEXEC, 3);
	else if (root_open_image(c, k, r, p, e) < 0)
		return -1;
	if ((r->flags & CELL_LINGER) == 0)
		return 0;
	return mounts_copy(p->disk, "", MOUNT_ATTR_RDONLY | MOUNTS_DATA_ONLY, &p->kept, e);
}

static int root_make_dir(const struct cell *c, int dir, const char *name, mode_t mode, uint32_t id,
			 struct err *e)
{
	if (mkdirat(dir, name, 0700) < 0 && errno == EEXIST)
		return 0; /* an earlier cell with this image has made it */
	/* chmod after chown, which clears bits, and mkdir is subject to the umask. */
	if (fchownat(dir, name, ids_outside(&c->ids, 'u', id), ids_outside(&c->ids, 'g', id),
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dir, name, mode, 0) < 0)
		return err_sys(e, "disk: mkdir %s", name);
	return 0;
}

static int root_place_dir(const struct cell *c, const struct root_trees *p, int on,
			  const char *name, const char *at, mode_t mode, uint32_t id, struct err *e)
{
	int copy = -1;

	if (root_make_dir(c, on, name, mode, id, e) < 0 ||
	    mounts_copy(on, name, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, &copy, e) < 0)
		return -1;
	OWN_FD fd = copy;
	return mounts_place(fd, p->root, at, e);
}

/* Mount attributes of layers and overlays: no devices and, in the locked profile, no set-id
 * programs. */
static uint64_t root_attrs(const struct keeper_create *r)
{
	return MOUNT_ATTR_NODEV | (r->profile == CELL_LOCKED ? MOUNT_ATTR_NOSUID : 0);
}

/* Attach layer i at "at" of the base, read-only and idmapped. */
static int root_attach_layer(struct cell *c, const struct keeper *k, const struct keeper_create *r,
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
	if (mapped == 0 && source_is_stored(k, &r->layer_from[i]) &&
	    (!k->setup.common.rootless || (r->nmounts > 0 && k->setup.subordinate > 0)))
		return err_set(e, ERR_UNSUPPORTED,
			       k->setup.common.rootless
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
static int root_own_places(const struct cell *c, int upper, struct err *e)
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
static void root_name_layers(const struct root_trees *p, unsigned first, unsigned end, char *ret,
			     size_t cap)
{
	size_t at = 0;

	for (unsigned i = end; i > first && at < cap; i--)
		at += (size_t)snprintf(ret + at, cap - at, i == end ? "%d" : ":%d",
				       p->layers[i - 1]);
}

/* Make the overlay of the layers first to end - 1 for the place with this number. overlayfs before
 * Linux 6.15 accepts attached layers only, named by paths. */
static int root_make_overlay(struct cell *c, const struct keeper *k, const struct keeper_create *r,
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
		/* These override the machine's configuration: attributes of layers name no files.
		 */
		{ "redirect_dir", "nofollow" },
		{ "metacopy", "off" },
		/* a rootless keeper may not write trusted.* attributes */
		{ k->setup.common.rootless ? "userxattr" : NULL, NULL },
		{ NULL, NULL }
	};

	for (const char *kind = "uw"; *kind != '\0'; kind++) {
		(void)snprintf(name, sizeof(name), "%c%u", *kind, place);
		if (root_make_dir(c, p->disk, name, 0755, 0, e) < 0)
			return -1;
	}
	/* In a cell with a single id the template belongs to that id already, and owners of stored
	 * layers are right. */
	if (place == 0 && !c->idmapped && (!k->setup.common.rootless || k->setup.subordinate > 0) &&
	    !source_is_stored(k, &r->layer_from[end - 1])) {
		OWN_FD dir = openat(p->disk, "u0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || root_own_places(c, dir, e) < 0)
			return -1;
	}
	root_name_layers(p, first, end, lower, sizeof(lower));
	(void)snprintf(upper, sizeof(upper), "%d/u%u", p->disk, place);
	(void)snprintf(work, sizeof(work), "%d/w%u", p->disk, place);
	/* Read-only cells have overlays, too, so that they do not see inodes of the machine. */
	if ((r->flags & CELL_READ_ONLY) != 0)
		attrs |= MOUNT_ATTR_RDONLY;
	return mounts_new("overlay", options, attrs, &fd, e) < 0 ? -1 : fd;
}

static int root_place_layers(struct cell *c, const struct keeper *k, const struct keeper_create *r,
			     struct root_trees *p, struct err *e)
{
	c->idmapped = true;
	for (unsigned i = 0; i < r->nlayers; i++)
		if (root_attach_layer(c, k, r, p, i, e) < 0)
			return -1;
	if (chdir("/proc/self/fd") < 0)
		return err_sys(e, "chdir to /proc/self/fd");
	for (unsigned i = 0, end, place = 0; i < r->nlayers; i = end, place++) {
		for (end = i + 1; end < r->nlayers; end++)
			if (strcmp(r->layer_at[end], r->layer_at[i]) != 0)
				break;
		OWN_FD fd = root_make_overlay(c, k, r, p, i, end, place, e);
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

/* The image's directory data in place of its root. The image is attached because kernels before
 * 6.15 copy attached mounts only: over the base at /tmp of the builder, which the cell loses with
 * the old root. (Directory "at" of the base is the cell's root by now: a mount there would stay
 * over / of the cell.) */
static int root_take_data(struct root_trees *p, unsigned i, struct err *e)
{
	int data = -1;

	if (kernel_move_mount(p->mounts[i], p->base, "/tmp", 0) < 0)
		return err_sys(e, "attach volume");
	if (mounts_copy(p->mounts[i], "data", 0, &data, e) < 0)
		return -1;
	io_close_all(&p->mounts[i], 1);
	p->mounts[i] = data;
	return 0;
}

/* The owner of the source is translated to the cell's user, who can then read the same files and,
 * if the mount is writable, write them. A volume has the owners of the cell. */
static int root_place_mount(const struct cell *c, const struct keeper *k,
			    const struct keeper_create *r, struct root_trees *p, unsigned i,
			    struct err *e)
{
	bool writable = (r->mounts[i].flags & CELL_MOUNT_WRITABLE) != 0;
	const char *at = r->mounts[i].at;
	struct stat st;
	bool volume = source_is_volume(k, &r->mounts[i].from);
	int ns = -1, mapped = 0;

	if (volume && source_is_image(&r->mounts[i].from) && root_take_data(p, i, e) < 0)
		return -1;
	if (fstat(p->mounts[i], &st) < 0)
		return err_sys(e, "mount %s", at);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID,
			       "mount %s: the source is neither a directory nor a file", at);
	if (mounts_restrict(p->mounts[i],
			    MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
				    (writable ? 0 : MOUNT_ATTR_RDONLY),
			    e) < 0)
		return -1;
	if (!k->setup.common.rootless) {
		if (!volume &&
		    ids_translator(st.st_uid, ids_outside(&c->ids, 'u', r->uid), st.st_gid,
				   ids_outside(&c->ids, 'g', r->gid), &ns, e) < 0)
			return -1;
		OWN_FD translator = ns;
		mapped = mounts_idmap(p->mounts[i], volume ? c->userns_fd : translator, e);
		if (mapped < 0)
			return -1;
	}
	if (writable && mapped == 0 && !k->setup.common.rootless)
		return err_set(e, ERR_UNSUPPORTED,
			       "mount %s: this file system has no idmapped mounts, so the cell "
			       "could not own what it writes; mount it read-only",
			       at);
	if (mounts_make_target(p->root, at, S_ISDIR(st.st_mode), ids_outside(&c->ids, 'u', 0),
			       ids_outside(&c->ids, 'g', 0), e) < 0)
		return err_wrap(e, "mount");
	return mounts_place(p->mounts[i], p->root, at, e);
}

/* Put a read-only mount over an entry of /proc. */
static int root_cover(struct root_trees *p, const char *name, int dir, const char *with,
		      struct err *e)
{
	int copy = -1;

	if (mounts_copy(dir, with, MOUNT_ATTR_RDONLY | MOUNTS_DATA_ONLY, &copy, e) < 0)
		return -1;
	OWN_FD fd = copy;
	if (kernel_move_mount(fd, p->proc, name, 0) < 0)
		return err_sys(e, "cover /proc/%s", name);
	return 0;
}

/* A file of the base that stands for the kernel's boot id: each cell is a boot of its own. A
 * session that gets a new cell gets a new id, and a frozen cell keeps its id. */
static int root_make_boot_id(int base, struct err *e)
{
	char id[64];
	OWN_FD from = open("/proc/sys/kernel/random/uuid", O_RDONLY | O_CLOEXEC);
	OWN_FD to = openat(base, "boot_id", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	ssize_t n = read(from, id, sizeof(id));

	return n > 0 && write(to, id, (size_t)n) == n ? 0 : err_sys(e, "make a boot id");
}

/* A cover is a read-only mount of an empty file or directory of the base. The cell cannot unmount
 * it, because its mount namespace is owned by the keeper's user namespace. */
static int root_place_proc(const struct keeper *k, struct root_trees *p, struct err *e)
{
	if (mounts_place(p->proc, p->root, "/proc", e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(proc_hidden); i++)
		if ((k->setup.covers & 1U << i) != 0 &&
		    root_cover(p, proc_hidden[i], p->base,
			       (k->setup.cover_dirs & 1U << i) != 0 ? "empty" : "none", e) < 0)
			return -1;
	/* The kernel lets root of a namespace write the namespace's settings. A cell may not. */
	if (root_cover(p, "sys", p->proc, "sys", e) < 0 || root_make_boot_id(p->base, e) < 0)
		return -1;
	return root_cover(p, "sys/kernel/random/boot_id", p->base, "boot_id", e);
}

static int root_make_node(int dev, const char *name, dev_t number, struct err *e)
{
	if (mknodat(dev, name, S_IFCHR | 0666, number) < 0 || fchmodat(dev, name, 0666, 0) < 0)
		return err_sys(e, "/dev/%s", name);
	return 0;
}

/* A rootless keeper may not make device nodes: it mounts the machine's, after a check that they are
 * the devices of these names. */
static int root_borrow_node(int dev, const char *name, dev_t number, struct err *e)
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

static int root_place_pts(const struct cell *c, int dev, struct err *e)
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

static int root_fill_dev(const struct cell *c, const struct keeper *k,
			 const struct keeper_create *r, int dev, struct err *e)
{
	int (*node)(int, const char *, dev_t, struct err *) =
		k->setup.common.rootless ? root_borrow_node : root_make_node;
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
	return root_place_pts(c, dev, e);
}

/* /dev is a directory of the base, which saves a file system. Its mount allows devices and is made
 * read-only when it is complete. */
static int root_place_dev(const struct cell *c, const struct keeper *k,
			  const struct keeper_create *r, struct root_trees *p, struct err *e)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	int copy = -1;

	if (mounts_copy(p->base, "dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &copy, e) < 0)
		return -1;
	OWN_FD dev = copy;
	if (mounts_place(dev, p->root, "/dev", e) < 0 || root_fill_dev(c, k, r, dev, e) < 0 ||
	    root_place_dir(c, p, p->base, "shm", "/dev/shm", 01777, 0, e) < 0)
		return -1;
	/* Only the directory itself, without the mounts in it. */
	if (kernel_mount_setattr(dev, 0, &read_only) < 0)
		return err_sys(e, "/dev read-only");
	return 0;
}

static int root_place_writable(const struct cell *c, const struct keeper_create *r,
			       struct root_trees *p, struct err *e)
{
	if ((r->flags & CELL_READ_ONLY) == 0)
		return 0;
	if (root_place_dir(c, p, p->disk, "tmp", "/tmp", 01777, 0, e) < 0 ||
	    root_place_dir(c, p, p->disk, "run", "/run", 0755, 0, e) < 0)
		return -1;
	return root_place_dir(c, p, p->disk, "home", "/home/user", 0755, 1000, e);
}

/* pivot_root(".", ".") puts the old root on top of the new one. It is unmounted at once. */
static int root_change(int root, struct err *e)
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
static int root_work_as(const struct keeper_create *r, uid_t uid, gid_t gid, struct err *e)
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
	    root_work_as(r, ids_outside(&c->ids, 'u', 0), ids_outside(&c->ids, 'g', 0), e) < 0 ||
	    root_place_layers(c, k, r, p, e) < 0 || root_place_writable(c, r, p, e) < 0)
		return -1;
	/* Before /proc and /dev: a mount that the request, or a link in its trees, places there is
	 * covered by the real ones. */
	for (unsigned i = 0; i < r->nmounts; i++)
		if (root_place_mount(c, k, r, p, i, e) < 0)
			return -1;
	if (root_work_as(r, 0, 0, e) < 0 || root_place_proc(k, p, e) < 0 ||
	    root_place_dev(c, k, r, p, e) < 0)
		return -1;
	return root_change(p->root, e);
}
