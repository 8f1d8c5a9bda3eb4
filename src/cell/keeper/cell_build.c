/* cell_build.c - the builder, see cell_build.h.
 *
 *   1. copy the mount trees of layers and mounts (by the keeper itself, if it is privileged)
 *   2. start PID 1, which waits (build_start_pid1)
 *   3. write its id maps, mount its /proc, assemble its root (root.c)
 *   4. let PID 1 continue, and wait until it executes cordon-init or fails (build_release_pid1) */
#include "cell/keeper/cell_build.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cell/keeper/mounts.h"
#include "cell/keeper/source.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"

/* The builder's task and results. The keeper sees the results: both share their memory, and the
 * keeper sleeps until the builder exits. */
struct builder {
	struct cell *cell;
	const struct keeper *keeper;
	const struct keeper_create *request;
	const int *fds;
	int channel_fd;
	pid_t keeper_pid;
	struct root_trees trees;
	int sync_fd; /* owned: to PID 1 */
	struct err *err;
	int result;
};

static int build_start_pid1(struct builder *b, int sync_inside, struct err *e)
{
	struct cell *c = b->cell;
	int first_cgroup = cgroup_unified(&b->keeper->cgroups, c->cgroup.dirs);
	int pidfd = -1;
	struct clone_args args = {
		/* CLONE_PARENT: the parent of PID 1 is the keeper, not the builder. The keeper
		   reaps it, and its death is the parent-death signal of PID 1. */
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWTIME | CLONE_PARENT | CLONE_PIDFD,
		.pidfd = (__u64)(uintptr_t)&pidfd,
		.cgroup = (__u64)(first_cgroup >= 0 ? first_cgroup : 0),
	};
	const struct enter_plan plan = { .keeper = b->keeper,
					 .request = b->request,
					 .cell = c,
					 .channel_fd = b->channel_fd,
					 .sync_fd = sync_inside };
	pid_t pid;

	if (first_cgroup >= 0)
		args.flags |= CLONE_INTO_CGROUP;
	/* Per-user limits that a user namespace uses up (inotify, timers, ...) are counted for the
	 * user that made the namespace. That must be the cell's own root, not the machine's, so the
	 * effective user id is changed during the clone. Capabilities stay, see main.c. */
	if (syscall(SYS_setresuid, -1, ids_outside(&c->ids, 'u', 0), -1) < 0)
		return err_sys(e, "switch to the cell's id");
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid != 0 && syscall(SYS_setresuid, -1, 0, -1) < 0)
		return err_sys(e, "switch back from the cell's id");
	if (pid < 0)
		return err_sys(e, "start PID 1 in new namespaces");
	if (pid == 0) {
		/* With a copy of it here, the builder's death would not show as end of file. */
		fd_close(b->sync_fd);
		cell_enter(&plan);
	}
	c->pid = pid;
	c->pidfd = pidfd;
	return 0;
}

static int build_mount_proc(void *arg)
{
	static const struct mounts_option options[] = { { NULL, NULL } };
	struct builder *b = arg;

	b->result = mounts_new("proc", options, MOUNTS_DATA_ONLY, &b->trees.proc, b->err);
	_exit(0);
}

/* A proc file system shows the pid namespace of the process that mounts it. So a helper process is
 * cloned into the cell's pid namespace. It shares the descriptors, mounts proc and exits. */
static int build_make_proc(struct builder *b, struct err *e)
{
	static char stack[16384] __attribute__((aligned(16)));
	int ns = -1;
	pid_t pid;

	if (ids_open_ns(b->cell->pid, "pid", &ns, e) < 0)
		return -1;
	OWN_FD fd = ns;
	if (setns(fd, CLONE_NEWPID) < 0)
		return err_sys(e, "pid namespace");
	pid = clone(build_mount_proc, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, b);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		return err_sys(e, "process in the pid namespace");
	return b->result;
}

/* The tree at fd as a detached mount. A privileged keeper copies it by descriptor. A rootless
 * keeper may not copy mounts of the namespace that it was started in: it looks up the same path in
 * its own mount namespace, and checks by device and inode that it is the same object. */
static int build_take_tree(bool rootless, int fd, int *ret_tree, struct err *e)
{
	char link[64], path[PATH_MAX];
	struct stat want, got;
	ssize_t n;

	if (!rootless)
		return mounts_copy(fd, "", 0, ret_tree, e);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0 || fstat(fd, &want) < 0)
		return err_sys(e, "find source");
	path[n] = '\0';
	if (mounts_copy(AT_FDCWD, path, 0, ret_tree, e) < 0)
		return -1;
	if (fstat(*ret_tree, &got) < 0 || got.st_dev != want.st_dev || got.st_ino != want.st_ino) {
		io_close_all(ret_tree, 1);
		return err_set(e, ERR_CONFLICT, "%.100s: was replaced while it was being mounted",
			       path);
	}
	return 0;
}

