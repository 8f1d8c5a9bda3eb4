/* spawn.c - theory of operation
 *
 * Pipes are made in the cell and belong to the program's user, so that a program can open
 * /dev/stdout again. The server gets the other ends. The child reports a failure over a pipe that
 * is close-on-exec. PID 1 does not wait for it: another process of the cell could stop the child at
 * any point. A built-in is a child that calls builtin_main() instead of exec. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "builtin.h"
#include "io.h"
#include "kernel.h"
#include "users.h"
#include "tree_mark.h"

/* The last directory has programs that the template adds to those of /usr. */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cordon/bin"
#define EXTRA_ENV 13
#define SHORT_LIST 256

int spawn_cgroup = -1;
int (*spawn_on_child)(void);
bool (*spawn_guest_builtin)(const char *name);

struct child_process {
	const struct agent_spawn *request;
	struct users_entry user;
	uint32_t groups[USERS_GROUPS_MAX];
	size_t ngroups;
	int stdio[SPAWN_STDIO]; /* the program's ends */
	bool tty;
	uint64_t mark;
	char **argv, **envp;
	bool on_heap; /* argv was allocated */
};

static int fail_at(struct spawn_failure *f, enum agent_stage stage)
{
	f->stage = stage;
	f->sys = errno;
	return -1;
}

/* The text of a file. It is read again only if inode, size or change time differ. */
struct snapshot {
	struct stat st;
	size_t len;
	char text[65536];
};

/* The files are the cell's: a file that is not regular (a FIFO would block) counts as empty. */
static void refresh(struct snapshot *s, const char *path)
{
	struct stat st;
	ssize_t n;

	if (stat(path, &st) == 0 && st.st_ino == s->st.st_ino && st.st_size == s->st.st_size &&
	    st.st_dev == s->st.st_dev &&
	    memcmp(&st.st_ctim, &s->st.st_ctim, sizeof(st.st_ctim)) == 0)
		return;
	s->len = 0;
	OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &s->st) < 0 || !S_ISREG(s->st.st_mode))
		return;
	while (s->len < sizeof(s->text) &&
	       (n = read(fd, s->text + s->len, sizeof(s->text) - s->len)) > 0)
		s->len += (size_t)n;
}

static int find_user(struct child_process *c, struct spawn_failure *fail)
{
	static struct snapshot passwd, group;
	char own[16];
	const char *who = c->request->user;

	refresh(&passwd, "/etc/passwd");
	refresh(&group, "/etc/group");
	/* The default is "user"; a PID 1 that is not root can only use its own id. */
	(void)snprintf(own, sizeof(own), "%u", getuid());
	if (*who == '\0')
		who = getuid() == 0 ? "user" : own;
	if (!users_find(passwd.text, passwd.len, who, &c->user) && !users_bare(who, &c->user)) {
		errno = ENOENT;
		return fail_at(fail, AGENT_AT_USER);
	}
	if (getuid() != 0 && c->user.uid != getuid()) {
		errno = EPERM;
		return fail_at(fail, AGENT_AT_USER);
	}
	c->ngroups = users_groups(group.text, group.len, c->user.name, c->groups, USERS_GROUPS_MAX);
	return 0;
}

/* Variables by which programs find trusted certificates: the system's files, to which the template
 * has added the node's authority, instead of a bundle that a program may bring along. */
#define BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define AUTHORITY "/etc/ssl/certs/cordon.pem"

static const char *const trust_env[] = {
	"SSL_CERT_FILE=" BUNDLE,	  "REQUESTS_CA_BUNDLE=" BUNDLE, "CURL_CA_BUNDLE=" BUNDLE,
	"GIT_SSL_CAINFO=" BUNDLE,	  "AWS_CA_BUNDLE=" BUNDLE,	"PIP_CERT=" BUNDLE,
	"NODE_EXTRA_CA_CERTS=" AUTHORITY,
};

static bool env_has(char *const *envp, size_t n, const char *assignment)
{
	size_t name = strcspn(assignment, "=") + 1;

	for (size_t i = 0; i < n; i++)
		if (strncmp(envp[i], assignment, name) == 0)
			return true;
	return false;
}

