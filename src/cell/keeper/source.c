/* source.c - opens the layers, mounts, disks and volumes that a server's request names. See
 * source.h. */
#include "cell/keeper/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/keeper/disk_image.h"
#include "lib/base/kernel.h"

#define UUID 36 /* characters of the id of a volume */

/* A template added at run time is an entry of a directory that only root can change. The sender of
 * the request chooses the entry, so each one must be usable as a template. */
static int source_check_template(const char *name, int fd, struct err *e)
{
	struct stat st;

	if (name[0] == '.' || name[0] == '\0' || strchr(name, '/') != NULL)
		return err_set(e, ERR_DENIED, "template: not a name of a directory");
	if (fstat(fd, &st) < 0)
		return err_sys(e, "template %.100s", name);
	if (!S_ISDIR(st.st_mode) || st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return err_set(e, ERR_DENIED,
			       "template %.100s: must be a directory that belongs to root and that "
			       "no other user may write to",
			       name);
	return 0;
}

/* A layer of cordon-storage. A cell chose the owners and modes of its files. The directory around
 * it keeps other users of the machine out, so it must have the owner and mode that cordon-storage
 * gives it. */
static int source_check_stored(const char *path, int root_fd, int fd, struct err *e)
{
	size_t n = strcspn(path, "/");
	char id[CELL_PATH_MAX];
	struct stat st, tree;

	(void)snprintf(id, sizeof(id), "%.*s", (int)n, path);
	if (id[0] == '.' || path[n] == '\0' || path[n + 1] == '\0' ||
	    path[n + 1 + strspn(path + n + 1, "0123456789")] != '\0')
		return err_set(e, ERR_DENIED, "layer: not a name of a layer");
	if (fstatat(root_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0 || fstat(fd, &tree) < 0)
		return err_sys(e, "layer %.100s", path);
	if (st.st_uid != 0 || st.st_mode != (S_IFDIR | 0700) || !S_ISDIR(tree.st_mode))
		return err_set(e, ERR_DENIED,
			       "layer %.100s: must be in a directory of root's with "
			       "mode 0700",
			       path);
	return 0;
}

bool source_is_stored(const struct keeper *k, const struct cell_source *from)
{
	return k->setup.serve && from->root < k->setup.nroots &&
	       (k->setup.root_uses[from->root] & KEEPER_ROOT_LAYERS) != 0;
}

bool source_is_image(const struct cell_source *from)
{
	return strlen(from->path) == UUID + 6 && strcmp(from->path + UUID, "/image") == 0;
}

bool source_is_volume(const struct keeper *k, const struct cell_source *from)
{
	return from->root < k->setup.nroots &&
	       (k->setup.root_uses[from->root] & KEEPER_ROOT_VOLUMES) != 0 &&
	       strcspn(from->path, "/.") == UUID &&
	       (source_is_image(from) || strcmp(from->path + UUID, "/data") == 0);
}

/* A detached mount of the whole file system, which other cells may have mounted, too. */
static int source_open_image(const struct keeper *k, const struct cell_source *from, int *ret_fd,
			     struct err *e)
{
	char id[UUID + 1];

	if (k->setup.common.rootless)
		return err_set(e, ERR_UNSUPPORTED, "images need a server that root started");
	(void)snprintf(id, sizeof(id), "%.*s", UUID, from->path);
	OWN_FD dir = kernel_openat2((int)(KEEPER_FD_ROOTS + from->root), id,
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	return dir < 0 ? err_sys(e, "volume %s", id)
		       : disk_image_mount(dir, "image", true, ret_fd, e);
}

int source_open(const struct keeper *k, const struct cell_source *from, uint32_t use, int *ret_fd,
		struct err *e)
{
	uint32_t uses = from->root < k->setup.nroots ? k->setup.root_uses[from->root] : 0;
	bool template = use == KEEPER_ROOT_LAYER && (uses & KEEPER_ROOT_TEMPLATES) != 0;
	bool volume =
		(use & (KEEPER_ROOT_READ | KEEPER_ROOT_WRITE)) != 0 && source_is_volume(k, from);

	bool stored = use == KEEPER_ROOT_LAYER && source_is_stored(k, from);
	int root_fd = (int)(KEEPER_FD_ROOTS + from->root);

	if ((uses & use) == 0 && !template && !stored && !volume)
		return err_set(e, ERR_DENIED, "root %u may not be used for this", from->root);
	if (volume && source_is_image(from))
		return source_open_image(k, from, ret_fd, e);
	*ret_fd = kernel_openat2(root_fd, from->path[0] == '\0' ? "." : from->path,
				 O_PATH | O_CLOEXEC,
				 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (*ret_fd >= 0)
		return template ? source_check_template(from->path, *ret_fd, e)
		       : stored ? source_check_stored(from->path, root_fd, *ret_fd, e)
				: 0;
	if (errno == EXDEV || errno == ELOOP)
		return err_set(e, ERR_DENIED, "root %u: %.100s has a link or leads outside",
			       from->root, from->path);
	return err_sys(e, "root %u: %.100s", from->root, from->path);
}

int source_disks(const struct keeper *k, const char *id, char *ret_name, size_t cap)
{
	(void)snprintf(ret_name, cap, "%s.img", id);
	for (unsigned i = 0; i < k->setup.nroots; i++)
		if ((k->setup.root_uses[i] & KEEPER_ROOT_DISKS) != 0)
			return (int)(KEEPER_FD_ROOTS + i);
	return -1;
}
