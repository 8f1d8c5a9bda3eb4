/* keeper_client.c - see keeper_client.h.
 *
 * The keeper is started with fixed descriptor numbers (KEEPER_FD_*). keeper_client_place_fds()
 * moves them there in the child: after vfork(2), so it makes only system calls. */
#include "cell/cellctl/keeper_client.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cell/cellctl/installed.h"
#include "cell/cellctl/rootless.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/str.h"
#include "lib/wire/cell_layout.h"
#include "lib/wire/cell_level.h"

#define SHIM "cordon-shim"
#define PLACES (KEEPER_FD_ROOTS - KEEPER_FD_CHANNEL + CELL_ROOTS_MAX)

/* Cells are started from a sealed copy of their PID 1's program in memory: a cell that writes to
 * /proc/1/exe or the like cannot change the program of the next cell (CVE-2019-5736). */
static int keeper_client_copy_program(const char *name, int *ret_fd, struct err *e)
{
	char path[32];
	ssize_t n;
	int found;

	if (installed_open(name, &found, e) < 0)
		return -1;
	OWN_FD program = found;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", program);
	OWN_FD file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return err_sys(e, "open %s", name);
	/* MFD_EXEC (0x10) is required by hardened settings and unknown before Linux 6.3. */
	OWN_FD copy = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | 0x10);
	if (copy < 0 && errno == EINVAL)
		copy = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (copy < 0)
		return err_sys(e, "memfd");
	while ((n = sendfile(copy, file, NULL, 1 << 20)) != 0)
		if (n < 0)
			return err_sys(e, "copy %s", name);
	if (fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_sys(e, "seal");
	/* execve(2) fails while the file is open for writing (ETXTBSY): it is opened again. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", copy);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd < 0)
		return err_sys(e, "reopen memfd");
	return 0;
}

struct keeper_client_start {
	int program; /* owned by keeper_client_spawn() */
	const struct keeper_start *how;
	struct keeper_setup setup;
	int fds[PLACES]; /* borrowed: by number, from KEEPER_FD_CHANNEL on */
	struct err err;	 /* written by the child before it executes the keeper */
};

bool keeper_client_has_shim(void)
{
	struct err e;
	int found;

	if (installed_open(SHIM, &found, &e) < 0)
		return false;
	fd_close(found);
	return true;
}

static void keeper_client_list_fds(struct keeper_client_start *s, int init, int shim)
{
	const struct keeper_start *how = s->how;

	memset(s->fds, 0xff, sizeof(s->fds)); /* every descriptor -1 */
	s->fds[0] = how->keeper_end;
	s->fds[KEEPER_FD_INIT - KEEPER_FD_CHANNEL] = init;
	s->fds[KEEPER_FD_SHIM - KEEPER_FD_CHANNEL] = shim;
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++)
		s->fds[KEEPER_FD_CGROUP - KEEPER_FD_CHANNEL + i] = how->cgroups->dirs[i];
	for (unsigned i = 0; i < how->nroots; i++)
		s->fds[KEEPER_FD_ROOTS - KEEPER_FD_CHANNEL + i] = how->roots[i].fd;
}

/* In the child: first to high numbers, so that none is overwritten, then to their own. */
static int keeper_client_place_fds(const struct keeper_client_start *s, int *ret_program)
{
	int high[PLACES];

	*ret_program = fcntl(s->program, F_DUPFD_CLOEXEC, 64);
	if (*ret_program < 0)
		return -1;
	for (int i = 0; i < PLACES; i++) {
		high[i] = s->fds[i] < 0 ? -1 : fcntl(s->fds[i], F_DUPFD_CLOEXEC, 64);
		if (s->fds[i] >= 0 && high[i] < 0)
			return -1;
	}
	for (int i = 0; i < PLACES; i++) {
		if (high[i] < 0)
			fd_close(KEEPER_FD_CHANNEL + i);
		else if (dup2(high[i], KEEPER_FD_CHANNEL + i) < 0)
			return -1;
	}
	return 0;
}

