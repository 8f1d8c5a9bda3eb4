/* root.c - theory of operation
 *
 * One tmpfs, the store, sized in bytes and inodes, holds everything a cell can write: the upper
 * directories of its overlays, and with a read-only root /tmp and its like. So there is one quota
 * and nothing outside it. In the store:
 *
 *   u0 u1 ..   what the cell wrote over each layer (the file system diff reads these)
 *   w0 w1 ..   overlayfs's work directories
 *   tmp run shm home   writable places of a cell with a read-only root, and /dev/shm of every cell
 *   dev        /dev, which no cell can write to
 *   none empty a file and a directory with nothing in them, to cover parts of /proc
 *   at         where layers and the new root are attached, one over the other, while they are
 *              needed: each is reached by its own descriptor
 *
 * The store is attached to /tmp of the builder's private mount namespace and goes away with the old
 * root; overlays and descriptors keep it alive. */
#include "cell_build.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "mounts.h"

static int make_store(const struct keeper_create *r, struct root_parts *p, struct err *e)
{
	char size[24], inodes[24];
	const struct mounts_option options[] = {
		{ "size", size }, { "nr_inodes", inodes }, { "mode", "0755" }, { NULL, NULL }
	};

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)r->limits.disk_bytes);
	(void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)r->limits.inodes);
	if (mounts_new("tmpfs", options, 0, &p->store, e) < 0)
		return -1;
	if (kernel_move_mount(p->store, AT_FDCWD, "/tmp", 0) < 0)
		return err_sys(e, "attach store at /tmp");
	if (mkdirat(p->store, "at", 0555) < 0 || mkdirat(p->store, "empty", 0555) < 0 ||
	    mkdirat(p->store, "dev", 0755) < 0 || mknodat(p->store, "none", S_IFREG | 0444, 0) < 0)
		return err_sys(e, "fill store");
	if ((r->flags & CELL_LINGER) == 0)
		return 0;
	return mounts_copy(p->store, "", MOUNT_ATTR_RDONLY | MOUNTS_STILL, &p->kept, e);
}

/* id: inside, of the owner and the group. */
static int make_dir(const struct cell *c, int dir, const char *name, mode_t mode, uint32_t id,
		    struct err *e)
{
	/* chmod after chown: the owner may not be ours, and mkdir is subject to the umask. */
	if (mkdirat(dir, name, 0700) < 0 ||
	    fchownat(dir, name, ids_outside(&c->ids, 'u', id), ids_outside(&c->ids, 'g', id),
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dir, name, mode, 0) < 0)
		return err_sys(e, "store: mkdir %s", name);
	return 0;
}

/* The attributes of everything that is not a template: no devices, and in the locked profile no way
 * to become another user. */
static uint64_t attrs(const struct keeper_create *r)
{
	return MOUNT_ATTR_NODEV | (r->profile == CELL_LOCKED ? MOUNT_ATTR_NOSUID : 0);
}

/* Attaches layer i in the store, read-only, its owners translated to the cell's. */
static int attach_layer(struct cell *c, const struct keeper_create *r, struct root_parts *p,
			unsigned i, struct err *e)
{
	int mapped;

	if (mounts_restrict(p->layers[i], MOUNT_ATTR_RDONLY | attrs(r), e) < 0)
		return -1;
	mapped = mounts_idmap(p->layers[i], c->userns_fd, e);
	if (mapped < 0)
		return -1;
	if (mapped == 0)
		c->idmapped = false;
	if (kernel_move_mount(p->layers[i], p->store, "at", 0) < 0)
		return err_sys(e, "attach layer %u", i);
	return 0;
}

/* Where the layers' owners are strangers to the cell, its users would not even own their homes:
 * these directories are put over the template's with the right owners. */
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
		if (make_dir(c, upper, places[i].path, places[i].mode, places[i].id, e) < 0)
			return -1;
	return 0;
}

/* A writable view of layer i. overlayfs before Linux 6.15 takes only attached layers, and names
 * them by path: the magic links of our own descriptors. */
static int make_overlay(struct cell *c, const struct keeper *k, const struct keeper_create *r,
			struct root_parts *p, unsigned i, int *ret_fd, struct err *e)
{
	char name[16], lower[32], upper[48], work[48];
	const struct mounts_option options[] = {
		{ "lowerdir", lower },
		{ "upperdir", upper },
		{ "workdir", work },
		/* user.* attributes where trusted.* is not ours to write */
		{ k->setup.rootless ? "userxattr" : NULL, NULL },
		{ NULL, NULL }
	};

