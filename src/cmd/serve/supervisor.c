/* supervisor.c - theory of operation
 *
 *   keepers ====A==== cordond ----control---- this ----control---- cordon-egress, 1 to 8
 *                     cordond =================C================== each cordon-egress
 *
 * The programs are the rows of supervisor_roles (supervisor.h, roles.c). Each is started again when
 * it ends, with growing pauses if it ends at once again and again. But a program that could not
 * start even once has a lasting cause (an unreadable file, a database of a newer version, a missing
 * program): then the server logs it and ends.
 *
 * Channel A is a socketpair made for each keeper. cordond gets its other end over the control
 * socket. A keeper ends when its channel closes, so the keepers end with their cordond and all are
 * started again. A keeper that ends is replaced under the running cordond. One that cordond reports
 * as hung is killed and replaced without waiting for its end, because a process that hangs in the
 * kernel may take long to end. Each cordon-egress and cordond are independent of each other:
 * whenever one of the two is new, a new channel C is made and each gets an end.
 *
 * At the end cordond gets SIGTERM. When it has ended, the keepers see their channels end, and then
 * the control sockets of the others are closed, at which those end. If the supervisor is
 * killed, all control sockets close and the same follows. Cells continue in any case. */
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

#include "cell/cellctl/cgroups_group.h"
#include "cell/cellctl/installed.h"
#include "cmd/serve/supervisor.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/log.h"

#define END_MS 10000 /* from SIGTERM to SIGKILL */
#define REST_MS 1000 /* from cordond's end to SIGKILL for the others */
#define QUICK_ENDS_TOLD 5
#define SOON_MS 10 /* for what cannot start yet, see struct role */

/* Send a state to systemd, if it started this process and asked for that (sd_notify(3)). */
static void supervisor_tell_systemd(const char *what)
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

/* ---- starting */

/* cordond takes messages: its control socket ends before its end is seen. */
static bool has_daemon(const struct supervisor *v)
{
	return v->daemon->child.pid != 0 && v->daemon->control >= 0;
}

int supervisor_give(struct supervisor *v, const struct worker *w, char word, int channel,
		    struct err *e)
{
	const char message[SERVE_MESSAGE] = { word, (char)w->slot };

	return io_send(v->daemon->control, message, sizeof(message), &channel, 1, e);
}

static int supervisor_start(struct supervisor *v, struct worker *w, struct err *e)
{
	int ends[2];

	if (!w->role->has_control)
		return w->role->start(v, w, -1, e);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "control socket");
	OWN_FD ours = ends[0], its = ends[1];
	if (w->role->start(v, w, its, e) < 0)
		return -1;
	io_close_all(&w->control, 1);
	w->control = TAKE_FD(ours);
	return 0;
}

static bool may_start(const struct supervisor *v, const struct worker *w)
{
	if (w->role->needs_daemon && !has_daemon(v))
		return false;
	return w->role->can_start == NULL || w->role->can_start(v, w);
}

static void supervisor_join(struct supervisor *v, struct worker *w)
{
	struct err e;

	if (w->role->join == NULL || w->is_joined || w->child.pid == 0 || !has_daemon(v))
		return;
	w->is_joined = true; /* a channel that cannot be made waits for the next of the two */
	if (w->role->join(v, w, &e) < 0)
		log_warn("cannot make the channel between cordond and another program",
			 "program=%s slot=%u error=%s", w->role->program, w->slot, e.msg);
}

static void begin_stop(struct supervisor *v, bool upgrade);

/* The program could not start, for a cause that does not go away by itself. If this was its first
 * process, the next one would end the same way. */
static void give_up(struct supervisor *v, const struct worker *w)
{
	if (w->ended_before || v->ending)
		return;
	log_error("server ending, because a program cannot start", "program=%s", w->role->program);
	v->failed = true;
	begin_stop(v, false);
}

/* The program is missing or may not be executed. Anything else may work the next time: a fork for
 * which there is no memory, or a cordond that ended before it was given its channel. */
static bool is_permanent(const struct err *e)
{
	return e->sys == ENOENT || e->sys == EACCES || e->sys == ENOTDIR || e->sys == ENOEXEC;
}

static void start_missing(struct supervisor *v)
{
	struct err e;

	for (unsigned i = 0; i < v->nworkers && !v->ending; i++) {
		struct worker *w = &v->workers[i];

		if (!child_process_is_due(&w->child) || !may_start(v, w))
			continue;
		if (supervisor_start(v, w, &e) < 0) {
			child_process_failed(&w->child, &e);
			if (is_permanent(&e))
				give_up(v, w);
			continue;
		}
		child_process_started(&w->child);
		for (unsigned k = 0; k < v->nworkers && w == v->daemon; k++)
			v->workers[k].is_joined = false;
		w->is_joined = false;
	}
	for (unsigned i = 0; i < v->nworkers && !v->ending; i++)
		supervisor_join(v, &v->workers[i]);
}

