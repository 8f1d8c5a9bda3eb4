#include "event_out.h"

#include "channel.h"
#include "clock.h"
#include "io.h"
#include "programs.h"

#define DRAIN_MS 1000

static bool ready, synced, all_dead;
static bool exit_waits;	       /* EXITED of a program waits for its output */
static enum agent_type answer; /* 0: none */
static int answer_fd = -1;     /* sent with it */
static const int *kept_fds;    /* borrowed: sent with it */
static size_t kept_n;
static struct agent_event answer_event, all_dead_event;

void event_out_begin(bool greet)
{
	ready = true;
	synced = greet;
	all_dead = false; /* it was for the old connection */
	answer = 0;
	io_close_all(&answer_fd, 1);
}

void event_out_answer(enum agent_type type, const struct agent_event *v)
{
	io_close_all(&answer_fd, 1); /* of an answer that could not be sent */
	kept_n = 0;
	answer = type;
	answer_event = *v;
}

void event_out_answer_fd(enum agent_type type, const struct agent_event *v, int fd)
{
	event_out_answer(type, v);
	answer_fd = fd;
}

void event_out_answer_kept(enum agent_type type, const struct agent_event *v, const int *fds,
			   size_t n)
{
	event_out_answer(type, v);
	kept_fds = fds;
	kept_n = n;
}

void event_out_all_dead(const struct agent_event *v)
{
	all_dead = true;
	all_dead_event = *v;
}

/* Fills in mark and flags, and lists the descriptors that go with the event. */
static size_t describe(const struct program *p, struct agent_event *v, int fds[SPAWN_STDIO])
{
	size_t n = 0;

	v->mark = p->mark;
	v->flags |= (p->held ? (uint32_t)AGENT_IS_HELD : 0) | (p->tty ? (uint32_t)AGENT_IS_TTY : 0);
	if (p->stdio[0] >= 0 && (p->held || !p->tty))
		v->flags |= AGENT_HAS_STDIN;
	if (p->stdio[3] >= 0)
		v->flags |= AGENT_HAS_RESULTS;
	if ((v->flags & AGENT_IS_STARTING) != 0)
		return 0;
	for (size_t i = 0; i < SPAWN_STDIO; i++)
		if (p->stdio[i] >= 0)
			fds[n++] = p->stdio[i];
	return n;
}

static bool send_held(const struct program *p)
{
	struct agent_event v = { .handle = p->handle, .pid = (uint32_t)p->pid };
	int fds[SPAWN_STDIO];
	size_t n;

	if (p->exited) {
		v = p->end;
		v.flags = AGENT_HAS_EXITED | p->end.flags;
	} else if (p->error_fd >= 0) {
		v.flags = AGENT_IS_STARTING;
	}
	n = describe(p, &v, fds);
	return channel_send(AGENT_HELD, &v, fds, n);
}

static bool send_started(struct program *p)
{
	struct agent_event v = { .handle = p->handle, .pid = (uint32_t)p->pid };
	int fds[SPAWN_STDIO];
	size_t n = describe(p, &v, fds);

	if (!channel_send(AGENT_STARTED, &v, fds, n))
		return false;
	if (!p->held)
		io_close_all(p->stdio, SPAWN_STDIO);
	return true;
}

static bool send_tree_dead(const struct program *p)
{
	const struct agent_event v = { .handle = p->handle, .flags = p->tree_flags };

	return channel_send(AGENT_TREE_DEAD, &v, NULL, 0);
}

static bool send_event(struct program *p, unsigned what)
{
	switch (what) {
	case PROGRAM_SEND_HELD:
		return send_held(p);
	case PROGRAM_SEND_STARTED:
		return send_started(p);
	case PROGRAM_SEND_FAILED:
		return channel_send(AGENT_FAILED, &p->end, NULL, 0);
	case PROGRAM_SEND_EXITED:
		return channel_send(AGENT_EXITED, &p->end, NULL, 0);
	default:
		return send_tree_dead(p);
	}
}

/* The output of a program is sent first, if it goes over the same connection. If it was killed, and
 * the server does not read, the wait has an end; so has that for a terminal, which other processes
 * may still write to. */
static bool must_wait(const struct program *p)
{
	bool killed = all_dead || (p->to_send & PROGRAM_SEND_TREE_DEAD) != 0, in_time;

	if (!channel_has_carrier())
		return false;
	in_time = clock_now_ns() < p->ended_ns + DRAIN_MS * CLOCK_MS;
	if (p->pump != NULL && in_time && pty_pump_has_output(p->pump))
		return true;
	return !channel_is_drained(p->handle) && (!killed || in_time);
}

bool event_out_waits(void)
{
	return exit_waits;
}

/* In the order of the flags' values: STARTED comes before EXITED, and TREE_DEAD is the last. */
static bool send_program(struct program *p)
{
	for (unsigned what = 1; p->to_send != 0; what <<= 1) {
		if ((p->to_send & what) == 0)
			continue;
		if (what == PROGRAM_SEND_EXITED && must_wait(p)) {
			exit_waits = true;
			return true;
		}
		if (!send_event(p, what))
			return false;
		p->to_send &= ~what;
	}
	if (p->exited && !p->held && !p->report_tree)
		programs_forget(p);
	return true;
}

static bool send_once(bool *pending, enum agent_type type, const struct agent_event *v)
{
	if (*pending && !channel_send(type, v, NULL, 0))
		return false;
	*pending = false;
	return true;
}

static bool send_answer(void)
{
	const int *fds = kept_n > 0 ? kept_fds : &answer_fd;
	size_t n = kept_n > 0 ? kept_n : answer_fd >= 0;

	if (answer != 0 && !channel_send(answer, &answer_event, fds, n))
		return false;
	answer = 0;
	io_close_all(&answer_fd, 1);
	return true;
}

static bool send_pending(void)
{
	if (!send_once(&ready, AGENT_READY, &(struct agent_event){ .pid = AGENT_VERSION }))
		return false;
	exit_waits = false;
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->to_send != 0 && !send_program(p))
			return false;
	if (!send_once(&synced, AGENT_SYNCED, &(struct agent_event){ 0 }) || !send_answer())
		return false;
	return exit_waits || send_once(&all_dead, AGENT_ALL_DEAD, &all_dead_event);
}

bool event_out_all(void)
{
	/* If the connection ends meanwhile, pending events are for the next one. */
	return send_pending() || channel_is_broken();
}
