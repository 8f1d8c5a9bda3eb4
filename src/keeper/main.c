/* main.c - cordon-keeper: makes cells and destroys them. It is the only privileged program.
 *
 *   main.c          start: setup message, descriptors
 *   ops.c           channel A: the table of requests
 *   cell.c          creates and destroys a cell; opens sources of layers and mounts
 *   ids.c           id ranges and id maps
 *   cgroup*.c       limits, freezing and killing, for both cgroup versions
 *   cell_build.c    the builder: starts PID 1 and assembles its file system
 *   root*.c         the file system: disk, layers, mounts, /proc, /dev (mounts.c: the mount calls)
 *   cell_enter.c    the new PID 1, until it executes cordon-init
 *   restrict.c, filter.c, netns.c
 *                   what PID 1 gives up: capabilities, files, system calls, network
 *   adopt.c         finds a lingering cell again
 *   diff_reader.c   lists what a cell changed, in a child with the cell's rights
 *
 * The keeper is started with one end of channel A, cordon-init, maybe cordon-shim, and directories
 * (keeper_msg.h). It
 * sends HELLO, answers requests one at a time, and exits when the other end of the channel closes.
 *
 * What it may assume: the program that starts it is trusted (it is the operator, or the user of
 * cordon run). The sender of requests is not trusted once setup.serve is set: a server may have
 * been taken over. What must not change: it reads only fixed-size requests and files of the kernel,
 * and executes only cordon-init and cordon-shim, from sealed descriptors. */
#include <fcntl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cell_build.h"
#include "fd_std.h"
#include "kernel.h"
#include "restrict.h"

static int start(struct keeper *k, struct err *e)
{
	k->cgroups.version = k->setup.cgroup_version;
	for (int i = 0, fd = KEEPER_FD_CGROUP; i < CGROUP_DIRS; i++, fd++)
		k->cgroups.dirs[i] = fcntl(fd, F_GETFD) < 0 ? -1 : fd;
	/* The builder changes its effective user id while it clones PID 1, and must keep its
	 * capabilities. */
	if (k->setup.rootless == 0 && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return err_sys(e, "set securebits, which needs CAP_SETPCAP");
	k->shim_fd = fcntl(KEEPER_FD_SHIM, F_GETFD) < 0 ? -1 : KEEPER_FD_SHIM;
	root_find_covers();
	k->landlock_abi = restrict_landlock_abi();
	k->proc_sys_fd = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (k->proc_sys_fd < 0)
		return err_sys(e, "open /proc/sys");
	return 0;
}

/* The first message on the channel comes from the program that started the keeper; requests may
 * come from another one. */
static bool read_setup(struct keeper_setup *ret)
{
	ssize_t n = recv(KEEPER_FD_CHANNEL, ret, sizeof(*ret), 0);

	return n == (ssize_t)sizeof(*ret) && ret->version == KEEPER_VERSION &&
	       ret->cgroup_version <= 2 && ret->nroots <= CELL_ROOTS_MAX &&
	       ret->no_limits_why[sizeof(ret->no_limits_why) - 1] == '\0';
}

int main(void)
{
	struct keeper k = { .shim_fd = -1, .proc_sys_fd = -1 };
	struct err e = { 0 };

	fd_std_fill();
	if (!read_setup(&k.setup)) {
		(void)fprintf(stderr,
			      "cordon-keeper: must be started by cordon of the same version\n");
		return 2;
	}
	(void)kernel_close_range(KEEPER_FD_ROOTS + k.setup.nroots, ~0U);
	for (unsigned fd = KEEPER_FD_CHANNEL; fd < KEEPER_FD_ROOTS + k.setup.nroots; fd++)
		if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0 && fd >= KEEPER_FD_ROOTS)
			k.setup.root_uses[fd - KEEPER_FD_ROOTS] =
				0; /* not open: a file opened later could get the number */
	(void)umask(022);
	/* Signals of the terminal are for the caller, which forwards them to the command. */
	(void)setsid();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL); /* with SIG_IGN, waitpid(2) would find no children */
	if (start(&k, &e) < 0)
		return ops_refuse(KEEPER_FD_CHANNEL, &e) < 0 ? 1 : 0;
	return ops_serve(KEEPER_FD_CHANNEL, &k) < 0 ? 1 : 0;
}
