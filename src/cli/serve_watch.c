/* serve_watch.c - theory of operation
 *
 *   keeper ====A==== cordond ----control---- this
 *
 * Channel A is a socketpair made here for each keeper; its other end is sent to cordond over the
 * control socket. A keeper ends when its channel closes, so a dead cordond takes its keeper with it
 * and both are started anew; a dead keeper is replaced under the running cordond. What dies at once
 * again and again is started with growing pauses. If this process dies, cordond sees the control
 * socket end and ends, and its keeper with it; the cells go on in any case. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "clock.h"
#include "io.h"
#include "kernel.h"
#include "log.h"
#include "rootless.h"
#include "serve.h"

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 1000
#define LIVED_MS 1000 /* one that lived this long may be started at once */
#define END_MS 10000

struct child {
	const char *name;
	pid_t pid; /* 0: not running */
	uint64_t since_ns, again_ns, pause_ms;
};

struct watch {
	struct serve *s;
	struct child daemon, keeper;
	int control; /* owned: to cordond; -1 */
	int signals;
	bool ending, upgrading, ready;
	uint64_t end_ns;
};

/* Tells systemd, if it started us and wants to know. */
static void notify(const char *what)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const char *to = NULL;
	size_t n;

	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, "NOTIFY_SOCKET=", 14) == 0)
			to = *v + 14;
	if (to == NULL || (to[0] != '/' && to[0] != '@') || strlen(to) >= sizeof(a.sun_path))
		return;
	n = strlen(to);
	memcpy(a.sun_path, to, n);
	if (to[0] == '@')
		a.sun_path[0] = '\0';
	OWN_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, what, strlen(what), MSG_NOSIGNAL, (const struct sockaddr *)&a,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

int serve_beside(const char *name, char *ret_path, size_t cap, struct err *e)
{
	ssize_t n = readlink("/proc/self/exe", ret_path, cap - strlen(name) - 2);
	char *slash;

	if (n < 0)
		return err_sys(e, "own path");
	ret_path[n] = '\0';
	/* An upgrade replaced the file we were started from. */
	if (n > 10 && strcmp(ret_path + n - 10, " (deleted)") == 0)
		ret_path[n - 10] = '\0';
	slash = strrchr(ret_path, '/');
	(void)snprintf(slash + 1, cap - (size_t)(slash + 1 - ret_path), "%s", name);
	return 0;
}

/* In the child: descriptors where serve_msg.h says, nobody's rights, then cordond. */
static void NORETURN become_daemon(const struct watch *w, int control, int program,
				   const char *path)
{
	const struct serve *s = w->s;
	char name[] = "cordond";
	char *argv[] = { name, NULL }, *envp[] = { NULL };
	int fds[SERVE_FD_LISTEN + SERVE_LISTENERS_MAX + 1], n = SERVE_FD_LISTEN;
	sigset_t none;

	for (size_t i = 0; i < COUNT(fds); i++)
		fds[i] = -1;
	fds[SERVE_FD_CONTROL] = control;
	fds[SERVE_FD_CONFIG] = s->config_fd;
	fds[SERVE_FD_SETUP] = s->setup_fd;
	for (int i = 0; i < KEEPER_CGROUP_DIRS; i++)
		fds[SERVE_FD_CGROUP + i] = s->cgroups.dirs[i];
	fds[SERVE_FD_CERT] = s->cert_fd;
	fds[SERVE_FD_KEY] = s->key_fd;
	for (uint32_t i = 0; i < s->setup.nlisteners; i++)
		fds[n++] = s->listeners[i];
	fds[n++] = program;
	for (int i = SERVE_FD_CONTROL; i < n; i++)
		if (fds[i] >= 0)
			fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 200);
	for (int i = SERVE_FD_CONTROL; i < n; i++) {
		if (fds[i] >= 0 && dup3(fds[i], i, i + 1 == n ? O_CLOEXEC : 0) < 0)
			_exit(126);
		if (fds[i] < 0)
			(void)close(i);
	}
	(void)kernel_close_range((unsigned)n, ~0U);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid(); /* a terminal's Ctrl-C is for us alone */
	if (s->root && (setgroups(0, NULL) < 0 || setresgid(s->gid, s->gid, s->gid) < 0 ||
			setresuid(s->uid, s->uid, s->uid) < 0))
		_exit(126);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(126);
	(void)kernel_execveat(n - 1, argv, envp);
	(void)execve(path, argv, envp); /* a script around it, which its shell must find */
	_exit(127);
}

