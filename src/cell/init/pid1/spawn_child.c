/* spawn_child.c - see spawn_child.h. Functions return 0 or more, or -errno. */
#include "cell/init/pid1/spawn_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "cell/init/base/tree_mark.h"
#include "cell/init/files/builtin.h"
#include "cell/init/pid1/guest_gvisor.h"
#include "lib/base/err.h"
#include "lib/base/kernel.h"

#define SIGSET_BYTES 8 /* of the kernel */

/* A system call that leaves errno alone: returns the kernel's result, so a failure is -errno. For
 * code that shares its memory with another process (spawn_child.h). */

#if defined(__x86_64__)

static inline long raw_call(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)

static inline long raw_call(long nr, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c, x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

#else

#error "raw_call() has to be written for this processor"

#endif

static inline long raw_ptr(const void *p)
{
	return (long)p;
}

/* Processes that use the memory of PID 1 until they execute their program.
 *
 * A fork makes an address space that lives for a few system calls, and PID 1 has to fault in each
 * of its own pages again: about 0.15 ms, in gVisor 10 to 20. Called by spawn.c, and by programs.c
 * when such a process has its program or has exited. Each has a block of PID 1's memory, with its
 * stack and a copy of the request. vfork(2) would need none, but PID 1 would wait for a process
 * that others can stop.
 *
 * Invariant: the process becomes a user of the cell while it still shares the memory. No
 * program of that user may trace it, or open its memory. The kernel refuses that because PID 1 is
 * not dumpable (agentd.c), and a change of user leaves that so but where fs.suid_dumpable is 1:
 * there the process is forked. */

#define STACK_BYTES 32768 /* most of it for a path */
#define SHORT_STRINGS 16384

struct block {
	struct spawn_child process; /* first: it is what others know */
	struct agent_spawn request;
	pid_t pid;
	struct block *next;
	_Alignas(16) char stack[STACK_BYTES];
	char strings[]; /* user, cwd, and the strings of the request */
};

static struct block *blocks; /* of processes that may use them */

/* Enough for most cells: PID 1 allocates nothing. Unused pages take no memory. */
static union {
	struct block block;
	char bytes[sizeof(struct block) + SHORT_STRINGS];
} first_block;
static bool first_is_used;

/* A process that changes its user makes the memory that it uses dumpable if fs.suid_dumpable is 1:
 * programs of the new user could then trace it, and write to the memory of PID 1. Read each time:
 * the operator may change it. */
static bool spawn_child_memory_stays_closed(void)
{
	static int fd = -1;
	char value;

	if (fd < 0)
		fd = open("/proc/sys/fs/suid_dumpable", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && pread(fd, &value, 1, 0) == 1 && value != '1';
}

bool spawn_child_is_shared(const struct agent_spawn *request)
{
	if ((request->flags & AGENT_BUILTIN) != 0 || spawn_on_child != NULL)
		return false;
	return guest_gvisor_is_used || spawn_child_memory_stays_closed();
}

static struct block *spawn_child_take_block(size_t strings)
{
	if (first_is_used || strings > SHORT_STRINGS)
		return malloc(sizeof(struct block) + strings);
	first_is_used = true;
	return &first_block.block;
}

static void spawn_child_give_back(struct block *b)
{
	if (b == &first_block.block)
		first_is_used = false;
	else
		free(b);
}

static const char *spawn_child_add(char **at, const char *from, size_t n)
{
	char *to = memcpy(*at, from, n);

	*at += n;
	return to;
}

struct spawn_child *spawn_child_new(const struct agent_spawn *request)
{
	size_t user = strlen(request->user) + 1, cwd = strlen(request->cwd) + 1;
	struct block *b = spawn_child_take_block(user + cwd + request->strings_len);
	char *at;

	if (b == NULL)
		return NULL;
	memset(&b->process, 0, sizeof(b->process));
	at = b->strings;
	b->request = *request;
	b->request.user = spawn_child_add(&at, request->user, user);
	b->request.cwd = spawn_child_add(&at, request->cwd, cwd);
	b->request.strings = spawn_child_add(&at, request->strings, request->strings_len);
	b->process.request = &b->request;
	return &b->process;
}

static int spawn_child_run_shared(void *arg)
{
	spawn_child_run(arg);
}

pid_t spawn_child_start_shared(struct spawn_child *c)
{
	struct block *b = (struct block *)c;

	b->pid = clone(spawn_child_run_shared, b->stack + STACK_BYTES, CLONE_VM | SIGCHLD, c);
	if (b->pid < 0)
		return -1;
	b->next = blocks;
	blocks = b;
	return b->pid;
}

static void spawn_child_release(struct block *b)
{
	if (b->process.on_heap)
		free(b->process.argv);
	spawn_child_give_back(b);
}

void spawn_child_free(struct spawn_child *c)
{
	spawn_child_release((struct block *)c);
}

void spawn_child_end(pid_t pid)
{
	for (struct block **at = &blocks; *at != NULL; at = &(*at)->next)
		if ((*at)->pid == pid) {
			struct block *b = *at;

			*at = b->next;
			spawn_child_release(b);
			return;
		}
}

static void NORETURN spawn_child_leave(int code)
{
	for (;;)
		(void)raw_call(SYS_exit_group, code, 0, 0, 0);
}

static void NORETURN spawn_child_report(int fd, enum agent_stage stage, long error)
{
	struct spawn_failure f = { .stage = stage, .sys = (int32_t)-error };

	spawn_child_leave(raw_call(SYS_write, fd, raw_ptr(&f), sizeof(f), 0) < 0 ? 126 : 127);
}

/* An error other than "no such file" is kept. */
static long spawn_child_exec_in(const struct spawn_child *c, const char *dir, size_t n,
				const char *name, size_t name_len)
{
	char path[4096];
	long ret;

	if (n + name_len + 2 > sizeof(path))
		return -ENOENT;
	memcpy(path, dir, n);
	if (n > 0)
		path[n++] = '/';
	memcpy(path + n, name, name_len + 1);
	ret = raw_call(SYS_execve, raw_ptr(path), raw_ptr(c->argv), raw_ptr(c->envp), 0);
	return ret == -ENOTDIR ? -ENOENT : ret;
}

/* As execvpe(3), with the PATH of the new environment. Return why it failed. */
static long spawn_child_search_and_exec(const struct spawn_child *c)
{
	const char *dirs = SPAWN_PATH, *name = c->argv[0];
	long found = -ENOENT, ret;
	size_t len = strlen(name);

	for (char **v = c->envp; *v != NULL; v++)
		if (strncmp(*v, "PATH=", 5) == 0)
			dirs = *v + 5;
	if (strchr(name, '/') != NULL || *name == '\0')
		return raw_call(SYS_execve, raw_ptr(name), raw_ptr(c->argv), raw_ptr(c->envp), 0);
	for (;;) {
		size_t n = strcspn(dirs, ":");

		ret = spawn_child_exec_in(c, dirs, n, name, len);
		if (ret != -ENOENT)
			found = ret;
		if (dirs[n] == '\0')
			return found;
		dirs += n + 1;
	}
}

/* PID 1 blocks every signal and handles or ignores none: only the mask has to be reset. */
static void spawn_child_clean_signals(void)
{
	const uint64_t none = 0;

	(void)raw_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, raw_ptr(&none), 0, SIGSET_BYTES);
}

static long spawn_child_take_stdio(const struct spawn_child *c)
{
	/* First to numbers above, so that none is overwritten before it is moved. */
	long high[SPAWN_STDIO], ret;
	int n = c->stdio[3] >= 0 ? SPAWN_STDIO : 3;

	for (int i = 0; i < n; i++) {
		int fd = c->stdio[c->tty ? 0 : i];

		high[i] = fd >= n ? fd : raw_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 10, 0);
		if (high[i] < 0)
			return high[i];
	}
	for (int i = 0; i < n; i++)
		if ((ret = raw_call(SYS_dup3, high[i], i, 0, 0)) < 0)
			return ret;
	return c->tty ? raw_call(SYS_ioctl, 0, TIOCSCTTY, 0, 0) : 0;
}

