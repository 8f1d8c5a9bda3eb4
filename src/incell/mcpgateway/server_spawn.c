#include "incell/mcpgateway/server_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/str.h"
#include "lib/mcp/client/link_proof.h"

#define USER_NAME "user"
#define USER_ID 1000
#define ENV_VARS_MAX 1024
#define GITHUB_URL "https://github.com/"

/* $1: folder to be in. $2: repository to clone into it, or empty. $3: install command, or empty.
 * $4: the server. Only the server has the pipes of the protocol. */
static const char script[] = "set -e\n"
			     "if [ -n \"$2\" ] && [ ! -d \"$1\" ]; then\n"
			     "\tgit clone --quiet --depth 1 -- \"$2\" \"$1\" >&2 </dev/null\n"
			     "fi\n"
			     "cd -- \"$1\"\n"
			     "if [ -n \"$3\" ]; then /bin/sh -c \"$3\" >&2 </dev/null; fi\n"
			     "exec /bin/sh -c \"$4\"\n";

/* Variables that the program does not get from the gateway. */
static const char *const own[] = { "GATEWAY_ACCESS_TOKEN=", (LINK_TOKEN_VAR "="),
				   "HOME=", "USER=", "LOGNAME=" };

static bool is_own(const char *var)
{
	for (size_t i = 0; i < COUNT(own); i++) {
		if (strncmp(var, own[i], strlen(own[i])) == 0)
			return true;
	}
	return false;
}

/* Both are "NAME=value". */
static bool has_name_of(const char *var, const char *other)
{
	size_t n = strcspn(var, "=") + 1;

	return strncmp(var, other, n) == 0;
}

/* Does the entry's environment have the variable? */
static bool is_replaced(const struct buf *env, const char *var)
{
	const char *at = (const char *)env->data, *end = at + env->len;

	for (; at < end; at += strlen(at) + 1) {
		if (has_name_of(at, var))
			return true;
	}
	return false;
}

/* The gateway's environment without its own variables, then the entry's. Texts are borrowed. */
static void make_env(const struct buf *more, char *const extra[3], char *ret[ENV_VARS_MAX])
{
	const char *end = (const char *)more->data + more->len;
	size_t n = 0;

	for (char **v = environ; *v != NULL && n < ENV_VARS_MAX / 2; v++) {
		if (!is_own(*v) && (more->len == 0 || !is_replaced(more, *v)))
			ret[n++] = *v;
	}
	for (size_t i = 0; i < 3; i++)
		ret[n++] = extra[i];
	for (char *at = (char *)more->data; at != NULL && at < end && n < ENV_VARS_MAX - 1;
	     at += strlen(at) + 1)
		ret[n++] = at;
	ret[n] = NULL;
}

/* The user that the program runs as. */
struct account {
	uid_t uid;
	gid_t gid;
	char name[64], home[256];
};

/* Without root's rights: the gateway's own user. */
static int find_account(struct account *ret, struct err *e)
{
	const struct passwd *found;

	if (geteuid() != 0) {
		found = getpwuid(geteuid());
	} else {
		found = getpwnam(USER_NAME);
		if (found == NULL || found->pw_uid == 0)
			found = getpwuid(USER_ID);
	}
	if (found == NULL)
		return err_set(e, ERR_NOT_FOUND,
			       "no user '%s' and none with the id %d in this "
			       "template",
			       USER_NAME, USER_ID);
	*ret = (struct account){ .uid = found->pw_uid, .gid = found->pw_gid };
	str_copy(ret->name, found->pw_name);
	str_copy(ret->home, found->pw_dir);
	return 0;
}

/* Set once, before any program is started. */
static bool locked;

void server_spawn_lock(void)
{
	locked = true;
}

