/* spawn.c - theory of operation
 *
 * Pipes are made in the cell and belong to the program's user, so that a program can open
 * /dev/stdout again. The server gets the other ends. The child reports a failure over a
 * close-on-exec pipe. PID 1 does not wait for it: another process of the cell could stop the child
 * at any point. A built-in is a child that calls builtin_main() instead of exec. spawn_child.c has
 * the child's steps. It shares the memory of PID 1 until it executes the program, where safe
 * (spawn_child.h). */
#include "cell/init/pid1/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cell/init/base/users.h"
#include "cell/init/pid1/spawn_child.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/str.h"

int spawn_cgroup = -1;
int (*spawn_on_child)(void);
const struct spawn_guest *spawn_guest;
struct spawn_lock spawn_lock;

static int spawn_fail_at(struct spawn_failure *f, enum agent_stage stage)
{
	f->stage = stage;
	f->sys = errno;
	return -1;
}

/* The text of a file. It is read again only if inode, size or change time differ. */
struct spawn_snapshot {
	struct stat st;
	size_t len;
	char text[65536];
};

/* The files are the cell's: anything but a regular file (a FIFO would block) counts as empty. */
static void spawn_refresh(struct spawn_snapshot *s, const char *path)
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

/* The only id that programs can have. 0: any. */
static uid_t spawn_only_uid(const struct spawn_child *c)
{
	return spawn_lock.uid != 0 ? spawn_lock.uid : c->own_uid;
}

static int spawn_find_user(struct spawn_child *c, struct spawn_failure *fail)
{
	static struct spawn_snapshot passwd, group;
	char own[16];
	const char *who = c->request->user;

	spawn_refresh(&passwd, "/etc/passwd");
	spawn_refresh(&group, "/etc/group");
	/* The default is "user". A PID 1 without root can only use its own id. */
	c->own_uid = getuid();
	(void)snprintf(own, sizeof(own), "%u", spawn_only_uid(c));
	if (*who == '\0')
		who = spawn_only_uid(c) == 0 ? "user" : own;
	if (!users_find(passwd.text, passwd.len, who, &c->user) && !users_bare(who, &c->user)) {
		errno = ENOENT;
		return spawn_fail_at(fail, AGENT_AT_USER);
	}
	if (spawn_child_is_guest(c))
		return 0;
	if (spawn_only_uid(c) != 0 && c->user.uid != spawn_only_uid(c)) {
		errno = EPERM;
		return spawn_fail_at(fail, AGENT_AT_USER);
	}
	if (spawn_lock.uid != 0) {
		c->user.gid = spawn_lock.gid;
		return 0;
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

/* npm as a user cannot write the prefix of the machine's node. The template has a configuration
 * that puts global packages below the home, where PATH has their programs. A variable names the
 * file, not the prefix, since nvm refuses to work with a prefix in a variable or in ~/.npmrc. */
#define NPMRC "/opt/cordon/npmrc"

static bool spawn_has_own_programs(const struct users_entry *user)
{
	return user->uid != 0 && user->home[0] == '/' && user->home[1] != '\0' &&
	       strlen(user->home) <= 200;
}

static bool spawn_env_has(char *const *envp, size_t n, const char *assignment)
{
	size_t name = strcspn(assignment, "=") + 1;

	for (size_t i = 0; i < n; i++)
		if (strncmp(envp[i], assignment, name) == 0)
			return true;
	return false;
}

/* Split the strings into argv and envp, and add variables that every program expects. */
static int spawn_make_lists(struct spawn_child *c)
{
	const struct agent_spawn *r = c->request;
	size_t n = (size_t)r->argc + r->envc, envc = r->envc, extras = 0;
	size_t trusts = access(AUTHORITY, F_OK) == 0 ? COUNT(trust_env) : 0;
	char *at = (char *)(uintptr_t)r->strings;
	bool own_programs = spawn_has_own_programs(&c->user);

	c->on_heap = n + SPAWN_EXTRA_ENV + 2 > SPAWN_SHORT_LIST;
	c->argv = c->on_heap ? calloc(n + SPAWN_EXTRA_ENV + 2, sizeof(char *)) : c->short_list;
	if (c->argv == NULL)
		return -1;
	c->envp = c->argv + r->argc + 1;
	for (size_t i = 0; i < n; i++, at += strlen(at) + 1)
		c->argv[i + (i >= r->argc)] = at;
	(void)snprintf(c->extra[extras++], sizeof(c->extra[0]), "PATH=%.200s%s" SPAWN_PATH,
		       own_programs ? c->user.home : "", own_programs ? "/.local/bin:" : "");
	(void)snprintf(c->extra[extras++], sizeof(c->extra[0]), "HOME=%s", c->user.home);
	(void)snprintf(c->extra[extras++], sizeof(c->extra[0]), "USER=%s", c->user.name);
	(void)snprintf(c->extra[extras++], sizeof(c->extra[0]), "LOGNAME=%s", c->user.name);
	(void)snprintf(c->extra[extras++], sizeof(c->extra[0]), "SHELL=%s", c->user.shell);
	if (c->tty)
		(void)snprintf(c->extra[extras++], sizeof(c->extra[0]), "TERM=xterm-256color");
	if (own_programs && !spawn_env_has(c->envp, r->envc, "PATH=") && access(NPMRC, F_OK) == 0)
		(void)snprintf(c->extra[extras++], sizeof(c->extra[0]),
			       "NPM_CONFIG_GLOBALCONFIG=" NPMRC);
	for (size_t i = 0; i < trusts; i++)
		str_copy(c->extra[extras++], trust_env[i]);
	for (size_t i = 0; i < extras; i++)
		if (!spawn_env_has(c->envp, r->envc, c->extra[i]))
			c->envp[envc++] = c->extra[i];
	return 0;
}

static int spawn_make_pipes(struct spawn_child *c, struct spawn *s)
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
		if (c->user.uid != c->own_uid && fchown(c->stdio[i], c->user.uid, c->user.gid) < 0)
			return -1;
	}
	return 0;
}