static long spawn_child_call_on_child(void)
{
	return spawn_on_child == NULL || spawn_on_child() == 0 ? 0 : -errno;
}

/* Only in a guest with a kernel of its own, where this process has memory of its own. */
static long spawn_child_lock(const struct spawn_child *c, int (*step)(void))
{
	return step == NULL || spawn_child_is_guest(c) || step() == 0 ? 0 : -errno;
}

static long spawn_child_become_user(const struct spawn_child *c)
{
	gid_t gid = c->user.gid;
	uid_t uid = c->user.uid;
	long ret;

	/* In the locked profile the ids are right already, and its filter refuses the calls. */
	if (uid == c->own_uid && gid == (gid_t)raw_call(SYS_getgid, 0, 0, 0, 0))
		return 0;
	/* EPERM: a user namespace with a single id has no supplementary groups. */
	ret = raw_call(SYS_setgroups, (long)c->ngroups, raw_ptr(c->groups), 0, 0);
	if (ret < 0 && ret != -EPERM)
		return ret;
	ret = raw_call(SYS_setresgid, gid, gid, gid, 0);
	return ret < 0 ? ret : raw_call(SYS_setresuid, uid, uid, uid, 0);
}

static long spawn_child_change_directory(const char *to)
{
	return raw_call(SYS_chdir, raw_ptr(to), 0, 0, 0);
}