/* Splits the strings into argv and envp, and adds variables that every program expects. */
static int make_lists(struct child_process *c)
{
	static char extra[EXTRA_ENV][320];
	static char *short_list[SHORT_LIST]; /* long enough for most: PID 1 of most cells allocates
						nothing */
	const struct agent_spawn *r = c->request;
	size_t n = (size_t)r->argc + r->envc, envc = r->envc, extras = 0;
	size_t trusts = access(AUTHORITY, F_OK) == 0 ? COUNT(trust_env) : 0;
	char *at = (char *)(uintptr_t)r->strings;

	memset(short_list, 0, sizeof(short_list));
	c->on_heap = n + EXTRA_ENV + 2 > SHORT_LIST;
	c->argv = c->on_heap ? calloc(n + EXTRA_ENV + 2, sizeof(char *)) : short_list;
	if (c->argv == NULL)
		return -1;
	c->envp = c->argv + r->argc + 1;
	for (size_t i = 0; i < n; i++, at += strlen(at) + 1)
		c->argv[i + (i >= r->argc)] = at;
	(void)snprintf(extra[extras++], sizeof(extra[0]), "PATH=%s", DEFAULT_PATH);
	(void)snprintf(extra[extras++], sizeof(extra[0]), "HOME=%s", c->user.home);
	(void)snprintf(extra[extras++], sizeof(extra[0]), "USER=%s", c->user.name);
	(void)snprintf(extra[extras++], sizeof(extra[0]), "LOGNAME=%s", c->user.name);
	(void)snprintf(extra[extras++], sizeof(extra[0]), "SHELL=%s", c->user.shell);
	if (c->tty)
		(void)snprintf(extra[extras++], sizeof(extra[0]), "TERM=xterm-256color");
	for (size_t i = 0; i < trusts; i++)
		(void)snprintf(extra[extras++], sizeof(extra[0]), "%s", trust_env[i]);
	for (size_t i = 0; i < extras; i++)
		if (!env_has(c->envp, r->envc, extra[i]))
			c->envp[envc++] = extra[i];
	return 0;
}

static int make_pipes(struct child_process *c, struct spawn *s)
{
	int n = (c->request->flags & AGENT_RESULTS) != 0 ? SPAWN_STDIO : 3;

	for (int i = 0; i < n; i++) {
		int ends[2];

		if (i == 0 && (c->request->flags & AGENT_NO_STDIN) != 0) {
			c->stdio[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
			if (c->stdio[0] < 0)
				return -1;
			continue;
		}
		if (pipe2(ends, O_CLOEXEC) < 0)
			return -1;
		c->stdio[i] = ends[i == 0 ? 0 : 1];
		s->stdio[i] = ends[i == 0 ? 1 : 0];
		if (c->user.uid != getuid() && fchown(c->stdio[i], c->user.uid, c->user.gid) < 0)
			return -1;
	}
	return 0;
}

/* The program's end of a PTY, whatever is at its name; in gVisor, which cannot do that, by its
 * name. */
static int open_peer(int master)
{
	int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
	int fd = ioctl(master, TIOCGPTPEER, flags);
	unsigned number;
	char path[32];

	if (fd >= 0 || errno != ENOTTY || syscall(SYS_ioctl, master, TIOCGPTN, &number) < 0)
		return fd;
	(void)snprintf(path, sizeof(path), "/dev/pts/%u", number);
	return open(path, flags | O_NOFOLLOW);
}

static int make_tty(struct child_process *c, struct spawn *s)
{
	struct winsize size = { .ws_row = c->request->rows, .ws_col = c->request->cols };
	int unlock = 0;

	s->stdio[0] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (s->stdio[0] < 0)
		return -1;
	if (ioctl(s->stdio[0], TIOCSPTLCK, &unlock) < 0)
		return -1;
	c->stdio[0] = open_peer(s->stdio[0]);
	if (c->stdio[0] < 0)
		return -1;
	/* Its group is tty, by a mount option. */
	if (c->user.uid != getuid() && fchown(c->stdio[0], c->user.uid, (gid_t)-1) < 0)
		return -1;
	return ioctl(s->stdio[0], TIOCSWINSZ, &size);
}

/* Bytes that were read from a PTY are lost if their reader dies. So PID 1 reads a held PTY
 * (pty_pump.c), and the server gets pipes, as for any other program. */
static int hold_tty(struct spawn *s)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	s->master = s->stdio[0];
	s->input = in[0];
	s->stdio[0] = in[1];
	if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	s->stdio[1] = out[0];
	s->output = out[1];
	return 0;
}

