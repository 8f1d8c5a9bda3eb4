/* kernel.h - system calls that libc has no function for, and constants younger than the headers of
 * the oldest distribution that Cordon is built on (Linux 6.1). */
#pragma once

#include <errno.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_FD_EMPTY_PATH 0x1000 /* AT_EMPTY_PATH, which musl hides behind _GNU_SOURCE */
#define KERNEL_AT_RECURSIVE 0x8000

/* With RESOLVE_BENEATH or RESOLVE_IN_ROOT the kernel answers EAGAIN to a path with ".." if any
 * rename or mount of the machine came in between, because it could not check that the path stayed
 * inside. It is asked again then. */
static inline int kernel_openat2(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags, .resolve = resolve };
	int fd = -1;

	errno = EAGAIN;
	for (int tries = 0; fd < 0 && errno == EAGAIN && tries < 128; tries++)
		fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	return fd;
}

static inline int kernel_open_tree(int dir_fd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dir_fd, path, flags);
}

static inline int kernel_move_mount(int from_fd, int to_fd, const char *to_path, unsigned flags)
{
	return (int)syscall(SYS_move_mount, from_fd, "", to_fd, to_path,
			    MOVE_MOUNT_F_EMPTY_PATH | flags);
}

static inline int kernel_fsopen(const char *type)
{
	return (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
}

static inline int kernel_fsconfig(int fs_fd, unsigned cmd, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs_fd, cmd, key, value, 0);
}

static inline int kernel_fsmount(int fs_fd, unsigned attrs)
{
	return (int)syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, attrs);
}

static inline int kernel_mount_setattr(int fd, unsigned flags, struct mount_attr *attr)
{
	return (int)syscall(SYS_mount_setattr, fd, "", KERNEL_FD_EMPTY_PATH | flags, attr,
			    sizeof(*attr));
}

static inline int kernel_pidfd_send_signal(int pidfd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

/* ~0U as last: all of them. gVisor takes numbers of descriptors only, and refuses larger ones. */
static inline int kernel_close_range(unsigned first, unsigned last)
{
	return (int)syscall(SYS_close_range, first, last > INT32_MAX ? INT32_MAX : last, 0);
}

static inline int kernel_execveat(int fd, char *const argv[], char *const envp[])
{
	return (int)syscall(SYS_execveat, fd, "", argv, envp, KERNEL_FD_EMPTY_PATH);
}
