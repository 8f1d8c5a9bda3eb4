#include "cell/shim/guest_programs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cell/shim/carrier.h"
#include "cell/shim/shim.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"

#define PIPE_SIZE (256 << 10) /* if the kernel allows it */

#define TABLE ((size_t)2 * AGENT_PROGRAMS_MAX)

/* Twice the bound, because forgotten programs stay until the guest has answered. */
static struct guest_program programs[TABLE];

struct guest_program *guest_programs_next(const struct guest_program *p)
{
	for (size_t i = p == NULL ? 0 : (size_t)(p - programs) + 1; i < TABLE; i++)
		if (programs[i].agent.used)
			return &programs[i];
	return NULL;
}

static struct guest_program *guest_programs_find_any(uint32_t handle)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		if (p->agent.handle == handle)
			return p;
	return NULL;
}

struct guest_program *guest_programs_find(uint32_t handle)
{
	struct guest_program *p = guest_programs_find_any(handle);

	return p != NULL && !p->agent.forgotten ? p : NULL;
}

bool guest_programs_is_leaving(uint32_t handle)
{
	const struct guest_program *p = guest_programs_find_any(handle);

	return p != NULL && p->barrier != 0;
}

/* Only programs that the server knows count. */
static bool guest_programs_is_full(void)
{
	unsigned n = 0;

	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		n += !p->agent.forgotten;
	return n >= AGENT_PROGRAMS_MAX;
}

/* NULL: the table is full. */
static struct guest_program *guest_programs_add(uint32_t handle)
{
	for (size_t i = 0; !guest_programs_is_full() && i < TABLE; i++) {
		if (programs[i].agent.used)
			continue;
		programs[i] = (struct guest_program){
			.agent = { .used = true, .handle = handle, .stdio = { -1, -1, -1, -1 } }
		};
		return &programs[i];
	}
	return NULL;
}

/* report_send() may be able to tell an exit now. */
static void on_stream_end(struct stream *s)
{
	struct guest_program *p = s->arg;

	for (size_t i = 0; i < GUEST_EVENT_FDS; i++)
		if (p->streams[i] == s)
			p->streams[i] = NULL;
	shim_wake();
}

/* Its streams continue without it. */
static void guest_programs_forget(struct guest_program *p)
{
	for (size_t i = 0; i < GUEST_EVENT_FDS; i++)
		if (p->streams[i] != NULL)
			p->streams[i]->on_end = NULL;
	io_close_all(p->agent.stdio, GUEST_EVENT_FDS);
	p->agent.used = false;
}

/* False: *ret_failed is the answer, and the guest is not asked. */
bool guest_programs_on_spawn(const struct agent_spawn *s, struct agent_event *ret_failed)
{
	/* A PTY of the guest has no master outside: its bytes are moved, which needs HOLD. */
	bool lone_tty = (s->flags & (AGENT_TTY | AGENT_HOLD)) == AGENT_TTY;
	struct guest_program *p = NULL;

	*ret_failed = (struct agent_event){ .handle = s->handle,
					    .stage = AGENT_AT_SYSTEM,
					    .sys = lone_tty ? EOPNOTSUPP : EAGAIN };
	if (!lone_tty && guest_programs_find_any(s->handle) == NULL)
		p = guest_programs_add(s->handle);
	if (p == NULL)
		return false;
	p->agent.starting = true;
	p->agent.held = (s->flags & AGENT_HOLD) != 0;
	p->agent.tty = (s->flags & AGENT_TTY) != 0;
	p->with_stdin = (s->flags & AGENT_NO_STDIN) == 0;
	p->with_results = (s->flags & AGENT_RESULTS) != 0;
	p->agent.deadline_ns = agentd_deadline(s->timeout_ms);
	return true;
}

struct guest_program *guest_programs_on_kill_tree(const struct agent_order *o,
						  struct agent_event *ret_answer)
{
	struct guest_program *p = guest_programs_find(o->handle);

	*ret_answer = (struct agent_event){ .handle = o->handle, .flags = AGENT_NOT_KNOWN };
	if (p == NULL && o->ms != 0) {
		ret_answer->flags = AGENT_SOME_REMAIN;
		p = guest_programs_find_any(o->handle) == NULL ? guest_programs_add(o->handle)
							       : NULL;
		if (p != NULL)
			p->agent.leftover = p->agent.exited = true;
	}
	if (p != NULL)
		p->agent.report_tree = true;
	return p;
}

bool guest_programs_on_forget(uint32_t handle, uint64_t barrier)
{
	struct guest_program *p = guest_programs_find(handle);

	if (p == NULL || p->agent.leftover)
		return false;
	p->agent.forgotten = true;
	p->agent.exit_waits = false;
	p->barrier = barrier;
	p->agent.to_send = 0;
	io_close_all(p->agent.stdio, GUEST_EVENT_FDS);
	return true;
}

void guest_programs_on_pong(uint64_t pongs)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;)
		if (p->barrier != 0 && p->barrier <= pongs)
			guest_programs_forget(p);
}

