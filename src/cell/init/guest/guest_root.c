/* guest_root.c - theory of operation
 *
 * All mounts are made at fixed places of the initramfs, then the new root is moved over it: the
 * initramfs cannot be pivoted away from. Its directories stay reachable by this program's
 * descriptors only.
 *
 *   /image   the erofs image              /disk   the tmpfs: u0 and w0 (overlay), shm
 *   /base    a tmpfs that programs cannot write: dev, boot_id, an empty file and directory
 *   /new     the new root
 *
 * /dev/machine-id and the boot id are files of /base, written again for each HELLO. */
#include "cell/init/guest/guest_root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/wire/cell_layout.h"
#include "lib/wire/keeper_msg.h"

#define DATA_ONLY (MS_NODEV | MS_NOSUID | MS_NOEXEC)
#define IMAGE_WAIT_MS 5000
/* Before the first HELLO, which says how large it is. */
#define DISK_START "size=16m,nr_inodes=4096,mode=0755"

static int base = -1;			  /* /base */
static int boot_id = -1, machine_id = -1; /* files of it */
static int image = -1;			  /* /image */

static int guest_root_place(const char *from, const char *at, const char *type, unsigned long flags,
			    const char *options, struct err *e)
{
	if (mkdir(at, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make %s", at);
	return mount(from, at, type, flags, options) < 0 ? err_sys(e, "mount %s", at) : 0;
}

/* Show a directory or a file at another place. Flags of a bind mount need a second call. */
static int guest_root_show(const char *from, const char *at, unsigned long flags, struct err *e)
{
	if (mount(from, at, NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | flags, NULL) < 0)
		return err_sys(e, "mount %s", at);
	return 0;
}

int guest_root_prepare(struct err *e)
{
	/* clang-format off */
	if (guest_root_place("proc", "/proc", "proc", DATA_ONLY, NULL, e) < 0
	    || guest_root_place("sys", "/sys", "sysfs", DATA_ONLY, NULL, e) < 0
	    || guest_root_place("dev", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC, "mode=0700", e) < 0)
		return -1;
	/* clang-format on */
	return 0;
}

/* The driver finds the disk while its module is loaded. On a machine under load a little later. */
static int guest_root_wait_for_image(struct err *e)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (unsigned i = 0; i < IMAGE_WAIT_MS; i++) {
		if (access("/dev/vda", F_OK) == 0)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return err_set(e, ERR_NOT_FOUND, "the machine has no disk /dev/vda");
}

static int guest_root_make_dir(const char *path, mode_t mode, struct err *e)
{
	if (mkdir(path, mode) < 0 || chmod(path, mode) < 0)
		return err_sys(e, "make %s", path);
	return 0;
}

static int guest_root_make_overlay(struct err *e)
{
	/* cell/keeper/root.c has the same options. */
	static const char options[] = "lowerdir=/image,upperdir=/disk/u0,workdir=/disk/"
				      "w0,redirect_dir=nofollow,metacopy=off";

	if (guest_root_wait_for_image(e) < 0 ||
	    guest_root_place("/dev/vda", "/image", "erofs", MS_RDONLY | MS_NODEV, NULL, e) < 0 ||
	    guest_root_place("disk", "/disk", "tmpfs", 0, DISK_START, e) < 0 ||
	    guest_root_make_dir("/disk/u0", 0755, e) < 0 ||
	    guest_root_make_dir("/disk/w0", 0755, e) < 0 ||
	    guest_root_make_dir("/disk/shm", 01777, e) < 0)
		return -1;
	return guest_root_place("overlay", "/new", "overlay", MS_NODEV, options, e);
}

static int guest_root_make_base(struct err *e)
{
	if (guest_root_place("base", "/base", "tmpfs", 0, "size=1m,nr_inodes=64,mode=0755", e) <
		    0 ||
	    guest_root_make_dir("/base/empty", 0555, e) < 0 ||
	    guest_root_make_dir("/base/dev", 0755, e) < 0)
		return -1;
	base = open("/base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base < 0 || mknodat(base, "none", S_IFREG | 0444, 0) < 0)
		return err_sys(e, "fill /base");
	boot_id = openat(base, "boot_id", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	machine_id = openat(base, "dev/machine-id", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	return guest_root_set_machine_id("00000000000000000000000000000000") != 0
		       ? err_set(e, ERR_SYSTEM, "make the machine id")
		       : 0;
}

static int guest_root_fill_dev(int dev, struct err *e)
{
	for (size_t i = 0; i < COUNT(dev_nodes); i++)
		if (mknodat(dev, dev_nodes[i].name, S_IFCHR | 0666,
			    makedev(dev_nodes[i].major, dev_nodes[i].minor)) < 0 ||
		    fchmodat(dev, dev_nodes[i].name, 0666, 0) < 0)
			return err_sys(e, "/dev/%s", dev_nodes[i].name);
	for (size_t i = 0; i < COUNT(dev_links); i++)
		if (symlinkat(dev_links[i][1], dev, dev_links[i][0]) < 0)
			return err_sys(e, "/dev/%s", dev_links[i][0]);
	if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0)
		return err_sys(e, "fill /dev");
	return 0;
}

static int guest_root_place_dev(struct err *e)
{
	OWN_FD dev = openat(base, "dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dev < 0 || (mkdir("/new/dev", 0755) < 0 && errno != EEXIST))
		return err_sys(e, "make /dev");
	/* clang-format off */
	if (guest_root_fill_dev(dev, e) < 0
	    || guest_root_show("/base/dev", "/new/dev", MS_NOSUID | MS_NOEXEC | MS_RDONLY, e) < 0
	    || guest_root_place("devpts", "/new/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		     "newinstance,ptmxmode=0666,mode=0620,max=64,gid=5", e) < 0
	    || guest_root_show("/disk/shm", "/new/dev/shm", MS_NODEV | MS_NOSUID, e) < 0)
		return -1;
	/* clang-format on */
	return 0;
}

/* A guest's root may open all of them, unlike a cell's root, so all are covered. */
static int guest_root_cover(const char *name, struct err *e)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/new/proc/%s", name);
	if (lstat(path, &st) < 0)
		return 0;
	return guest_root_show(S_ISDIR(st.st_mode) ? "/base/empty" : "/base/none", path,
			       MS_RDONLY | DATA_ONLY, e);
}

static int guest_root_place_proc(struct err *e)
{
	if (guest_root_place("proc", "/new/proc", "proc", DATA_ONLY, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(proc_hidden); i++)
		if (guest_root_cover(proc_hidden[i], e) < 0)
			return -1;
	if (guest_root_show("/new/proc/sys", "/new/proc/sys", MS_RDONLY | DATA_ONLY, e) < 0)
		return -1;
	return guest_root_show("/base/boot_id", "/new/proc/sys/kernel/random/boot_id",
			       MS_RDONLY | DATA_ONLY, e);
}

static int guest_root_change_root(struct err *e)
{
	OWN_FD disk = open("/disk", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	image = open("/image", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (image < 0 || disk < 0 || dup3(disk, INIT_FD_DISK, O_CLOEXEC) < 0)
		return err_sys(e, "open the disk");
	if (chdir("/new") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    chdir("/") < 0)
		return err_sys(e, "change the root directory");
	return 0;
}

int guest_root_enter(struct err *e)
{
	if (guest_root_make_overlay(e) < 0 || guest_root_make_base(e) < 0 ||
	    guest_root_place_proc(e) < 0 || guest_root_place_dev(e) < 0)
		return -1;
	return guest_root_change_root(e);
}

int guest_root_image(void)
{
	return image;
}

/* ---- for each HELLO. A clone starts with an engine without translated code. So files stay open,
 * and unchanged values are not set again: each saved call need not be translated before the first
 * answer. */

int guest_root_resize(uint64_t disk_bytes, uint64_t inodes)
{
	static uint64_t set_bytes, set_inodes;
	char options[96], path[32];

	if (base < 0)
		return ENOTSUP;
	if (disk_bytes == set_bytes && inodes == set_inodes)
		return 0;
	/* the directories of an empty disk count, as in a cell */
	(void)snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu",
		       (unsigned long long)disk_bytes, (unsigned long long)inodes);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", INIT_FD_DISK);
	if (mount(NULL, path, NULL, MS_REMOUNT, options) < 0)
		return errno;
	set_bytes = disk_bytes;
	set_inodes = inodes;
	return 0;
}

/* In place: programs see the file by a mount of it. */
static int guest_root_write_file(int fd, const char *text)
{
	size_t n = strlen(text);

	errno = 0;
	if (fd < 0 || pwrite(fd, text, n, 0) != (ssize_t)n)
		return errno == 0 ? EIO : errno;
	return 0;
}

/* A random UUID in the kernel's form. */
static int guest_root_renew_boot_id(void)
{
	uint8_t r[16];
	char text[40];

	if (getrandom(r, sizeof(r), 0) != sizeof(r))
		return EIO;
	r[6] = (uint8_t)((r[6] & 0x0f) | 0x40);
	r[8] = (uint8_t)((r[8] & 0x3f) | 0x80);
	(void)snprintf(text, sizeof(text),
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n",
		       r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11],
		       r[12], r[13], r[14], r[15]);
	return guest_root_write_file(boot_id, text);
}

int guest_root_set_machine_id(const char *id)
{
	char line[40];
	int sys;

	if (base < 0)
		return ENOTSUP;
	(void)snprintf(line, sizeof(line), "%.32s\n", id);
	sys = guest_root_write_file(machine_id, line);
	return sys != 0 ? sys : guest_root_renew_boot_id();
}

/* ---- a read-only root */

/* A directory of the disk, over one of the root. */
static int guest_root_place_writable(const char *name, const char *at, mode_t mode, uid_t owner)
{
	char from[48];

	if ((mkdirat(INIT_FD_DISK, name, 0700) < 0 && errno != EEXIST) ||
	    fchownat(INIT_FD_DISK, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(INIT_FD_DISK, name, mode, 0) < 0 || (mkdir(at, 0755) < 0 && errno != EEXIST))
		return -1;
	(void)snprintf(from, sizeof(from), "/proc/self/fd/%d/%s", INIT_FD_DISK, name);
	if (mount(from, at, NULL, MS_BIND, NULL) < 0)
		return -1;
	return mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | MS_NODEV | MS_NOSUID, NULL);
}

int guest_root_set_read_only(bool read_only)
{
	static bool is_read_only;

	if (read_only == is_read_only)
		return 0;
	if (is_read_only)
		return EPERM;
	if (base < 0)
		return ENOTSUP;
	/* as cell/keeper/root.c does it */
	if ((mkdir("/home", 0755) < 0 && errno != EEXIST) ||
	    guest_root_place_writable("tmp", "/tmp", 01777, 0) < 0 ||
	    guest_root_place_writable("run", "/run", 0755, 0) < 0 ||
	    guest_root_place_writable("home", "/home/user", 0755, 1000) < 0 ||
	    mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_NODEV | MS_RDONLY, NULL) < 0)
		return errno;
	is_read_only = true;
	return 0;
}
