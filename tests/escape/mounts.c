/* mounts.c - mounting, unmounting and everything else that rearranges the file tree.
 *
 * All of it is refused to everybody: no user of a cell has CAP_SYS_ADMIN, and the filter knows
 * these calls by name. The new mount API accepts some calls from anybody (open_tree without a
 * copy, fsconfig on a bad descriptor), so those rows can only be answered by the filter. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#define SYS_fspick 433
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

enum {
	NR_OPEN_TREE_ATTR = 467,
	TREE_CLONE = 1,
	MOVE_F_EMPTY_PATH = 4,
};

static const char *target(void)
{
	const char *dir = "/tmp/escape-mount";

	(void)mkdir(dir, 0755);
	return dir;
}

/* arg is a file system type. */
static const char *mount_type(const struct attack *a)
{
	return answer(mount("none", target(), a->arg, (unsigned long)a->num, NULL));
}

static const char *mount_overlay(const struct attack *a)
{
	return answer(mount("o", target(), "overlay", 0, "lowerdir=/usr:/etc"));
}

static const char *mount_bind(const struct attack *a)
{
	return answer(mount(a->arg, target(), NULL, MS_BIND | MS_REC, NULL));
}

/* Binds the cell's own /etc over arg, to unmask or to replace it. */
static const char *mount_over(const struct attack *a)
{
	return answer(mount("/etc", a->arg, NULL, MS_BIND, NULL));
}

static const char *remount(const struct attack *a)
{
	return answer(mount(NULL, a->arg, NULL, (unsigned long)a->num, NULL));
}

static const char *unmount(const struct attack *a)
{
	return answer(umount2(a->arg, (int)a->num));
}

static const char *call_fsopen(const struct attack *a)
{
	return answer(syscall(SYS_fsopen, a->arg, 0L));
}

static const char *call_fspick(const struct attack *a)
{
	return answer(syscall(SYS_fspick, (long)AT_FDCWD, a->arg, 0L));
}

static const char *call_open_tree(const struct attack *a)
{
	return answer(syscall(SYS_open_tree, (long)AT_FDCWD, a->arg, a->num));
}

static const char *call_open_tree_attr(const struct attack *a)
{
	return answer(
		syscall(NR_OPEN_TREE_ATTR, (long)AT_FDCWD, a->arg, (long)TREE_CLONE, NULL, 0L));
}

static const char *call_move_mount(const struct attack *a)
{
	int fd = open("/proc", O_PATH | O_CLOEXEC);

	return answer(syscall(SYS_move_mount, (long)fd, "", (long)AT_FDCWD, target(),
			      (long)MOVE_F_EMPTY_PATH));
}

/* Clears the read-only flag of a mount the keeper locked. */
static const char *call_mount_setattr(const struct attack *a)
{
	struct {
		uint64_t set, clear, propagation, userns;
	} attr = { .clear = 1 };

	return answer(syscall(SYS_mount_setattr, (long)AT_FDCWD, a->arg, 0L, &attr, sizeof(attr)));
}

static const char *call_pivot_root(const struct attack *a)
{
	return answer(syscall(SYS_pivot_root, "/", target()));
}

static const char *call_name_to_handle(const struct attack *a)
{
	struct {
		unsigned bytes;
		int type;
		unsigned char data[128];
	} handle = { .bytes = 128 };
	int mount_id;

	return answer(
		syscall(SYS_name_to_handle_at, (long)AT_FDCWD, a->arg, &handle, &mount_id, 0L));
}

