/* run.c - theory of operation
 *
 * Starts a keeper, has it make a cell, has the cell's PID 1 start the command, relays until the
 * command ends, and has the keeper destroy the cell. If we are killed, the keeper sees our end of
 * channel A close and destroys the cell; if the keeper is killed, the kernel kills PID 1 and with
 * it the cell, and we remove its cgroup. Killed both, we leave an empty cgroup, which the next of
 * us removes. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "agent.h"
#include "changes.h"
#include "clock.h"
#include "io.h"
#include "keeper_client.h"
#include "outcome.h"
#include "rand.h"
#include "relay.h"
#include "run_net.h"
#include "run_options.h"
#include "template.h"
#include "terminal.h"

#define HANDLE 1
#define EARLY_MAX 16384 /* bytes of command line and environment */
#define PATIENCE_MS 60000
#define TIMEOUT_GRACE_MS 2000 /* PID 1 enforces the timeout; this much later we do */

struct run {
	struct run_options o;
	struct template template;
	int sources[KEEPER_MOUNTS_MAX]; /* owned */
	struct keeper_client keeper;
	struct agent agent;
	struct relay relay;
	struct terminal terminal;
	struct outcome outcome;
	struct run_net net;
	int pidfd;     /* owned */
	int signal_fd; /* owned */
	uint64_t requested_ns, started_ns;
	bool spawn_sent;
};

/* Remembers the first error and whose fault it was. */
static int failed(struct run *r, bool user_fault)
{
	r->outcome.user_fault = user_fault;
	return -1;
}

static int open_sources(struct run *r, struct err *e)
{
	for (size_t i = 0; i < r->o.mounts.n; i++) {
		/* A link here is the caller's own, and followed as he would expect. */
		r->sources[i] = open(r->o.mount[i].source, O_PATH | O_CLOEXEC);
		if (r->sources[i] < 0)
			return err_sys(e, "--mount: %.120s", r->o.mount[i].source);
	}
	return 0;
}

/* Limits that were asked for and cannot be had are refused; those by default are done without. */
static int check_limits(struct run *r, struct err *e)
{
	const struct keeper_walls *w = &r->keeper.walls;
	unsigned missing = r->o.limits_asked & ~w->limits;

	if (missing != 0 && !r->o.best_effort)
		return err_set(e, ERR_UNSUPPORTED,
			       "%s%s%scannot be enforced here: %s (--best-effort goes on without)",
			       (missing & KEEPER_LIMIT_MEMORY) ? "--memory " : "",
			       (missing & KEEPER_LIMIT_CPU) ? "--cpus " : "",
			       (missing & KEEPER_LIMIT_PIDS) ? "--pids " : "",
			       w->no_limits_why[0] == '\0' ? "no cgroup" : w->no_limits_why);
	if (!w->rootless && w->limits != KEEPER_LIMIT_ALL && !r->o.best_effort)
		return err_set(e, ERR_UNSUPPORTED,
			       "limits cannot be enforced here: %s (--best-effort goes on without)",
			       w->no_limits_why);
	return 0;
}

static void fill_create(struct run *r, struct keeper_create *c, uint32_t uid)
{
	const struct run_options *o = &r->o;
	unsigned can = r->keeper.walls.limits;

	memset(c, 0, sizeof(*c));
	c->op = KEEPER_CREATE;
	c->profile = o->profile;
	c->flags = o->read_only ? KEEPER_READ_ONLY : 0;
	c->uid = c->gid = uid;
	c->limits = (struct keeper_limits){
		.memory_bytes = (can & KEEPER_LIMIT_MEMORY) ? o->memory : 0,
		.cpu_millis = (can & KEEPER_LIMIT_CPU) ? o->cpus : 0,
		.pids = (can & KEEPER_LIMIT_PIDS) ? o->pids : 0,
		.disk_bytes = o->disk,
		.inodes = o->inodes,
		.nofile = o->nofile,
	};
	(void)snprintf(c->id, sizeof(c->id), "%s", r->outcome.id);
	(void)snprintf(c->hostname, sizeof(c->hostname), "%s", o->hostname);
	rand_machine_id(c->machine_id);
	c->nlayers = r->template.nlayers;
	memcpy(c->layer_at, r->template.at, sizeof(c->layer_at));
	c->nmounts = (uint32_t)o->mounts.n;
	for (size_t i = 0; i < o->mounts.n; i++) {
		memcpy(c->mounts[i].at, o->mount[i].at, sizeof(c->mounts[i].at));
		c->mounts[i].flags = o->mount[i].writable ? KEEPER_MOUNT_WRITABLE : 0;
	}
}

static size_t command_size(const struct run_options *o)
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
	char *text = malloc(command_size(o) + 1), *at = text;

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

