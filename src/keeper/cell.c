/* cell.c - creates and destroys cells, and opens the sources of their layers and mounts. Called by
 * ops.c; see cell.h for what it may assume. Nothing of a cell that could not be made is left. */
#include "cell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "cell_build.h"
#include "disk_image.h"
#include "io.h"
#include "kernel.h"

#define UUID 36 /* characters of the id of a volume */

void cell_init(struct cell *c)
{
	*c = (struct cell){
		.pidfd = -1, .userns_fd = -1, .disk_fd = -1, .root_fd = -1, .ids.slot_fd = -1
	};
	memset(c->layers, 0xff, sizeof(c->layers)); /* every descriptor -1 */
	memset(&c->cgroup, 0xff, sizeof(c->cgroup));
}

void cell_release(struct cell *c)
{
	io_close_all(&c->pidfd, 1);
	io_close_all(&c->userns_fd, 1);
	io_close_all(&c->disk_fd, 1);
	io_close_all(&c->root_fd, 1);
	io_close_all(c->layers, CELL_LAYERS_MAX);
	io_close_all(&c->ids.slot_fd, 1);
	cgroup_release(&c->cgroup);
	cell_init(c);
}

/* A template that was added at run time is an entry of a directory that only root can change. The
 * sender of the request chooses the entry, so each one must be usable as a template. */
static int check_template(const char *name, int fd, struct err *e)
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

/* A layer of cordon-storage. What is in it has owners and modes that a cell chose; the directory
 * around it keeps other users of the machine out, so that must be as cordon-storage makes it. */
static int check_stored(const char *path, int root_fd, int fd, struct err *e)
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

bool cell_is_stored(const struct keeper *k, const struct cell_source *from)
{
	return k->setup.serve && from->root < k->setup.nroots &&
	       (k->setup.root_uses[from->root] & KEEPER_ROOT_LAYERS) != 0;
}

bool cell_is_image(const struct cell_source *from)
{
	return strlen(from->path) == UUID + 6 && strcmp(from->path + UUID, "/image") == 0;
}

bool cell_is_volume(const struct keeper *k, const struct cell_source *from)
{
	return from->root < k->setup.nroots &&
	       (k->setup.root_uses[from->root] & KEEPER_ROOT_VOLUMES) != 0 &&
	       strcspn(from->path, "/.") == UUID &&
	       (cell_is_image(from) || strcmp(from->path + UUID, "/data") == 0);
}

/* A detached mount of the whole file system, which other cells may have mounted, too. */
static int open_image(const struct keeper *k, const struct cell_source *from, int *ret_fd,
		      struct err *e)
{
	char id[UUID + 1];

