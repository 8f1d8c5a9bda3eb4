/* run.c - theory of operation
 *
 * Starts a keeper, has it make a cell, has the PID 1 of the cell start the command, relays until
 * the command ends, and has the keeper destroy the cell. If cordon is killed, the keeper sees
 * channel A close and destroys the cell. If the keeper is killed, the kernel kills PID 1 and with
 * it the cell, and cordon removes the cgroup. If both are killed, an empty cgroup stays, which the
 * next cordon removes. */
#include "cmd/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "cell/cellctl/cell_ops.h"
#include "cmd/base/mount_source.h"
#include "cmd/base/root_check.h"
#include "cmd/run/diff_print.h"
#include "cmd/run/run_private.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

/* Record whether the user or the platform caused the error. Return -1. */
static int run_failed(struct run *r, bool user_fault)
{
	r->outcome.user_fault = user_fault;
	return -1;
}

/* ---- waits for the end of the command: relays its streams, passes signals on, ends it when its
 * time has ended. The cell is destroyed afterwards in every case, so no wait in here has to
 * succeed. */

/* How much later than PID 1 cordon ends the command. A guest may be slow, and lists changes only of
 * a command that it has ended itself. */
#define GRACE_MS 2000U
#define GUEST_GRACE_MS 10000U

/* From here on signals are passed on to the command. */
static int run_wait_signals(struct run *r, struct err *e)
{
	static const int caught[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH
	};
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < COUNT(caught); i++)
		(void)sigaddset(&set, caught[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(e, "signal mask");
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signal_fd < 0)
		return err_sys(e, "signalfd");
	return 0;
}

/* The terminal of a guest's program is not this machine's. */
static void run_resize(struct run *r)
{
	uint16_t rows = 0, cols = 0;
	struct err e;

	if (!run_guest_wanted(r)) {
		terminal_resize(&r->terminal);
		return;
	}
	terminal_size(&rows, &cols);
	if (r->o.tty && rows > 0)
		IGNORED(agent_send_resize(&r->agent, RUN_HANDLE, rows, cols, &e),
			"a dead cell shows by itself");
}

/* Signals to cordon mean the command. Only SIGWINCH has a meaning for the terminal. A command
 * may ignore a signal. SIGKILL ends cordon itself, and the keeper then destroys the cell. */
