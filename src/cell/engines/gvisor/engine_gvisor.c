/* engine_gvisor.c - the engine gVisor: runsc as a child of the shim, with the cell's root directory
 * as the guest's.
 *
 * start():
 *
 * 	shim				child (engine_gvisor.c)
 * 	socketpair, fork
 * 					user namespace. Sends a byte
 * 	maps ids, sends a byte
 * 					mount namespace, bundle, executes runsc
 * 	end of file: start() ends
 *
 * From then on the guest boots, which shows on its stream. The child stays: runsc waits in it for
 * the end of the guest. When it exits the guest has ended, for any reason, and its exit is reported
 * as the engine's end. The shim's text has the output of runsc. The sentry and the gofer are
 * children of runsc and end with it. There is no snapshot: runsc has none with the host's network.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "cell/engines/engine.h"
#include "cell/engines/gvisor/gvisor_bundle.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/wire/cell_spec.h"
#include "lib/wire/keeper_msg.h"

/* The process that becomes runsc. Called by engine_gvisor.c.
 *
 * It is root of the cell at first. It makes a user namespace, in which the shim maps all ids of the
 * cell, and a mount namespace with a file system over /dev/shm. It has runsc's own files and
 * GVISOR_ROOT, the cell's root directory with empty directories over /proc and /dev. Invariant: the
 * machine's procfs, the cell's devices and runsc's files are nowhere below GVISOR_ROOT, so they do
 * not appear however the guest mounts its root.
 *
 * Over sync_fd (SOCK_SEQPACKET, close-on-exec): the child sends one byte when the user namespace is
 * there. The shim answers with one byte when the ids are mapped. Then comes the end of file, when
 * runsc runs, or a struct err. */

struct gvisor_child {
	/* Borrowed. */
	int sync_fd;
	int console;   /* standard output and error */
	int stream_fd; /* becomes the guest's stream */
	int runsc_fd;
	int init_fd;	    /* cordon-init, which becomes PID 1 of the guest */
	const char *bundle; /* gvisor_bundle.h */
	size_t bundle_len;
};

#define HIDDEN "/dev/shm"
#define STATE_DIR HIDDEN "/state"
#define BUNDLE_DIR HIDDEN "/bundle"
#define COVER_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

/* Descriptors of runsc, beside the standard ones. The last two are close-on-exec. */
enum { STREAM_FD = 3, INIT_FD, RUNSC_FD, SYNC_FD, FDS_END };

static int gvisor_child_place_fds(const struct gvisor_child *c, struct err *e)
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

static int gvisor_child_enter_userns(struct err *e)
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
static int gvisor_child_make_root(struct err *e)
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
static int gvisor_child_hide_files(const struct gvisor_child *c, struct err *e)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_sys(e, "mount namespace");
	if (mount("engine", HIDDEN, "tmpfs", COVER_FLAGS, "mode=0700,size=4m") < 0)
		return err_sys(e, "mount " HIDDEN);
	if (mkdir(STATE_DIR, 0700) < 0 || mkdir(BUNDLE_DIR, 0700) < 0)
		return err_sys(e, "directories of runsc");
	if (gvisor_child_make_root(e) < 0)
		return -1;
	OWN_FD file =
		open(BUNDLE_DIR "/config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return err_sys(e, "config.json");
	return io_write_all(file, c->bundle, c->bundle_len, e);
}

static int gvisor_child_become_runsc(struct err *e)
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

/* In the new process. Does not return. */
static void gvisor_child_run(const struct gvisor_child *c)
{
	struct err e = { 0 };
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)setsid();
	if (gvisor_child_place_fds(c, &e) < 0) {
		IGNORED(io_send(c->sync_fd, &e, sizeof(e), NULL, 0, &(struct err){ 0 }),
			"the shim has exited");
		_exit(1);
	}
	if (gvisor_child_enter_userns(&e) == 0 && gvisor_child_hide_files(c, &e) == 0)
		IGNORED(gvisor_child_become_runsc(&e), "its error is sent, too");
	IGNORED(io_send(SYNC_FD, &e, sizeof(e), NULL, 0, &(struct err){ 0 }),
		"the shim has exited");
	_exit(1);
}

/* In the shim: maps every id of the cell to the same id in the child's user namespace. */
static int gvisor_child_map(pid_t pid, struct err *e)
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

struct engine {
	const struct engine_host *host;
	pid_t pid;		  /* of the child. 0: none */
	struct engine_call *call; /* the start that waits. NULL: none */
	int sync_fd;		  /* owned, -1 when runsc runs */
	int stream;		  /* owned, until start() ends */
	struct loop_fd on_sync;
};

static void gvisor_end_start(struct engine *g, const struct err *e)
{
	struct engine_call *c = g->call;

	g->call = NULL;
	loop_remove(g->host->loop, &g->on_sync);
	io_close_all(&g->sync_fd, 1);
	if (c == NULL)
		return;
	c->stage = BOOT_AT_ENGINE;
	if (e == NULL) {
		c->fds[0] = g->stream;
		g->stream = -1;
	}
	completion_end(&c->done, e);
}