static int make_stdio(struct child_process *c, struct spawn *s)
{
	if (!c->tty)
		return make_pipes(c, s);
	if (make_tty(c, s) < 0)
		return -1;
	return (c->request->flags & AGENT_HOLD) != 0 ? hold_tty(s) : 0;
}

static void NORETURN report(int fd, enum agent_stage stage)
{
	struct spawn_failure f;

	(void)fail_at(&f, stage);
	if (write(fd, &f, sizeof(f)) < 0)
		_exit(126);
	_exit(127);
}

/* As execvpe(3) with the PATH of the new environment. Errors other than "no such file" are kept. */
static void search_and_exec(const struct child_process *c)
{
	char path[4096];
	const char *dirs = DEFAULT_PATH, *name = c->argv[0];
	int found = ENOENT;

	for (char **v = c->envp; *v != NULL; v++)
		if (strncmp(*v, "PATH=", 5) == 0)
			dirs = *v + 5;
	if (strchr(name, '/') != NULL || *name == '\0') {
		(void)execve(name, c->argv, c->envp);
		return;
	}
	for (;;) {
		size_t n = strcspn(dirs, ":");

		if (n + strlen(name) + 2 <= sizeof(path)) {
			(void)snprintf(path, sizeof(path), "%.*s%s%s", (int)n, dirs,
				       n > 0 ? "/" : "", name);
			(void)execve(path, c->argv, c->envp);
			if (errno != ENOENT && errno != ENOTDIR)
				found = errno;
		}
		if (dirs[n] == '\0')
			break;
		dirs += n + 1;
	}
	errno = found;
}

/* PID 1 blocks every signal and handles or ignores none: only the mask has to be reset. */
static void clean_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int take_stdio(const struct child_process *c)
{
	/* First to numbers above, so that none is overwritten before it is moved. */
	int high[SPAWN_STDIO], n = c->stdio[3] >= 0 ? SPAWN_STDIO : 3;

	for (int i = 0; i < n; i++) {
		int fd = c->stdio[c->tty ? 0 : i];

		high[i] = fd >= n ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 10);
		if (high[i] < 0)
			return -1;
	}
	for (int i = 0; i < n; i++)
		if (dup2(high[i], i) < 0)
			return -1;
	return 0;
}

static int become_user(const struct child_process *c)
{
	/* In the locked profile the ids are right already, and its filter refuses the calls. */
	if (c->user.uid == getuid() && c->user.gid == getgid())
		return 0;
	/* By system call: libc would synchronize threads, of which there are none. EPERM: a user
	 * namespace with a single id has no supplementary groups. */
	if (syscall(SYS_setgroups, c->ngroups, c->groups) < 0 && errno != EPERM)
		return -1;
	if (syscall(SYS_setresgid, c->user.gid, c->user.gid, c->user.gid) < 0)
		return -1;
	return (int)syscall(SYS_setresuid, c->user.uid, c->user.uid, c->user.uid);
}

/* "~", "~/x" and relative paths are in the user's home. */
static int enter_directory(const struct child_process *c)
{
	const char *cwd = c->request->cwd;

	if (*cwd == '/')
		return chdir(cwd);
	if (*cwd == '\0')
		return chdir(c->user.home) < 0 ? chdir("/") : 0; /* without a home, in / */
	if (chdir(c->user.home) < 0)
		return -1;
	if (*cwd == '~' && (cwd[1] == '/' || cwd[1] == '\0'))
		cwd += 1 + strspn(cwd + 1, "/");
	return *cwd == '\0' ? 0 : chdir(cwd);
}

/* Before the user changes: only root may set hard limits above its own. */
static int take_limits(const struct child_process *c)
{
	struct rlimit files = { c->request->nofile, c->request->nofile };
	struct rlimit mark = { c->mark, c->mark };

	if (c->request->nofile > 0 && setrlimit(RLIMIT_NOFILE, &files) < 0)
		return -1;
	return c->mark > 0 ? prlimit(0, tree_mark_resource(), &mark, NULL) : 0;
}