/* Make only system calls: it may run after vfork(2). */
static void NORETURN keeper_client_become_keeper(const struct keeper_client_start *s)
{
	char *argv[] = { (char *)(uintptr_t) "cordon-keeper", NULL };
	char *envp[] = { NULL };
	int program;

	if (keeper_client_place_fds(s, &program) == 0)
		(void)kernel_execveat(program, argv, envp);
	_exit(127);
}

/* The keeper of an ordinary user with subordinate ids: the parent has to map these. */
static int keeper_client_start_mapped(const struct keeper_client_start *s,
				      const struct rootless_ranges *ranges, pid_t *ret_pid,
				      struct err *e)
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
		fd_close(ours);
		if (rootless_enter_mapped(theirs, e) == 0)
			keeper_client_become_keeper(s);
		_exit(127);
	}
	fd_close(TAKE_FD(theirs));
	return rootless_map(*ret_pid, ours, ranges, e);
}

/* A privileged keeper, one with the user's single id, or one that joins a namespace. A function of
 * its own, so that no variable of the caller is live across vfork(2). The parent sees the child's
 * writes to *s. */
static __attribute__((noinline)) pid_t keeper_client_start_simple(struct keeper_client_start *s)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (!s->setup.common.rootless ||
		    (s->how->userns >= 0 ? rootless_join(s->how->userns, &s->err)
					 : rootless_enter_single(&s->err)) == 0)
			keeper_client_become_keeper(s);
		_exit(127);
	}
	return pid;
}

/* Most machine-wide entries can be opened by the machine's root only, and not by root of a cell:
 * these need no cover. */
