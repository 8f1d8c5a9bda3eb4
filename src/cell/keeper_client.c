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

struct start {
	char path[PATH_MAX];
	int sock; /* borrowed */
	const struct cgroups *cgroups;
	struct keeper_setup setup;
	struct err err; /* why the child could not even become a keeper */
};

/* Makes only system calls: it may run in the child of a vfork. */
static void NORETURN become_keeper(const struct start *s, char *argument)
{
	char *argv[] = { (char *)(uintptr_t) "cordon-keeper", argument, NULL };
	char *envp[] = { NULL };

	if (place_fds(s->sock, s->cgroups) == 0)
		(void)execve(s->path, argv, envp);
	_exit(127);
}

static void write_hex(const struct keeper_setup *setup, char ret[2 * sizeof(*setup) + 1])
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = (const uint8_t *)setup;

	for (size_t i = 0; i < sizeof(*setup); i++) {
		ret[2 * i] = digits[bytes[i] >> 4];
		ret[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret[2 * sizeof(*setup)] = '\0';
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

/* An ordinary user's keeper with subordinate ids, which only its parent can have mapped. */
static int start_mapped(struct start *s, char *argument, const struct rootless_ranges *ranges,
			pid_t *ret_pid, struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	OWN_FD ours = pair[0];
	OWN_FD theirs = pair[1];
	*ret_pid = fork();
	if (*ret_pid < 0)
		return err_sys(e, "fork");
	if (*ret_pid == 0) {
		(void)close(ours);
		if (rootless_enter_mapped(theirs, e) == 0)
			become_keeper(s, argument);
		_exit(127);
	}
	(void)close(TAKE_FD(theirs));
	return rootless_map(*ret_pid, ours, ranges, e);
}

/* A privileged keeper, or one with the user's single id. Of its own, so that nothing of the
 * caller's frame is live across the vfork; what the child writes to *s, the parent reads. */
static __attribute__((noinline)) pid_t start_simple(struct start *s, char *argument)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (!s->setup.rootless || rootless_enter_single(&s->err) == 0)
			become_keeper(s, argument);
		_exit(127);
	}
	return pid;
}

static int start_keeper(struct start *s, pid_t *ret_pid, struct err *e)
{
	char argument[2 * sizeof(s->setup) + 1];
	struct rootless_ranges ranges;

	s->setup.rootless = rootless_needed();
	if (s->setup.rootless != 0 && rootless_find_ranges(&ranges)) {
		s->setup.subordinate = KEEPER_IDS;
		write_hex(&s->setup, argument);
		return start_mapped(s, argument, &ranges, ret_pid, e);
	}
	write_hex(&s->setup, argument);
	*ret_pid = start_simple(s, argument);
	if (*ret_pid < 0)
		return err_sys(e, "fork");
	*e = s->err;
	return s->err.code == ERR_NONE ? 0 : -1;
}

int keeper_client_start(struct keeper_client *ret, struct err *e)
{
	struct keeper_client k = { .pid = -1, .sock = -1 };
	struct start s = { .cgroups = &k.cgroups };
	int pair[2], started;

	if (find_keeper(s.path, sizeof(s.path), e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	OWN_FD theirs = pair[1];
	k.sock = pair[0];
	s.sock = theirs;
	cgroups_find(&k.cgroups);
	fill_setup(&k.cgroups, &s.setup);
	started = start_keeper(&s, &k.pid, e);
	*ret = k;
	(void)close(TAKE_FD(theirs));
	if (started < 0)
		keeper_client_stop(ret, NULL);
	else
		cgroups_sweep(&ret->cgroups); /* while it starts */
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

void keeper_client_stop(struct keeper_client *k, const char *cell_id)
{
	int status = 0;

	io_close_all(&k->sock, 1);
	while (k->pid > 0 && waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
		;
	k->pid = -1;
	if (WIFSIGNALED(status) && cell_id != NULL)
		cgroups_remove(&k->cgroups, cell_id);
	cgroups_release(&k->cgroups);
}