	for (const char *kind = "uw"; *kind != '\0'; kind++) {
		(void)snprintf(name, sizeof(name), "%c%u", *kind, i);
		if (make_dir(c, p->store, name, 0755, 0, e) < 0)
			return -1;
	}
	/* A single id owns the template as it is. */
	if (i == 0 && !c->idmapped && (!k->setup.rootless || k->setup.subordinate > 0)) {
		OWN_FD dir = openat(p->store, "u0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || own_places(c, dir, e) < 0)
			return -1;
	}
	(void)snprintf(lower, sizeof(lower), "/proc/self/fd/%d", p->layers[i]);
	(void)snprintf(upper, sizeof(upper), "/proc/self/fd/%d/u%u", p->store, i);
	(void)snprintf(work, sizeof(work), "/proc/self/fd/%d/w%u", p->store, i);
	/* Read-only cells have overlays too: inodes of their own, not the machine's. */
	return mounts_new("overlay", options,
			  attrs(r) | ((r->flags & CELL_READ_ONLY) != 0 ? MOUNT_ATTR_RDONLY : 0),
			  ret_fd, e);
}

static int place_layers(struct cell *c, const struct keeper *k, const struct keeper_create *r,
			struct root_parts *p, struct err *e)
{
	c->idmapped = true;
	for (unsigned i = 0; i < r->nlayers; i++)
		if (attach_layer(c, r, p, i, e) < 0)
			return -1;
	for (unsigned i = 0; i < r->nlayers; i++) {
		int made = -1;

		if (make_overlay(c, k, r, p, i, &made, e) < 0)
			return err_wrap(e, "layer at %s", r->layer_at[i]);
		OWN_FD fd = made;
		if (i > 0 && mounts_place(fd, p->root, r->layer_at[i], e) < 0)
			return -1;
		if (i == 0) {
			if (kernel_move_mount(fd, p->store, "at", 0) < 0)
				return err_sys(e, "attach root");
			p->root = TAKE_FD(fd);
		}
	}
	return 0;
}

/* Puts a directory of the store at a place of the cell. */
static int place_store_dir(const struct cell *c, const struct keeper_create *r,
			   struct root_parts *p, const char *name, const char *at, mode_t mode,
			   uint32_t id, struct err *e)
{
	int copy = -1;

	if (make_dir(c, p->store, name, mode, id, e) < 0 ||
	    mounts_copy(p->store, name, attrs(r) | MOUNT_ATTR_NOSUID, &copy, e) < 0)
		return -1;
	OWN_FD fd = copy;
	return mounts_place(fd, p->root, at, e);
}

static int place_writable(const struct cell *c, const struct keeper_create *r, struct root_parts *p,
			  struct err *e)
{
	if ((r->flags & CELL_READ_ONLY) == 0)
		return 0;
	if (place_store_dir(c, r, p, "tmp", "/tmp", 01777, 0, e) < 0 ||
	    place_store_dir(c, r, p, "run", "/run", 0755, 0, e) < 0)
		return -1;
	return place_store_dir(c, r, p, "home", "/home/user", 0755, 1000, e);
}

/* Of /proc, what tells about the machine or its devices. Not kallsyms, iomem and ioports: there the
 * kernel itself shows zeros to all but the machine's root. */
static const char *const hidden[] = {
	"acpi",	      "asound",	    "bootconfig",    "bus",	   "cmdline",
	"config.gz",  "driver",	    "dynamic_debug", "interrupts", "kallsyms",
	"kcore",      "key-users",  "keys",	     "kmsg",	   "kpagecgroup",
	"kpagecount", "kpageflags", "latency_stats", "modules",	   "sched_debug",
	"scsi",	      "slabinfo",   "sysrq-trigger", "timer_list", "vmallocinfo",
};
static bool covered[COUNT(hidden)], covered_dir[COUNT(hidden)];

void root_learn_proc(void)
{
	struct stat st;

	OWN_FD proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < COUNT(hidden); i++) {
		if (fstatat(proc, hidden[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		covered[i] = (st.st_mode & 0006) != 0;
		covered_dir[i] = S_ISDIR(st.st_mode);
	}
}

/* Puts what nobody can change over an entry of /proc. */
static int cover(struct root_parts *p, const char *name, int dir, const char *with, struct err *e)
{
	int copy = -1;

	if (mounts_copy(dir, with, MOUNT_ATTR_RDONLY | MOUNTS_STILL, &copy, e) < 0)
		return -1;
	OWN_FD fd = copy;
	if (kernel_move_mount(fd, p->proc, name, 0) < 0)
		return err_sys(e, "cover /proc/%s", name);
	return 0;
}

static int place_proc(struct root_parts *p, struct err *e)
{
	if (mounts_place(p->proc, p->root, "/proc", e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(hidden); i++)
		if (covered[i] &&
		    cover(p, hidden[i], p->store, covered_dir[i] ? "empty" : "none", e) < 0)
			return -1;
	/* The kernel gives a namespace's own settings to its root: not here. */
	return cover(p, "sys", p->proc, "sys", e);
}

static const struct {
	const char *name;
	unsigned major, minor;
} nodes[] = { { "null", 1, 3 },	  { "zero", 1, 5 },    { "full", 1, 7 },
	      { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 } };

/* clang-format off */
static const char *const dev_links[][2] = {
	{ "fd", "/proc/self/fd" }, { "ptmx", "pts/ptmx" }, { "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
};
/* clang-format on */

static int make_node(int dev, const char *name, dev_t number, struct err *e)
{
	if (mknodat(dev, name, S_IFCHR | 0666, number) < 0 || fchmodat(dev, name, 0666, 0) < 0)
		return err_sys(e, "/dev/%s", name);
	return 0;
}

/* Who may not make nodes shows the machine's, which must be what their names say. */
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

static int fill_dev(const struct cell *c, const struct keeper *k, const char *machine_id, int dev,
		    struct err *e)
{
	OWN_FD id = openat(dev, "machine-id", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);

	for (size_t i = 0; i < COUNT(nodes); i++)
		if ((k->setup.rootless ? borrow_node : make_node)(
			    dev, nodes[i].name, makedev(nodes[i].major, nodes[i].minor), e) < 0)
			return -1;
	for (size_t i = 0; i < COUNT(dev_links); i++)
		if (symlinkat(dev_links[i][1], dev, dev_links[i][0]) < 0)
			return err_sys(e, "/dev/%s", dev_links[i][0]);
	if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 || id < 0 ||
	    dprintf(id, "%s\n", machine_id) < 0)
		return err_sys(e, "fill /dev");
	return place_pts(c, dev, e);
}

/* A directory of the store too, to cost no file system; but with devices, and read-only. */
static int place_dev(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		     struct root_parts *p, struct err *e)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	int copy = -1;

	if (mounts_copy(p->store, "dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &copy, e) < 0)
		return -1;
	OWN_FD dev = copy;
	if (mounts_place(dev, p->root, "/dev", e) < 0 ||
	    fill_dev(c, k, r->machine_id, dev, e) < 0 ||
	    place_store_dir(c, r, p, "shm", "/dev/shm", 01777, 0, e) < 0)
		return -1;
	/* Only the directory itself, not what is mounted in it. */
	if (kernel_mount_setattr(dev, 0, &read_only) < 0)
		return err_sys(e, "/dev read-only");
	return 0;
}

/* A tree the request brought along. Its owner becomes the cell's user, who thereby can read what
 * the owner can; and never more than read unless asked. */
static int place_mount(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		       struct root_parts *p, unsigned i, struct err *e)
{
	bool writable = (r->mounts[i].flags & CELL_MOUNT_WRITABLE) != 0;
	const char *at = r->mounts[i].at;
	struct stat st;
	int ns = -1, mapped = 0;

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
	if (!k->setup.rootless) {
		if (ids_translator(st.st_uid, ids_outside(&c->ids, 'u', r->uid), st.st_gid,
				   ids_outside(&c->ids, 'g', r->gid), &ns, e) < 0)
			return -1;
		OWN_FD translator = ns;
		mapped = mounts_idmap(p->mounts[i], translator, e);
		if (mapped < 0)
			return -1;
	}
	if (writable && mapped == 0 && !k->setup.rootless)
		return err_set(e, ERR_UNSUPPORTED,
			       "mount %s: this file system has no idmapped mounts, so the cell "
			       "could not own "
			       "what it writes; mount it read-only",
			       at);
	if (mounts_make_target(p->root, at, S_ISDIR(st.st_mode), ids_outside(&c->ids, 'u', 0),
			       ids_outside(&c->ids, 'g', 0), e) < 0)
		return err_wrap(e, "mount");
	return mounts_place(p->mounts[i], p->root, at, e);
}

/* The old root is on top of the new one for one instruction, then gone with all below it. */
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
		  struct root_parts *p, struct err *e)
{
	if (make_store(r, p, e) < 0 || place_layers(c, k, r, p, e) < 0 ||
	    place_writable(c, r, p, e) < 0)
		return -1;
	/* Before /proc and /dev: whatever a request mounts there, or a link of its trees leads
	 * there, is under the real ones. */
	for (unsigned i = 0; i < r->nmounts; i++)
		if (place_mount(c, k, r, p, i, e) < 0)
			return -1;
	if (place_proc(p, e) < 0 || place_dev(c, k, r, p, e) < 0)
		return -1;
	return change_root(p->root, e);
}
