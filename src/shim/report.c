#include "report.h"

#include <string.h>
#include <unistd.h>

#include "boot_msg.h"
#include "channel.h"
#include "guest_dial.h"
#include "guest_programs.h"
#include "io.h"

/* One report that is to be sent. */
struct slot {
	bool pending;
	enum agent_type type;
	struct agent_event event;
	int fds[2]; /* owned */
	size_t nfds;
};

static bool ready, synced;
static struct slot answer, all_dead, booted, snapshot, gone;
static const int *kept_fds; /* borrowed: sent with the answer */
static size_t kept_n;
static unsigned stated; /* how many */
static struct agent_event stated_event;
static bool responsive = true, told = true;

static void clear(struct slot *s)
{
	io_close_all(s->fds, s->nfds);
	s->nfds = 0;
	s->pending = false;
}

static void set(struct slot *s, enum agent_type type, const struct agent_event *v, int a, int b)
{
	clear(s);
	*s = (struct slot){ .pending = true, .type = type, .event = *v };
	if (a >= 0)
		s->fds[s->nfds++] = a;
	if (b >= 0)
		s->fds[s->nfds++] = b;
}

void report_begin(bool greet)
{
	ready = true;
	synced = greet;
	told = true;
	stated = 0;
	kept_n = 0;
	clear(&answer);
	clear(&all_dead);
	clear(&booted);
	clear(&snapshot);
}

void report_answer(enum agent_type type, const struct agent_event *v)
{
	kept_n = 0;
	set(&answer, type, v, -1, -1);
}

void report_answer_fd(enum agent_type type, const struct agent_event *v, int fd)
{
	kept_n = 0;
	set(&answer, type, v, fd, -1);
}

void report_answer_kept(enum agent_type type, const struct agent_event *v, const int *fds, size_t n)
{
	report_answer(type, v);
	kept_fds = fds;
	kept_n = n;
}

void report_all_dead(const struct agent_event *v)
{
	set(&all_dead, AGENT_ALL_DEAD, v, -1, -1);
}

void report_stated(const struct agent_event *v)
{
	stated++;
	stated_event = *v;
}

void report_booted(const struct agent_event *v, int text)
{
	struct agent_event with = *v;

	with.flags = text >= 0 ? AGENT_HAS_TEXT : 0;
	set(&booted, AGENT_BOOTED, &with, text, -1);
}

void report_snapshot(const struct agent_event *v, int memory, int devices)
{
	set(&snapshot, AGENT_SNAPSHOT_DONE, v, memory, devices);
}

void report_responsive(bool now)
{
	responsive = now;
}

void report_gone(uint32_t state, int text)
{
	const struct agent_event v = { .stage = state,
				       .flags = text >= 0 ? (uint32_t)AGENT_HAS_TEXT : 0 };

	set(&gone, AGENT_GUEST, &v, text, -1);
}

static bool send_slot(struct slot *s)
{
	if (!s->pending)
		return true;
	if (!channel_send(s->type, &s->event, s->fds, s->nfds))
		return false;
	clear(s);
	return true;
}

/* Fills in mark and flags, and lists the descriptors that go with the event. */
static size_t describe(const struct guest_program *p, struct agent_event *v, int *fds)
{
	size_t n = 0;

	v->mark = p->mark;
	v->flags |= (p->held ? (uint32_t)AGENT_IS_HELD : 0) | (p->tty ? (uint32_t)AGENT_IS_TTY : 0);
	if (p->stdio[0] >= 0)
		v->flags |= AGENT_HAS_STDIN;
	if (p->stdio[3] >= 0)
		v->flags |= AGENT_HAS_RESULTS;
	for (size_t i = 0; i < GUEST_EVENT_FDS && !p->starting; i++)
		if (p->stdio[i] >= 0)
			fds[n++] = p->stdio[i];
	return n;
}

static bool send_program(const struct guest_program *p, unsigned what)
{
	struct agent_event v = { .handle = p->handle, .pid = p->pid };
	int fds[GUEST_EVENT_FDS];
	size_t n;

	if (what == GUEST_SEND_FAILED || what == GUEST_SEND_EXITED)
		return channel_send(what == GUEST_SEND_FAILED ? AGENT_FAILED : AGENT_EXITED,
				    &p->end, NULL, 0);
	if (what == GUEST_SEND_TREE_DEAD) {
		v = (struct agent_event){ .handle = p->handle, .flags = p->tree_flags };
		return channel_send(AGENT_TREE_DEAD, &v, NULL, 0);
	}
	if (what == GUEST_SEND_HELD && p->exited && !p->exit_waits) {
		v = p->end;
		v.flags |= AGENT_HAS_EXITED;
	} else if (p->starting) {
		v.flags = AGENT_IS_STARTING;
	}
	n = describe(p, &v, fds);
	return channel_send(what == GUEST_SEND_HELD ? AGENT_HELD : AGENT_STARTED, &v, fds, n);
}

/* In the order of the flags' values; TREE_DEAD not before EXITED. */
static bool send_programs(void)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		for (unsigned what = 1; p->used && what <= GUEST_SEND_TREE_DEAD; what <<= 1) {
			if ((p->to_send & what) == 0 ||
			    (what == GUEST_SEND_TREE_DEAD && p->exit_waits))
				continue;
			if (!send_program(p, what))
				return false;
			guest_programs_on_sent(p, what);
		}
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
	if (!answer.pending)
		return true;
	if (kept_n == 0)
		return send_slot(&answer);
	if (!channel_send(answer.type, &answer.event, kept_fds, kept_n))
		return false;
	kept_n = 0;
	clear(&answer);
	return true;
}

static bool send_stated(void)
{
	for (; stated > 0; stated--)
		if (!channel_send(AGENT_STATED, &stated_event, NULL, 0))
			return false;
	return true;
}

static bool send_responsive(void)
{
	const struct agent_event v = { .stage = responsive ? BOOT_GUEST_ALIVE
							   : BOOT_GUEST_UNRESPONSIVE };

	if (responsive == told)
		return true;
	if (!channel_send(AGENT_GUEST, &v, NULL, 0))
		return false;
	told = responsive;
	return true;
}

static bool send_dials(void)
{
	struct agent_event v;
	int fd;

	while (guest_dial_next_done(&v, &fd)) {
		if (!channel_send(AGENT_DIALED, &v, &fd, v.sys == 0))
			return false;
		guest_dial_on_sent(&v);
	}
	return true;
}

static bool send_pending(void)
{
	static const struct agent_event first = { .pid = AGENT_VERSION }, none;

	if (!send_once(&ready, AGENT_READY, &first) || !send_programs() ||
	    !send_once(&synced, AGENT_SYNCED, &none) || !send_answer() || !send_stated() ||
	    !send_slot(&all_dead) || !send_dials() || !send_slot(&booted) ||
	    !send_slot(&snapshot) || !send_responsive())
		return false;
	if (!gone.pending)
		return true;
	if (send_slot(&gone))
		_exit(0);
	return false;
}

bool report_all(void)
{
	return send_pending() || channel_is_broken();
}
