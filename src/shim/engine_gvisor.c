/* engine_gvisor.c - the engine gVisor: runsc as a child of the shim, with the cell's root directory
 *as the guest's.
 *
 * start():
 *
 *	shim				child (gvisor_child.c)
 *	socketpair, fork
 *					user namespace; sends a byte
 *	maps ids, sends a byte
 *					mount namespace, bundle, executes runsc
 *	end of file: start() ends
 *
 * From then on the guest boots, which shows on its stream. The child stays: runsc waits in it for
 *the end of the guest. When it exits the guest has ended, whatever the reason, so that is reported
 *as the engine's end; what runsc printed is in the shim's text. The sentry and the gofer are
 *children of runsc and end with it. There is no snapshot: runsc has none with the host's network.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine.h"
#include "gvisor_bundle.h"
#include "gvisor_child.h"
#include "io.h"
#include "keeper_msg.h"

struct engine {
	const struct engine_host *host;
	pid_t pid;		  /* of the child; 0: none */
	struct engine_call *call; /* the start that waits; NULL: none */
	int sync_fd;		  /* owned; -1 when runsc runs */
	int stream;		  /* owned, until start() ends */
	struct loop_fd on_sync;
};

static void end_start(struct engine *g, const struct err *e)
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

	(void)events;
	if (n == 0) {
		end_start(g, NULL);
	} else if (n == 1) {
		if (gvisor_child_map(g->pid, &e) < 0 ||
		    io_send(g->sync_fd, "m", 1, NULL, 0, &e) < 0)
			end_start(g, &e);
	} else if (n == (ssize_t)sizeof(said)) {
		err_sanitize(&said);
		end_start(g, &said);
	} else {
		end_start(g, &e);
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

/* runsc mounts at /tmp, and ends without a word if that is a link or missing. Nothing of the guest
 * runs yet that could change it. */
static int check_tmp(struct err *e)
{
	struct stat st;

	if (lstat("/tmp", &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "gVisor needs a directory at /tmp of the template");
	return 0;
}

static int begin(struct engine *g, const struct boot_request *r, const int *fds, struct err *e)
{
	char bundle[GVISOR_BUNDLE_MAX];
	int runsc = boot_fds_index(r->fds, BOOT_FD_ENGINE);
	int init = boot_fds_index(r->fds, BOOT_FD_INIT);
	int sync[2], stream[2];
	struct gvisor_child child = { .console = g->host->console, .bundle = bundle };

	if (runsc < 0)
		return err_set(e, ERR_INVALID, "gVisor needs runsc");
	if (check_tmp(e) < 0)
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
	else if (begin(g, r, fds, &e) == 0)
		return;
	end_start(g, &e);
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
		end_start(g, &e);
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
