/* watcher.c - the watcher of a cell: a process outside of it that answers its refused system calls
 * (cell/init/watch/watch.c). It starts before the cell, because PID 1 may wait for an answer from
 * the moment in which it installs its filter, and lives as long as the cell, whatever happens to
 * the keeper.
 *
 * Called by cell.c and cell_build.c. Invariant: only the watcher keeps the listener. Its holder can
 * let a refused call pass, so neither the cell nor the server ever has it. */
#include "cell/keeper/cell.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "cell/keeper/restrict.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"

/* In a cell with a single id the watcher is not root, and keeps only ambient capabilities over
 * exec: the rights to look at programs of the cell, to look up its paths, and to leave its root
 * directory. */
static bool watcher_keep_caps(void)
{
	uint32_t keep = 1U << CAP_SYS_PTRACE | 1U << CAP_SYS_CHROOT | 1U << CAP_DAC_READ_SEARCH;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct caps[2] = { { keep, keep, keep } };

	return syscall(SYS_capset, &head, caps) == 0 &&
	       prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_PTRACE, 0, 0) == 0 &&
	       prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0) == 0 &&
	       prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_CHROOT, 0, 0) == 0;
}

/* Without a cell the socket is closed. */
static void NORETURN watcher_run(int sock, int file_fd, uint32_t flags)
{
	char name[] = "cordon-init", word[][8] = { "watch", "trace", "calls", "files" };
	char *argv[] = { name, word[__builtin_popcount(flags & CELL_WATCH_ANY) - 1], NULL };
	char *envp[] = { NULL };
	int got[2] = { -1, -1 }, fds[] = { sock, file_fd, KEEPER_FD_INIT };
	size_t n = 0;
	struct err e;
	char byte;

	if (restrict_only_fds(fds, COUNT(fds), 0, 1ULL << 2, &e) == 0 &&
	    io_recv(0, &byte, 1, got, 2, &n, &e) == 1 && n == 2 &&
	    diff_reader_become_root(got[1]) && dup2(got[0], 0) == 0 &&
	    ((flags & CELL_TRACE) == 0 || watcher_keep_caps()) && restrict_no_new_privs(&e) == 0)
		(void)kernel_execveat(2, argv, envp);
	_exit(125);
}

int watcher_start(struct cell *c, int file_fd, uint32_t flags, struct err *e)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	c->watcher_fd = pair[0];
	OWN_FD inside = pair[1];
	pid = fork();
	if (pid == 0) {
		io_close_all(&c->watcher_fd, 1);
		watcher_run(inside, file_fd, flags);
	}
	return pid < 0 ? err_sys(e, "fork") : 0;
}

void watcher_give(struct cell *c, int listener_fd)
{
	OWN_FD listener = listener_fd;
	const int fds[] = { listener, c->userns_fd };

	IGNORED(io_send(c->watcher_fd, "w", 1, fds, COUNT(fds), &(struct err){ 0 }),
		"without a watcher the kernel refuses the calls");
}
