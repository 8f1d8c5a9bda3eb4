#include "requests.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent_msg.h"
#include "boot_msg.h"
#include "carrier.h"
#include "channel.h"
#include "clock.h"
#include "egress_listener.h"
#include "guest_dial.h"
#include "guest_life.h"
#include "guest_messages.h"
#include "guest_ping.h"
#include "guest_programs.h"
#include "io.h"
#include "lease.h"
#include "owner_answer.h"
#include "report.h"
#include "shim.h"

#define OVERDUE_TICKS 5
#define OVERDUE_TICK_MS 1000

static struct frame waiting; /* its body is in the channel's buffer */
static bool blocked;

static void send_order(enum agent_type type, const struct agent_order *o)
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
		report_answer(AGENT_FAILED, &failed);
		return true;
	}
	agent_spawn_untimed(f->body, head); /* the shim enforces timeouts */
	carrier_send_large(AGENT_SPAWN, head, sizeof(head), f->body + sizeof(head),
			   f->len - sizeof(head));
	return true;
}

/* The guest gives one answer to all that come while it kills, so one at a time is sent. */
static void kill_tree(struct guest_program *p, const struct agent_order *o)
{
	if (!p->kill_waits)
		send_order(AGENT_KILL_TREE, o);
	p->kill_waits = true;
}

static void on_kill_tree(const struct agent_order *o)
{
	struct agent_event v;
	struct guest_program *p = guest_programs_on_kill_tree(o, &v);

	if (p != NULL)
		kill_tree(p, o);
	else
		report_answer(AGENT_TREE_DEAD, &v);
}

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
				 guest_life_shares_network() && o->port != AGENT_CODE_PORT);
	else if (type == AGENT_FORGET && p != NULL) {
		send_order(AGENT_FORGET, o);
		(void)guest_programs_on_forget(o->handle, guest_ping_send());
	} else if (p != NULL && !p->exited)
		send_order((enum agent_type)type, o); /* SIGNAL, RESIZE */
}

/* The same without a guest that could do it. */
static void refuse(const struct frame *f)
{
	struct agent_order o = { 0 };
	struct agent_event v = { .stage = AGENT_AT_SYSTEM, .sys = EAGAIN };
	struct agent_spawn s;
	struct err e;

	if (f->type == AGENT_SPAWN) {
		if (agent_spawn_read(f->body, f->len, &s, &e) < 0)
			_exit(1);
		v.handle = s.handle;
		report_answer(AGENT_FAILED, &v);
		return;
	}
	if (agent_order_read(f, &o, &e) < 0)
		_exit(1);
	v = (struct agent_event){ .handle = o.handle };
	if (f->type == AGENT_DIAL) {
		v.sys = EAGAIN;
		report_answer(AGENT_DIALED, &v);
	} else if (f->type == AGENT_KILL_TREE) {
		v.flags = AGENT_SOME_REMAIN;
		report_answer(AGENT_TREE_DEAD, &v);
	} else if (f->type == AGENT_KILL_ALL) {
		report_answer(AGENT_ALL_DEAD, &v);
	} else if (f->type == AGENT_STAT) {
		report_answer(AGENT_STATED, &v);
	} else if (f->type == AGENT_FORGET) {
		(void)guest_programs_on_forget(o.handle, 0);
	}
}

static bool is_for_guest(uint16_t type)
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

static void on_linger(uint64_t lease_ms)
{
	const struct agent_event v = { .sys = channel_linger() };

	lease_set(lease_ms);
	report_answer(AGENT_LINGERING, &v);
}