static void forward_signal(struct run *r)
{
	struct signalfd_siginfo info;
	struct err e;

	if (read(r->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGWINCH)
		run_resize(r);
	else
		IGNORED(agent_send_signal(&r->agent, RUN_HANDLE, (int)info.ssi_signo, &e),
			"a dead cell shows by itself");
}

/* PID 1 enforces the timeout. This many milliseconds after the beginning of the command's time
 * cordon itself does so. */
static uint64_t run_wait_limit_ms(const struct run *r)
{
	return r->o.timeout_ms + (run_guest_wanted(r) ? GUEST_GRACE_MS : GRACE_MS);
}

/* Milliseconds until cordon ends the cell because PID 1 did not end the command. -1: never. */
static int backstop_ms(const struct run *r)
{
	uint64_t limit = run_wait_limit_ms(r);
	uint64_t spent = (clock_now_ns() - r->timed_ns) / CLOCK_MS;

	if (r->o.timeout_ms == 0)
		return -1;
	if (spent >= limit)
		return 0;
	return limit - spent > 60000 ? 60000 : (int)(limit - spent);
}

/* Its only task is to interrupt blocking calls with EINTR. SIG_IGN would not do so. */
static void wake_up(int sig)
{
}

/* A PID 1 under hostile control shares the flags of its pipes with cordon and can make them block.
 * So from then on a signal interrupts every blocking call, once a second. */
static void run_wait_begin(struct run *r)
{
	const struct sigaction act = { .sa_handler = wake_up };
	uint64_t ms = run_wait_limit_ms(r);
	const struct itimerval timer = { .it_interval = { .tv_sec = 1 },
					 .it_value = { .tv_sec = (time_t)(ms / 1000),
						       .tv_usec = (suseconds_t)(ms % 1000) * 1000 +
								  1 } };

	r->timed_ns = clock_now_ns();
	if (r->o.timeout_ms == 0)
		return;
	(void)sigaction(SIGALRM, &act, NULL);
	(void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* The terminal of a guest's program stays open in the guest when its output is not read any more.
 * One of this machine ends its programs by itself. */
static void hang_up(struct run *r)
{
	struct err e;

	if (!r->relay.unread || r->hung_up)
		return;
	r->hung_up = true;
	IGNORED(agent_send_signal(&r->agent, RUN_HANDLE, SIGHUP, &e),
		"a dead cell shows by itself");
}

/* Relay until the command has ended or the cell is lost. */
static int run_wait(struct run *r, struct err *e)
{
	for (;;) {
		struct pollfd fds[RELAY_POLLS + 4] = { 0 };
		size_t n = relay_wants(&r->relay, fds);
		enum agent_type type;
		/* PID 1 did not end the command in time, so the caller destroys the cell. */
		struct agent_event v;
		int got, wait_ms = backstop_ms(r);

		if (wait_ms == 0) {
			r->outcome.timed_out = true;
			return 0;
		}
		fds[n] = (struct pollfd){ .fd = r->agent.sock, .events = POLLIN };
		fds[n + 1] = (struct pollfd){ .fd = r->signal_fd, .events = POLLIN };
		fds[n + 2] = (struct pollfd){ .fd = r->keeper.sock, .events = POLLIN };
		fds[n + 3] = (struct pollfd){ .fd = r->net.sock, .events = POLLIN };
		if (poll(fds, n + 4, wait_ms) < 0 && errno != EINTR)
			return err_sys(e, "poll");
		/* A dead keeper comes first: without it the end of the cell is not enforced. */
		if (fds[n + 2].revents != 0)
			return err_set(e, ERR_SYSTEM, "the keeper died");
		if (fds[n + 1].revents != 0)
			forward_signal(r);
		if (fds[n + 3].revents != 0)
			run_net_receive(&r->net);
		/* EXITED may arrive while output still waits in the pipes. relay_drain() takes
		 * the rest later. */
		relay_turn(&r->relay, fds, n);
		hang_up(r);
		if (fds[n].revents == 0)
			continue;
		got = agent_next(&r->agent, 0, &type, &v, e);
		if (got < 0)
			return err_wrap(e, "the cell was lost");
		if (got > 0 && type == AGENT_GUEST && run_guest_event(r, &v, e) < 0)
			return -1;
		if (got == 0 || type != AGENT_EXITED)
			continue;
		r->outcome.ended = true;
		r->outcome.event = v;
		/* A report of PID 1, accepted only if it can be true. */
		r->outcome.timed_out =
			v.timed_out != 0 && r->o.timeout_ms != 0 &&
			clock_now_ns() - r->requested_ns >= r->o.timeout_ms * CLOCK_MS;
		return 0;
	}
}

/* ---- the start of the command
 *
 * PID 1 sends READY when it has started, then STARTED, or why the command does not run. A command
 * without network access is requested before PID 1 exists, if the request fits into the socket. One
 * with network access is requested when its policy is in force. */

#define ANSWER_MAX_MS 60000

/* Bytes of command line and environment. */
static size_t run_command_size(const struct run_options *o)
{
	size_t len = strlen(o->cwd);

	for (char **a = o->command; *a != NULL; a++)
		len += strlen(*a) + 1;
	for (size_t i = 0; i < o->env.n; i++)
		len += strlen(o->env.items[i]) + 1;
	return len;
}

/* Arguments and environment, one string after another. */
static char *join_strings(const struct run_options *o, struct agent_spawn *s)
{
	char *text = malloc(run_command_size(o) + 1), *at = text;

	s->envc = (uint32_t)o->env.n;
	while (o->command[s->argc] != NULL)
		s->argc++;
	for (uint32_t i = 0; text != NULL && i < s->argc + s->envc; i++) {
		const char *word = i < s->argc ? o->command[i] : o->env.items[i - s->argc];
		size_t n = strlen(word) + 1;

		memcpy(at, word, n);
		at += n;
	}
	s->strings = text;
	s->strings_len = (size_t)(at - text);
	return text;
}

/* The PTY of a guest's program is in the guest: it is held there, and pipes lead to it. */
static uint32_t spawn_flags(const struct run *r)
{
	if (!r->o.tty)
		return 0;
	return run_guest_wanted(r) ? (uint32_t)(AGENT_TTY | AGENT_HOLD) : (uint32_t)AGENT_TTY;
}

/* Requests the start of the command. PID 1 need not exist yet. */
static int run_command_send(struct run *r, struct err *e)
{
	struct agent_spawn s = { .handle = RUN_HANDLE,
				 .flags = spawn_flags(r),
				 .rows = 24,
				 .cols = 80,
				 .timeout_ms = r->o.timeout_ms,
				 .user = r->o.user,
				 .cwd = r->o.cwd };
	OWN_MEM char *strings = join_strings(&r->o, &s);

	if (strings == NULL)
		return err_sys(e, "allocate");
	r->spawn_sent = true;
	r->requested_ns = clock_now_ns();
	if (s.argc > AGENT_STRINGS_MAX)
		return err_set(e, ERR_LIMIT, "%u arguments, at most %u", s.argc, AGENT_STRINGS_MAX);
	terminal_size(&s.rows, &s.cols);
	return agent_send_spawn(&r->agent, &s, e);
}

/* Turn what PID 1 reported into the error. */
static int start_failure(struct run *r, const struct agent_event *v, struct err *e)
{
	const char *command = r->o.command[0];

	errno = v->sys;
	switch ((enum agent_stage)v->stage) {
	case AGENT_AT_USER:
		r->outcome.start_failed = EXIT_CORDON;
		(void)err_sys(e, "--user %.60s", r->o.user[0] == '\0' ? "user" : r->o.user);
		return run_failed(r, true);
	case AGENT_AT_CWD:
		r->outcome.start_failed = EXIT_CORDON;
		(void)err_sys(e, "--cwd %.120s", r->o.cwd);
		return run_failed(r, true);
	case AGENT_AT_EXEC:
		r->outcome.start_failed = v->sys == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
		if (v->sys == ENOENT && strchr(command, '/') == NULL)
			(void)err_set(e, ERR_NOT_FOUND, "%.120s: command not found", command);
		else
			(void)err_sys(e, "%.120s", command);
		return run_failed(r, true);
	case AGENT_AT_SYSTEM:
	case AGENT_STAGES:
		break;
	}
	(void)err_sys(e, "start the command");
	return run_failed(r, false);
}

/* Take over the descriptors that came with STARTED. The request alone decides their number:
 * three pipes, two for the terminal in a guest, one PTY. */
static int take_stdio(struct run *r, struct err *e)
{
	int *fds = r->agent.fds;
	size_t n = r->agent.nfds;

	if (n != (!r->o.tty ? 3 : run_guest_wanted(r) ? 2 : 1))
		return err_set(e, ERR_INVALID,
			       "internal protocol error: PID 1 sent %zu descriptors", n);
	r->agent.nfds = 0;
	if (!r->o.tty) {
		relay_init(&r->relay, fds[0], fds[1], fds[2], r->o.output_limit);
		return 0;
	}
	if (run_guest_wanted(r)) {
		relay_init_held(&r->relay, fds[0], fds[1], r->o.output_limit);
		return terminal_start(&r->terminal, -1, e);
	}
	/* One PTY master serves both ways. Each side of the relay owns its own. */
	int in = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);

	relay_init_tty(&r->relay, in, fds[0], r->o.output_limit);
	if (in < 0)
		return err_sys(e, "PTY");
	return terminal_start(&r->terminal, in, e);
}

/* Wait for a message that PID 1 sends at once: for as long as the command's time, or a minute on a
 * busy machine. */
int run_command_receive(struct run *r, enum agent_type *ret_type, struct agent_event *ret,
			struct err *e)
{
	uint64_t ms = run_wait_limit_ms(r);
	int got = agent_next(&r->agent,
			     r->o.timeout_ms == 0 || ms > ANSWER_MAX_MS ? ANSWER_MAX_MS : (int)ms,
			     ret_type, ret, e);

	if (got == 0)
		return err_set(e, ERR_SYSTEM, "PID 1 of the cell does not answer");
	return got < 0 ? -1 : 0;
}

/* Network access of the cell, in force before a program runs in it. */
static int open_network(struct run *r, struct err *e)
{
	enum agent_type type;
	struct agent_event v;

	if (agent_send_listen_egress(&r->agent, -1, e) < 0 ||
	    run_command_receive(r, &type, &v, e) < 0)
		return -1;
	if (type != AGENT_EGRESS_LISTENS)
		return err_set(e, ERR_SYSTEM,
			       "internal protocol error: PID 1 did not open the network listeners");
	if (run_net_attach(&r->net, r->outcome.id, &r->agent, v.sys, e) < 0) {
		r->outcome.wrong_use = e->code == ERR_INVALID; /* the policy */
		return run_failed(r, r->outcome.wrong_use);
	}
	return 0;
}

/* READY, then STARTED: the command runs. */
static int run_command_start(struct run *r, struct err *e)
{
	enum agent_type type;
	struct agent_event v;

	bool early = !r->outcome.network.wanted && !run_guest_wanted(r);

	if (early && !r->spawn_sent && run_command_send(r, e) < 0)
		return -1;
	if (run_command_receive(r, &type, &v, e) < 0)
		return -1;
	if (type != AGENT_READY || v.pid != AGENT_VERSION)
		return err_set(e, ERR_SYSTEM, "PID 1 of the cell is of another version");
	if ((r->outcome.network.wanted && open_network(r, e) < 0) ||
	    (run_guest_wanted(r) && run_guest_boot(r, e) < 0))
		return -1;
	if (run_guest_wanted(r))
		run_wait_begin(r);
	if (!early && run_command_send(r, e) < 0)
		return -1;
	if (run_command_receive(r, &type, &v, e) < 0)
		return -1;
	if (type == AGENT_FAILED)
		return start_failure(r, &v, e);
	if (type != AGENT_STARTED)
		return err_set(
			e, ERR_SYSTEM,
			"internal protocol error: PID 1 did not report the start of the command");
	return take_stdio(r, e);
}

/* ---- the cell: the keeper makes, compares and destroys it. */

#define EARLY_MAX 16384 /* bytes of command line and environment */

/* Open the sources of mounts. */
static int run_cell_sources(struct run *r, struct err *e)
{
	for (size_t i = 0; i < r->o.mounts.n; i++) {
		/* A link here is the caller's own and is followed. */
		r->sources[i] = open(r->o.mount[i].source, O_PATH | O_CLOEXEC);
		if (r->sources[i] < 0)
			return err_sys(e, "--mount: %.120s", r->o.mount[i].source);
		if (!r->o.mount_unsafe &&
		    mount_source_check(r->sources[i], r->o.mount[i].writable, &r->o.state_dir, 1,
				       "--mount-unsafe", e) < 0)
			return err_wrap(e, "--mount");
	}
	return 0;
}

/* Fail if a limit of the command line cannot be enforced. Default limits are left out then. */
static int run_cell_limits(struct run *r, struct err *e)
{
	const struct cell_restrictions *w = &r->keeper.restrictions;
	unsigned missing = r->o.limits_asked & ~w->limits;

	if (missing != 0 && !r->o.best_effort)
		return err_set(
			e, ERR_UNSUPPORTED,
			"%s%s%scannot be enforced here: %s (--best-effort continues without)",
			(missing & CELL_LIMIT_MEMORY) ? "--memory " : "",
			(missing & CELL_LIMIT_CPU) ? "--cpus " : "",
			(missing & CELL_LIMIT_PIDS) ? "--pids " : "",
			w->no_limits_why[0] == '\0' ? "no cgroup" : w->no_limits_why);
	if (!w->rootless && (w->limits & CELL_LIMIT_ALL) != CELL_LIMIT_ALL && !r->o.best_effort)
		return err_set(
			e, ERR_UNSUPPORTED,
			"limits cannot be enforced here: %s (--best-effort continues without)",
			w->no_limits_why);
	return 0;
}

/* A limit that this machine cannot enforce is 0 in the request, which means none.
 * run_cell_limits() has refused those that the user asked for, unless --best-effort allows to go
 * without. */
static void fill_create(struct run *r, struct keeper_create *c)
{
	const struct run_options *o = &r->o;
	unsigned can = r->keeper.restrictions.limits;

	memset(c, 0, sizeof(*c));
	c->op = KEEPER_CREATE;
	c->profile = o->profile;
	c->flags = o->read_only ? CELL_READ_ONLY : 0;
	c->uid = c->gid = r->uid;
	c->limits = (struct cell_limits){
		.memory_bytes = (can & CELL_LIMIT_MEMORY) ? o->memory : 0,
		.cpu_millis = (can & CELL_LIMIT_CPU) ? o->cpus : 0,
		.pids = (can & CELL_LIMIT_PIDS) ? o->pids : 0,
		.disk_bytes = o->disk,
		.inodes = o->inodes,
		.nofile = o->nofile,
	};
	str_copy(c->id, r->outcome.id);
	str_copy(c->hostname, o->hostname);
	memcpy(c->machine_id, r->machine_id, sizeof(c->machine_id));
	c->nlayers = r->template.nlayers;
	memcpy(c->layer_at, r->template.at, sizeof(c->layer_at));
	c->nmounts = (uint32_t)o->mounts.n;
	for (size_t i = 0; i < o->mounts.n; i++) {
		memcpy(c->mounts[i].at, o->mount[i].at, sizeof(c->mounts[i].at));
		c->mounts[i].flags = o->mount[i].writable ? CELL_MOUNT_WRITABLE : 0;
	}
	run_guest_plan(r, c);
}

/* Ask the keeper to make the cell. A short command is sent before the cell exists. */
static int run_cell_create(struct run *r, struct err *e)
{
	struct keeper_create request;
	struct keeper_reply reply;
	int pair[2], fds[IO_FDS_MAX];
	size_t n = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	agent_init(&r->agent, pair[0]);
	OWN_FD inside = pair[1];
	fds[n++] = inside;
	for (uint32_t i = 0; i < r->template.nlayers; i++)
		fds[n++] = r->template.fds[i];
	for (size_t i = 0; i < r->o.mounts.n; i++)
		fds[n++] = r->sources[i];
	fill_create(r, &request);
	/* A short request waits in the socket until PID 1 reads it. A long one would block cordon.
	 */
	if (!r->outcome.network.wanted && !run_guest_wanted(r) &&
	    run_command_size(&r->o) <= EARLY_MAX && run_command_send(r, e) < 0)
		return -1;
	if (keeper_client_call(&r->keeper, &request, sizeof(request), fds, n, &reply, &r->pidfd,
			       e) < 0)
		return -1;
	r->outcome.restrictions = reply.restrictions;
	r->outcome.cell_made = true;
	return 0;
}

/* The list of changes, when nothing in the cell can change anything any more. */
static int run_cell_changes(struct run *r, struct err *e)
{
	struct keeper_diff request = { .named.op = KEEPER_DIFF };
	struct keeper_reply reply;
	sigset_t none;
	enum agent_type type = AGENT_READY;
	struct agent_event v;
	int ends[2];

	/* The command has ended: from here on signals end cordon itself. The keeper then cleans up.
	 */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (agent_send_kill_all(&r->agent, e) < 0)
		return -1;
	while (type != AGENT_ALL_DEAD)
		if (run_command_receive(r, &type, &v, e) < 0)
			return -1;
	relay_drain(&r->relay);
	if (run_guest_has_files(r))
		return run_guest_changes(r, e);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	str_copy(request.named.id, r->outcome.id);
	if (keeper_client_call(&r->keeper, &request, sizeof(request), &ends[1], 1, &reply, NULL,
			       e) < 0)
		return -1;
	fd_close(TAKE_FD(to));
	return diff_print(from, stdout, e);
}

/* Ask for the destruction and wait for the answer, which also has the disk use. */
static int run_cell_destroy(struct run *r, struct err *e)
{
	struct keeper_named request = { .op = KEEPER_DESTROY };
	struct keeper_reply reply;

	str_copy(request.id, r->outcome.id);
	if (io_send(r->keeper.sock, &request, sizeof(request), NULL, 0, e) < 0)
		return -1;
	/* The last request: the keeper can end as soon as it has answered. */
	(void)shutdown(r->keeper.sock, SHUT_WR);
	if (keeper_client_receive(&r->keeper, KEEPER_DESTROY, &reply, NULL, e) < 0)
		return -1;
	r->outcome.disk = reply.disk;
	return 0;
}

/* ---- the order of the parts */

/* From the start of the command to its end, and its list of changes. The cell exists before and
 * after. */
static int use_cell(struct run *r, struct err *e)
{
	r->started_ns = clock_now_ns();
	clock_stamp(r->outcome.started_at, sizeof(r->outcome.started_at));
	run_wait_begin(r);
	if (run_command_start(r, e) < 0 || run_wait(r, e) < 0)
		return -1;
	r->outcome.wall_ms = (clock_now_ns() - r->started_ns) / CLOCK_MS;
	/* PID 1's clock began a moment before this one, with the request. */
	if (r->outcome.timed_out && r->outcome.wall_ms < r->o.timeout_ms)
		r->outcome.wall_ms = r->o.timeout_ms;
	if (r->o.diff && !r->outcome.ended)
		return err_set(e, ERR_SYSTEM, "--diff: PID 1 of the cell did not end the command");
	if (r->o.diff && run_cell_changes(r, e) < 0)
		return err_wrap(e, "--diff");
	return 0;
}

/* Once the cell is made, it is destroyed in every case. An error of the command counts more than
 * one of the destruction. */
static int with_keeper(struct run *r, struct err *e)
{
	struct err later = { 0 };
	int result = -1;

	if (run_cell_limits(r, e) < 0 || run_guest_ids(r, e) < 0)
		return run_failed(r, true);
	if (run_cell_create(r, e) < 0)
		return run_failed(r, e->code == ERR_INVALID);
	result = use_cell(r, e);
	cell_ops(cell_level_find(r->o.level))
		->usage(&r->keeper.cgroups, r->outcome.id, USAGE_ALL, &r->outcome.usage);
	if (result == 0 && !r->outcome.network.wanted && run_result_exit_code(&r->outcome) != 0)
		run_refused_look(&r->net.refused, r->pidfd);
	if (run_cell_destroy(r, &later) < 0 && result == 0) {
		*e = later;
		result = -1;
	}
	relay_drain(&r->relay);
	r->outcome.output_bytes = r->relay.output_bytes;
	r->outcome.output_truncated = r->relay.truncated;
	errno = r->relay.write_error;
	if (result == 0 && errno != 0) {
		(void)err_sys(e, "write the command's output");
		return run_failed(r, true);
	}
	return result;
}

/* Checks of the command line come first, so that wrong use starts no process. All that the
 * keeper's start and later steps opened is closed here, also after an error. */
static int run_run(struct run *r, struct err *e)
{
	const struct node_ca *authority = NULL;
	int result = -1;

	if (run_options_uid(&r->o, &r->uid, e) < 0 || run_guest_check(r, e) < 0 ||
	    run_cell_sources(r, e) < 0 ||
	    run_net_check(&r->net, &r->o, &r->outcome.network, e) < 0) {
		r->outcome.wrong_use = e->code == ERR_INVALID;
		return run_failed(r, true);
	}
	if (root_check(e) < 0 || run_wait_signals(r, e) < 0 ||
	    keeper_client_start(&r->keeper, run_guest_wanted(r), e) < 0)
		return -1;
	if (run_net_open(&r->net, &authority, e) < 0)
		(void)run_failed(r, false);
	else if (template_open(run_guest_cell_template(r), authority, &r->template, e) < 0 ||
		 run_guest_root(r, e) < 0)
		(void)run_failed(r, e->code == ERR_NOT_FOUND || e->code == ERR_INVALID);
	else if (keeper_client_hello(&r->keeper, e) == 0)
		result = with_keeper(r, e);
	/* First: PID 1 ends when this channel is closed, even if its keeper died before it could
	 * ask the kernel for PID 1's end. */
	agent_release(&r->agent);
	keeper_client_stop(&r->keeper, r->outcome.id);
	run_net_close(&r->net);
	run_guest_release(r);
	return result;
}

/* After this each part can be released, whether or not it was used. The id is random, because
 * commands that run at the same time share one cgroup tree. */
static void run_init(struct run *r)
{
	uint64_t random = 0;

	r->pidfd = r->signal_fd = r->root_fd = -1;
	r->terminal = TERMINAL_NONE;
	agent_init(&r->agent, -1);
	run_net_init(&r->net);
	relay_init(&r->relay, -1, -1, -1, 0);
	for (size_t i = 0; i < COUNT(r->sources); i++)
		r->sources[i] = -1;
	level_machine_init(&r->machine);
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = clock_now_ns();
	(void)snprintf(r->outcome.id, sizeof(r->outcome.id), "%016llx", (unsigned long long)random);
	rand_machine_id(r->machine_id);
	clock_stamp(r->outcome.started_at, sizeof(r->outcome.started_at));
}

/* Opened before anything happens: a file for the result that cannot be written is an error at the
 * start. */
static int open_result(const struct run_options *o, int *ret_fd, struct err *e)
{
	*ret_fd = -1;
	if (o->result == NULL)
		return 0;
	*ret_fd = strcmp(o->result, "-") == 0
			  ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
			  : open(o->result, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (*ret_fd < 0)
		return err_sys(e, "--result %.120s", o->result);
	return 0;
}

/* The exit code follows from r.outcome alone (run_result.h), so the result file and the exit
 * code always agree. */
int run_main(int argc, char **argv)
{
	static struct run r; /* large: the relay's buffers */
	struct err e = { 0 }, unwritable = { 0 };
	int opened = -1, parsed, code;

	run_init(&r);
	parsed = run_options_parse(&r.o, argc, argv, &e);
	r.outcome.wrong_use = parsed < 0;
	r.outcome.profile = r.o.profile;
	r.outcome.level = cell_level_find(r.o.level);
	if (parsed == 0 && r.o.help) {
		options_help(&run_verb, stdout);
		return 0;
	}
	/* Written also for a wrong command line, as far as understood. */
	if (open_result(&r.o, &opened, &unwritable) < 0 && parsed == 0) {
		e = unwritable;
		parsed = -1;
	}
	OWN_FD result = opened;
	if (parsed < 0)
		(void)run_failed(&r, true);
	else
		parsed = run_run(&r, &e);
	terminal_stop(&r.terminal);
	if (parsed < 0) {
		err_sanitize(&e); /* it may quote the command line, or the cell */
		r.outcome.err = e;
		(void)fprintf(stderr, "cordon: %s\n", e.msg);
	}
	code = run_result_exit_code(&r.outcome);
	if (parsed == 0) {
		run_result_say_limits(&r.outcome, stderr);
		run_refused_say(&r.net.refused);
	}
	if (result >= 0 && run_result_write(&r.outcome, result, &e) < 0) {
		(void)fprintf(stderr, "cordon: --result: %s\n", e.msg);
		code = EXIT_CORDON;
	}
	return code;
}