static int start_daemon(struct watch *w, struct err *e)
{
	char path[PATH_MAX];
	int ends[2];
	pid_t pid;

	if (serve_beside("cordond", path, sizeof(path), e) < 0)
		return -1;
	/* By descriptor: it may lie where only we can go, such as below /root. */
	OWN_FD program = open(path, O_PATH | O_CLOEXEC);
	if (program < 0 || access(path, X_OK) < 0)
		return err_sys(e, "%s", path);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "control socket");
	pid = fork();
	if (pid == 0)
		become_daemon(w, ends[1], program, path);
	(void)close(ends[1]);
	if (pid < 0) {
		(void)close(ends[0]);
		return err_sys(e, "fork");
	}
	w->control = ends[0];
	w->daemon.pid = pid;
	return 0;
}

static int start_keeper(struct watch *w, struct err *e)
{
	const char word = SERVE_KEEPER;
	struct keeper_start k = { .userns = w->s->userns,
				  .cgroups = &w->s->cgroups,
				  .serve = true,
				  .nroots = w->s->nroots,
				  .roots = w->s->roots };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel A");
	OWN_FD asks = ends[0], hears = ends[1];
	k.asks = asks;
	k.hears = hears;
	if (keeper_client_spawn(&k, &w->keeper.pid, e) < 0)
		return err_wrap(e, "start cordon-keeper");
	return io_send(w->control, &word, 1, ends, 1, e);
}

/* All keepers of a rootless server share the first one's user namespace, so that each can care for
 * the cells of those before it. Known only when that keeper has entered it, so asked late. */
static void remember_userns(struct watch *w)
{
	struct err e;

	if (w->s->userns < 0 && rootless_needed() && w->keeper.pid > 0)
		IGNORED(rootless_open(w->keeper.pid, false, &w->s->userns, &e),
			"asked again before the next keeper");
}

static void started(struct child *c)
{
	c->since_ns = clock_now_ns();
	log_info("started", "program=%s pid=%d", c->name, (int)c->pid);
}

static void plan_again(struct child *c)
{
	uint64_t now = clock_now_ns();

	if (now - c->since_ns > LIVED_MS * CLOCK_MS)
		c->pause_ms = 0;
	c->again_ns = now + c->pause_ms * CLOCK_MS;
	c->pause_ms = c->pause_ms == 0		       ? PAUSE_MIN_MS
		      : 2 * c->pause_ms < PAUSE_MAX_MS ? 2 * c->pause_ms
						       : PAUSE_MAX_MS;
	c->pid = 0;
}

static void start_missing(struct watch *w)
{
	uint64_t now = clock_now_ns();
	struct err e;

	if (w->ending)
		return;
	if (w->daemon.pid == 0 && w->daemon.again_ns <= now) {
		if (start_daemon(w, &e) == 0) {
			started(&w->daemon);
		} else {
			log_error("cannot start", "program=%s error=%s", "cordond", e.msg);
			w->daemon.since_ns = now;
			plan_again(&w->daemon);
		}
	}
	if (w->daemon.pid != 0 && w->keeper.pid == 0 && w->keeper.again_ns <= now) {
		if (start_keeper(w, &e) == 0) {
			started(&w->keeper);
		} else {
			log_error("cannot start", "program=%s error=%s", "cordon-keeper", e.msg);
			w->keeper.since_ns = now;
			plan_again(&w->keeper);
		}
	}
}

static void on_ended(struct watch *w, struct child *c, int status)
{
	if (!w->ending || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		log_warn("ended", "program=%s pid=%d status=%d signal=%d", c->name, (int)c->pid,
			 WIFEXITED(status) ? WEXITSTATUS(status) : 0,
			 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	plan_again(c);
	if (c == &w->daemon)
		io_close_all(&w->control, 1);
}

static void reap(struct watch *w)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == w->daemon.pid)
			on_ended(w, &w->daemon, status);
		else if (pid == w->keeper.pid)
			on_ended(w, &w->keeper, status);
	}
}