/* The program's end of a PTY, independent of its name. In gVisor, which cannot do that, by its
 * name. */
static int spawn_open_peer(int master)
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

static int spawn_make_tty(struct spawn_child *c, struct spawn *s)
{
	struct winsize size = { .ws_row = c->request->rows, .ws_col = c->request->cols };
	int unlock = 0;

	s->stdio[0] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (s->stdio[0] < 0)
		return -1;
	if (ioctl(s->stdio[0], TIOCSPTLCK, &unlock) < 0)
		return -1;
	c->stdio[0] = spawn_open_peer(s->stdio[0]);
	if (c->stdio[0] < 0)
		return -1;
	/* Its group is tty, by a mount option. */
	if (c->user.uid != c->own_uid && fchown(c->stdio[0], c->user.uid, (gid_t)-1) < 0)
		return -1;
	return ioctl(s->stdio[0], TIOCSWINSZ, &size);
}

/* Bytes read from a PTY are lost if their reader dies. So PID 1 reads a held PTY (pty_pump.c), and
 * the server gets pipes, as for any other program. */
static int spawn_hold_tty(struct spawn *s)
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

static int spawn_make_stdio(struct spawn_child *c, struct spawn *s)
{
	if (!c->tty)
		return spawn_make_pipes(c, s);
	if (spawn_make_tty(c, s) < 0)
		return -1;
	return (c->request->flags & AGENT_HOLD) != 0 ? spawn_hold_tty(s) : 0;
}

/* Its limit of processes then holds for this one, too. */
static pid_t spawn_fork_into(int cgroup)
{
	const struct clone_args how = { .flags = CLONE_INTO_CGROUP,
					.exit_signal = SIGCHLD,
					.cgroup = (__u64)cgroup };

	return (pid_t)syscall(SYS_clone3, &how, sizeof(how));
}

/* How the process of the program is made. */
static pid_t spawn_make_process(struct spawn_child *c, bool shared)
{
	pid_t pid;

	if (shared)
		return spawn_child_start_shared(c);
	pid = spawn_cgroup < 0 || spawn_child_is_guest(c) ? fork() : spawn_fork_into(spawn_cgroup);
	if (pid == 0)
		spawn_child_run(c);
	if (pid > 0 && spawn_child_is_guest(c))
		spawn_guest->on_start(c->argv[0], pid);
	return pid;
}

/* Close the parent's copies of the child's descriptors and, without a child, all others. The child
 * may be reading c. */
static void spawn_close_ends(const struct spawn_child *c, struct spawn *s)
{
	int fds[SPAWN_STDIO + 1];

	memcpy(fds, c->stdio, sizeof(c->stdio));
	fds[SPAWN_STDIO] = c->error_fd;
	io_close_all(fds, SPAWN_STDIO + 1);
	if (s->pid >= 0)
		return;
	io_close_all(s->stdio, SPAWN_STDIO);
	io_close_all((int[]){ s->master, s->output, s->input, s->error_fd }, 4);
}

static void spawn_release(struct spawn_child *c, bool shared, pid_t pid)
{
	if (shared && pid < 0)
		spawn_child_free(c);
	else if (!shared && c->on_heap)
		free(c->argv);
}

static int spawn_start_with(struct spawn_child *c, bool shared, struct spawn *s,
			    struct spawn_failure *fail)
{
	int error[2] = { -1, -1 };

	if (spawn_find_user(c, fail) < 0)
		return -1;
	if (spawn_make_stdio(c, s) == 0 && spawn_make_lists(c) == 0 &&
	    pipe2(error, O_CLOEXEC | O_NONBLOCK) == 0) {
		s->error_fd = error[0];
		c->error_fd = error[1];
		s->pid = spawn_make_process(c, shared);
	}
	(void)spawn_fail_at(fail, AGENT_AT_SYSTEM);
	return s->pid < 0 ? -1 : 0;
}

int spawn_start(const struct agent_spawn *request, uint64_t mark, struct spawn *ret,
		struct spawn_failure *fail)
{
	static struct spawn_child forked;
	bool shared = spawn_child_is_shared(request);
	struct spawn_child *c = shared ? spawn_child_new(request) : &forked;
	struct spawn s = { .pid = -1,
			   .error_fd = -1,
			   .stdio = { -1, -1, -1, -1 },
			   .master = -1,
			   .output = -1,
			   .input = -1 };
	int started;

	if (c == NULL)
		return spawn_fail_at(fail, AGENT_AT_SYSTEM);
	if (!shared)
		*c = (struct spawn_child){ .request = request };
	memset(c->stdio, 0xff, sizeof(c->stdio));
	c->error_fd = -1;
	c->mark = mark;
	c->tty = (request->flags & AGENT_TTY) != 0;
	started = spawn_start_with(c, shared, &s, fail);
	spawn_close_ends(c, &s);
	spawn_release(c, shared, s.pid);
	*ret = s;
	return started;
}