	if (k->setup.rootless)
		return err_set(e, ERR_UNSUPPORTED, "images need a server that root started");
	(void)snprintf(id, sizeof(id), "%.*s", UUID, from->path);
	OWN_FD dir = kernel_openat2((int)(KEEPER_FD_ROOTS + from->root), id,
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	return dir < 0 ? err_sys(e, "volume %s", id)
		       : disk_image_mount(dir, "image", true, ret_fd, e);
}

int cell_open_source(const struct keeper *k, const struct cell_source *from, uint32_t use,
		     int *ret_fd, struct err *e)
{
	uint32_t uses = from->root < k->setup.nroots ? k->setup.root_uses[from->root] : 0;
	bool template = use == KEEPER_ROOT_LAYER && (uses & KEEPER_ROOT_TEMPLATES) != 0;
	bool volume =
		(use & (KEEPER_ROOT_READ | KEEPER_ROOT_WRITE)) != 0 && cell_is_volume(k, from);

	bool stored = use == KEEPER_ROOT_LAYER && cell_is_stored(k, from);
	int root_fd = (int)(KEEPER_FD_ROOTS + from->root);

	if ((uses & use) == 0 && !template && !stored && !volume)
		return err_set(e, ERR_DENIED, "root %u may not be used for this", from->root);
	if (volume && cell_is_image(from))
		return open_image(k, from, ret_fd, e);
	*ret_fd = kernel_openat2(root_fd, from->path[0] == '\0' ? "." : from->path,
				 O_PATH | O_CLOEXEC,
				 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (*ret_fd >= 0)
		return template ? check_template(from->path, *ret_fd, e)
		       : stored ? check_stored(from->path, root_fd, *ret_fd, e)
				: 0;
	if (errno == EXDEV || errno == ELOOP)
		return err_set(e, ERR_DENIED, "root %u: %.100s has a link or leads outside",
			       from->root, from->path);
	return err_sys(e, "root %u: %.100s", from->root, from->path);
}

int cell_disks(const struct keeper *k, const char *id, char *ret_name, size_t cap)
{
	(void)snprintf(ret_name, cap, "%s.img", id);
	for (unsigned i = 0; i < k->setup.nroots; i++)
		if ((k->setup.root_uses[i] & KEEPER_ROOT_DISKS) != 0)
			return (int)(KEEPER_FD_ROOTS + i);
	return -1;
}

static int take_ids(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		    struct err *e)
{
	bool keep = false; /* the user of the server owns something that is mounted */

	if (!k->setup.rootless)
		return ids_take_range(&c->ids, e);
	for (unsigned i = 0; i < r->nmounts; i++)
		keep = keep || !cell_is_volume(k, &r->mounts[i].from);
	ids_rootless(&c->ids, k->setup.subordinate, r->uid, r->gid, keep);
	return 0;
}

int cell_create(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		int channel_fd, const int *fds, struct err *e)
{
	cell_init(c);
	memcpy(c->id, r->id, sizeof(c->id));
	if (take_ids(c, k, r, e) == 0 && cgroup_create(&k->cgroups, r, &c->cgroup, e) == 0) {
		if (cell_build(c, k, r, channel_fd, fds, e) == 0)
			return 0;
		IGNORED(cell_destroy(c, k, 1000, NULL, &(struct err){ 0 }),
			"the first error is reported");
	}
	cell_release(c);
	return err_wrap(e, "create cell");
}

static void read_disk(const struct cell *c, struct cell_disk *ret)
{
	struct statfs fs;

	if (c->disk_fd < 0 || fstatfs(c->disk_fd, &fs) < 0)
		return;
	ret->bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	ret->inodes = (uint64_t)(fs.f_files - fs.f_ffree);
	ret->bytes_full = fs.f_bfree == 0;
	ret->inodes_full = fs.f_ffree == 0;
}

/* When PID 1 dies, the kernel kills all processes of its pid namespace, and reports the death of
 * PID 1 only after that. */
static int kill_pid1(int pidfd, const char *id, unsigned patience_ms, struct err *e)
{
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };

	(void)kernel_pidfd_send_signal(pidfd, SIGKILL);
	if (pidfd >= 0 && poll(&ended, 1, (int)patience_ms) == 0)
		return err_set(e, ERR_CONFLICT, "cell %s: some processes are still alive", id);
	return 0;
}

int cell_destroy(struct cell *c, const struct keeper *k, unsigned patience_ms,
		 struct cell_disk *ret, struct err *e)
{
	if (kill_pid1(c->pidfd, c->id, patience_ms, e) < 0)
		return -1;
	if (ret != NULL)
		read_disk(c, ret);
	if (cgroup_destroy(&k->cgroups, c->id, patience_ms, e) < 0)
		return -1;
	cell_release(c);
	return 0;
}

/* The kernel unmounts the disk after the last process of the cell has exited. Until then the image
 * cannot be used again. */
static int disk_released(const struct keeper *k, const char *id, unsigned patience_ms,
			 struct err *e)
{
	char name[CELL_ID_MAX + 8];
	int disks = cell_disks(k, id, name, sizeof(name));

	for (unsigned ms = 0; disks >= 0 && disk_image_in_use(disks, name); ms++)
		if (ms >= patience_ms || poll(NULL, 0, 1) < 0)
			return err_set(e, ERR_CONFLICT, "cell %s: its disk is still mounted", id);
	return 0;
}

int cell_destroy_named(const struct keeper *k, const struct keeper_named *r, unsigned patience_ms,
		       struct err *e)
{
	if (k->cgroups.version != 0)
		return cgroup_destroy(&k->cgroups, r->id, patience_ms, e) < 0
			       ? -1
			       : disk_released(k, r->id, patience_ms, e);
	OWN_FD pidfd = adopt_open(k, r->id, (pid_t)r->pid);
	return kill_pid1(pidfd, r->id, patience_ms, e); /* -1: it has exited already */
}
