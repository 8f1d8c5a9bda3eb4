/* cell.c - creates and destroys cells. Called by ops.c. cell.h has the assumptions. Invariant: a
 * cell that could not be made leaves nothing behind. */
#include "cell/keeper/cell.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/vfs.h>

#include "cell/keeper/cell_build.h"
#include "cell/keeper/disk_image.h"
#include "cell/keeper/source.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"

void cell_init(struct cell *c)
{
	*c = (struct cell){ .pidfd = -1,
			    .userns_fd = -1,
			    .watcher_fd = -1,
			    .disk_fd = -1,
			    .root_fd = -1,
			    .ids.slot_fd = -1 };
	memset(c->layers, 0xff, sizeof(c->layers)); /* every descriptor -1 */
	memset(&c->cgroup, 0xff, sizeof(c->cgroup));
}

void cell_release(struct cell *c)
{
	io_close_all(&c->pidfd, 1);
	io_close_all(&c->userns_fd, 1);
	io_close_all(&c->watcher_fd, 1);
	io_close_all(&c->disk_fd, 1);
	io_close_all(&c->root_fd, 1);
	io_close_all(c->layers, CELL_LAYERS_MAX);
	io_close_all(&c->ids.slot_fd, 1);
	cgroup_release(&c->cgroup);
	cell_init(c);
}

static int cell_take_ids(struct cell *c, const struct keeper *k, const struct keeper_create *r,
			 struct err *e)
{
	bool keep = false; /* the user of the server owns a mount source */

	if (!k->setup.common.rootless)
		return ids_take_range(&c->ids, e);
	for (unsigned i = 0; i < r->nmounts; i++)
		keep = keep || !source_is_volume(k, &r->mounts[i].from);
	ids_rootless(&c->ids, k->setup.subordinate, r->uid, r->gid, keep);
	return 0;
}

int cell_create(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		int channel_fd, int watch_fd, const int *fds, struct err *e)
{
	cell_init(c);
	memcpy(c->id, r->id, sizeof(c->id));
	if ((r->flags & CELL_WATCH) != 0 && watcher_start(c, watch_fd, r->flags, e) < 0)
		;
	else if (cell_take_ids(c, k, r, e) == 0 &&
		 cgroup_create(&k->cgroups, r, &c->cgroup, e) == 0) {
		if (cell_build(c, k, r, channel_fd, fds, e) == 0)
			return 0;
		IGNORED(cell_destroy(c, k, 1000, NULL, &(struct err){ 0 }),
			"the first error is reported");
	}
	cell_release(c);
	return err_wrap(e, "create cell");
}

static void cell_read_disk(const struct cell *c, struct cell_disk *ret)
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
static int cell_kill_pid1(int pidfd, const char *id, unsigned patience_ms, struct err *e)
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
	if (cell_kill_pid1(c->pidfd, c->id, patience_ms, e) < 0)
		return -1;
	if (ret != NULL)
		cell_read_disk(c, ret);
	if (cgroup_destroy(&k->cgroups, c->id, patience_ms, e) < 0)
		return -1;
	cell_release(c);
	return 0;
}

/* The kernel unmounts the disk after the last process of the cell has exited. Until then the image
 * cannot be used again. */
static int cell_disk_released(const struct keeper *k, const char *id, unsigned patience_ms,
			      struct err *e)
{
	char name[CELL_ID_MAX + 8];
	int disks = source_disks(k, id, name, sizeof(name));

	for (unsigned ms = 0; disks >= 0 && disk_image_in_use(disks, name); ms++)
		if (ms >= patience_ms || poll(NULL, 0, 1) < 0)
			return err_set(e, ERR_CONFLICT, "cell %s: its disk is still mounted", id);
	return 0;
}

int cell_destroy_named(const struct keeper *k, const struct keeper_named *r, unsigned patience_ms,
		       struct err *e)
{
	if (k->setup.common.cgroup_version != 0)
		return cgroup_destroy(&k->cgroups, r->id, patience_ms, e) < 0
			       ? -1
			       : cell_disk_released(k, r->id, patience_ms, e);
	OWN_FD pidfd = adopt_open(k, r->id, (pid_t)r->pid);
	return cell_kill_pid1(pidfd, r->id, patience_ms, e); /* -1: it has exited already */
}
