/* gvisor_child.c - see gvisor_child.h. */
#include "gvisor_child.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cell_spec.h"
#include "gvisor_bundle.h"
#include "io.h"
#include "kernel.h"

#define HIDDEN "/dev/shm"
#define STATE_DIR HIDDEN "/state"
#define BUNDLE_DIR HIDDEN "/bundle"
#define COVER_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

/* Descriptors of runsc, beside the standard ones; the last two are close-on-exec. */
enum { STREAM_FD = 3, INIT_FD, RUNSC_FD, SYNC_FD, FDS_END };

static int place_fds(const struct gvisor_child *c, struct err *e)
{
	int fds[] = {
		-1, c->console, c->console, c->stream_fd, c->init_fd, c->runsc_fd, c->sync_fd
	};

	fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fds[0] < 0)
		return err_sys(e, "/dev/null");
	/* First to high numbers, so that none is overwritten before it is moved. */
	for (size_t i = 0; i < COUNT(fds); i++)
		if ((fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64)) < 0)
			return err_sys(e, "descriptors");
	for (int i = 0; i < FDS_END; i++)
		if (dup3(fds[i], i, i >= RUNSC_FD ? O_CLOEXEC : 0) < 0)
			return err_sys(e, "descriptors");
	if (kernel_close_range(FDS_END, ~0U) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

static int enter_userns(struct err *e)
{
	char byte = 'u';

	if (unshare(CLONE_NEWUSER) < 0)
		return err_sys(e, "user namespace");
	if (send(SYNC_FD, &byte, 1, 0) != 1 || recv(SYNC_FD, &byte, 1, 0) != 1)
		return err_set(e, ERR_SYSTEM, "the shim has exited");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, "become root of the user namespace");
	return 0;
}

/* The directory that the guest gets as its root: the cell's, with nothing in /proc and /dev. The
 * guest's own /proc and /dev are no cover, as a program can mount the guest's root once more,
 * without them. Recursive, since the kernel binds mounts of another user namespace only as a whole.
 */
static int make_root(struct err *e)
{
	static const char *const covered[] = { GVISOR_ROOT "/proc", GVISOR_ROOT "/dev" };

	if (mkdir(GVISOR_ROOT, 0700) < 0 ||
	    mount("/", GVISOR_ROOT, NULL, MS_BIND | MS_REC, NULL) < 0)
		return err_sys(e, "root of the guest");
	for (size_t i = 0; i < COUNT(covered); i++)
		if (mount("cover", covered[i], "tmpfs", COVER_FLAGS, "mode=0555,nr_inodes=1") < 0)
			return err_sys(e, "cover %s", covered[i]);
	return 0;
}

/* The mounts are seen by runsc only: the shim is in another mount namespace. */
static int hide_files(const struct gvisor_child *c, struct err *e)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_sys(e, "mount namespace");
	if (mount("engine", HIDDEN, "tmpfs", COVER_FLAGS, "mode=0700,size=4m") < 0)
		return err_sys(e, "mount " HIDDEN);
	if (mkdir(STATE_DIR, 0700) < 0 || mkdir(BUNDLE_DIR, 0700) < 0)
		return err_sys(e, "directories of runsc");
	if (make_root(e) < 0)
		return -1;
	OWN_FD file =
		open(BUNDLE_DIR "/config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return err_sys(e, "config.json");
	return io_write_all(file, c->bundle, c->bundle_len, e);
}

static int become_runsc(struct err *e)
{
	static const char *const words[] = {
		"runsc",
		("--root=" STATE_DIR),
		"--ignore-cgroups", /* the cell has one already */
		"--network=host",   /* sockets of the cell's own network */
		"--overlay2=none",  /* files are written to the cell */
		"--platform=systrap",
		"run",
		("--bundle=" BUNDLE_DIR),
		"--pass-fd=3:3", /* STREAM_FD, GVISOR_STREAM_FD */
		"--exec-fd=4",	 /* INIT_FD */
		"guest",
	};
	char *argv[COUNT(words) + 1] = { NULL }, *envp[] = { NULL };

	for (size_t i = 0; i < COUNT(words); i++)
		argv[i] = (char *)(uintptr_t)words[i];
	(void)execve("/proc/self/fd/5", argv, envp); /* RUNSC_FD */
	return err_sys(e, "start runsc");
}

void gvisor_child_run(const struct gvisor_child *c)
{
	struct err e = { 0 };
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)setsid();
	if (place_fds(c, &e) < 0) {
		IGNORED(io_send(c->sync_fd, &e, sizeof(e), NULL, 0, &(struct err){ 0 }),
			"the shim has exited");
		_exit(1);
	}
	if (enter_userns(&e) == 0 && hide_files(c, &e) == 0)
		IGNORED(become_runsc(&e), "its error is sent, too");
	IGNORED(io_send(SYNC_FD, &e, sizeof(e), NULL, 0, &(struct err){ 0 }),
		"the shim has exited");
	_exit(1);
}

int gvisor_child_map(pid_t pid, struct err *e)
{
	static const char *const files[] = { "uid_map", "gid_map" };
	char path[64], map[64];

	(void)snprintf(map, sizeof(map), "0 0 %u", CELL_IDS);
	for (size_t i = 0; i < COUNT(files); i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		if (io_write_file(AT_FDCWD, path, map, e) < 0)
			return err_wrap(e, "map ids");
	}
	return 0;
}