/* A byte: map ids. End of file: runsc runs. A struct err: the child's. */
static void on_sync(struct loop_fd *f, uint32_t events)
{
	struct engine *g = f->arg;
	struct err said = { 0 }, e = { 0 };
	size_t nfds = 0;
	ssize_t n = io_recv(g->sync_fd, &said, sizeof(said), NULL, 0, &nfds, &e);

	if (n == 0) {
		gvisor_end_start(g, NULL);
	} else if (n == 1) {
		if (gvisor_child_map(g->pid, &e) < 0 ||
		    io_send(g->sync_fd, "m", 1, NULL, 0, &e) < 0)
			gvisor_end_start(g, &e);
	} else if (n == (ssize_t)sizeof(said)) {
		err_sanitize(&said);
		gvisor_end_start(g, &said);
	} else {
		gvisor_end_start(g, &e);
	}
}

static struct engine *gvisor_new(const struct engine_host *host)
{
	struct engine *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	*g = (struct engine){ .host = host, .sync_fd = -1, .stream = -1 };
	g->on_sync = (struct loop_fd){ .fd = -1, .on_ready = on_sync, .arg = g };
	return g;
}

/* runsc mounts at /tmp, and ends without a word if /tmp is a link or missing. Nothing of the guest
 * runs yet that could change it. */
static int gvisor_check_tmp(struct err *e)
{
	struct stat st;

	if (lstat("/tmp", &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "gVisor needs a directory at /tmp of the template");
	return 0;
}

static int gvisor_begin(struct engine *g, const struct boot_request *r, const int *fds,
			struct err *e)
{
	char bundle[GVISOR_BUNDLE_MAX];
	int runsc = boot_fds_index(r->fds, BOOT_FD_ENGINE);
	int init = boot_fds_index(r->fds, BOOT_FD_INIT);
	int sync[2], stream[2];
	struct gvisor_child child = { .console = g->host->console, .bundle = bundle };

	if (runsc < 0)
		return err_set(e, ERR_INVALID, "gVisor needs runsc");
	if (gvisor_check_tmp(e) < 0)
		return -1;
	child.runsc_fd = fds[runsc];
	child.init_fd = init < 0 ? INIT_FD_GUEST : fds[init];
	child.bundle_len = gvisor_bundle_write(r, bundle, sizeof(bundle));
	if (child.bundle_len == 0)
		return err_set(e, ERR_LIMIT, "the description of the guest is too long");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, stream) < 0)
		return err_sys(e, "socketpair");
	g->stream = stream[0];
	OWN_FD guest_end = stream[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0)
		return err_sys(e, "socketpair");
	g->sync_fd = sync[0];
	OWN_FD child_end = sync[1];
	child.stream_fd = guest_end;
	child.sync_fd = child_end;
	g->pid = fork();
	if (g->pid == 0) {
		fd_close(g->sync_fd);
		gvisor_child_run(&child);
	}
	if (g->pid < 0)
		return err_sys(e, "fork");
	return loop_add(g->host->loop, &g->on_sync, g->sync_fd, EPOLLIN, e);
}

static void gvisor_start(struct engine *g, const struct boot_request *r, const int *fds,
			 struct engine_call *c)
{
	struct err e = { 0 };

	g->call = c;
	if ((r->flags & BOOT_RESTORE) != 0)
		(void)err_set(&e, ERR_UNSUPPORTED, "gVisor has no memory images");
	else if (gvisor_begin(g, r, fds, &e) == 0)
		return;
	gvisor_end_start(g, &e);
}

static bool gvisor_on_exit(struct engine *g, pid_t pid, int status)
{
	char why[80];
	struct err e = { 0 };

	if (g->pid == 0 || pid != g->pid)
		return false;
	g->pid = 0;
	if (WIFSIGNALED(status))
		(void)snprintf(why, sizeof(why), "runsc was killed by signal %d", WTERMSIG(status));
	else
		(void)snprintf(why, sizeof(why), "runsc exited with status %d",
			       WEXITSTATUS(status));
	if (g->call != NULL) {
		(void)err_set(&e, ERR_SYSTEM, "%s", why);
		gvisor_end_start(g, &e);
	} else {
		g->host->on_gone(g->host, BOOT_GUEST_EXITED, why);
	}
	return true;
}

static void gvisor_free(struct engine *g)
{
	if (g->pid > 0)
		(void)kill(g->pid, SIGKILL);
	loop_remove(g->host->loop, &g->on_sync);
	io_close_all(&g->sync_fd, 1);
	io_close_all(&g->stream, 1);
	free(g);
}

const struct engine_ops engine_gvisor = {
	.name = "gvisor",
	.shares_network = true,
	.new = gvisor_new,
	.start = gvisor_start,
	.on_exit = gvisor_on_exit,
	.free = gvisor_free,
};
