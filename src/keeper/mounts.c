#include "mounts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "io.h"

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
	/* Private at once: a copy is a peer of its original, and on most machines those are shared:
	 * what is mounted on the one would appear on the other. */
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
	/* mount_setattr(2): EINVAL, the file system has no idmapped mounts (or another one holds
	 * the mount already); EPERM, not ours to translate, as for every rootless keeper. */
	if (errno == EINVAL || errno == EPERM)
		return 0;
	return err_sys(e, "idmap mount");
}

int mounts_open_inside(int root_fd, const char *path, int *ret_fd, struct err *e)
{
	*ret_fd = kernel_openat2(root_fd, path, O_PATH | O_CLOEXEC, RESOLVE_CELL);
	if (*ret_fd < 0)
		return err_sys(e, "%s", path);
	return 0;
}

int mounts_place(int fd, int root_fd, const char *path, struct err *e)
{
	int target = -1;

	if (mounts_open_inside(root_fd, path, &target, e) < 0)
		return err_wrap(e, "mount");
	OWN_FD at = target;
	if (kernel_move_mount(fd, at, "", MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(e, "mount at %s", path);
	return 0;
}

/* One part of a path: enters it, or makes it first. */
static int make_part(int root_fd, const char *upto, bool directory, uint32_t uid, uint32_t gid,
		     struct err *e)
{
	char parent[512], *slash;
	struct stat st;
	int found = -1;

	OWN_FD there = kernel_openat2(root_fd, upto, O_PATH | O_CLOEXEC, RESOLVE_CELL);
	if (there >= 0) {
		if (fstat(there, &st) < 0)
			return err_sys(e, "%s", upto);
		if (S_ISDIR(st.st_mode) != directory)
			return err_set(e, ERR_INVALID, "%s: %s", upto,
				       directory ? "not a directory" : "is a directory");
		return 0;
	}
	if (errno != ENOENT)
		return err_sys(e, "%s", upto);
	(void)snprintf(parent, sizeof(parent), "%s", upto);
	slash = strrchr(parent, '/');
	assert(slash != NULL);
	*slash = '\0';
	if (mounts_open_inside(root_fd, parent[0] == '\0' ? "/" : parent, &found, e) < 0)
		return -1;
	OWN_FD dir = found;
	const char *name = slash + 1;
	if (directory ? mkdirat(dir, name, 0755) < 0 : mknodat(dir, name, S_IFREG | 0644, 0) < 0)
		return err_sys(e, "make %s", upto);
	if (fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "own %s", upto);
	return 0;
}

int mounts_make_target(int root_fd, const char *path, bool directory, uint32_t uid, uint32_t gid,
		       struct err *e)
{
	char upto[512];
	size_t len = strlen(path);

	assert(path[0] == '/' && len < sizeof(upto));
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(upto, path, i);
		upto[i] = '\0';
		if (make_part(root_fd, upto, path[i] == '/' || directory, uid, gid, e) < 0)
			return -1;
	}
	return 0;
}