/* The Shocker attack: inode 2 is the root of the host's file system, whatever is mounted here. */
static const char *call_open_by_handle(const struct attack *a)
{
	struct {
		unsigned bytes;
		int type;
		uint32_t data[2];
	} handle = { .bytes = 8, .type = 1, .data = { 2, 0 } };
	int fd = open(a->arg, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return answer_path(-1);
	return answer(syscall(SYS_open_by_handle_at, (long)fd, &handle, (long)O_RDONLY));
}

/* Freezing a file system the host shares would stop the machine. */
static const char *freeze(const struct attack *a)
{
	int fd = open(a->arg, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return answer_path(-1);
	return answer(syscall(SYS_ioctl, (long)fd, (long)_IOWR('X', 119, int), 0L));
}

static const char *make_immutable(const struct attack *a)
{
	int fd = open("/tmp/escape-immutable", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	long flags = 0x10;

	if (fd < 0)
		return answer_errno(errno);
	return answer(syscall(SYS_ioctl, (long)fd, (long)_IOW('f', 2, long), &flags));
}

static const char *call_quotactl(const struct attack *a)
{
	char info[256];

	return answer(syscall(SYS_quotactl, 0x80000500L, "/dev/escape-none", 0L, info));
}

static const char *call_swap(const struct attack *a)
{
	return answer(syscall(a->num, "/tmp/escape-no-such-swap", 0L));
}

/* arg lists number and arguments of a call that needs no pointers. */
static const char *raw_call(const struct attack *a)
{
	const long *c = a->arg;

	return answer(syscall(c[0], c[1], c[2], c[3], c[4], c[5]));
}

#define CALL(...)           \
	(const long[6])     \
	{                   \
		__VA_ARGS__ \
	}
#define RW_BIND (MS_REMOUNT | MS_BIND)

/* clang-format off */
static const struct attack rows[] = {
ROW("mount-tmpfs", "B", "mount a tmpfs", mount_type, REFUSED, NULL, "tmpfs", 0),
ROW("mount-proc", "B", "mount an unmasked proc", mount_type, REFUSED, NULL, "proc", 0),
ROW("mount-sysfs", "B", "mount sysfs", mount_type, REFUSED, NULL, "sysfs", 0),
ROW("mount-cgroup", "C", "mount cgroup v1 for its release_agent",
	mount_type, REFUSED, NULL, "cgroup", 0),
ROW("mount-cgroup2", "C", "mount cgroup v2", mount_type, REFUSED, NULL, "cgroup2", 0),
ROW("mount-devtmpfs", "B", "mount the host's devices", mount_type, REFUSED, NULL, "devtmpfs", 0),
ROW("mount-devpts", "B", "mount the terminals", mount_type, REFUSED, NULL, "devpts", 0),
ROW("mount-debugfs", "B", "mount debugfs", mount_type, REFUSED, NULL, "debugfs", 0),
ROW("mount-tracefs", "B", "mount tracefs", mount_type, REFUSED, NULL, "tracefs", 0),
ROW("mount-securityfs", "B", "mount securityfs", mount_type, REFUSED, NULL, "securityfs", 0),
ROW("mount-bpf", "B", "mount bpffs", mount_type, REFUSED, NULL, "bpf", 0),
ROW("mount-binfmt", "A", "mount binfmt_misc", mount_type, REFUSED, NULL, "binfmt_misc", 0),
ROW("mount-mqueue", "C", "mount the message queues", mount_type, REFUSED, NULL, "mqueue", 0),
ROW("mount-fuse", "B", "mount a FUSE file system", mount_type, REFUSED, NULL, "fuse", 0),
ROW("mount-hugetlbfs", "D", "mount hugetlbfs", mount_type, REFUSED, NULL, "hugetlbfs", 0),
ROW("mount-overlay", "B", "mount an overlay", mount_overlay, REFUSED, NULL, NULL, 0),
ROW("bind-root", "B", "bind-mount /", mount_bind, REFUSED, NULL, "/", 0),
ROW("bind-proc", "B", "bind-mount /proc", mount_bind, REFUSED, NULL, "/proc", 0),
ROW("bind-over-mask", "A", "bind over a masked file of /proc",
	mount_over, REFUSED, NULL, "/proc/sys", 0),
ROW("bind-over-dev", "A", "bind over /dev", mount_over, REFUSED, NULL, "/dev", 0),
ROW("remount-root", "B", "remount / read-write", remount, REFUSED, NULL, "/", RW_BIND),
ROW("remount-proc-sys", "A", "remount /proc/sys read-write",
	remount, REFUSED, NULL, "/proc/sys", RW_BIND),
ROW("remount-dev", "A", "remount /dev read-write", remount, REFUSED, NULL, "/dev", RW_BIND),
ROW("remount-probe", "A", "remount a read-only mount read-write",
	remount, REFUSED, NULL, "/probe", RW_BIND),
ROW("remount-super", "B", "remount a file system with new options",
	remount, REFUSED, NULL, "/tmp", MS_REMOUNT),
ROW("share-root", "B", "make / propagate mounts", remount, REFUSED, NULL, "/", MS_SHARED | MS_REC),
ROW("umount-proc-sys", "A", "unmount the read-only /proc/sys",
	unmount, REFUSED, NULL, "/proc/sys", MNT_DETACH),
ROW("umount-mask", "A", "unmount the mask of /proc/kcore",
	unmount, REFUSED, NULL, "/proc/kcore", MNT_DETACH),
ROW("umount-proc", "A", "unmount /proc", unmount, REFUSED, NULL, "/proc", MNT_DETACH),
ROW("umount-dev", "A", "unmount /dev", unmount, REFUSED, NULL, "/dev", MNT_DETACH),
ROW("umount-usr", "A", "unmount /usr", unmount, REFUSED, NULL, "/usr", MNT_DETACH),
ROW("umount-root", "A", "unmount /", unmount, REFUSED, NULL, "/", MNT_DETACH),
ROW("fsopen-tmpfs", "B", "fsopen tmpfs", call_fsopen, REFUSED, "done", "tmpfs", 0),
ROW("fsopen-proc", "B", "fsopen proc", call_fsopen, REFUSED, "done", "proc", 0),
ROW("fsopen-ext4", "B", "fsopen ext4, to parse an image of ours",
	call_fsopen, REFUSED, "done", "ext4", 0),
ROW("fspick-root", "B", "fspick /", call_fspick, REFUSED, "done", "/", 0),
ROW("fsconfig", "B", "fsconfig", raw_call, REFUSED, "EINVAL", CALL(SYS_fsconfig, -1, 0), 0),
ROW("fsmount", "B", "fsmount", raw_call, REFUSED, "EBADF", CALL(SYS_fsmount, -1), 0),
ROW("open-tree-clone", "B", "open_tree copies /", call_open_tree, REFUSED, "done", "/", TREE_CLONE),
ROW("open-tree-plain", "B", "open_tree without a copy", call_open_tree, REFUSED, "done", "/", 0),
ROW("open-tree-attr", "B", "open_tree_attr", call_open_tree_attr, REFUSED, NULL, "/", 0),
ROW("move-mount", "B", "move_mount", call_move_mount, REFUSED, NULL, NULL, 0),
ROW("mount-setattr", "B", "mount_setattr clears read-only",
	call_mount_setattr, REFUSED, NULL, "/probe", 0),
ROW("setattr-proc-sys", "A", "mount_setattr opens /proc/sys",
	call_mount_setattr, REFUSED, NULL, "/proc/sys", 0),
ROW("pivot-root", "B", "pivot_root", call_pivot_root, REFUSED, NULL, NULL, 0),
ROW("name-to-handle", "B", "a file handle for /usr/bin/env",
	call_name_to_handle, REFUSED, "done", "/usr/bin/env", 0),
ROW("open-by-handle", "B", "inode 2 of the host's disk, through /usr",
	call_open_by_handle, REFUSED, "done", "/usr", 0),
ROW("open-by-handle-probe", "B", "inode 2 of the host's disk, through a mount",
	call_open_by_handle, REFUSED, NULL, "/probe", 0),
ROW("freeze-root", "B", "freeze the root file system", freeze, "EPERM", NULL, "/", 0),
ROW("freeze-probe", "B", "freeze a file system shared with the host",
	freeze, "EPERM", NULL, "/probe", 0),
ROW("immutable", "B", "make a file immutable", make_immutable, "EPERM|ENOTTY", NULL, NULL, 0),
ROW("quotactl", "B", "quotactl", call_quotactl, REFUSED, NULL, NULL, 0),
ROW("quotactl-fd", "B", "quotactl_fd",
	raw_call, REFUSED, "EBADF|ENOSYS", CALL(SYS_quotactl_fd, -1, 0), 0),
ROW("swapon", "B", "swapon of a file that is not there",
	call_swap, REFUSED, "ENOENT", NULL, SYS_swapon),
ROW("swapoff", "B", "swapoff of a file that is not there",
	call_swap, REFUSED, "ENOENT", NULL, SYS_swapoff),
};
/* clang-format on */

const struct table mounts_table = TABLE(rows);
