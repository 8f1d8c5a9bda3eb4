/* supervisor.c - theory of operation
 *
 *   keeper ====A==== cordond ----control---- this ----control---- cordon-egress
 *                    cordond =================C================== cordon-egress
 *
 * Channel A is a socketpair made here for each keeper; its other end is sent to cordond over the
 * control socket. A keeper ends when its channel closes, so a dead cordond takes its keeper with it
 * and both are started anew; a dead keeper is replaced under the running cordond, as is one that
 * cordond says does not answer: it is killed and not waited for. What dies at once
 * again and again is started with growing pauses. cordon-egress and cordond are independent of each
 * other: whenever one of the two is new, a new channel C is made and each gets an end. If this
 * process dies, both see their control sockets end and end, and the keeper with them; the cells go
 * on in any case. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cgroups_group.h"
#include "child_process.h"
#include "clock.h"
#include "io.h"
#include "kernel.h"
#include "log.h"
#include "rootless.h"
#include "serve.h"
#include "serve_egress.h"

#define END_MS 10000

struct watch {
	struct serve *s;
	struct child_process daemon, keeper;
	struct serve_egress egress;
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

static int start_daemon(struct watch *w, struct err *e)
{
	const struct serve *s = w->s;
	int fds[SERVE_FD_LISTEN + SERVE_LISTENERS_MAX - SERVE_FD_CONTROL], ends[2];
	size_t n = SERVE_FD_LISTEN - SERVE_FD_CONTROL;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "control socket");
	OWN_FD ours = ends[0], its = ends[1];
	fds[SERVE_FD_CONTROL - SERVE_FD_CONTROL] = its;
	fds[SERVE_FD_CONFIG - SERVE_FD_CONTROL] = s->config_fd;
	fds[SERVE_FD_SETUP - SERVE_FD_CONTROL] = s->setup_fd;
	for (int i = 0; i < CELL_CGROUP_DIRS; i++)
		fds[SERVE_FD_CGROUP - SERVE_FD_CONTROL + i] = s->cgroups.dirs[i];
	fds[SERVE_FD_CERT - SERVE_FD_CONTROL] = s->cert_fd;
	fds[SERVE_FD_KEY - SERVE_FD_CONTROL] = s->key_fd;
	fds[SERVE_FD_SECRETS - SERVE_FD_CONTROL] = s->secrets_fd;
	for (uint32_t i = 0; i < s->setup.nlisteners; i++)
		fds[n++] = s->listeners[i];
	if (child_process_start(&(struct child_process_start){ .name = "cordond",
							       .fds = fds,
							       .nfds = n,
							       .drop = s->root,
							       .uid = s->uid,
							       .gid = s->gid },
				&w->daemon.pid, e) < 0)
		return -1;
	w->control = TAKE_FD(ours);
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

/* A keeper is given to cordond over its control socket, which ends before cordond is seen to. */
static bool daemon_listens(const struct watch *w)
{
	return w->daemon.pid != 0 && w->control >= 0;
}

/* Both are there, and one of them is new. */
static void join(struct watch *w)
{
	struct err e;

	if (!daemon_listens(w) || w->egress.child.pid == 0)
		return;
	if (serve_egress_join(&w->egress, w->control, &e) < 0)
		log_warn("cordond and cordon-egress have no channel", "error=%s", e.msg);
}

static void start_missing(struct watch *w)
{
	bool fresh = false;
	struct err e;

	if (w->ending)
		return;
	if (child_process_is_due(&w->egress.child)) {
		if (serve_egress_start(&w->egress, w->s, &e) < 0) {
			child_process_failed(&w->egress.child, &e);
		} else {
			child_process_started(&w->egress.child);
			fresh = true;
		}
	}
	if (child_process_is_due(&w->daemon)) {
		if (start_daemon(w, &e) < 0) {
			child_process_failed(&w->daemon, &e);
		} else {
			child_process_started(&w->daemon);
			fresh = true;
		}
	}
	if (daemon_listens(w) && child_process_is_due(&w->keeper)) {
		if (start_keeper(w, &e) < 0)
			child_process_failed(&w->keeper, &e);
		else
			child_process_started(&w->keeper);
	}
	if (fresh)
		join(w);
}

