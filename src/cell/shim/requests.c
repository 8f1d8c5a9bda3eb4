#include "cell/shim/requests.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cell/init/base/channel.h"
#include "cell/init/pid1/agentd.h"
#include "cell/shim/carrier.h"
#include "cell/shim/guest_dial.h"
#include "cell/shim/guest_life.h"
#include "cell/shim/guest_messages.h"
#include "cell/shim/guest_programs.h"
#include "cell/shim/shim.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/wire/agent_msg.h"
#include "lib/wire/boot_msg.h"

#define OVERDUE_TICKS 5
#define OVERDUE_TICK_MS 1000

static void requests_send_order(enum agent_type type, const struct agent_order *o)
{
	(void)carrier_send((uint16_t)type, o, sizeof(*o));
}

/* Requests for the guest, while it takes them. */

/* False: it has to wait. */
static bool on_spawn(const struct frame *f)
{
	uint8_t head[AGENT_SPAWN_HEAD];
	struct agent_spawn s;
	struct agent_event failed;
	struct err e;

	if (agent_spawn_read(f->body, f->len, &s, &e) < 0)
		_exit(1); /* both ends are built together */
	if (guest_programs_is_leaving(s.handle))
		return false;
	if (!guest_programs_on_spawn(&s, &failed)) {
		agentd_answer(AGENT_FAILED, &failed);
		return true;
	}
	agent_spawn_untimed(f->body, head); /* the shim enforces timeouts */
	carrier_send_large(AGENT_SPAWN, head, sizeof(head), f->body + sizeof(head),
			   f->len - sizeof(head));
	return true;
}

/* The guest gives one answer to all that come while it kills, so one at a time is sent. */
static void requests_kill_tree(struct guest_program *p, const struct agent_order *o)
{
	if (!p->kill_waits)
		requests_send_order(AGENT_KILL_TREE, o);
	p->kill_waits = true;
}

static void on_kill_tree(const struct agent_order *o)
{
	struct agent_event v;
	struct guest_program *p = guest_programs_on_kill_tree(o, &v);

	if (p != NULL)
		requests_kill_tree(p, o);
	else
		agentd_answer(AGENT_TREE_DEAD, &v);
}

/* Orders for programs that the shim does not know are dropped. */
static void on_guest_order(uint16_t type, const struct agent_order *o)
{
	const struct guest_program *p = guest_programs_find(o->handle);

	if (type == AGENT_STAT)
		guest_messages_stat();
	else if (type == AGENT_KILL_ALL)
		guest_messages_kill_all();
	else if (type == AGENT_KILL_TREE)
		on_kill_tree(o);
	else if (type == AGENT_DIAL)
		guest_dial_begin(o->handle, o->port,
				 shim_shares_network && o->port != AGENT_CODE_PORT);
	else if (type == AGENT_FORGET && p != NULL) {
		requests_send_order(AGENT_FORGET, o);
		(void)guest_programs_on_forget(o->handle, guest_messages_ping());
	} else if (p != NULL && !p->agent.exited)
		requests_send_order((enum agent_type)type, o); /* SIGNAL, RESIZE */
}

/* Reject a request because no guest is running. */
static void requests_refuse(const struct frame *f)
{
	struct agent_order o = { 0 };
	struct agent_event v = { .stage = AGENT_AT_SYSTEM, .sys = EAGAIN };
	struct agent_spawn s;
	struct err e;

	if (f->type == AGENT_SPAWN) {
		if (agent_spawn_read(f->body, f->len, &s, &e) < 0)
			_exit(1);
		v.handle = s.handle;
		agentd_answer(AGENT_FAILED, &v);
		return;
	}
	if (agent_order_read(f, &o, &e) < 0)
		_exit(1);
	v = (struct agent_event){ .handle = o.handle };
	if (f->type == AGENT_DIAL) {
		v.sys = EAGAIN;
		agentd_answer(AGENT_DIALED, &v);
	} else if (f->type == AGENT_KILL_TREE) {
		v.flags = AGENT_SOME_REMAIN;
		agentd_answer(AGENT_TREE_DEAD, &v);
	} else if (f->type == AGENT_KILL_ALL) {
		agentd_answer(AGENT_ALL_DEAD, &v);
	} else if (f->type == AGENT_STAT) {
		agentd_answer(AGENT_STATED, &v);
	} else if (f->type == AGENT_FORGET) {
		(void)guest_programs_on_forget(o.handle, 0);
	}
}