/* "~", "~/x" and relative paths are in the user's home. */
static long spawn_child_enter_directory(const struct spawn_child *c)
{
	const char *cwd = c->request->cwd;
	long ret;

	if (*cwd == '/')
		return spawn_child_change_directory(cwd);
	ret = spawn_child_change_directory(c->user.home);
	if (*cwd == '\0')
		return ret < 0 ? spawn_child_change_directory("/") : 0; /* without a home, in / */
	if (ret < 0)
		return ret;
	if (*cwd == '~' && (cwd[1] == '/' || cwd[1] == '\0'))
		cwd += 1 + strspn(cwd + 1, "/");
	return *cwd == '\0' ? 0 : spawn_child_change_directory(cwd);
}

static long spawn_child_set_limit(int resource, uint64_t value)
{
	const uint64_t both[2] = { value, value };

	return raw_call(SYS_prlimit64, 0, resource, raw_ptr(both), 0);
}

/* Before the user changes: only root may set hard limits above its own. */
static long spawn_child_take_limits(const struct spawn_child *c)
{
	long ret = c->request->nofile > 0 ? spawn_child_set_limit(RLIMIT_NOFILE, c->request->nofile)
					  : 0;

	return ret < 0 || c->mark == 0 ? ret
				       : spawn_child_set_limit((int)tree_mark_resource(), c->mark);
}

bool spawn_child_is_guest(const struct spawn_child *c)
{
	return (c->request->flags & AGENT_BUILTIN) != 0 && spawn_guest != NULL &&
	       c->user.uid == 0 && c->request->argc == 1 &&
	       spawn_guest->is_one(c->request->strings);
}

/* A client's path may lead through /proc/self/fd: PID 1 has a directory outside of the root. */
static long spawn_child_close_others(const struct spawn_child *c, int *error_fd)
{
	int first = c->stdio[3] >= 0 ? SPAWN_STDIO : 3;
	long ret = *error_fd == first ? 0 : raw_call(SYS_dup3, *error_fd, first, O_CLOEXEC, 0);

	if (ret < 0)
		return ret;
	*error_fd = first;
	if (spawn_child_is_guest(c))
		return 0;
	return raw_call(SYS_close_range, first + 1, INT32_MAX, 0, 0); /* as kernel_close_range() */
}

/* No descriptor of PID 1 may stay open in a built-in. The error pipe is closed, too, which reports
 * that the program runs. A built-in has memory of its own. */
static void NORETURN spawn_child_run_builtin(const struct spawn_child *c, int error_fd)
{
	(void)prctl(PR_SET_NAME, "cordon-builtin", 0, 0, 0);
	if (spawn_child_is_guest(c))
		spawn_guest->run(c->argv[0]);
	if (kernel_close_range(3, ~0U) < 0)
		spawn_child_report(error_fd, AGENT_AT_SYSTEM, -errno);
	_exit(builtin_main((int)c->request->argc, c->argv));
}

void spawn_child_run(const struct spawn_child *c)
{
	int error_fd = c->error_fd;
	long ret;

	spawn_child_clean_signals();
	if (error_fd < SPAWN_STDIO) /* in the place of one of the program's */
		error_fd = (int)raw_call(SYS_fcntl, error_fd, F_DUPFD_CLOEXEC, 10, 0);
	if (error_fd < 0)
		spawn_child_leave(126);
	if ((ret = raw_call(SYS_setsid, 0, 0, 0, 0)) < 0 || (ret = spawn_child_take_stdio(c)) < 0 ||
	    (ret = spawn_child_call_on_child()) < 0 || (ret = spawn_child_take_limits(c)) < 0)
		spawn_child_report(error_fd, AGENT_AT_SYSTEM, ret);
	if ((ret = spawn_child_close_others(c, &error_fd)) < 0 ||
	    (ret = spawn_child_lock(c, spawn_lock.drop_rights)) < 0)
		spawn_child_report(error_fd, AGENT_AT_SYSTEM, ret);
	if ((ret = spawn_child_become_user(c)) < 0)
		spawn_child_report(error_fd, AGENT_AT_USER, ret);
	if ((ret = spawn_child_enter_directory(c)) < 0)
		spawn_child_report(error_fd, AGENT_AT_CWD, ret);
	if ((ret = spawn_child_lock(c, spawn_lock.filter)) < 0)
		spawn_child_report(error_fd, AGENT_AT_SYSTEM, ret);
	if ((c->request->flags & AGENT_BUILTIN) != 0)
		spawn_child_run_builtin(c, error_fd);
	spawn_child_report(error_fd, AGENT_AT_EXEC, spawn_child_search_and_exec(c));
}
