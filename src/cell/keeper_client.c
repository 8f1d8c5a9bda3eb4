#include "keeper_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "io.h"
#include "rootless.h"

/* The directory of the running program, then "cordon-keeper". */
static int find_keeper(char *ret_path, size_t cap, struct err *e)
{
	ssize_t n = readlink("/proc/self/exe", ret_path, cap - sizeof("/cordon-keeper"));
	char *slash;

	if (n < 0)
		return err_sys(e, "own path");
	ret_path[n] = '\0';
	slash = strrchr(ret_path, '/');
	if (slash == NULL)
		return err_set(e, ERR_SYSTEM, "own path is %s", ret_path);
	(void)snprintf(slash, cap - (size_t)(slash - ret_path), "/cordon-keeper");
	if (access(ret_path, X_OK) < 0)
		return err_sys(e, "%s", ret_path);
	return 0;
}

/* In the child: the descriptors a keeper is started with, at their places. */
static int place_fds(int sock, const struct cgroups *c)
{
	int high[1 + KEEPER_CGROUP_DIRS];

	for (int i = 0; i <= KEEPER_CGROUP_DIRS; i++) {
		int fd = i == 0 ? sock : c->dirs[i - 1];

		high[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 32);
	}
	for (int i = 0; i <= KEEPER_CGROUP_DIRS; i++) {
		if (high[i] < 0)
			(void)close(KEEPER_FD_CHANNEL + i);
		else if (dup2(high[i], KEEPER_FD_CHANNEL + i) < 0)
			return -1;
	}
	return high[0] < 0 ? -1 : 0;
}

static void NORETURN become_keeper(const char *path, int sock, const struct cgroups *c,
				   const struct keeper_setup *setup)
{
	char argument[2 * sizeof(*setup) + 1];
	char *argv[] = { (char *)(uintptr_t) "cordon-keeper", argument, NULL };
	char *envp[] = { NULL };

	for (size_t i = 0; i < sizeof(*setup); i++)
		(void)snprintf(argument + 2 * i, 3, "%02x", ((const uint8_t *)setup)[i]);
	if (place_fds(sock, c) == 0)
		(void)execve(path, argv, envp);
	_exit(127);
}

int keeper_client_hear(struct keeper_client *k, enum keeper_op op, struct keeper_reply *ret,
		       int *ret_fd, struct err *e)
{
	int fds[1] = { -1 };
	size_t nfds = 0;
	ssize_t n = io_recv(k->sock, ret, sizeof(*ret), fds, 1, &nfds, e);
	OWN_FD fd = nfds == 1 ? fds[0] : -1;

	if (n < 0)
		return err_wrap(e, "keeper");
	if (n == 0)
		return err_set(e, ERR_SYSTEM, "the keeper died");
	if (n != (ssize_t)sizeof(*ret) || ret->version != KEEPER_VERSION)
		return err_set(e, ERR_SYSTEM, "the keeper is of another version");
	if (ret->err.code != ERR_NONE) {
		*e = ret->err;
		err_sanitize(e);
		return -1;
	}
	if (ret->op != op)
		return err_set(e, ERR_SYSTEM, "the keeper answered something else");
	if (ret_fd != NULL)
		*ret_fd = TAKE_FD(fd);
	return 0;
}

static void fill_setup(const struct cgroups *c, struct keeper_setup *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->version = KEEPER_VERSION;
	ret->cgroup_version = (uint32_t)c->version;
	ret->limits = c->limits;
	memcpy(ret->no_limits_why, c->why, sizeof(ret->no_limits_why));
}

/* What an ordinary user's keeper needs: the parent maps it while it waits, and then tells it how.
 */
static int start_rootless(const char *path, int sock, const struct cgroups *c, pid_t *ret_pid,
			  struct err *e)
{
	struct keeper_setup setup;
	int pair[2];
	pid_t pid;

	fill_setup(c, &setup);
	setup.rootless = 1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	OWN_FD ours = pair[0];
	OWN_FD theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (pid == 0) {
		(void)close(ours);
		if (rootless_enter(theirs, e) == 0 &&
		    read(theirs, &setup.subordinate, sizeof(setup.subordinate)) ==
			    sizeof(setup.subordinate))
			become_keeper(path, sock, c, &setup);
		_exit(127);
	}
	*ret_pid = pid;
	(void)close(TAKE_FD(theirs));
	if (rootless_map(pid, ours, &setup.subordinate, e) < 0)
		return -1;
	if (write(ours, &setup.subordinate, sizeof(setup.subordinate)) != sizeof(setup.subordinate))
		return err_sys(e, "keeper");
	return 0;
}

static int start_privileged(const char *path, int sock, const struct cgroups *c, pid_t *ret_pid,
			    struct err *e)
{
	struct keeper_setup setup;

	fill_setup(c, &setup);
	*ret_pid = fork();
	if (*ret_pid < 0)
		return err_sys(e, "fork");
	if (*ret_pid == 0)
		become_keeper(path, sock, c, &setup);
	return 0;
}

int keeper_client_start(struct keeper_client *ret, struct err *e)
{
	struct keeper_client k = { .pid = -1, .sock = -1 };
	char path[PATH_MAX];
	int pair[2], started;

	if (find_keeper(path, sizeof(path), e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	OWN_FD theirs = pair[1];
	k.sock = pair[0];
	cgroups_find(&k.cgroups);
	started = (rootless_needed() ? start_rootless : start_privileged)(path, theirs, &k.cgroups,
									  &k.pid, e);
	*ret = k;
	if (started < 0) {
		(void)close(TAKE_FD(theirs));
		keeper_client_stop(ret);
	} else {
		cgroups_sweep(&ret->cgroups); /* while it starts */
	}
	return started;
}

int keeper_client_hello(struct keeper_client *k, struct err *e)
{
	struct keeper_reply hello;

	if (keeper_client_hear(k, KEEPER_HELLO, &hello, NULL, e) < 0)
		return -1;
	k->walls = hello.walls;
	k->walls.no_limits_why[sizeof(k->walls.no_limits_why) - 1] = '\0';
	return 0;
}

int keeper_client_ask(struct keeper_client *k, const void *request, size_t len, const int *fds,
		      size_t nfds, struct keeper_reply *ret, int *ret_fd, struct err *e)
{
	uint32_t op;

	memcpy(&op, request, sizeof(op));
	if (io_send(k->sock, request, len, fds, nfds, e) < 0)
		return err_wrap(e, "keeper");
	return keeper_client_hear(k, (enum keeper_op)op, ret, ret_fd, e);
}

void keeper_client_stop(struct keeper_client *k)
{
	int status = 0;

	io_close_all(&k->sock, 1);
	while (k->pid > 0 && waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
		;
	k->pid = -1;
	/* One that was killed left its cells' cgroups behind. */
	if (WIFSIGNALED(status))
		cgroups_sweep(&k->cgroups);
	cgroups_release(&k->cgroups);
}