static bool requests_is_for_guest(uint16_t type)
{
	switch (type) {
	case AGENT_SPAWN:
	case AGENT_SIGNAL:
	case AGENT_KILL_ALL:
	case AGENT_KILL_TREE:
	case AGENT_RESIZE:
	case AGENT_FORGET:
	case AGENT_STAT:
	case AGENT_DIAL:
		return true;
	default:
		return false;
	}
}

/* The shim's own. */

static void on_boot(const struct frame *f)
{
	struct boot_request r;
	int fds[BOOT_FDS_MAX];
	size_t n = channel_take_fds(fds);
	struct err e;

	if (boot_request_read(f, &r, &e) < 0)
		_exit(1);
	if (f->type == AGENT_BOOT) {
		guest_life_boot(&r, fds, n);
		return;
	}
	io_close_all(fds, n);
	guest_life_resume(&r);
}

static void on_own(const struct frame *f)
{
	struct agent_order o;
	struct err e;

	if (f->type == AGENT_BOOT || f->type == AGENT_RESUME)
		on_boot(f);
	else if (agent_order_read(f, &o, &e) < 0)
		_exit(1);
	else if (f->type == AGENT_SNAPSHOT)
		guest_life_snapshot((o.ms & AGENT_STAY) != 0, o.ms & ~(uint64_t)AGENT_STAY);
	else if (!agentd_on_order(f->type, &o))
		_exit(1);
}

/* False: the frame has to wait until the guest has changed its state. */
bool requests_handle(const struct frame *f)
{
	struct agent_order o;
	struct err e;

	if (!requests_is_for_guest(f->type) && f->type != AGENT_RESUME &&
	    f->type != AGENT_SNAPSHOT) {
		on_own(f);
		return true;
	}
	if (guest_life_is_changing() && !guest_life_takes_requests())
		return false;
	if (!requests_is_for_guest(f->type))
		on_own(f);
	else if (!guest_life_takes_requests())
		requests_refuse(f);
	else if (f->type == AGENT_SPAWN)
		return on_spawn(f);
	else if (agent_order_read(f, &o, &e) < 0)
		_exit(1);
	else
		on_guest_order(f->type, &o);
	return true;
}

void requests_kill_abandoned(void)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		const struct agent_order o = { .handle = p->agent.handle, .sig = SIGKILL };

		if (!p->kill_wanted || !guest_life_takes_requests())
			continue;
		p->kill_wanted = false;
		requests_send_order(AGENT_SIGNAL, &o);
	}
}

/* Programs whose guest does not end them. Time is counted in ticks in which the guest runs: a cell
 * may be frozen for hours at any instruction. */

static void on_overdue_tick(struct loop_timer *t);
static struct loop_timer overdue = { .on_expire = on_overdue_tick };
static bool overdue_is_watched;

static void requests_watch_overdue(void)
{
	overdue_is_watched = true;
	loop_timer_set(shim_loop, &overdue, clock_now_ns() + OVERDUE_TICK_MS * CLOCK_MS);
}

static void on_overdue_tick(struct loop_timer *t)
{
	unsigned most;

	overdue_is_watched = false;
	if (!guest_programs_are_overdue(clock_now_ns(), guest_life_is_running(), &most))
		return;
	if (most >= OVERDUE_TICKS)
		guest_life_end_overdue();
	else
		requests_watch_overdue();
}

void requests_end_late(uint64_t now_ns)
{
	struct agentd_program *late;
	unsigned most;

	if (!overdue_is_watched && guest_programs_are_overdue(now_ns, false, &most))
		requests_watch_overdue();

	while (guest_life_takes_requests() && (late = agentd_next_late(now_ns)) != NULL) {
		struct agent_order o = { .handle = late->handle };

		if (late->held) {
			requests_kill_tree((struct guest_program *)late, &o);
			continue;
		}
		o.sig = SIGKILL;
		requests_send_order(AGENT_SIGNAL, &o);
	}
}
