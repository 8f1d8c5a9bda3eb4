#include "guest_programs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "carrier.h"
#include "clock.h"
#include "io.h"
#include "shim.h"

#define PIPE_SIZE (256 << 10) /* if the kernel allows it */

#define TABLE ((size_t)2 * AGENT_PROGRAMS_MAX)

static struct guest_program programs[TABLE];

struct guest_program *guest_programs_next(const struct guest_program *p)
{
	for (size_t i = p == NULL ? 0 : (size_t)(p - programs) + 1; i < TABLE; i++)
		if (programs[i].used)
			return &programs[i];
	return NULL;
}

static struct guest_program *find_any(uint32_t handle)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		if (p->handle == handle)
			return p;
	return NULL;
}

struct guest_program *guest_programs_find(uint32_t handle)
{
	struct guest_program *p = find_any(handle);

	return p != NULL && !p->forgotten ? p : NULL;
}

bool guest_programs_is_leaving(uint32_t handle)
{
	const struct guest_program *p = find_any(handle);

	return p != NULL && p->barrier != 0;
}

static bool is_full(void)
{
	unsigned n = 0;

	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		n += !p->forgotten;
	return n >= AGENT_PROGRAMS_MAX;
}

static struct guest_program *add(uint32_t handle)
{
	for (size_t i = 0; !is_full() && i < TABLE; i++) {
		if (programs[i].used)
			continue;
		programs[i] = (struct guest_program){ .used = true,
						      .handle = handle,
						      .stdio = { -1, -1, -1, -1 } };
		return &programs[i];
	}
	return NULL;
}

static void on_stream_end(struct stream *s)
{
	struct guest_program *p = s->arg;

	for (size_t i = 0; i < GUEST_EVENT_FDS; i++)
		if (p->streams[i] == s)
			p->streams[i] = NULL;
	shim_wake();
}

/* Its streams go on without it. */
static void forget(struct guest_program *p)
{
	for (size_t i = 0; i < GUEST_EVENT_FDS; i++)
		if (p->streams[i] != NULL)
			p->streams[i]->on_end = NULL;
	io_close_all(p->stdio, GUEST_EVENT_FDS);
	p->used = false;
}

static uint64_t deadline(uint64_t timeout_ms)
{
	if (timeout_ms == 0 || timeout_ms > AGENT_TIME_MAX_MS)
		return 0;
	return clock_now_ns() + timeout_ms * CLOCK_MS;
}

bool guest_programs_on_spawn(const struct agent_spawn *s, struct agent_event *ret_failed)
{
	/* A PTY of the guest has no master outside: its bytes are moved, which needs HOLD. */
	bool lone_tty = (s->flags & (AGENT_TTY | AGENT_HOLD)) == AGENT_TTY;
	struct guest_program *p = NULL;

	*ret_failed = (struct agent_event){ .handle = s->handle,
					    .stage = AGENT_AT_SYSTEM,
					    .sys = lone_tty ? EOPNOTSUPP : EAGAIN };
	if (!lone_tty && find_any(s->handle) == NULL)
		p = add(s->handle);
	if (p == NULL)
		return false;
	p->starting = true;
	p->held = (s->flags & AGENT_HOLD) != 0;
	p->tty = (s->flags & AGENT_TTY) != 0;
	p->with_stdin = (s->flags & AGENT_NO_STDIN) == 0;
	p->with_results = (s->flags & AGENT_RESULTS) != 0;
	p->deadline_ns = deadline(s->timeout_ms);
	return true;
}

struct guest_program *guest_programs_on_kill_tree(const struct agent_order *o,
						  struct agent_event *ret_answer)
{
	struct guest_program *p = guest_programs_find(o->handle);

	*ret_answer = (struct agent_event){ .handle = o->handle, .flags = AGENT_NOT_KNOWN };
	if (p == NULL && o->ms != 0) {
		ret_answer->flags = AGENT_SOME_REMAIN;
		p = find_any(o->handle) == NULL ? add(o->handle) : NULL;
		if (p != NULL)
			p->leftover = p->exited = true;
	}
	if (p != NULL)
		p->report_tree = true;
	return p;
}

bool guest_programs_on_forget(uint32_t handle, uint64_t barrier)
{
	struct guest_program *p = guest_programs_find(handle);

	if (p == NULL || p->leftover)
		return false;
	p->forgotten = true;
	p->exit_waits = false;
	p->barrier = barrier;
	p->to_send = 0;
	io_close_all(p->stdio, GUEST_EVENT_FDS);
	return true;
}

void guest_programs_on_pong(uint64_t pongs)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		if (p->barrier != 0 && p->barrier <= pongs)
			forget(p);
}

void guest_programs_on_close_stdin(uint32_t handle)
{
	struct guest_program *p = guest_programs_find(handle);

	if (p != NULL && p->held)
		io_close_all(&p->stdio[0], 1);
}

/* Events of the guest. */