static void keeper_client_find_covers(struct keeper_setup *ret)
{
	struct stat st;
	OWN_FD proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	static_assert(COUNT(proc_hidden) <= 32, "a bit for each");
	for (size_t i = 0; i < COUNT(proc_hidden); i++) {
		if (fstatat(proc, proc_hidden[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		ret->covers |= (st.st_mode & 0006) != 0 ? 1U << i : 0;
		ret->cover_dirs |= S_ISDIR(st.st_mode) ? 1U << i : 0;
	}
}

static void keeper_client_fill_setup(const struct keeper_start *how, struct keeper_setup *ret)
{
	const struct cgroups *c = how->cgroups;

	memset(ret, 0, sizeof(*ret));
	ret->version = KEEPER_VERSION;
	cgroups_describe(c, &ret->cgroups);
	keeper_client_find_covers(ret);
	ret->serve = how->serve;
	ret->nroots = how->nroots;
	for (unsigned i = 0; i < how->nroots; i++)
		ret->root_uses[i] = how->roots[i].uses;
	ret->common.rootless = rootless_needed();
	ret->common.ids = CELL_IDS;
	ret->common.cgroup_version = (uint32_t)c->version;
	ret->common.limits = c->limits;
	ret->common.freezer = c->dirs[ret->cgroups.unified] >= 0;
	memcpy(ret->common.no_limits_why, c->why, sizeof(ret->common.no_limits_why));
}

int keeper_client_spawn(const struct keeper_start *how, pid_t *ret_pid, struct err *e)
{
	struct keeper_client_start s = { .how = how };
	struct rootless_ranges ranges;
	bool mapped;
	int copy = -1, shim_copy = -1, program;

	if (how->nroots > CELL_ROOTS_MAX)
		return err_set(e, ERR_LIMIT, "at most %d roots", CELL_ROOTS_MAX);
	if (installed_open("cordon-keeper", &program, e) < 0)
		return -1;
	OWN_FD keeper = program;
	s.program = keeper;
	if (keeper_client_copy_program(cell_level_find(NULL)->program, &copy, e) < 0)
		return -1;
	OWN_FD init = copy;
	if (how->engines && keeper_client_has_shim() &&
	    keeper_client_copy_program(SHIM, &shim_copy, e) < 0)
		return -1;
	OWN_FD shim = shim_copy;
	keeper_client_list_fds(&s, init, shim);
	keeper_client_fill_setup(how, &s.setup);
	mapped = s.setup.common.rootless != 0 && rootless_find_ranges(&ranges);
	s.setup.subordinate = mapped ? CELL_IDS : 0;
	if (s.setup.common.rootless != 0 && !mapped)
		s.setup.common.ids = 1;
	if (io_send(how->client_end, &s.setup, sizeof(s.setup), NULL, 0, e) < 0)
		return -1;
	if (mapped && how->userns < 0)
		return keeper_client_start_mapped(&s, &ranges, ret_pid, e);
	*ret_pid = keeper_client_start_simple(&s);
	if (*ret_pid < 0)
		return err_sys(e, "fork");
	*e = s.err;
	return s.err.code == ERR_NONE ? 0 : -1;
}

int keeper_client_start(struct keeper_client *ret, bool engines, struct err *e)
{
	int pair[2], started;

	*ret = (struct keeper_client){ .pid = -1, .sock = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	OWN_FD theirs = pair[1];
	ret->sock = pair[0];
	cgroups_find(&ret->cgroups);
	const struct keeper_start how = { .client_end = pair[0],
					  .keeper_end = theirs,
					  .userns = -1,
					  .cgroups = &ret->cgroups,
					  .engines = engines };
	started = keeper_client_spawn(&how, &ret->pid, e);
	fd_close(TAKE_FD(theirs));
	if (started < 0)
		keeper_client_stop(ret, NULL);
	else
		cgroups_sweep(&ret->cgroups); /* while it starts */
	return started;
}

int keeper_client_check_reply(struct keeper_reply *r, size_t len, enum keeper_op op, struct err *e)
{
	if (len != sizeof(*r) || r->version != KEEPER_VERSION)
		return err_set(e, ERR_SYSTEM, "the keeper has another version");
	r->restrictions.no_limits_why[sizeof(r->restrictions.no_limits_why) - 1] = '\0';
	if (r->err.code != ERR_NONE) {
		err_sanitize(&r->err);
		*e = r->err;
		return -1;
	}
	if (r->op != op)
		return err_set(e, ERR_SYSTEM, "the keeper's reply is for another request");
	return 0;
}

int keeper_client_receive(struct keeper_client *k, enum keeper_op op, struct keeper_reply *ret,
			  int *ret_fd, struct err *e)
{
	int fds[1] = { -1 };
	size_t nfds = 0;
	ssize_t n = io_recv(k->sock, ret, sizeof(*ret), fds, 1, &nfds, e);
	OWN_FD fd = nfds == 1 ? fds[0] : -1;

	if (n < 0)
		return err_wrap(e, "keeper");
	if (n == 0)
		return err_set(e, ERR_SYSTEM, "the keeper exited");
	if (keeper_client_check_reply(ret, (size_t)n, op, e) < 0)
		return -1;
	if (ret_fd != NULL)
		*ret_fd = TAKE_FD(fd);
	return 0;
}

int keeper_client_hello(struct keeper_client *k, struct err *e)
{
	struct keeper_reply hello;

	if (keeper_client_receive(k, KEEPER_HELLO, &hello, NULL, e) < 0)
		return -1;
	k->restrictions = hello.restrictions;
	return 0;
}

int keeper_client_call(struct keeper_client *k, const void *request, size_t len, const int *fds,
		       size_t nfds, struct keeper_reply *ret, int *ret_fd, struct err *e)
{
	uint32_t op;

	memcpy(&op, request, sizeof(op));
	if (io_send(k->sock, request, len, fds, nfds, e) < 0)
		return err_wrap(e, "keeper");
	return keeper_client_receive(k, (enum keeper_op)op, ret, ret_fd, e);
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