/* ---- ends */

/* The process has ended or is given up: plans the next start and closes the control socket. */
static void supervisor_forget(struct worker *w)
{
	child_process_plan_again(&w->child);
	io_close_all(&w->control, 1);
}

/* Say once that a program ends right after each start, and what its exit status means. */
static void report_quick_ends(const struct worker *w, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;

	if (w->child.quick_ends != QUICK_ENDS_TOLD)
		return;
	log_error("program ends right after each start, and is tried again with longer pauses",
		  "program=%s slot=%u times=%u status=%d signal=%d why=%s", w->role->program,
		  w->slot, w->child.quick_ends, code, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		  code == 127	? "it cannot be executed"
		  : code == 126 ? "its user or descriptors cannot be set"
		  : code != 0	? "it reported an error, see the lines above"
				: "not known");
}

static void on_ended(struct supervisor *v, struct worker *w, int status)
{
	if (!v->ending || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		log_warn("program ended", "program=%s pid=%d status=%d signal=%d", w->role->program,
			 (int)w->child.pid, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
			 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	supervisor_forget(w);
	report_quick_ends(w, status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SERVE_EXIT_CANNOT_START)
		give_up(v, w);
	w->ended_before = true;
}

static void supervisor_reap(struct supervisor *v)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned i = 0; i < v->nworkers; i++)
			if (v->workers[i].child.pid == pid)
				on_ended(v, &v->workers[i], status);
}

/* It may hang in the kernel, where no signal reaches it: the next one does not wait for its end. It
 * does nothing more in any case, once it was sent SIGKILL. */
static void supervisor_replace(struct supervisor *v, struct worker *w)
{
	if (w->child.pid == 0 || v->ending)
		return;
	log_warn("program does not answer and was killed", "program=%s pid=%d", w->role->program,
		 (int)w->child.pid);
	(void)kill(w->child.pid, SIGKILL);
	supervisor_forget(w);
}

static void begin_stop(struct supervisor *v, bool upgrade)
{
	if (v->ending)
		return;
	v->ending = true;
	v->upgrading = upgrade;
	v->end_ns = clock_now_ns() + END_MS * CLOCK_MS;
	supervisor_tell_systemd(upgrade ? "RELOADING=1" : "STOPPING=1");
	log_info(upgrade ? "server upgrading" : "server ending", "");
	if (v->daemon->child.pid != 0)
		(void)kill(v->daemon->child.pid, SIGTERM);
}

static void supervisor_earlier(uint64_t *at, uint64_t other)
{
	if (other < *at)
		*at = other;
}

/* cordond ends first. The others serve cells until then. Their unfinished work is repeated by the
 * next ones, for which clients wait. */
static void continue_stop(struct supervisor *v)
{
	uint64_t now = clock_now_ns();
	bool late = now > v->end_ns;

	if (v->daemon->child.pid == 0 && !v->daemon_ended) {
		v->daemon_ended = true;
		supervisor_earlier(&v->end_ns, now + REST_MS * CLOCK_MS);
	}
	for (unsigned i = 0; i < v->nworkers; i++) {
		struct worker *w = &v->workers[i];

		if (late && w->child.pid != 0) {
			log_warn("program killed, because it does not end", "program=%s pid=%d",
				 w->role->program, (int)w->child.pid);
			(void)kill(w->child.pid, SIGKILL);
		}
		if (v->daemon->child.pid == 0)
			io_close_all(&w->control, 1);
	}
	if (late)
		v->end_ns = UINT64_MAX;
}

static bool any_runs(const struct supervisor *v)
{
	for (unsigned i = 0; i < v->nworkers; i++)
		if (v->workers[i].child.pid != 0)
			return true;
	return false;
}

/* ---- events */

