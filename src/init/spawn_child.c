/* spawn_child.c - see spawn_child.h. Functions return 0 or more, or -errno. */
#include "spawn_child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "builtin.h"
#include "kernel.h"
#include "raw_call.h"
#include "tree_mark.h"

#define SIGSET_BYTES 8 /* of the kernel */

static void NORETURN leave(int code)
{
	for (;;)
		(void)raw_call(SYS_exit_group, code, 0, 0, 0);
}

static void NORETURN report(int fd, enum agent_stage stage, long error)
{
	struct spawn_failure f = { .stage = stage, .sys = (int32_t)-error };

	leave(raw_call(SYS_write, fd, raw_ptr(&f), sizeof(f), 0) < 0 ? 126 : 127);
}

/* An error other than "no such file" is kept. */
static long exec_in(const struct child_process *c, const char *dir, size_t n, const char *name,
		    size_t name_len)
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

/* As execvpe(3), with the PATH of the new environment. Returns why it failed. */
static long search_and_exec(const struct child_process *c)
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

		ret = exec_in(c, dirs, n, name, len);
		if (ret != -ENOENT)
			found = ret;
		if (dirs[n] == '\0')
			return found;
		dirs += n + 1;
	}
}

/* PID 1 blocks every signal and handles or ignores none: only the mask has to be reset. */
static void clean_signals(void)
{
	const uint64_t none = 0;

	(void)raw_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, raw_ptr(&none), 0, SIGSET_BYTES);
}

static long take_stdio(const struct child_process *c)
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

static long call_on_child(void)
{
	return spawn_on_child == NULL || spawn_on_child() == 0 ? 0 : -errno;
}

/* Only in a guest with a kernel of its own, where this process has memory of its own. */
static long lock(const struct child_process *c, int (*step)(void))
{
	return step == NULL || spawn_child_is_guest(c) || step() == 0 ? 0 : -errno;
}

static long become_user(const struct child_process *c)
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

static long change_directory(const char *to)
{
	return raw_call(SYS_chdir, raw_ptr(to), 0, 0, 0);
}

/* "~", "~/x" and relative paths are in the user's home. */
static long enter_directory(const struct child_process *c)
{
	const char *cwd = c->request->cwd;
	long ret;

	if (*cwd == '/')
		return change_directory(cwd);
	ret = change_directory(c->user.home);
	if (*cwd == '\0')
		return ret < 0 ? change_directory("/") : 0; /* without a home, in / */
	if (ret < 0)
		return ret;
	if (*cwd == '~' && (cwd[1] == '/' || cwd[1] == '\0'))
		cwd += 1 + strspn(cwd + 1, "/");
	return *cwd == '\0' ? 0 : change_directory(cwd);
}

static long set_limit(int resource, uint64_t value)
{
	const uint64_t both[2] = { value, value };

	return raw_call(SYS_prlimit64, 0, resource, raw_ptr(both), 0);
}

/* Before the user changes: only root may set hard limits above its own. */
static long take_limits(const struct child_process *c)
{
	long ret = c->request->nofile > 0 ? set_limit(RLIMIT_NOFILE, c->request->nofile) : 0;

	return ret < 0 || c->mark == 0 ? ret : set_limit((int)tree_mark_resource(), c->mark);
}

bool spawn_child_is_guest(const struct child_process *c)
{
	return (c->request->flags & AGENT_BUILTIN) != 0 && spawn_guest != NULL &&
	       c->user.uid == 0 && c->request->argc == 1 &&
	       spawn_guest->is_one(c->request->strings);
}

/* A client's path may lead through /proc/self/fd: PID 1 has a directory outside of the root. */
static long close_others(const struct child_process *c, int *error_fd)
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
static void NORETURN run_builtin(const struct child_process *c, int error_fd)
{
	(void)prctl(PR_SET_NAME, "cordon-builtin", 0, 0, 0);
	if (spawn_child_is_guest(c))
		spawn_guest->run(c->argv[0]);
	if (kernel_close_range(3, ~0U) < 0)
		report(error_fd, AGENT_AT_SYSTEM, -errno);
	_exit(builtin_main((int)c->request->argc, c->argv));
}

void spawn_child_run(const struct child_process *c)
{
	int error_fd = c->error_fd;
	long ret;

	clean_signals();
	if (error_fd < SPAWN_STDIO) /* in the place of one of the program's */
		error_fd = (int)raw_call(SYS_fcntl, error_fd, F_DUPFD_CLOEXEC, 10, 0);
	if (error_fd < 0)
		leave(126);
	if ((ret = raw_call(SYS_setsid, 0, 0, 0, 0)) < 0 || (ret = take_stdio(c)) < 0 ||
	    (ret = call_on_child()) < 0 || (ret = take_limits(c)) < 0)
		report(error_fd, AGENT_AT_SYSTEM, ret);
	if ((ret = close_others(c, &error_fd)) < 0 || (ret = lock(c, spawn_lock.drop_rights)) < 0)
		report(error_fd, AGENT_AT_SYSTEM, ret);
	if ((ret = become_user(c)) < 0)
		report(error_fd, AGENT_AT_USER, ret);
	if ((ret = enter_directory(c)) < 0)
		report(error_fd, AGENT_AT_CWD, ret);
	if ((ret = lock(c, spawn_lock.filter)) < 0)
		report(error_fd, AGENT_AT_SYSTEM, ret);
	if ((c->request->flags & AGENT_BUILTIN) != 0)
		run_builtin(c, error_fd);
	report(error_fd, AGENT_AT_EXEC, search_and_exec(c));
}