static void on_listen_egress(void)
{
	const int *fds = NULL;
	const struct agent_event v = { .sys = egress_listener_open(&fds) };

	owner_answer_listen(channel_take_fd());
	report_answer_kept(AGENT_EGRESS_LISTENS, &v, fds, v.sys == 0 ? EGRESS_LISTENER_FDS : 0);
}

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

	if (f->type == AGENT_BOOT || f->type == AGENT_RESUME) {
		on_boot(f);
		return;
	}
	if (agent_order_read(f, &o, &e) < 0)
		_exit(1);
	switch (f->type) {
	case AGENT_CLOSE_STDIN:
		guest_programs_on_close_stdin(o.handle);
		break;
	case AGENT_LINGER:
		on_linger(o.ms);
		break;
	case AGENT_PAUSED:
		guest_programs_delay_deadlines(o.ms);
		lease_delay_deadline(o.ms);
		break;
	case AGENT_LISTEN_EGRESS:
		on_listen_egress();
		break;
	case AGENT_LEASE:
		lease_set(o.ms);
		break;
	case AGENT_DEADLINE:
		lease_set_deadline(o.ms, clock_now_ns());
		break;
	case AGENT_SNAPSHOT:
		guest_life_snapshot((o.ms & AGENT_STAY) != 0, o.ms & ~(uint64_t)AGENT_STAY);
		break;
	case AGENT_END:
		_exit(0);
	default:
		_exit(1);
	}
}

/* False: it has to wait. */
static bool handle(const struct frame *f)
{
	struct agent_order o;
	struct err e;

	if (!is_for_guest(f->type) && f->type != AGENT_RESUME && f->type != AGENT_SNAPSHOT) {
		on_own(f);
		return true;
	}
	if (guest_life_is_changing() && !guest_life_takes_requests())
		return false;
	if (!is_for_guest(f->type))
		on_own(f);
	else if (!guest_life_takes_requests())
		refuse(f);
	else if (f->type == AGENT_SPAWN)
		return on_spawn(f);
	else if (agent_order_read(f, &o, &e) < 0)
		_exit(1);
	else
		on_guest_order(f->type, &o);
	return true;
}

void requests_handle(void)
{
	/* A large request that is being sent is in the channel's buffer, too: parsing on would
	 * move it. Reports do not wait for it. */
	while (report_all() && !carrier_is_sending_large()) {
		if (!blocked && !channel_next(&waiting))
			return;
		blocked = !handle(&waiting);
		if (blocked)
			return;
	}
}

bool requests_are_blocked(void)
{
	return blocked || carrier_is_sending_large();
}

void requests_on_disconnect(void)
{
	blocked = false;
}

void requests_kill_abandoned(void)
{
	for (struct guest_program *p = NULL; (p = guest_programs_next(p)) != NULL;) {
		const struct agent_order o = { .handle = p->handle, .sig = SIGKILL };

		if (!p->kill_wanted || !guest_life_takes_requests())
			continue;
		p->kill_wanted = false;
		send_order(AGENT_SIGNAL, &o);
	}
}

/* Programs whose guest does not end them. Time is counted in ticks in which the guest runs: a cell
 * may be frozen for hours at any instruction. */

static void on_overdue_tick(struct loop_timer *t);
static struct loop_timer overdue = { .on_expire = on_overdue_tick };
static bool overdue_is_watched;

static void watch_overdue(void)
{
	overdue_is_watched = true;
	loop_timer_set(shim_loop, &overdue, clock_now_ns() + OVERDUE_TICK_MS * CLOCK_MS);
}

static void on_overdue_tick(struct loop_timer *t)
{
	unsigned most;

	(void)t;
	overdue_is_watched = false;
	if (!guest_programs_are_overdue(clock_now_ns(), guest_life_is_running(), &most))
		return;
	if (most >= OVERDUE_TICKS)
		guest_life_end_overdue();
	else
		watch_overdue();
}

void requests_end_late(uint64_t now_ns)
{
	struct guest_program *p;
	unsigned most;

	if (!overdue_is_watched && guest_programs_are_overdue(now_ns, false, &most))
		watch_overdue();

	while (guest_life_takes_requests() && (p = guest_programs_next_late(now_ns)) != NULL) {
		struct agent_order o = { .handle = p->handle };

		if (p->held) {
			kill_tree(p, &o);
			continue;
		}
		o.sig = SIGKILL;
		send_order(AGENT_SIGNAL, &o);
	}
}