/* Events of the guest. */

static int guest_programs_refuse(struct err *e, uint32_t handle, const char *what)
{
	return err_set(e, ERR_INVALID, "the guest's agent: program %u %s", handle, what);
}

/* An event's i-th stream among the four descriptors. */
static size_t guest_programs_place_of(uint32_t flags, size_t i)
{
	return i + ((flags & AGENT_HAS_STDIN) == 0);
}

/* Join one stream to a pipe. The server's end becomes p->agent.stdio[at]. */
static int guest_programs_join(struct guest_program *p, size_t at, uint16_t number, struct err *e)
{
	enum mux_way way = at == 0 ? MUX_OUT : MUX_IN;
	int pair[2], mine = at == 0 ? 0 : 1;
	struct stream *s;

	if (mux_accept(&carrier_mux, number, way, NULL, e) < 0)
		return -1;
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, "the shim has no descriptors left for a program's pipes");
	(void)fcntl(pair[0], F_SETPIPE_SZ, PIPE_SIZE);
	p->agent.stdio[at] = pair[1 - mine];
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
static int guest_programs_join_all(struct guest_program *p, const struct guest_event *v,
				   struct err *e)
{
	for (size_t i = 0; i < v->nstreams; i++)
		if (guest_programs_join(p, guest_programs_place_of(v->event.flags, i),
					v->streams[i], e) < 0) {
			io_close_all(p->agent.stdio, GUEST_EVENT_FDS);
			return -1;
		}
	return 0;
}

static bool guest_programs_shape_fits(const struct guest_program *p, uint32_t flags)
{
	return ((flags & AGENT_IS_HELD) != 0) == p->agent.held &&
	       ((flags & AGENT_IS_TTY) != 0) == p->agent.tty &&
	       ((flags & AGENT_HAS_STDIN) != 0) == p->with_stdin &&
	       ((flags & AGENT_HAS_RESULTS) != 0) == p->with_results;
}

/* The server has forgotten the program in the meantime. */
static int guest_programs_drop_streams(const struct guest_event *v, struct err *e)
{
	for (size_t i = 0; i < v->nstreams; i++) {
		bool in = guest_programs_place_of(v->event.flags, i) == 0;

		if (mux_accept(&carrier_mux, v->streams[i], in ? MUX_OUT : MUX_IN, NULL, e) < 0)
			return -1;
		mux_reset(&carrier_mux, v->streams[i], 0);
	}
	return 0;
}

/* The guest is not trusted: an event that does not fit the request is an error, which ends the
 * guest. */
static int on_started(struct guest_program *p, const struct guest_event *v, struct err *e)
{
	if (!p->agent.starting || !guest_programs_shape_fits(p, v->event.flags))
		return guest_programs_refuse(e, v->event.handle, "was started, but not as asked");
	p->agent.pid = (pid_t)v->event.pid;
	p->agent.mark = v->event.mark;
	if ((p->agent.forgotten ? guest_programs_drop_streams(v, e)
				: guest_programs_join_all(p, v, e)) < 0)
		return -1;
	p->agent.starting = false;
	if (!p->agent.forgotten &&
	    (p->agent.to_send & AGENTD_SEND_HELD) == 0) /* HELD tells it, too */
		p->agent.to_send |= AGENTD_SEND_STARTED;
	return 0;
}

static int on_failed(struct guest_program *p, const struct agent_event *v, struct err *e)
{
	if (!p->agent.starting)
		return guest_programs_refuse(e, v->handle,
					     "failed to start, but was not asked for");
	p->agent.starting = false;
	p->agent.exited = p->agent.failed = true;
	p->agent.end = *v;
	if (!p->agent.forgotten) /* in place of HELD: it has no process and no pipes */
		p->agent.to_send =
			(p->agent.to_send & ~(unsigned)AGENTD_SEND_HELD) | AGENTD_SEND_FAILED;
	else if (p->barrier == 0)
		guest_programs_forget(p);
	return 0;
}

/* The exit is reported after the output that came before it. */
static int on_exited(struct guest_program *p, const struct agent_event *v, struct err *e)
{
	if (p->agent.starting || p->agent.exited)
		return guest_programs_refuse(e, v->handle, "ended, but did not run");
	p->agent.exited = true;
	p->agent.end = *v;
	p->agent.end.timed_out = p->agent.timed_out;
	if (p->agent.forgotten) {
		if (!p->kill_waits && p->barrier == 0)
			guest_programs_forget(p);
		return 0;
	}
	p->agent.exit_waits = true;
	for (size_t i = 1; i < GUEST_EVENT_FDS; i++)
		p->output_ends[i] = p->streams[i] == NULL ? 0 : p->streams[i]->received;
	return 0;
}