static void begin_end(struct watch *w, bool upgrade)
{
	if (w->ending)
		return;
	w->ending = true;
	w->upgrading = upgrade;
	w->end_ns = clock_now_ns() + END_MS * CLOCK_MS;
	notify(upgrade ? "RELOADING=1" : "STOPPING=1");
	log_info(upgrade ? "upgrading" : "ending", "");
	if (w->daemon.pid != 0)
		(void)kill(w->daemon.pid, SIGTERM);
}

static void on_signal(struct watch *w)
{
	struct signalfd_siginfo info;
	struct err e;

	while (read(w->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(w);
		else if (info.ssi_signo == SIGHUP && serve_try(w->s, &e) < 0)
			log_error("not started again: it would not start", "error=%s", e.msg);
		else
			begin_end(w, info.ssi_signo == SIGHUP);
	}
}

static void on_control(struct watch *w)
{
	char word = 0;
	ssize_t n = recv(w->control, &word, 1, MSG_DONTWAIT);

	if (n == 1 && word == SERVE_READY && !w->ready) {
		w->ready = true;
		notify("READY=1");
		serve_tls_say(w->s);
	}
	if (n == 0)
		io_close_all(&w->control, 1); /* its end follows */
}

static int sleep_ms(const struct watch *w)
{
	uint64_t now = clock_now_ns(), at = UINT64_MAX;

	if (w->ending)
		at = w->end_ns;
	if (!w->ending && w->daemon.pid == 0)
		at = w->daemon.again_ns;
	if (!w->ending && w->keeper.pid == 0 && w->daemon.pid != 0 && w->keeper.again_ns < at)
		at = w->keeper.again_ns;
	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : (int)((at - now) / CLOCK_MS + 1);
}

/* The same process, the program on disk, the same sockets: systemd's protocol, to ourselves. */
static int start_again(struct watch *w)
{
	struct serve *s = w->s;
	char path[PATH_MAX], pid[32], fds[32];
	char *envp[1024];
	size_t n = 0;
	struct err e;

	if (serve_beside("cordon", path, sizeof(path), &e) < 0)
		return 1;
	for (char **v = environ; *v != NULL && n < COUNT(envp) - 3; v++)
		if (strncmp(*v, "LISTEN_", 7) != 0)
			envp[n++] = *v;
	(void)snprintf(pid, sizeof(pid), "LISTEN_PID=%d", (int)getpid());
	(void)snprintf(fds, sizeof(fds), "LISTEN_FDS=%u", s->setup.nlisteners);
	envp[n++] = pid;
	envp[n++] = fds;
	envp[n] = NULL;
	for (uint32_t i = 0; i < s->setup.nlisteners; i++)
		if (dup2(s->listeners[i], 3 + (int)i) < 0)
			return 1;
	(void)kernel_close_range(3 + s->setup.nlisteners, ~0U);
	(void)execve(path, s->argv, envp);
	return 1;
}

int serve_watch(struct serve *s)
{
	struct watch w = { .s = s,
			   .daemon = { .name = "cordond" },
			   .keeper = { .name = "cordon-keeper" },
			   .control = -1 };
	sigset_t set;

	log_setup((enum log_format)s->config.log_format, (enum log_level)s->config.log_level);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	w.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (w.signals < 0)
		return 1;
	while (!w.ending || w.daemon.pid != 0 || w.keeper.pid != 0) {
		struct pollfd fds[2] = { { .fd = w.signals, .events = POLLIN },
					 { .fd = w.control, .events = POLLIN } };

		start_missing(&w);
		fds[1].fd = w.control;
		(void)poll(fds, 2, sleep_ms(&w));
		if (fds[1].revents != 0 && w.control >= 0)
			on_control(&w);
		on_signal(&w);
		remember_userns(&w);
		if (w.ending && w.daemon.pid != 0 && clock_now_ns() > w.end_ns) {
			(void)kill(w.daemon.pid, SIGKILL);
			w.end_ns = UINT64_MAX;
		}
		if (w.ending && w.daemon.pid == 0)
			io_close_all(&w.control, 1);
	}
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	return w.upgrading ? start_again(&w) : 0;
}
