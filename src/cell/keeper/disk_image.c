/* disk_image.c - mounts file systems from image files. See disk_image.h.
 *
 * The number of the loop device is kept in an attribute of the image, which only the machine's root
 * can write, so the keeper finds the loop device of an image without a search. The number is a
 * hint. The loop device itself says which file it has. */
#include "cell/keeper/disk_image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "cell/keeper/mounts.h"
#include "lib/base/kernel.h"

#define HINT "trusted.cordon-loop"
#define TRIES 64    /* other programs take free loop devices, too */
#define SHARED_MS 5 /* between looks at an image whose loop device is being made or freed */
#define BLOCK 4096U /* of the loop device: direct I/O then works on every disk */

/* O_NONBLOCK: not held up by a fifo of that name. */
static int image_open(int dir_fd, const char *name, int *ret_fd, struct err *e)
{
	struct stat dir, st;

	*ret_fd = kernel_openat2(dir_fd, name, O_RDWR | O_CLOEXEC | O_NONBLOCK,
				 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	if (*ret_fd < 0 || fstat(*ret_fd, &st) < 0 || fstat(dir_fd, &dir) < 0)
		return err_sys(e, "disk image %s", name);
	if (!S_ISREG(st.st_mode) || st.st_uid != dir.st_uid || st.st_nlink != 1)
		return err_set(e, ERR_DENIED, "disk image %s: not a file of its folder's owner",
			       name);
	return 0;
}

/* Open loop device n, whose path is left in path. */
static int image_open_loop(long n, char *path, size_t cap)
{
	(void)snprintf(path, cap, "/dev/loop%ld", n);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* The image is locked: gives it to a free loop device. */
static int image_configure(int image, char *path, size_t cap, int *ret_fd, struct err *e)
{
	struct loop_config config = { .fd = (__u32)image,
				      .block_size = BLOCK,
				      .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO };
	OWN_FD control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	char hint[16];

	for (int tries = 0; control >= 0 && tries < TRIES; tries++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE);
		OWN_FD loop = n < 0 ? -1 : image_open_loop(n, path, cap);

		if (loop < 0)
			break;
		(void)snprintf(hint, sizeof(hint), "%d", n);
		if (ioctl(loop, LOOP_CONFIGURE, &config) < 0) {
			if (errno != EBUSY)
				break;
			continue;
		}
		if (fsetxattr(image, HINT, hint, strlen(hint), 0) < 0)
			return err_sys(e, "attribute of the disk image");
		*ret_fd = TAKE_FD(loop);
		return 0;
	}
	(void)err_sys(e, "loop device");
	if (e->sys != ENOMEM && e->sys != EIO)
		e->code = ERR_UNSUPPORTED;
	return -1;
}

/* Open the loop device of an image in use, which keeps the image until the descriptor is closed.
 * false: the image has no loop device (any more, or yet). */
static bool image_find_loop(int image, char *path, size_t cap, int *ret_fd)
{
	struct loop_info64 info;
	char hint[16] = "";
	struct stat st;

	if (fgetxattr(image, HINT, hint, sizeof(hint) - 1) < 0 || fstat(image, &st) < 0)
		return false;
	OWN_FD loop = image_open_loop(strtol(hint, NULL, 10), path, cap);
	if (loop < 0 || ioctl(loop, LOOP_GET_STATUS64, &info) < 0 || info.lo_inode != st.st_ino ||
	    info.lo_device != st.st_dev)
		return false;
	*ret_fd = TAKE_FD(loop);
	return true;
}

static int image_attach(int image, const char *name, bool shared, char *path, size_t cap,
			int *ret_fd, struct err *e)
{
	for (int tries = 0; tries < (shared ? TRIES : 1); tries++) {
		if (flock(image, LOCK_EX | LOCK_NB) == 0)
			return image_configure(image, path, cap, ret_fd, e);
		if (shared && image_find_loop(image, path, cap, ret_fd))
			return 0;
		if (shared)
			(void)poll(NULL, 0, SHARED_MS);
	}
	return err_set(e, ERR_CONFLICT, "disk image %s: in use", name);
}

int disk_image_mount(int dir_fd, const char *name, bool shared, int *ret_fd, struct err *e)
{
	char path[32];
	const struct mounts_option options[] = { { "source", path },
						 { "errors", "remount-ro" },
						 { "discard", NULL }, /* freed blocks go back */
						 { NULL, NULL } };
	int image_fd = -1, loop_fd = -1;
	int opened = image_open(dir_fd, name, &image_fd, e);

	OWN_FD image = image_fd;
	if (opened < 0 || image_attach(image, name, shared, path, sizeof(path), &loop_fd, e) < 0)
		return -1;
	OWN_FD loop = loop_fd;
	return mounts_new("ext4", options, MOUNT_ATTR_NODEV, ret_fd, e);
}

bool disk_image_in_use(int dir_fd, const char *name)
{
	OWN_FD image = kernel_openat2(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK,
				      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	return image >= 0 && flock(image, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}
