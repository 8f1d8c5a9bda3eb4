/* run_command.c - theory of operation
 *
 * PID 1 sends READY when it has started, then STARTED, or why the command does not run. A command
 * without network access is requested before PID 1 exists, if the request fits into the socket; one
 * with network access is requested when its policy is in force. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "run_private.h"

#define ANSWER_MAX_MS 60000

size_t run_command_size(const struct run_options *o)
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

int run_command_send(struct run *r, struct err *e)
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

/* Turns what PID 1 reported into the error. */
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
	/* One PTY master serves both ways; each side of the relay owns its own. */
	int in = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);

	relay_init_tty(&r->relay, in, fds[0], r->o.output_limit);
	if (in < 0)
		return err_sys(e, "PTY");
	return terminal_start(&r->terminal, in, e);
}

/* Waits for a message that PID 1 sends at once: for as long as the command's time, or a minute on a
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
	if (run_net_attach(&r->net, r->outcome.id, &r->agent, v.sys, e) < 0)
		return run_failed(r, e->code == ERR_INVALID);
	return 0;
}

/* READY, then STARTED: the command runs. */
int run_command_start(struct run *r, struct err *e)
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
