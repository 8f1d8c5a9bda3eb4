/* main.c - cordon-keeper: the only part that makes and unmakes cells.
 *
 * Started with one end of channel A and the directories for cgroups. It says HELLO, answers
 * requests one at a time, and when the other end closes, destroys every cell that is not meant to
 * outlive it. It reads nothing but its fixed frames and the kernel's own files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "io.h"
#include "kernel.h"
#include "ops.h"
#include "root.h"
#include "walls.h"

/* cordon-init stands beside us. Cells get a sealed copy in memory: nothing they do through
 * /proc/1/exe or the like reaches the file that the next cell starts from (CVE-2019-5736). */
static int copy_init(int *ret_fd, struct err *e)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("cordon-init"));
	char *slash;

	if (n < 0)
		return err_sys(e, "own path");
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL)
		return err_set(e, ERR_SYSTEM, "own path %s", path);
	(void)snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "cordon-init");
	OWN_FD file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return err_sys(e, "open %s", path);
	/* MFD_EXEC (0x10) is required by hardened settings and unknown before Linux 6.3. */
	OWN_FD copy = memfd_create("cordon-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | 0x10);
	if (copy < 0 && errno == EINVAL)
		copy = memfd_create("cordon-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (copy < 0)
		return err_sys(e, "memfd");
	while ((n = sendfile(copy, file, NULL, 1 << 20)) != 0)
		if (n < 0)
			return err_sys(e, "copy %s", path);
	if (fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_sys(e, "seal");
	/* Executing wants a descriptor that is not open for writing (ETXTBSY). */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", copy);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd < 0)
		return err_sys(e, "reopen memfd");
	return 0;
}

/* The starter's argument: a struct keeper_setup, in hex. */
static int read_setup(int argc, char **argv, struct keeper_setup *ret)
{
	struct keeper_setup s;

	if (argc != 2 || strlen(argv[1]) != 2 * sizeof(s))
		return -1;
	for (size_t i = 0; i < sizeof(s); i++) {
		char pair[3] = { argv[1][2 * i], argv[1][2 * i + 1], '\0' }, *end;

		((uint8_t *)&s)[i] = (uint8_t)strtoul(pair, &end, 16);
		if (*end != '\0')
			return -1;
	}
	if (s.version != KEEPER_VERSION || s.no_limits_why[sizeof(s.no_limits_why) - 1] != '\0')
		return -1;
	*ret = s;
	return 0;
}

static int start(struct keeper *k, struct err *e)
{
	k->cgroups.driver = k->setup.cgroup_version == 1   ? &cgroup_v1_driver
			    : k->setup.cgroup_version == 2 ? &cgroup_v2_driver
							   : NULL;
	for (int i = 0; i < CGROUP_DIRS; i++) {
		int fd = KEEPER_FD_CGROUP + i;

		k->cgroups.dirs[i] = fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : fd;
	}
	root_learn_proc();
	k->landlock_abi = walls_landlock_abi();
	k->proc_sys_fd = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (k->proc_sys_fd < 0)
		return err_sys(e, "open /proc/sys");
	return copy_init(&k->init_fd, e);
}

int main(int argc, char **argv)
{
	struct keeper k = { .init_fd = -1, .proc_sys_fd = -1 };
	struct err e = { 0 };

	if (read_setup(argc, argv, &k.setup) < 0 ||
	    fcntl(KEEPER_FD_CHANNEL, F_SETFD, FD_CLOEXEC) < 0) {
		(void)fprintf(
			stderr,
			"cordon-keeper: started by cordon of the same version, not by hand\n");
		return 2;
	}
	(void)kernel_close_range(KEEPER_FD_CGROUP + CGROUP_DIRS, ~0U);
	(void)umask(022);
	/* The terminal's signals are for the caller, who forwards what should be forwarded. */
	(void)setsid();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL); /* ignored, there would be nothing to wait for */
	/* The builder borrows a cell's id for a moment and must not lose its capabilities by that.
	 */
	if (k.setup.rootless == 0 && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return 1;
	if (start(&k, &e) < 0)
		return ops_refuse(KEEPER_FD_CHANNEL, &e) < 0 ? 1 : 0;
	return ops_serve(KEEPER_FD_CHANNEL, &k) < 0 ? 1 : 0;
}