static int send_spawn(struct run *r, struct err *e)
{
	struct agent_spawn s = { .handle = HANDLE,
				 .flags = r->o.tty ? (uint32_t)AGENT_TTY : 0,
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

static int create_cell(struct run *r, uint32_t uid, struct err *e)
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
	fill_create(r, &request, uid);
	/* A short request waits in the socket for PID 1 to be born; a long one would block us. */
	if (!r->outcome.network.wanted && command_size(&r->o) <= EARLY_MAX && send_spawn(r, e) < 0)
		return -1;
	if (keeper_client_ask(&r->keeper, &request, sizeof(request), fds, n, &reply, &r->pidfd, e) <
	    0)
		return -1;
	r->outcome.walls = reply.walls;
	r->outcome.cell_made = true;
	return 0;
}

/* PID 1 says why the command does not run. */
static int start_failure(struct run *r, const struct agent_event *v, struct err *e)
{
	const char *command = r->o.command[0];

	errno = v->sys;
	switch ((enum agent_stage)v->stage) {
	case AGENT_AT_USER:
		r->outcome.start_failed = EXIT_CORDON;
		(void)err_sys(e, "--user %.60s", r->o.user[0] == '\0' ? "user" : r->o.user);
		return failed(r, true);
	case AGENT_AT_CWD:
		r->outcome.start_failed = EXIT_CORDON;
		(void)err_sys(e, "--cwd %.120s", r->o.cwd);
		return failed(r, true);
	case AGENT_AT_EXEC:
		r->outcome.start_failed = v->sys == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
		if (v->sys == ENOENT && strchr(command, '/') == NULL)
			(void)err_set(e, ERR_NOT_FOUND, "%.120s: command not found", command);
		else
			(void)err_sys(e, "%.120s", command);
		return failed(r, true);
	case AGENT_AT_SYSTEM:
	case AGENT_STAGES:
		break;
	}
	(void)err_sys(e, "start the command");
	return failed(r, false);
}

static int take_stdio(struct run *r, struct err *e)
{
	int *fds = r->agent.fds;
	size_t n = r->agent.nfds;

	if (n != (r->o.tty ? 1 : 3))
		return err_set(e, ERR_INVALID, "PID 1 sent %zu descriptors", n);
	r->agent.nfds = 0;
	if (!r->o.tty) {
		relay_init(&r->relay, fds[0], fds[1], fds[2], r->o.output_limit);
		return 0;
	}
	/* One PTY master serves both ways; each side of the relay owns its own. */
	int in = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);

	relay_init_tty(&r->relay, in, fds[0], r->o.output_limit);
	if (in < 0)
		return err_sys(e, "PTY");
	return terminal_start(&r->terminal, in, e);
}

/* What PID 1 owes us at once. It gets the command's time, or a minute on a busy machine. */
static int hear(struct run *r, enum agent_type *ret_type, struct agent_event *ret, struct err *e)
{
	uint64_t ms = r->o.timeout_ms + TIMEOUT_GRACE_MS;
	int got = agent_next(&r->agent,
			     r->o.timeout_ms == 0 || ms > PATIENCE_MS ? PATIENCE_MS : (int)ms,
			     ret_type, ret, e);

	if (got == 0)
		return err_set(e, ERR_SYSTEM, "PID 1 does not answer");
	return got < 0 ? -1 : 0;
}

/* The cell's way out, in force before there is anybody to take it. */
static int open_door(struct run *r, struct err *e)
{
	enum agent_type type;
	struct agent_event v;

	if (agent_send_door(&r->agent, e) < 0 || hear(r, &type, &v, e) < 0)
		return -1;
	if (type != AGENT_DOORED)
		return err_set(e, ERR_SYSTEM, "PID 1 answered something else");
	if (run_net_attach(&r->net, r->outcome.id, &r->agent, v.sys, e) < 0)
		return failed(r, e->code == ERR_INVALID);
	return 0;
}

/* READY, then STARTED: the command runs. */
static int start_command(struct run *r, struct err *e)
{
	enum agent_type type;
	struct agent_event v;

	if (!r->outcome.network.wanted && !r->spawn_sent && send_spawn(r, e) < 0)
		return -1;
	if (hear(r, &type, &v, e) < 0)
		return -1;
	if (type != AGENT_READY || v.pid != AGENT_VERSION)
		return err_set(e, ERR_SYSTEM, "PID 1 is of another version");
	if (r->outcome.network.wanted && (open_door(r, e) < 0 || send_spawn(r, e) < 0))
		return -1;
	if (hear(r, &type, &v, e) < 0)
		return -1;
	if (type == AGENT_FAILED)
		return start_failure(r, &v, e);
	if (type != AGENT_STARTED)
		return err_set(e, ERR_SYSTEM, "PID 1 answered something else");
	return take_stdio(r, e);
}

