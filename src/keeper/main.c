/* main.c - cordon-keeper: the only part that makes and unmakes cells.
 *
 * Started with one end of channel A, cordon-init, and directories (keeper_msg.h). It says HELLO,
 * answers requests one at a time, and ends when the other end closes. It reads nothing but its
 * fixed frames and the kernel's own files, and executes nothing but cordon-init, from a descriptor
 * that is sealed.
 *
 * It is the only privileged program. What it may assume: the starter is trusted (the operator, or
 * the user of cordon run), the sender of requests is not, once serve is set: a server may have been
 * taken over. */
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
	root_find_covers();
	k->landlock_abi = restrict_landlock_abi();
	k->proc_sys_fd = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (k->proc_sys_fd < 0)
		return err_sys(e, "open /proc/sys");
	return 0;
}

/* The starter's message: the first on the channel, whichever program sends requests afterwards. */
static bool read_setup(struct keeper_setup *ret)
{
	ssize_t n = recv(KEEPER_FD_CHANNEL, ret, sizeof(*ret), 0);

	return n == (ssize_t)sizeof(*ret) && ret->version == KEEPER_VERSION &&
	       ret->cgroup_version <= 2 && ret->nroots <= CELL_ROOTS_MAX &&
	       ret->no_limits_why[sizeof(ret->no_limits_why) - 1] == '\0';
}

int main(void)
{
	struct keeper k = { .proc_sys_fd = -1 };
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
			k.setup.root_uses[fd - KEEPER_FD_ROOTS] = 0; /* or what comes there is it */
	(void)umask(022);
	/* The terminal's signals are for the caller, which forwards what should be forwarded. */
	(void)setsid();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL); /* ignored, there would be nothing to wait for */
	/* The builder borrows a cell's id for a moment and must keep its capabilities. */
	if (k.setup.rootless == 0 && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return 1;
	if (start(&k, &e) < 0)
		return ops_refuse(KEEPER_FD_CHANNEL, &e) < 0 ? 1 : 0;
	return ops_serve(KEEPER_FD_CHANNEL, &k) < 0 ? 1 : 0;
}