static void on_signal(struct supervisor *v)
{
	struct signalfd_siginfo info;
	struct err e;

	while (read(v->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			supervisor_reap(v);
		else if (info.ssi_signo == SIGHUP && serve_upgrade_check(v->s, &e) < 0)
			log_error("upgrade refused: the program on disk would not start",
				  "error=%s", e.msg);
		else
			begin_stop(v, info.ssi_signo == SIGHUP);
	}
}

static void on_ready(struct supervisor *v)
{
	if (v->ready)
		return;
	v->ready = true;
	supervisor_tell_systemd("READY=1");
	serve_tls_log(v->s);
}

static void on_control(struct supervisor *v)
{
	uint8_t message[SERVE_MESSAGE] = { 0 };
	ssize_t n = recv(v->daemon->control, message, sizeof(message), MSG_DONTWAIT);

	if (n == 0)
		io_close_all(&v->daemon->control, 1); /* its end follows */
	if (n != (ssize_t)sizeof(message))
		return;
	if (message[0] == SERVE_READY)
		on_ready(v);
	for (unsigned i = 0; i < v->nworkers; i++) {
		struct worker *w = &v->workers[i];

		if (w->role->hung != 0 && message[0] == (uint8_t)w->role->hung &&
		    message[1] == w->slot)
			supervisor_replace(v, w);
	}
}

/* Until the next start, or the next look of a worker. */
static int sleep_ms(struct supervisor *v)
{
	uint64_t now = clock_now_ns(), at = v->ending ? v->end_ns : UINT64_MAX;

	for (unsigned i = 0; i < v->nworkers && !v->ending; i++) {
		struct worker *w = &v->workers[i];

		if (w->child.pid != 0 && w->role->look != NULL)
			supervisor_earlier(&at, w->role->look(v, w));
		else if (w->child.pid == 0 && may_start(v, w))
			supervisor_earlier(&at, w->child.again_ns);
		else if (w->child.pid == 0 && (!w->role->needs_daemon || has_daemon(v)))
			supervisor_earlier(&at, now + SOON_MS * CLOCK_MS);
	}
	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : (int)((at - now) / CLOCK_MS + 1);
}

/* The children have ended already, so the server ends, and says why. */
static int upgrade_failed(const struct err *e)
{
	log_error("the upgrade failed, the server ends", "error=%s", e->msg);
	return 1;
}

/* Execute the program on disk in this process, with the same listeners, by systemd's protocol for
 * passing sockets. */
static int start_again(struct supervisor *v)
{
	struct serve *s = v->s;
	char path[PATH_MAX], pid[32], fds[32];
	char *envp[1024];
	size_t n = 0;
	struct err e;

	if (installed_path("cordon", path, sizeof(path), &e) < 0)
		return upgrade_failed(&e);
	for (char **at = environ; *at != NULL && n < COUNT(envp) - 3; at++)
		if (strncmp(*at, "LISTEN_", 7) != 0)
			envp[n++] = *at;
	(void)snprintf(pid, sizeof(pid), "LISTEN_PID=%d", (int)getpid());
	(void)snprintf(fds, sizeof(fds), "LISTEN_FDS=%u", s->setup.nlisteners);
	envp[n++] = pid;
	envp[n++] = fds;
	envp[n] = NULL;
	for (uint32_t i = 0; i < s->setup.nlisteners; i++)
		if (dup2(s->listeners[i], 3 + (int)i) < 0) {
			(void)err_sys(&e, "pass a listener");
			return upgrade_failed(&e);
		}
	(void)kernel_close_range(3 + s->setup.nlisteners, ~0U);
	(void)execve(path, s->argv, envp);
	(void)err_sys(&e, "execute %s", path);
	return upgrade_failed(&e);
}

/* ---- the loop */

static int open_signals(sigset_t *set)
{
	(void)sigemptyset(set);
	(void)sigaddset(set, SIGCHLD);
	(void)sigaddset(set, SIGTERM);
	(void)sigaddset(set, SIGINT);
	(void)sigaddset(set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, set, NULL);
	return signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void add_workers(struct supervisor *v)
{
	for (unsigned r = 0; r < supervisor_nroles; r++) {
		const struct role *role = &supervisor_roles[r];
		unsigned count = role->count(v->s);

		for (unsigned slot = 0; slot < count && v->nworkers < SUPERVISOR_WORKERS_MAX;
		     slot++)
			v->workers[v->nworkers++] = (struct worker){
				.role = role,
				.slot = slot,
				.child = { .name = role->program },
				.control = -1,
			};
	}
	v->daemon = &v->workers[0];
}

static void supervisor_turn(struct supervisor *v)
{
	struct pollfd fds[2] = { { .fd = v->signals, .events = POLLIN }, { .events = POLLIN } };

	start_missing(v);
	fds[1].fd = v->daemon->control;
	(void)poll(fds, 2, sleep_ms(v));
	if (fds[1].revents != 0 && v->daemon->control >= 0)
		on_control(v);
	on_signal(v);
	if (v->ending)
		continue_stop(v);
}

int supervisor_run(struct serve *s)
{
	static struct supervisor v;
	sigset_t set;

	v.s = s;
	add_workers(&v);
	v.signals = open_signals(&set);
	if (v.signals < 0)
		return 1;
	while (!v.ending || any_runs(&v))
		supervisor_turn(&v);
	/* Signals stay blocked over exec: a SIGHUP that comes in the meantime is for the next one.
	 */
	if (v.upgrading)
		return start_again(&v);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	cgroups_group_remove(&s->cgroups);
	return v.failed ? 1 : 0;
}