static int catch_signals(struct run *r, struct err *e)
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

static void forward_signal(struct run *r)
{
	struct signalfd_siginfo info;
	struct err e;

	if (read(r->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGWINCH)
		terminal_resize(&r->terminal);
	else
		IGNORED(agent_send_signal(&r->agent, HANDLE, (int)info.ssi_signo, &e),
			"a dead cell shows by itself");
}

/* Milliseconds until we end the cell because PID 1 did not end the command; -1: never. */
static int backstop_ms(const struct run *r)
{
	uint64_t limit = r->o.timeout_ms + TIMEOUT_GRACE_MS;
	uint64_t spent = (clock_now_ns() - r->started_ns) / CLOCK_MS;

	if (r->o.timeout_ms == 0)
		return -1;
	if (spent >= limit)
		return 0;
	return limit - spent > 60000 ? 60000 : (int)(limit - spent);
}

static void wake_up(int sig)
{
	(void)sig;
}

/* A PID 1 that was taken over shares its pipes' flags with us and can make them block; the backstop
 * must work all the same. So from then on a signal interrupts whatever we are in, every second. */
static void arm_backstop(const struct run *r)
{
	const struct sigaction act = { .sa_handler = wake_up };
	uint64_t ms = r->o.timeout_ms + TIMEOUT_GRACE_MS;
	const struct itimerval timer = { .it_interval = { .tv_sec = 1 },
					 .it_value = { .tv_sec = (time_t)(ms / 1000),
						       .tv_usec = (suseconds_t)(ms % 1000) * 1000 +
								  1 } };

	if (r->o.timeout_ms == 0)
		return;
	(void)sigaction(SIGALRM, &act, NULL);
	(void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* Relays until the command has ended or the cell is lost. */
static int wait_for_end(struct run *r, struct err *e)
{
	for (;;) {
		struct pollfd fds[RELAY_POLLS + 4] = { 0 };
		size_t n = relay_wants(&r->relay, fds);
		enum agent_type type;
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
		if (fds[n + 2].revents != 0)
			return err_set(e, ERR_SYSTEM, "the keeper died");
		if (fds[n + 1].revents != 0)
			forward_signal(r);
		if (fds[n + 3].revents != 0)
			run_net_hear(&r->net);
		relay_turn(&r->relay, fds, n);
		if (fds[n].revents == 0)
			continue;
		got = agent_next(&r->agent, 0, &type, &v, e);
		if (got < 0)
			return err_wrap(e, "the cell was lost");
		if (got == 0 || type != AGENT_EXITED)
			continue;
		r->outcome.ended = true;
		r->outcome.event = v;
		/* Believed only if it can be true. */
		r->outcome.timed_out =
			v.timed_out != 0 && r->o.timeout_ms != 0 &&
			clock_now_ns() - r->requested_ns >= r->o.timeout_ms * CLOCK_MS;
		return 0;
	}
}

/* The list of changes, when nothing in the cell can change anything any more. */
static int print_changes(struct run *r, struct err *e)
{
	struct keeper_diff request = { .named.op = KEEPER_DIFF };
	struct keeper_reply reply;
	sigset_t none;
	enum agent_type type = AGENT_READY;
	struct agent_event v;
	int ends[2];

	/* The command is over: from here on a signal is meant for us. The keeper cleans up after
	 * us. */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (agent_send_kill_all(&r->agent, e) < 0)
		return -1;
	while (type != AGENT_ALL_DEAD)
		if (hear(r, &type, &v, e) < 0)
			return -1;
	relay_drain(&r->relay);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	(void)snprintf(request.named.id, sizeof(request.named.id), "%s", r->outcome.id);
	if (keeper_client_ask(&r->keeper, &request, sizeof(request), &ends[1], 1, &reply, NULL, e) <
	    0)
		return -1;
	(void)close(TAKE_FD(to));
	return changes_print(from, stdout, e);
}

static int destroy_cell(struct run *r, struct err *e)
{
	struct keeper_named request = { .op = KEEPER_DESTROY };
	struct keeper_reply reply;

	(void)snprintf(request.id, sizeof(request.id), "%s", r->outcome.id);
	if (io_send(r->keeper.sock, &request, sizeof(request), NULL, 0, e) < 0)
		return -1;
	/* There is no more to ask: it can end as soon as it has answered. */
	(void)shutdown(r->keeper.sock, SHUT_WR);
	if (keeper_client_hear(&r->keeper, KEEPER_DESTROY, &reply, NULL, e) < 0)
		return -1;
	r->outcome.disk = reply.disk;
	return 0;
}

static int use_cell(struct run *r, struct err *e)
{
	r->started_ns = clock_now_ns();
	clock_stamp(r->outcome.started_at, sizeof(r->outcome.started_at));
	arm_backstop(r);
	if (start_command(r, e) < 0 || wait_for_end(r, e) < 0)
		return -1;
	r->outcome.wall_ms = (clock_now_ns() - r->started_ns) / CLOCK_MS;
	/* PID 1's clock began a moment before ours, with the request. */
	if (r->outcome.timed_out && r->outcome.wall_ms < r->o.timeout_ms)
		r->outcome.wall_ms = r->o.timeout_ms;
	if (r->o.diff && r->outcome.ended && print_changes(r, e) < 0)
		return err_wrap(e, "--diff");
	return 0;
}

static int with_keeper(struct run *r, uint32_t uid, struct err *e)
{
	struct err later = { 0 };
	int result = -1;

	if (check_limits(r, e) < 0)
		return failed(r, true);
	if (create_cell(r, uid, e) < 0)
		return failed(r, e->code == ERR_INVALID);
	result = use_cell(r, e);
	usage_read(&r->keeper.cgroups, r->outcome.id, &r->outcome.usage);
	if (destroy_cell(r, &later) < 0 && result == 0) {
		*e = later;
		result = -1;
	}
	relay_drain(&r->relay);
	r->outcome.output_bytes = r->relay.output_bytes;
	r->outcome.output_truncated = r->relay.truncated;
	errno = r->relay.write_error;
	if (result == 0 && errno != 0) {
		(void)err_sys(e, "write the command's output");
		return failed(r, true);
	}
	return result;
}

static int run(struct run *r, struct err *e)
{
	const struct authority *authority = NULL;
	uint32_t uid;
	int result = -1;

	if (run_options_uid(&r->o, &uid, e) < 0 || open_sources(r, e) < 0 ||
	    run_net_check(&r->net, &r->o, &r->outcome.network, e) < 0)
		return failed(r, true);
	if (catch_signals(r, e) < 0 || keeper_client_start(&r->keeper, e) < 0)
		return -1;
	if (run_net_open(&r->net, &authority, e) < 0)
		(void)failed(r, false);
	else if (template_open(r->o.template, authority, &r->template, e) < 0)
		(void)failed(r, e->code == ERR_NOT_FOUND);
	else if (keeper_client_hello(&r->keeper, e) == 0)
		result = with_keeper(r, uid, e);
	/* First: PID 1 ends when nobody holds this, even if its keeper died before it could ask the
	 * kernel to be killed then. */
	agent_release(&r->agent);
	keeper_client_stop(&r->keeper, r->outcome.id);
	run_net_close(&r->net);
	return result;
}

static void init(struct run *r)
{
	uint64_t random = 0;

	r->pidfd = r->signal_fd = -1;
	r->terminal = TERMINAL_NONE;
	agent_init(&r->agent, -1);
	run_net_init(&r->net);
	relay_init(&r->relay, -1, -1, -1, 0);
	for (size_t i = 0; i < COUNT(r->sources); i++)
		r->sources[i] = -1;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = clock_now_ns();
	(void)snprintf(r->outcome.id, sizeof(r->outcome.id), "%016llx", (unsigned long long)random);
	clock_stamp(r->outcome.started_at, sizeof(r->outcome.started_at));
}

/* Opened before anything happens: a result that cannot be written is told at once. */
static int open_result(const struct run_options *o, int *ret_fd, struct err *e)
{
	*ret_fd = -1;
	if (o->result == NULL)
		return 0;
	*ret_fd = open(o->result, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (*ret_fd < 0)
		return err_sys(e, "--result %.120s", o->result);
	return 0;
}

int run_main(int argc, char **argv)
{
	static struct run r; /* large: the relay's buffers */
	struct err e = { 0 }, unwritable = { 0 };
	int opened = -1, parsed, code;

	init(&r);
	parsed = run_options_parse(&r.o, argc, argv, &e);
	r.outcome.profile = r.o.profile;
	if (parsed == 0 && r.o.help) {
		options_help(&run_verb, stdout);
		return 0;
	}
	/* Told also of a command line that is wrong, as far as it was understood. */
	if (open_result(&r.o, &opened, &unwritable) < 0 && parsed == 0) {
		e = unwritable;
		parsed = -1;
	}
	OWN_FD result = opened;
	if (parsed < 0)
		(void)failed(&r, true);
	else
		parsed = run(&r, &e);
	terminal_stop(&r.terminal);
	if (parsed < 0) {
		err_sanitize(&e); /* it may quote the command line, or the cell */
		r.outcome.err = e;
		(void)fprintf(stderr, "cordon: %s\n", e.msg);
	}
	code = outcome_exit_code(&r.outcome);
	if (result >= 0 && outcome_write(&r.outcome, result, &e) < 0) {
		(void)fprintf(stderr, "cordon: --result: %s\n", e.msg);
		code = EXIT_CORDON;
	}
	return code;
}