/* Groups first: after setuid() they cannot be changed. */
static int server_spawn_become(const struct account *a)
{
	if (locked && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	if (geteuid() != 0)
		return 0;
	return initgroups(a->name, a->gid) < 0 || setgid(a->gid) < 0 || setuid(a->uid) < 0 ? -1 : 0;
}

/* After fork(). Exit code 126: the program could not be prepared, 127: there is no shell. */
static void NORETURN run_child(const struct gateway_entry *entry, bool install,
			       const struct account *a, const int fds[3])
{
	char home[280], user[80], logname[80], url[200] = "", folder[600];
	const char *argv[] = { "sh", "-c", script, "mcp-gateway", folder, url, "", NULL, NULL };
	static char *env[ENV_VARS_MAX];
	struct buf cwd = entry->cwd, run = entry->run, first = entry->install;
	sigset_t none;

	(void)snprintf(home, sizeof(home), "HOME=%s", a->home);
	(void)snprintf(user, sizeof(user), "USER=%s", a->name);
	(void)snprintf(logname, sizeof(logname), "LOGNAME=%s", a->name);
	str_copy(folder, cwd.len > 0 ? buf_text(&cwd) : a->home);
	if (entry->repository[0] != '\0') {
		(void)snprintf(url, sizeof(url), GITHUB_URL "%s", entry->repository);
		(void)snprintf(folder, sizeof(folder), "%s/mcp/%s", a->home, entry->repository);
	}
	if (install)
		argv[6] = buf_text(&first);
	argv[7] = buf_text(&run);
	make_env(&entry->env, (char *[3]){ home, user, logname }, env);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (setpgid(0, 0) < 0 || dup2(fds[0], 0) < 0 || dup2(fds[1], 1) < 0 ||
	    dup2(fds[2], 2) < 0 || server_spawn_become(a) < 0 || chdir("/") < 0)
		_exit(126);
	(void)execve("/bin/sh", (char *const *)(uintptr_t)argv, env);
	_exit(127);
}

/* Only the gateway's ends: the program's own block as usual. */
static int set_nonblocking(int fd)
{
	return fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* gVisor has no such call. A pipe takes its place, which the program has open until it ends. So
 * have programs that it starts, if it does not close it for them. *ret stays -1 where the system
 * call exists. */
static int make_end_pipe(int ret[2])
{
	OWN_FD self = (int)syscall(SYS_pidfd_open, getpid(), 0);

	return self >= 0 || errno != ENOSYS ? 0 : pipe2(ret, O_CLOEXEC);
}

/* The descriptor stays open over execve(). */
static void keep_open(int fd)
{
	if (fd >= 0 && fcntl(fd, F_SETFD, 0) < 0)
		_exit(126);
}

/* On failure nothing was started, and all pipes are closed. */
int server_spawn(const struct gateway_entry *entry, bool install, struct server_pipes *ret,
		 struct err *e)
{
	int gone[2] = { -1, -1 }; /* make_end_pipe() */
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
	struct account account;

	*ret = (struct server_pipes){ .pidfd = -1, .in = -1, .out = -1, .err = -1 };
	if (find_account(&account, e) < 0)
		return -1;
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ||
	    set_nonblocking(in[1]) < 0 || set_nonblocking(out[0]) < 0 ||
	    set_nonblocking(err[0]) < 0 || make_end_pipe(gone) < 0)
		goto fail;
	ret->pid = fork();
	if (ret->pid < 0)
		goto fail;
	if (ret->pid == 0) {
		keep_open(gone[1]);
		run_child(entry, install, &account, (int[3]){ in[0], out[1], err[1] });
	}
	ret->pidfd = gone[0] >= 0 ? gone[0] : (int)syscall(SYS_pidfd_open, ret->pid, 0);
	fd_close(gone[1]);
	fd_close(in[0]);
	fd_close(out[1]);
	fd_close(err[1]);
	ret->in = in[1];
	ret->out = out[0];
	ret->err = err[0];
	return 0;
fail:
	(void)err_sys(e, "start a program");
	for (size_t i = 0; i < 2; i++) {
		fd_close(in[i]);
		fd_close(out[i]);
		fd_close(err[i]);
		fd_close(gone[i]);
	}
	return -1;
}