static int refuse(struct err *e, uint32_t handle, const char *what)
{
	return err_set(e, ERR_INVALID, "the guest's agent: program %u %s", handle, what);
}

/* Which of the four descriptors the i-th stream of an event is. */
static size_t place_of(uint32_t flags, size_t i)
{
	return i + ((flags & AGENT_HAS_STDIN) == 0);
}

/* Joins one stream to a pipe; the server's end becomes p->stdio[at]. */
static int join(struct guest_program *p, size_t at, uint16_t number, struct err *e)
{
	enum mux_way way = at == 0 ? MUX_OUT : MUX_IN;
	int pair[2], mine = at == 0 ? 0 : 1;
	struct stream *s;

	if (mux_accept(&carrier_mux, number, way, NULL, e) < 0)
		return -1;
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, "the shim has no descriptors left for a program's pipes");
	(void)fcntl(pair[0], F_SETPIPE_SZ, PIPE_SIZE);
	p->stdio[at] = pair[1 - mine];
	s = stream_new(pair[mine], way, false);
	if (s == NULL)
		return err_set(e, ERR_SYSTEM, "the shim has no memory left for a program's pipes");
	s->on_end = on_stream_end;
	s->arg = p;
	p->streams[at] = s;
	stream_join(s, number);
	return 0;
}

/* All streams of STARTED or HELD. */
static int join_all(struct guest_program *p, const struct guest_event *v, struct err *e)
{
	for (size_t i = 0; i < v->nstreams; i++)
		if (join(p, place_of(v->event.flags, i), v->streams[i], e) < 0) {
			io_close_all(p->stdio, GUEST_EVENT_FDS);
			return -1;
		}
	return 0;
}

static bool shape_fits(const struct guest_program *p, uint32_t flags)
{
	return ((flags & AGENT_IS_HELD) != 0) == p->held &&
	       ((flags & AGENT_IS_TTY) != 0) == p->tty &&
	       ((flags & AGENT_HAS_STDIN) != 0) == p->with_stdin &&
	       ((flags & AGENT_HAS_RESULTS) != 0) == p->with_results;
}

/* It was forgotten meanwhile. */
static int drop_streams(const struct guest_event *v, struct err *e)
{
	for (size_t i = 0; i < v->nstreams; i++) {
		bool in = place_of(v->event.flags, i) == 0;

		if (mux_accept(&carrier_mux, v->streams[i], in ? MUX_OUT : MUX_IN, NULL, e) < 0)
			return -1;
		mux_reset(&carrier_mux, v->streams[i], 0);
	}
	return 0;
}

static int on_started(struct guest_program *p, const struct guest_event *v, struct err *e)
{
	if (!p->starting || !shape_fits(p, v->event.flags))
		return refuse(e, v->event.handle, "was started, but not as asked");
	p->pid = v->event.pid;
	p->mark = v->event.mark;
	if ((p->forgotten ? drop_streams(v, e) : join_all(p, v, e)) < 0)
		return -1;
	p->starting = false;
	if (!p->forgotten && (p->to_send & GUEST_SEND_HELD) == 0) /* which has it, too */
		p->to_send |= GUEST_SEND_STARTED;
	return 0;
}

static int on_failed(struct guest_program *p, const struct agent_event *v, struct err *e)
{
	if (!p->starting)
		return refuse(e, v->handle, "failed to start, but was not asked for");
	p->starting = false;
	p->exited = p->failed = true;
	p->end = *v;
	if (!p->forgotten) /* in place of HELD: it has no process and no pipes */
		p->to_send = (p->to_send & ~(unsigned)GUEST_SEND_HELD) | GUEST_SEND_FAILED;
	else if (p->barrier == 0)
		forget(p);
	return 0;
}

static int on_exited(struct guest_program *p, const struct agent_event *v, struct err *e)
{
	if (p->starting || p->exited)
		return refuse(e, v->handle, "ended, but did not run");
	p->exited = true;
	p->end = *v;
	p->end.timed_out = p->timed_out;
	if (p->forgotten) {
		if (!p->kill_waits && p->barrier == 0)
			forget(p);
		return 0;
	}
	p->exit_waits = true;
	for (size_t i = 1; i < GUEST_EVENT_FDS; i++)
		p->output_ends[i] = p->streams[i] == NULL ? 0 : p->streams[i]->received;
	return 0;
}

static int on_tree_dead(struct guest_program *p, const struct agent_event *v, struct err *e)
{
	if (!p->kill_waits)
		return refuse(e, v->handle, "was killed, but not by a request");
	p->kill_waits = false;
	p->tree_flags = v->flags;
	if (p->report_tree && !p->forgotten)
		p->to_send |= GUEST_SEND_TREE_DEAD;
	else if (p->leftover || (p->forgotten && p->exited && p->barrier == 0))
		forget(p);
	return 0;
}

