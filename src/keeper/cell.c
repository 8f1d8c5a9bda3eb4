#include "cell.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "build.h"
#include "io.h"
#include "kernel.h"
#include "walls.h"

void cell_init(struct cell *c)
{
	*c = (struct cell){
		.pidfd = -1, .userns_fd = -1, .store_fd = -1, .root_fd = -1, .ids.slot_fd = -1
	};
	for (unsigned i = 0; i < KEEPER_LAYERS_MAX; i++)
		c->layers[i] = -1;
	for (unsigned i = 0; i < CGROUP_DIRS; i++)
		c->cgroup.dirs[i] = c->cgroup.enter[i] = -1;
}

static void release(struct cell *c)
{
	io_close_all(&c->pidfd, 1);
	io_close_all(&c->userns_fd, 1);
	io_close_all(&c->store_fd, 1);
	io_close_all(&c->root_fd, 1);
	io_close_all(c->layers, KEEPER_LAYERS_MAX);
	ids_release(&c->ids);
	cell_init(c);
}

static int take_ids(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		    struct err *e)
{
	if (!k->setup.rootless)
		return ids_take_range(&c->ids, e);
	ids_rootless(&c->ids, k->setup.subordinate, r->uid, r->gid, r->nmounts > 0);
	return 0;
}

int cell_create(struct cell *c, const struct keeper *k, const struct keeper_create *r,
		int channel_fd, const int *fds, struct err *e)
{
	cell_init(c);
	memcpy(c->id, r->id, sizeof(c->id));
	c->linger = (r->flags & KEEPER_LINGER) != 0;
	if (take_ids(c, k, r, e) == 0 &&
	    cgroup_create(&k->cgroups, r->id, &r->limits, &c->cgroup, e) == 0 &&
	    build_cell(c, k, r, channel_fd, fds, e) == 0)
		return 0;
	IGNORED(cell_destroy(c, k, NULL, &(struct err){ 0 }), "the first error is the one to tell");
	return err_wrap(e, "create cell");
}

static void read_stat(const struct cell *c, const struct keeper *k, struct keeper_stat *ret)
{
	struct statfs fs;

	memset(ret, 0, sizeof(*ret));
	cgroup_stat(&k->cgroups, &c->cgroup, ret);
	if (c->store_fd < 0 || fstatfs(c->store_fd, &fs) < 0)
		return;
	ret->disk_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	ret->inodes = (uint64_t)(fs.f_files - fs.f_ffree);
	ret->disk_full = fs.f_bfree == 0;
	ret->inodes_full = fs.f_ffree == 0;
}

/* In the child: root of the cell and of nothing else, with the store as its root directory.
 * Descriptors for the program: 1 the list, 3 the cell's root, 4 and up the layers in order. */
static int become_reader(const struct cell *c, int out_fd, struct err *e)
{
	int fds[2 + KEEPER_LAYERS_MAX] = { out_fd, c->root_fd };
	unsigned n = 2 + c->nlayers;

	memcpy(fds + 2, c->layers, sizeof(c->layers));
	if (setns(c->userns_fd, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter user namespace");
	if (fchdir(c->store_fd) < 0 || chroot(".") < 0)
		return err_sys(e, "enter store");
	if (c->ids.uid[0].inside == 0 && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
		return err_sys(e, "become the cell's root");
	for (unsigned i = 0; i < n; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);
		if (fds[i] < 0)
			return err_sys(e, "descriptors");
	}
	for (unsigned i = 0; i < n; i++)
		if (dup2(fds[i], i == 0 ? 1 : (int)i + 2) < 0)
			return err_sys(e, "descriptors");
	return 0;
}

static void NORETURN run_reader(const struct cell *c, const struct keeper *k, int out_fd)
{
	char name[] = "cordon-init", verb[] = "diff";
	char at[KEEPER_LAYERS_MAX][KEEPER_PLACE_MAX];
	char *argv[3 + KEEPER_LAYERS_MAX] = { name, verb };
	char *envp[] = { NULL };
	struct err e;
	int init_fd = fcntl(k->init_fd, F_DUPFD_CLOEXEC, 200);

	memcpy(at, c->layer_at, sizeof(at));
	for (unsigned i = 0; i < c->nlayers; i++)
		argv[2 + i] = at[i];
	if (init_fd >= 0 && become_reader(c, out_fd, &e) == 0 &&
	    kernel_close_range(4 + c->nlayers, (unsigned)init_fd - 1) == 0 &&
	    kernel_close_range((unsigned)init_fd + 1, ~0U) == 0 && walls_no_new_privs(&e) == 0)
		(void)kernel_execveat(init_fd, argv, envp);
	_exit(125);
}

int cell_diff(const struct cell *c, const struct keeper *k, int out_fd, struct err *e)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return err_sys(e, "fork");
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0)
			run_reader(c, k, out_fd);
		_exit(125);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, ERR_SYSTEM, "reading the cell's changes failed (status %d)",
			       status);
	return 0;
}

int cell_destroy(struct cell *c, const struct keeper *k, struct keeper_stat *ret_stat,
		 struct err *e)
{
	int result;

	if (c->pidfd >= 0) {
		/* PID 1's death is the death of its pid namespace, and is seen only after it. */
		(void)kernel_pidfd_send_signal(c->pidfd, SIGKILL);
		while (waitid(P_PIDFD, (id_t)c->pidfd, NULL, WEXITED) < 0 && errno == EINTR)
			;
	}
	if (ret_stat != NULL)
		read_stat(c, k, ret_stat);
	result = cgroup_destroy(&k->cgroups, &c->cgroup, e);
	release(c);
	return result;
}
