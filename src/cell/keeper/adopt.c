/* adopt.c - finds a lingering cell again: for DIFF and, on machines without cgroups, for DESTROY.
 *
 * The request names a process as PID 1 of the cell. The keeper does not rely on that: it checks
 * that the process is in the cell's cgroup, which no process of a cell can leave or enter, or,
 * without cgroups, whether its user namespace is below the keeper's. The process's directory in
 * /proc is opened while a pidfd shows that the process is alive. From then on the descriptor of the
 * directory means this process and no other.
 *
 * A PID 1 that the cell has taken over chooses the contents of the directory, the file behind its
 * disk descriptor included. doc/keeper-protocol.md, "A hostile PID 1", shows why that gives a cell
 * nothing. */
#include "cell/keeper/cell.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "cell/keeper/mounts.h"
#include "cell/keeper/source.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"

static int adopt_open_proc(pid_t pid)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int adopt_open(const struct keeper *k, const char *id, pid_t pid)
{
	if (pid <= 1 || k->setup.common.cgroup_version != 0)
		return pid <= 1 ? -1 : cgroup_open_member(&k->cgroups, id, pid);
	OWN_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	OWN_FD proc = pidfd < 0 ? -1 : adopt_open_proc(pid);
	OWN_FD ns = proc < 0 ? -1 : openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
	/* The kernel returns the parent of a namespace only to a process in that parent or above.
	 */
	OWN_FD above = ns < 0 ? -1 : ioctl(ns, NS_GET_PARENT);
	return above < 0 || kernel_pidfd_send_signal(pidfd, 0) < 0 ? -1 : TAKE_FD(pidfd);
}

static bool adopt_is_pid1(int proc)
{
	char text[8192], *line;
	struct err e;

	if (io_read_file(proc, "status", text, sizeof(text), &e) < 0)
		return false;
	line = strstr(text, "\nNSpid:");
	if (line == NULL)
		return false;
	line[1 + strcspn(line + 1, "\n")] = '\0';
	return strcmp(strrchr(line, '\t'), "\t1") == 0;
}

/* Open the layers as the cell sees them: with owners translated to its ids, where the file system
 * has idmapped mounts. */
static int adopt_open_layers(struct cell *c, const struct keeper *k, const struct keeper_diff *r,
			     struct err *e)
{
	for (; c->nlayers < r->nlayers; c->nlayers++) {
		int *fd = &c->layers[c->nlayers];

		if (source_open(k, &r->layer_from[c->nlayers], KEEPER_ROOT_LAYER, fd, e) < 0)
			return -1;
		if (k->setup.common.rootless)
			continue;
		OWN_FD source = *fd;
		if (mounts_copy(source, "", MOUNT_ATTR_RDONLY | MOUNTS_DATA_ONLY, fd, e) < 0 ||
		    mounts_idmap(*fd, c->userns_fd, e) < 0)
			return -1;
	}
	memcpy(c->layer_at, r->layer_at, sizeof(c->layer_at));
	return 0;
}

int adopt_cell(struct cell *c, const struct keeper *k, const struct keeper_diff *r, struct err *e)
{
	pid_t pid = (pid_t)r->named.pid;
	char disk[16];

	cell_init(c);
	c->pidfd = adopt_open(k, r->named.id, pid);
	OWN_FD proc = c->pidfd < 0 ? -1 : adopt_open_proc(pid);
	if (proc < 0 || kernel_pidfd_send_signal(c->pidfd, 0) < 0 || !adopt_is_pid1(proc))
		return err_set(e, ERR_NOT_FOUND, "process %d is not PID 1 of cell %s", (int)pid,
			       r->named.id);
	(void)snprintf(disk, sizeof(disk), "fd/%d", INIT_FD_DISK);
	c->userns_fd = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
	/* By the link in /proc, not by a copy of the descriptor: closing the last descriptor of a
	 * file that a cell has opened may block. In a rootless cell with a single id the links
	 * cannot be read. Such a cell belongs to the user of the keeper. */
	c->disk_fd = openat(proc, disk, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->disk_fd < 0 && k->setup.common.rootless)
		c->disk_fd = (int)syscall(SYS_pidfd_getfd, c->pidfd, INIT_FD_DISK, 0);
	c->root_fd = openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->userns_fd < 0 || c->disk_fd < 0 || c->root_fd < 0)
		return err_sys(e, "cell %s: open its namespace, disk and root", r->named.id);
	return adopt_open_layers(c, k, r, e);
}
