/* main.c - cordon-keeper: makes cells and destroys them. It is the only privileged program.
 *
 *   main.c          start: setup message, descriptors
 *   ops.c           channel A: the table of requests
 *   cell.c          creates and destroys a cell
 *   source.c        opens the sources of layers, mounts and disks below the roots of a server
 *   ids.c           id ranges and id maps
 *   cgroup.c        limits, freezing and killing, by the files that the setup message names
 *   cell_build.c    the builder: starts PID 1 and assembles its file system
 *   root.c          the file system: disk, layers, mounts, /proc, /dev (mounts.c: the mount calls)
 *   cell_enter.c    the new PID 1, until it executes cordon-init
 *   restrict.c, netns.c
 *                   what PID 1 gives up: capabilities, files, system calls, network
 *   disk_image.c    file systems in image files
 *   adopt.c         finds a lingering cell again
 *   diff_reader.c   lists the changes of a cell, in a child with the cell's rights
 *
 * The keeper is started with one end of channel A, cordon-init, maybe cordon-shim, and directories
 * (keeper_msg.h). It sends HELLO, answers requests one at a time, and exits when the other end of
 * the channel closes.
 *
 * Assumption: the program that starts it is trusted (it is the operator, or the user of cordon
 * run). The sender of requests is not trusted once setup.serve is set: a server may have been taken
 * over. Invariant: it reads only fixed-size requests and files of the kernel, and executes only
 * cordon-init and cordon-shim, from sealed descriptors. */
#include <fcntl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cell/keeper/cell_build.h"
#include "cell/keeper/restrict.h"
#include "lib/base/fd_std.h"
#include "lib/base/kernel.h"

static int keeper_start(struct keeper *k, struct err *e)
{
	k->cgroups.how = &k->setup.cgroups;
	for (int i = 0, fd = KEEPER_FD_CGROUP; i < CELL_CGROUP_DIRS; i++, fd++)
		k->cgroups.dirs[i] = fcntl(fd, F_GETFD) < 0 ? -1 : fd;
	/* The builder changes its effective user id while it clones PID 1, and must keep its
	 * capabilities. */
	if (k->setup.common.rootless == 0 &&
	    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return err_sys(e, "set securebits, which needs CAP_SETPCAP");
	k->shim_fd = fcntl(KEEPER_FD_SHIM, F_GETFD) < 0 ? -1 : KEEPER_FD_SHIM;
	k->setup.common.landlock_abi = (uint32_t)restrict_landlock_abi();
	k->proc_sys_fd = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (k->proc_sys_fd < 0)
		return err_sys(e, "open /proc/sys");
	return 0;
}

/* The first message on the channel comes from the program that started the keeper. Requests may
 * come from another one. */
static bool keeper_read_setup(struct keeper_setup *ret)
{
	ssize_t n = recv(KEEPER_FD_CHANNEL, ret, sizeof(*ret), 0);

	return n == (ssize_t)sizeof(*ret) && ret->version == KEEPER_VERSION &&
	       ret->nroots <= CELL_ROOTS_MAX && ret->cgroups.unified < CELL_CGROUP_DIRS &&
	       ret->cgroups.nfiles <= KEEPER_LIMIT_FILES;
}

int main(void)
{
	struct keeper k = { .shim_fd = -1, .proc_sys_fd = -1 };
	struct err e = { 0 };

	fd_std_fill();
	(void)prctl(PR_SET_NAME, "cordon-keeper", 0, 0, 0); /* executed by descriptor */
	if (!keeper_read_setup(&k.setup)) {
		(void)fprintf(
			stderr,
			"cordon-keeper: must be started by cordon of the same version; "
			"reload the server (systemctl reload cordon), its sessions continue\n");
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
	if (keeper_start(&k, &e) < 0)
		return ops_refuse(KEEPER_FD_CHANNEL, &e) < 0 ? 1 : 0;
	return ops_serve(KEEPER_FD_CHANNEL, &k) < 0 ? 1 : 0;
}