/* After a greeting: a program of the memory image. The shim is new, so there is none of it yet. */
static int on_held(const struct guest_event *v, struct err *e)
{
	const uint32_t flags = v->event.flags;
	struct guest_program *p = find_any(v->event.handle) == NULL ? add(v->event.handle) : NULL;

	if (p == NULL)
		return refuse(e, v->event.handle, "is held twice, or one too many");
	if ((flags & AGENT_IS_STARTING) != 0)
		p->starting = true;
	p->held = true;
	p->tty = (flags & AGENT_IS_TTY) != 0;
	p->with_stdin = (flags & AGENT_HAS_STDIN) != 0;
	p->with_results = (flags & AGENT_HAS_RESULTS) != 0;
	p->pid = v->event.pid;
	p->mark = v->event.mark;
	if ((flags & AGENT_HAS_EXITED) != 0) {
		p->exited = true;
		p->end = v->event;
		p->end.flags = flags & (AGENT_HIT_MEMORY | AGENT_HIT_PIDS);
	}
	if (join_all(p, v, e) < 0) {
		forget(p);
		return -1;
	}
	p->to_send = GUEST_SEND_HELD;
	return 0;
}

int guest_programs_on_event(uint16_t type, const struct guest_event *v, bool greeting,
			    struct err *e)
{
	struct guest_program *p = find_any(v->event.handle);

	if (type == AGENT_HELD)
		return greeting ? on_held(v, e) : refuse(e, v->event.handle, "is held, unasked");
	if (p == NULL)
		return refuse(e, v->event.handle, "is not known");
	if (type == AGENT_STARTED)
		return on_started(p, v, e);
	if (type == AGENT_FAILED)
		return on_failed(p, &v->event, e);
	return type == AGENT_EXITED ? on_exited(p, &v->event, e) : on_tree_dead(p, &v->event, e);
}

/* Reports. */

static bool is_written(const struct guest_program *p)
{
	for (size_t i = 1; i < GUEST_EVENT_FDS; i++)
		if (p->streams[i] != NULL && p->streams[i]->written < p->output_ends[i])
			return false;
	return true;
}

void guest_programs_check_exits(void)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		if (!p->exit_waits || !is_written(p))
			continue;
		p->exit_waits = false;
		if ((p->to_send & GUEST_SEND_HELD) == 0) /* which has it, too */
			p->to_send |= GUEST_SEND_EXITED;
	}
}

void guest_programs_on_sent(struct guest_program *p, unsigned what)
{
	p->to_send &= ~what;
	if (what == GUEST_SEND_STARTED && !p->held)
		io_close_all(p->stdio, GUEST_EVENT_FDS);
	if (what == GUEST_SEND_TREE_DEAD)
		p->report_tree = false;
	if (p->to_send != 0 || p->kill_waits || p->starting || p->exit_waits)
		return;
	if (p->leftover || (p->exited && !p->held))
		forget(p);
}

void guest_programs_on_disconnect(void)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		p->report_tree = false;
		if (p->forgotten)
			continue;
		if (p->held) {
			p->to_send = p->failed ? GUEST_SEND_FAILED : GUEST_SEND_HELD;
			continue;
		}
		p->to_send = 0;
		p->kill_wanted = !p->exited;
		p->exit_waits = false;
		p->forgotten = true;
		io_close_all(p->stdio, GUEST_EVENT_FDS);
		if (p->exited && !p->kill_waits)
			forget(p);
	}
}

/* Deadlines. */

static bool has_deadline(const struct guest_program *p)
{
	return p->deadline_ns != 0 && !p->timed_out && !p->exited && !p->forgotten;
}

uint64_t guest_programs_deadline(void)
{
	uint64_t nearest = 0;

	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		if (has_deadline(p) && (nearest == 0 || p->deadline_ns < nearest))
			nearest = p->deadline_ns;
	return nearest;
}

void guest_programs_delay_deadlines(uint64_t ms)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		if (p->deadline_ns != 0 && p->deadline_ns < UINT64_MAX / 2)
			p->deadline_ns += ms * CLOCK_MS;
}

struct guest_program *guest_programs_next_late(uint64_t now_ns)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		if (!has_deadline(p) || p->deadline_ns > now_ns)
			continue;
		p->timed_out = true;
		return p;
	}
	return NULL;
}

/* KILL_TREE, too, has to be answered. */
static bool is_overdue(const struct guest_program *p, uint64_t now_ns)
{
	if (p->deadline_ns == 0 || p->deadline_ns > now_ns)
		return false;
	return (!p->exited && !p->forgotten) || (p->timed_out && p->kill_waits);
}

bool guest_programs_are_overdue(uint64_t now_ns, bool count, unsigned *ret_most)
{
	bool any = false;

	*ret_most = 0;
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		if (!is_overdue(p, now_ns)) {
			p->late_ticks = 0;
			continue;
		}
		any = true;
		p->late_ticks += count;
		if (p->late_ticks > *ret_most)
			*ret_most = p->late_ticks;
	}
	return any;
}