/* Built-ins of a guest, which use descriptors of PID 1 and whose request is the server's own. */
static bool is_guest_builtin(const struct child_process *c)
{
	return (c->request->flags & AGENT_BUILTIN) != 0 && spawn_guest_builtin != NULL &&
	       c->user.uid == 0 && c->request->argc == 1;
}

/* A client's path may lead through /proc/self/fd: PID 1 has a directory outside of the root. */
static int close_others(const struct child_process *c, int *error_fd)
{
	int first = c->stdio[3] >= 0 ? SPAWN_STDIO : 3;

	if (*error_fd != first && dup3(*error_fd, first, O_CLOEXEC) < 0)
		return -1;
	*error_fd = first;
	return is_guest_builtin(c) ? 0 : kernel_close_range((unsigned)first + 1, ~0U);
}

/* No descriptor of PID 1 may stay open in a built-in. The error pipe is closed, too, which reports
 * that the program runs. */
static void NORETURN run_builtin(const struct child_process *c, int error_fd)
{
	(void)prctl(PR_SET_NAME, "cordon-builtin", 0, 0, 0);
	if (is_guest_builtin(c))
		(void)spawn_guest_builtin(c->argv[0]);
	if (kernel_close_range(3, ~0U) < 0)
		report(error_fd, AGENT_AT_SYSTEM);
	_exit(builtin_main((int)c->request->argc, c->argv));
}

static void NORETURN run_child(const struct child_process *c, int error_fd)
{
	clean_signals();
	if (error_fd < SPAWN_STDIO) /* in the place of one of the program's */
		error_fd = fcntl(error_fd, F_DUPFD_CLOEXEC, 10);
	if (error_fd < 0)
		_exit(126);
	if (setsid() < 0 || take_stdio(c) < 0 || (c->tty && ioctl(0, TIOCSCTTY, 0) < 0) ||
	    (spawn_on_child != NULL && spawn_on_child() < 0) || take_limits(c) < 0)
		report(error_fd, AGENT_AT_SYSTEM);
	if (close_others(c, &error_fd) < 0)
		report(error_fd, AGENT_AT_SYSTEM);
	if (become_user(c) < 0)
		report(error_fd, AGENT_AT_USER);
	if (enter_directory(c) < 0)
		report(error_fd, AGENT_AT_CWD);
	if ((c->request->flags & AGENT_BUILTIN) != 0)
		run_builtin(c, error_fd);
	search_and_exec(c);
	report(error_fd, AGENT_AT_EXEC);
}

/* Its limit of processes then holds for this one, too. */
static pid_t fork_into(int cgroup)
{
	const struct clone_args how = { .flags = CLONE_INTO_CGROUP,
					.exit_signal = SIGCHLD,
					.cgroup = (__u64)cgroup };

	return (pid_t)syscall(SYS_clone3, &how, sizeof(how));
}

int spawn_start(const struct agent_spawn *request, uint64_t mark, struct spawn *ret,
		struct spawn_failure *fail)
{
	struct child_process c = { .request = request, .stdio = { -1, -1, -1, -1 }, .mark = mark };
	struct spawn s = { .pid = -1,
			   .error_fd = -1,
			   .stdio = { -1, -1, -1, -1 },
			   .master = -1,
			   .output = -1,
			   .input = -1 };
	int error[2] = { -1, -1 };

	c.tty = (request->flags & AGENT_TTY) != 0;
	if (find_user(&c, fail) < 0)
		return -1;
	if (make_stdio(&c, &s) == 0 && make_lists(&c) == 0 &&
	    pipe2(error, O_CLOEXEC | O_NONBLOCK) == 0)
		s.pid = spawn_cgroup < 0 ? fork() : fork_into(spawn_cgroup);
	if (s.pid == 0)
		run_child(&c, error[1]);
	(void)fail_at(fail, AGENT_AT_SYSTEM);
	if (c.on_heap)
		free(c.argv);
	io_close_all(c.stdio, SPAWN_STDIO);
	io_close_all(&error[1], 1);
	if (s.pid < 0) {
		io_close_all(s.stdio, SPAWN_STDIO);
		io_close_all((int[]){ s.master, s.output, s.input, error[0] }, 4);
		return -1;
	}
	s.error_fd = error[0];
	*ret = s;
	return 0;
}