static int build_take_trees(struct builder *b, struct err *e)
{
	const struct keeper_create *r = b->request;
	bool rootless = b->keeper->setup.common.rootless;

	for (unsigned i = 0; i < r->nlayers; i++)
		if (build_take_tree(rootless, b->fds[i], &b->trees.layers[i], e) < 0)
			return err_wrap(e, "layer at %s", r->layer_at[i]);
	for (unsigned i = 0; i < r->nmounts; i++)
		if (source_is_volume(b->keeper, &r->mounts[i].from) &&
		    source_is_image(&r->mounts[i].from))
			b->trees.mounts[i] = fcntl(b->fds[r->nlayers + i], F_DUPFD_CLOEXEC, 3);
		else if (build_take_tree(rootless, b->fds[r->nlayers + i], &b->trees.mounts[i], e) <
			 0)
			return err_wrap(e, "mount %s", r->mounts[i].at);
	return 0;
}

/* Let PID 1 continue, and send it the disk's root directory if the cell lingers. Then waits: end
 * of file means that PID 1 executed cordon-init (its socket is close-on-exec), a struct err that it
 * failed, and a single byte before either that its connections can be redirected to egress, or,
 * with a descriptor, the listener of its filter. */
static int build_release_pid1(struct builder *b, struct err *e)
{
	struct err inside, ignored;
	size_t nfds = 0;
	int listener = -1;
	ssize_t n;

	IGNORED(io_send(b->sync_fd, "g", 1, &b->trees.kept, b->trees.kept >= 0, e),
		"if PID 1 has exited, its error is received below");
	while ((n = io_recv(b->sync_fd, &inside, sizeof(inside), &listener, 1, &nfds, &ignored)) ==
	       1) {
		b->cell->redirect |= nfds == 0;
		b->cell->watched |= nfds == 1;
		if (nfds == 1)
			watcher_give(b->cell, listener);
	}
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(inside))
		return err_set(e, ERR_SYSTEM, "PID 1 exited before it was ready");
	*e = inside;
	return -1;
}

static int build_cell(struct builder *b, struct err *e)
{
	int sync[2];

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != b->keeper_pid)
		return err_set(e, ERR_SYSTEM, "the keeper has exited");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "private mounts");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0)
		return err_sys(e, "socketpair");
	b->sync_fd = sync[0];
	OWN_FD sync_inside = sync[1];
	if ((b->keeper->setup.common.rootless && build_take_trees(b, e) < 0) ||
	    build_start_pid1(b, sync_inside, e) < 0)
		return -1;
	fd_close(TAKE_FD(sync_inside));
	if (ids_write(&b->cell->ids, b->cell->pid, e) < 0 ||
	    ids_open_ns(b->cell->pid, "user", &b->cell->userns_fd, e) < 0 ||
	    build_make_proc(b, e) < 0 ||
	    root_assemble(b->cell, b->keeper, b->request, &b->trees, e) < 0)
		return -1;
	return build_release_pid1(b, e);
}

static int build_in_namespace(void *arg)
{
	struct builder *b = arg;

	b->result = build_cell(b, b->err);
	_exit(0);
}

/* The disk, the root and the layers stay open with the cell: DESTROY reports the use of the disk,
 * and DIFF compares the trees. */
static void build_keep_trees(struct cell *c, struct root_trees *p, const struct keeper_create *r)
{
	c->disk_fd = TAKE_FD(p->disk);
	c->root_fd = TAKE_FD(p->root);
	c->nlayers = r->nlayers;
	memcpy(c->layer_at, r->layer_at, sizeof(c->layer_at));
	for (unsigned i = 0; i < r->nlayers; i++)
		c->layers[i] = TAKE_FD(p->layers[i]);
}

int cell_build(struct cell *c, const struct keeper *k, const struct keeper_create *r,
	       int channel_fd, const int *fds, struct err *e)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct builder b = { .cell = c,
			     .keeper = k,
			     .request = r,
			     .fds = fds,
			     .channel_fd = channel_fd,
			     .keeper_pid = getpid(),
			     .sync_fd = -1,
			     .err = e,
			     .result = -1 };
	pid_t pid;

	memset(&b.trees, 0xff, sizeof(b.trees)); /* every descriptor -1 */
	/* A privileged keeper copies trees here, in the mount namespace that they came from. */
	if (k->setup.common.rootless || build_take_trees(&b, e) == 0) {
		pid = clone(build_in_namespace, stack + sizeof(stack),
			    CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWNS | SIGCHLD, &b);
		if (pid < 0)
			(void)err_sys(e, "mount namespace");
		else if (waitpid(pid, NULL, 0) == pid && b.result == 0)
			build_keep_trees(c, &b.trees, r);
		else if (e->code == ERR_NONE)
			(void)err_set(e, ERR_SYSTEM, "the builder exited");
	}
	io_close_all(&b.sync_fd, 1);
	io_close_all(c->cgroup.enter, CELL_CGROUP_DIRS); /* PID 1 has used its own */
	io_close_all((int *)&b.trees, sizeof(b.trees) / sizeof(int));
	return b.result;
}
