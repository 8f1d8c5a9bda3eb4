/* diff_reader.c - reads the changes of a cell, for DIFF and CAPTURE, in a child process.
 *
 * The upper directories were written by a hostile cell: names, links, sizes and depth are its
 * choice. So the keeper does not walk them itself. It forks a child that becomes root of the cell's
 * user namespace and of nothing else, makes the disk its root directory, closes all descriptors but
 * its own, and executes cordon-init as "diff" (cell/init/changes/diff.c) or "capture"
 * (cell/init/changes/capture.c), which writes to the descriptor of the request.
 *
 * Called by ops.c. The child may assume nothing of the tree. The keeper does not wait for it.
 * Invariant: a bound on children at a time and on seconds each, so that no cell can hold the keeper
 * up. */
#include "cell/keeper/cell.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "cell/keeper/restrict.h"
#include "lib/base/kernel.h"

#define READERS_MAX 32 /* session_capture.c and session_diff.c need 22 */
#define SECONDS_MAX \
	120 /* a cell that keeps changing files could keep its reader busy without end */
#define CAPTURE_SECONDS_MAX 3600 /* bounded by the disk of the cell, and by who reads it */

static pid_t readers[READERS_MAX]; /* 0: free */

bool diff_reader_become_root(int userns_fd)
{
	/* Drops the keeper's groups. A rootless keeper may not, and has the user's own only. */
	if ((setgroups(0, NULL) < 0 && errno != EPERM) || setns(userns_fd, CLONE_NEWUSER) < 0)
		return false;
	/* EINVAL: a cell with a single id has no 0, and the process has that id already. */
	return (setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0) || errno == EINVAL;
}

/* Descriptors of the program: 1 the list, 2 unused, 3 the cell's root, 4 and up the layers in
 * order, then cordon-init itself, close-on-exec. */
static void NORETURN reader_run(const struct cell *c, bool capture, int out_fd)
{
	char name[] = "cordon-init", diff[] = "diff", all[] = "capture";
	char at[CELL_LAYERS_MAX][CELL_PLACE_MAX];
	char *argv[3 + CELL_LAYERS_MAX] = { name, capture ? all : diff };
	char *envp[] = { NULL };
	int fds[4 + CELL_LAYERS_MAX] = { out_fd, c->root_fd, c->root_fd };
	unsigned self = 4 + c->nlayers;
	struct err e;

	memcpy(at, c->layer_at, sizeof(at));
	for (unsigned i = 0; i < c->nlayers; i++) {
		argv[2 + i] = at[i];
		fds[3 + i] = c->layers[i];
	}
	fds[self - 1] = KEEPER_FD_INIT;
	(void)alarm(capture ? CAPTURE_SECONDS_MAX : SECONDS_MAX);
	/* The disk is its root directory. */
	if (diff_reader_become_root(c->userns_fd) && fchdir(c->disk_fd) == 0 && chroot(".") == 0 &&
	    restrict_only_fds(fds, self, 1, 1ULL << self, &e) == 0 &&
	    restrict_no_new_privs(&e) == 0)
		(void)kernel_execveat((int)self, argv, envp);
	_exit(125);
}

int diff_reader_start(const struct cell *c, bool capture, int out_fd, struct err *e)
{
	for (unsigned i = 0; i < READERS_MAX; i++) {
		if (readers[i] != 0)
			continue;
		readers[i] = fork();
		if (readers[i] == 0)
			reader_run(c, capture, out_fd);
		if (readers[i] > 0)
			return 0;
		readers[i] = 0;
		return err_sys(e, "fork");
	}
	return err_set(e, ERR_LIMIT, "the changes of %d cells are being read already", READERS_MAX);
}

void diff_reader_reap(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (unsigned i = 0; i < READERS_MAX; i++)
			if (readers[i] == pid)
				readers[i] = 0;
}