static void on_ended(struct watch *w, struct child_process *c, int status)
{
	if (!w->ending || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		log_warn("ended", "program=%s pid=%d status=%d signal=%d", c->name, (int)c->pid,
			 WIFEXITED(status) ? WEXITSTATUS(status) : 0,
			 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	child_process_plan_again(c);
	if (c == &w->daemon)
		io_close_all(&w->control, 1);
	if (c == &w->egress.child)
		serve_egress_let_go(&w->egress);
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
		else if (pid == w->egress.child.pid)
			on_ended(w, &w->egress.child, status);
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

/* It may hang in the kernel, where no signal reaches it: the next one does not wait for its end. It
 * does nothing more in any case, once it was sent SIGKILL. */
static void replace(struct watch *w, struct child_process *c)
{
	if (c->pid == 0 || w->ending)
		return;
	log_warn("does not answer", "program=%s pid=%d", c->name, (int)c->pid);
	(void)kill(c->pid, SIGKILL);
	child_process_plan_again(c);
	if (c == &w->egress.child)
		serve_egress_let_go(&w->egress);
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
	if (n == 1 && word == SERVE_KEEPER_HUNG)
		replace(w, &w->keeper);
	if (n == 1 && word == SERVE_EGRESS_HUNG)
		replace(w, &w->egress.child);
	if (n == 0)
		io_close_all(&w->control, 1); /* its end follows */
}

static int sleep_ms(struct watch *w)
{
	const struct child_process *const all[] = { &w->daemon, &w->keeper, &w->egress.child };
	uint64_t now = clock_now_ns(), at = w->ending ? w->end_ns : serve_egress_look(&w->egress);

	for (size_t i = 0; i < COUNT(all) && !w->ending; i++)
		if (all[i]->pid == 0 && all[i]->again_ns < at &&
		    (all[i] != &w->keeper || daemon_listens(w)))
			at = all[i]->again_ns;
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

	if (child_process_beside("cordon", path, sizeof(path), &e) < 0)
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

/* cordon-egress ends when its control socket does: last, for what cells are still doing. */
static void press_end(struct watch *w)
{
	bool late = clock_now_ns() > w->end_ns;

	if (late && w->daemon.pid != 0)
		(void)kill(w->daemon.pid, SIGKILL);
	if (late && w->egress.child.pid != 0)
		(void)kill(w->egress.child.pid, SIGKILL);
	if (late)
		w->end_ns = UINT64_MAX;
	if (w->daemon.pid != 0)
		return;
	io_close_all(&w->control, 1);
	serve_egress_let_go(&w->egress);
}

int serve_watch(struct serve *s)
{
	struct watch w = { .s = s,
			   .daemon = { .name = "cordond" },
			   .keeper = { .name = "cordon-keeper" },
			   .control = -1 };
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	w.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (w.signals < 0)
		return 1;
	serve_egress_init(&w.egress);
	while (!w.ending || w.daemon.pid != 0 || w.keeper.pid != 0 || w.egress.child.pid != 0) {
		struct pollfd fds[2] = { { .fd = w.signals, .events = POLLIN },
					 { .fd = w.control, .events = POLLIN } };

		start_missing(&w);
		fds[1].fd = w.control;
		(void)poll(fds, 2, sleep_ms(&w));
		if (fds[1].revents != 0 && w.control >= 0)
			on_control(&w);
		on_signal(&w);
		remember_userns(&w);
		if (w.ending)
			press_end(&w);
	}
	/* Signals stay blocked over exec: a SIGHUP that comes meanwhile is for the next one. */
	if (w.upgrading)
		return start_again(&w);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	cgroups_group_remove(&s->cgroups);
	return 0;
}
