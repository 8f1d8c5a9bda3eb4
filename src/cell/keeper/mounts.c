#include "cell/keeper/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "lib/base/io.h"

#define RESOLVE_CELL (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)

int mounts_new(const char *type, const struct mounts_option *options, uint64_t attrs, int *ret_fd,
	       struct err *e)
{
	OWN_FD fs = kernel_fsopen(type);

	if (fs < 0)
		return err_sys(e, "file system %s", type);
	for (; options->key != NULL; options++)
		if (kernel_fsconfig(
			    fs, options->value == NULL ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING,
			    options->key, options->value) < 0)
			return err_sys(e, "%s: option %s", type, options->key);
	if (kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
		return err_sys(e, "make %s", type);
	*ret_fd = kernel_fsmount(fs, (unsigned)attrs);
	if (*ret_fd < 0)
		return err_sys(e, "mount %s", type);
	return 0;
}

int mounts_copy(int dir_fd, const char *path, uint64_t attrs, int *ret_fd, struct err *e)
{
	/* Private from the start: on most machines mounts are shared, and a mount on a shared copy
	 * would appear on the original, too. */
	struct mount_attr a = { .attr_set = attrs, .propagation = MS_PRIVATE };

	*ret_fd = kernel_open_tree(dir_fd, path,
				   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | KERNEL_AT_RECURSIVE |
					   (*path == '\0' ? KERNEL_FD_EMPTY_PATH : 0) |
					   AT_SYMLINK_NOFOLLOW);
	if (*ret_fd >= 0 && kernel_mount_setattr(*ret_fd, KERNEL_AT_RECURSIVE, &a) == 0)
		return 0;
	(void)err_sys(e, "copy mount %s", path);
	io_close_all(ret_fd, 1);
	return -1;
}

int mounts_restrict(int fd, uint64_t attrs, struct err *e)
{
	struct mount_attr a = { .attr_set = attrs };

	if (kernel_mount_setattr(fd, KERNEL_AT_RECURSIVE, &a) < 0)
		return err_sys(e, "restrict mount");
	return 0;
}

int mounts_idmap(int fd, int userns_fd, struct err *e)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (__u64)userns_fd };

	if (kernel_mount_setattr(fd, KERNEL_AT_RECURSIVE, &a) == 0)
		return 1;
	/* mount_setattr(2): EINVAL: the file system has no idmapped mounts, or the mount is
	 * idmapped already. EPERM: the caller has no right to do it. So for every rootless keeper.
	 */
	if (errno == EINVAL || errno == EPERM)
		return 0;
	return err_sys(e, "idmap mount");
}

int mounts_place(int fd, int root_fd, const char *path, struct err *e)
{
	OWN_FD at = kernel_openat2(root_fd, path, O_PATH | O_CLOEXEC, RESOLVE_CELL);

	if (at < 0 || kernel_move_mount(fd, at, "", MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(e, "mount at %s", path);
	return 0;
}

int mounts_make_target(int root_fd, const char *path, bool directory, uint32_t uid, uint32_t gid,
		       struct err *e)
{
	OWN_FD dir = kernel_openat2(root_fd, "/", O_PATH | O_CLOEXEC, RESOLVE_CELL);
	size_t begin = 1, end; /* of one part of the path */
	char upto[512];
	struct stat st;

	for (bool last = false; !last; begin = end + 1) {
		end = begin + strcspn(path + begin, "/");
		last = path[end] == '\0';
		(void)snprintf(upto, sizeof(upto), "%.*s", (int)end, path);
		OWN_FD there = kernel_openat2(root_fd, upto, O_PATH | O_CLOEXEC, RESOLVE_CELL);
		if (there < 0 && errno == ENOENT) {
			if ((!last || directory
				     ? mkdirat(dir, upto + begin, 0755)
				     : mknodat(dir, upto + begin, S_IFREG | 0644, 0)) < 0 ||
			    fchownat(dir, upto + begin, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
				return err_sys(e, "make %s", upto);
			there = kernel_openat2(root_fd, upto, O_PATH | O_CLOEXEC, RESOLVE_CELL);
		}
		if (there < 0 || fstat(there, &st) < 0)
			return err_sys(e, "%s", upto);
		if (S_ISDIR(st.st_mode) != (!last || directory))
			return err_set(e, ERR_INVALID, "%s: %s", upto,
				       S_ISDIR(st.st_mode) ? "is a directory" : "not a directory");
		fd_close(dir);
		dir = TAKE_FD(there);
	}
	return 0;
}