static int on_tree_dead(struct guest_program *p, const struct agent_event *v, struct err *e)
{
	if (!p->kill_waits)
		return guest_programs_refuse(e, v->handle, "was killed, but not by a request");
	p->kill_waits = false;
	p->agent.tree_flags = v->flags;
	if (p->agent.report_tree && !p->agent.forgotten)
		p->agent.to_send |= AGENTD_SEND_TREE_DEAD;
	else if (p->agent.leftover || (p->agent.forgotten && p->agent.exited && p->barrier == 0))
		guest_programs_forget(p);
	return 0;
}

/* After a greeting: a program of the memory image. The shim is new, so there is none of it yet. */
static int on_held(const struct guest_event *v, struct err *e)
{
	const uint32_t flags = v->event.flags;
	struct guest_program *p = guest_programs_find_any(v->event.handle) == NULL
					  ? guest_programs_add(v->event.handle)
					  : NULL;

	if (p == NULL)
		return guest_programs_refuse(e, v->event.handle, "is held twice, or one too many");
	if ((flags & AGENT_IS_STARTING) != 0)
		p->agent.starting = true;
	p->agent.held = true;
	p->agent.tty = (flags & AGENT_IS_TTY) != 0;
	p->with_stdin = (flags & AGENT_HAS_STDIN) != 0;
	p->with_results = (flags & AGENT_HAS_RESULTS) != 0;
	p->agent.pid = (pid_t)v->event.pid;
	p->agent.mark = v->event.mark;
	if ((flags & AGENT_HAS_EXITED) != 0) {
		p->agent.exited = true;
		p->agent.end = v->event;
		p->agent.end.flags = flags & (AGENT_HIT_MEMORY | AGENT_HIT_PIDS);
	}
	if (guest_programs_join_all(p, v, e) < 0) {
		guest_programs_forget(p);
		return -1;
	}
	p->agent.to_send = AGENTD_SEND_HELD;
	return 0;
}

int guest_programs_on_event(uint16_t type, const struct guest_event *v, bool greeting,
			    struct err *e)
{
	struct guest_program *p = guest_programs_find_any(v->event.handle);

	if (type == AGENT_HELD)
		return greeting ? on_held(v, e)
				: guest_programs_refuse(e, v->event.handle, "is held, unasked");
	if (p == NULL)
		return guest_programs_refuse(e, v->event.handle, "is not known");
	if (type == AGENT_STARTED)
		return on_started(p, v, e);
	if (type == AGENT_FAILED)
		return on_failed(p, &v->event, e);
	return type == AGENT_EXITED ? on_exited(p, &v->event, e) : on_tree_dead(p, &v->event, e);
}

/* Reports. */

/* True if the server's pipes have all output up to the exit. */
static bool guest_programs_is_written(const struct guest_program *p)
{
	for (size_t i = 1; i < GUEST_EVENT_FDS; i++)
		if (p->streams[i] != NULL && p->streams[i]->written < p->output_ends[i])
			return false;
	return true;
}

void guest_programs_check_exits(void)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		if (!p->agent.exit_waits || !guest_programs_is_written(p))
			continue;
		p->agent.exit_waits = false;
		if ((p->agent.to_send & AGENTD_SEND_HELD) == 0) /* HELD tells it, too */
			p->agent.to_send |= AGENTD_SEND_EXITED;
	}
}

bool guest_programs_waits(const struct guest_program *p, unsigned what)
{
	return what == AGENTD_SEND_TREE_DEAD && p->agent.exit_waits;
}

void guest_programs_on_sent(struct guest_program *p, unsigned what)
{
	if (what == AGENTD_SEND_TREE_DEAD)
		p->agent.report_tree = false;
	if (p->agent.to_send != 0 || p->kill_waits || p->agent.starting || p->agent.exit_waits)
		return;
	if (p->agent.leftover || (p->agent.exited && !p->agent.held))
		guest_programs_forget(p);
}

/* Held programs wait for the next server. The others are killed. */
void guest_programs_on_disconnect(void)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		p->agent.report_tree = false;
		if (p->agent.forgotten)
			continue;
		if (p->agent.held) {
			p->agent.to_send = p->agent.failed ? AGENTD_SEND_FAILED : AGENTD_SEND_HELD;
			continue;
		}
		p->agent.to_send = 0;
		p->kill_wanted = !p->agent.exited;
		p->agent.exit_waits = false;
		p->agent.forgotten = true;
		io_close_all(p->agent.stdio, GUEST_EVENT_FDS);
		if (p->agent.exited && !p->kill_waits)
			guest_programs_forget(p);
	}
}

/* Deadlines. */

/* KILL_TREE, too, has to be answered. */
static bool guest_programs_is_overdue(const struct guest_program *p, uint64_t now_ns)
{
	if (p->agent.deadline_ns == 0 || p->agent.deadline_ns > now_ns)
		return false;
	return (!p->agent.exited && !p->agent.forgotten) || (p->agent.timed_out && p->kill_waits);
}

bool guest_programs_are_overdue(uint64_t now_ns, bool count, unsigned *ret_most)
{
	bool any = false;

	*ret_most = 0;
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		if (!guest_programs_is_overdue(p, now_ns)) {
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
