/* agentd.c - theory of operation
 *
 * Nothing here blocks: an event that cannot be sent stays pending, and while one is pending no
 * request is handled. So a server that does not read stops its own requests and nothing else.
 *
 * A cell may be frozen at any instruction, for hours, and that time does not count for deadlines.
 * The server sends PAUSED before it thaws the cell. So the order matters: the caller reads the
 * clock first (now_ns), then all requests are received, then deadlines are compared with now_ns. If
 * the cell was frozen before the clock was read, PAUSED is received here. If it was frozen after
 * that, the comparison does not see the time.
 *
 * A frozen PID 1 cannot end anything: a frozen cell stays after its lease, until its cgroup is
 * thawed or killed. A server that thaws it connects first, so a waiting connection is accepted
 * before the cell ends. */
#include "cell/init/pid1/agentd.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cell/init/base/channel.h"
#include "cell/init/pid1/egress_listener.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/own.h"
#include "lib/wire/keeper_msg.h"

#define RETRY_MS 50
#define LAST_READS_MAX 16 /* reads from a connection before it is replaced */

/* Each cell's PID 1 sets this up first. Called by main() in cordon-init and cordon-shim. */

static int agentd_setup_signals(void)
{
	static const unsigned long default_action[4]; /* the kernel's struct sigaction, all zero */
	sigset_t set;

	/* Programs of the cell must not inherit signals that a caller of the keeper ignored. By
	 * system call: libc refuses some numbers. */
	for (int sig = 1; sig <= 64; sig++)
		(void)syscall(SYS_rt_sigaction, sig, default_action, NULL, 8);
	(void)sigfillset(&set);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return -1;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int agentd_setup(const char *name)
{
	(void)prctl(PR_SET_NAME, name, 0, 0, 0);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	/* Fails for closed ones. */
	for (int fd = INIT_FD_ID_SLOT; fd <= INIT_FD_GUEST; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return agentd_setup_signals();
}

static const struct agentd_ops *ops;

static bool connected = true;

/* Pending events. */
static bool ready, synced;
static bool exit_waits; /* EXITED of a program waits: it is tried again soon */
static struct agentd_slot answer;
static const int *kept_fds; /* borrowed: sent with the answer, and open as long as PID 1 runs */
static size_t kept_n;

/* The next request, if it could not be handled yet. Its body is in the channel's buffer. */
static struct frame waiting;
static bool blocked;

static uint64_t lease_ns, lease_deadline_ns; /* 0: none */
static uint64_t lost_ns;		     /* when the connection was lost */

void agentd_init(const struct agentd_ops *o)
{
	ops = o;
}

void agentd_slot_clear(struct agentd_slot *s)
{
	io_close_all(s->fds, s->nfds);
	s->nfds = 0;
	s->pending = false;
}

void agentd_slot_set(struct agentd_slot *s, enum agent_type type, const struct agent_event *v,
		     int a, int b)
{
	agentd_slot_clear(s);
	*s = (struct agentd_slot){ .pending = true, .type = type, .event = *v };
	if (a >= 0)
		s->fds[s->nfds++] = a;
	if (b >= 0)
		s->fds[s->nfds++] = b;
}

bool agentd_slot_send(struct agentd_slot *s)
{
	if (!s->pending)
		return true;
	if (!channel_send(s->type, &s->event, s->fds, s->nfds))
		return false;
	agentd_slot_clear(s);
	return true;
}

void agentd_begin(bool greet)
{
	ready = true;
	synced = greet;
	kept_n = 0;
	agentd_slot_clear(&answer);
	ops->on_begin();
}

void agentd_answer(enum agent_type type, const struct agent_event *v)
{
	agentd_answer_fd(type, v, -1);
}

void agentd_answer_fd(enum agent_type type, const struct agent_event *v, int fd)
{
	kept_n = 0;
	agentd_slot_set(&answer, type, v, fd, -1);
}

/* Events of programs. */

/* Fill in mark and flags, and list the descriptors that go with the event. */
static size_t agentd_describe(const struct agentd_program *p, struct agent_event *v, int *fds)
{
	size_t n = 0;

	v->mark = p->mark;
	v->flags |= (p->held ? (uint32_t)AGENT_IS_HELD : 0) | (p->tty ? (uint32_t)AGENT_IS_TTY : 0);
	if (p->stdio[0] >= 0 && (p->held || !p->tty))
		v->flags |= AGENT_HAS_STDIN;
	if (p->stdio[3] >= 0)
		v->flags |= AGENT_HAS_RESULTS;
	for (size_t i = 0; i < AGENTD_STDIO && (v->flags & AGENT_IS_STARTING) == 0; i++)
		if (p->stdio[i] >= 0)
			fds[n++] = p->stdio[i];
	return n;
}

static bool agentd_send_event(const struct agentd_program *p, unsigned what)
{
	struct agent_event v = { .handle = p->handle };
	int fds[AGENTD_STDIO];
	size_t n;

	if (what == AGENTD_SEND_FAILED || what == AGENTD_SEND_EXITED)
		return channel_send(what == AGENTD_SEND_FAILED ? AGENT_FAILED : AGENT_EXITED,
				    &p->end, NULL, 0);
	if (what == AGENTD_SEND_TREE_DEAD) {
		v.flags = p->tree_flags;
		return channel_send(AGENT_TREE_DEAD, &v, NULL, 0);
	}
	v.pid = (uint32_t)p->pid;
	if (what == AGENTD_SEND_HELD && p->exited && !p->exit_waits) {
		v = p->end;
		v.flags |= AGENT_HAS_EXITED;
	} else if (p->starting) {
		v.flags = AGENT_IS_STARTING;
	}
	n = agentd_describe(p, &v, fds);
	return channel_send(what == AGENTD_SEND_HELD ? AGENT_HELD : AGENT_STARTED, &v, fds, n);
}

/* In the order of the flags' values: STARTED comes before EXITED, and TREE_DEAD is the last. */
static bool agentd_send_program(struct agentd_program *p)
{
	for (unsigned what = 1; p->used && what <= AGENTD_SEND_TREE_DEAD; what <<= 1) {
		if ((p->to_send & what) == 0)
			continue;
		if (ops->waits(p, what)) {
			exit_waits = exit_waits || what == AGENTD_SEND_EXITED;
			return true;
		}
		if (!agentd_send_event(p, what))
			return false;
		p->to_send &= ~what;
		if (what == AGENTD_SEND_STARTED && !p->held)
			io_close_all(p->stdio, AGENTD_STDIO);
		ops->on_sent(p, what);
	}
	return true;
}

static bool agentd_send_programs(void)
{
	exit_waits = false;
	for (struct agentd_program *p = NULL; (p = ops->next(p)) != NULL;)
		if (!agentd_send_program(p))
			return false;
	return true;
}

static bool agentd_send_once(bool *pending, enum agent_type type, const struct agent_event *v)
{
	if (*pending && !channel_send(type, v, NULL, 0))
		return false;
	*pending = false;
	return true;
}

static bool agentd_send_answer(void)
{
	if (kept_n == 0)
		return agentd_slot_send(&answer);
	if (!channel_send(answer.type, &answer.event, kept_fds, kept_n))
		return false;
	kept_n = 0;
	agentd_slot_clear(&answer);
	return true;
}

/* Send pending events until the channel takes no more. True if none is left, or the channel is
 * broken: then they are sent over the next connection. */
static bool agentd_send_all(void)
{
	static const struct agent_event first = { .pid = AGENT_VERSION }, none;

	return (agentd_send_once(&ready, AGENT_READY, &first) && agentd_send_programs() &&
		agentd_send_once(&synced, AGENT_SYNCED, &none) && agentd_send_answer() &&
		(exit_waits || ops->send_others())) ||
	       channel_is_broken();
}

/* Requests. */

static struct agentd_program *agentd_find(uint32_t handle)
{
	for (struct agentd_program *p = NULL; (p = ops->next(p)) != NULL;)
		if (p->handle == handle && !p->forgotten)
			return p;
	return NULL;
}

void agentd_close_stdin(struct agentd_program *p)
{
	if (p != NULL && p->held)
		io_close_all(&p->stdio[0], 1);
}

uint64_t agentd_put_off(uint64_t end_ns, uint64_t ms)
{
	/* A later time is not moved: the sum could overflow. */
	return end_ns == 0 || end_ns > UINT64_MAX / 2 ? end_ns : end_ns + ms * CLOCK_MS;
}

static void agentd_on_paused(uint64_t ms)
{
	for (struct agentd_program *p = NULL; (p = ops->next(p)) != NULL;)
		p->deadline_ns = agentd_put_off(p->deadline_ns, ms);
	if (lease_deadline_ns != 0)
		lease_deadline_ns += ms * CLOCK_MS;
	if (ops->on_paused != NULL)
		ops->on_paused(ms);
}

static void agentd_on_linger(uint64_t lease_ms)
{
	const struct agent_event v = { .sys = channel_linger() };

	lease_ns = lease_ms * CLOCK_MS;
	agentd_answer(AGENT_LINGERING, &v);
}

static void agentd_on_listen_egress(void)
{
	const int *fds = NULL;
	const struct agent_event v = { .sys = egress_listener_open(&fds) };

	ops->answer_owners(channel_take_fd());
	agentd_answer(AGENT_EGRESS_LISTENS, &v);
	kept_fds = fds;
	kept_n = v.sys == 0 ? EGRESS_LISTENER_FDS : 0;
}

bool agentd_on_order(uint16_t type, const struct agent_order *o)
{
	switch (type) {
	case AGENT_LINGER:
		agentd_on_linger(o->ms);
		return true;
	case AGENT_PAUSED:
		agentd_on_paused(o->ms);
		return true;
	case AGENT_LISTEN_EGRESS:
		agentd_on_listen_egress();
		return true;
	case AGENT_LEASE:
		lease_ns = o->ms * CLOCK_MS;
		return true;
	case AGENT_DEADLINE:
		lease_deadline_ns = o->ms == 0 ? 0 : clock_now_ns() + o->ms * CLOCK_MS;
		return true;
	case AGENT_CLOSE_STDIN:
		agentd_close_stdin(agentd_find(o->handle));
		return true;
	case AGENT_END:
		_exit(0);
	default:
		return false;
	}
}

/* Connections. */

static void agentd_on_disconnect(void)
{
	blocked = false; /* a request that waits is dropped with its connection */
	ops->on_disconnect();
}

/* Note that the connection of a lingering cell is lost. */
static void agentd_check_connection(void)
{
	if (!connected || channel_is_open())
		return;
	connected = false;
	lost_ns = clock_now_ns();
	agentd_on_disconnect();
}

void agentd_exchange(void)
{
	while (agentd_send_all() && (ops->is_busy == NULL || !ops->is_busy())) {
		if (!blocked && !channel_next(&waiting))
			break;
		blocked = !ops->handle(&waiting);
		if (blocked)
			break;
	}
	agentd_check_connection();
}

bool agentd_is_blocked(void)
{
	return blocked || (ops->is_busy != NULL && ops->is_busy());
}

bool agentd_read(void)
{
	bool received = !agentd_is_blocked() && channel_receive();

	agentd_exchange();
	return received;
}

/* Requests of the old connection are handled first: its sender may have exited right after it sent
 * them. */
void agentd_accept(void)
{
	if (!channel_accept())
		return;
	for (unsigned i = 0; i < LAST_READS_MAX && agentd_read(); i++)
		;
	if (connected)
		agentd_on_disconnect();
	channel_replace();
	connected = true;
	lease_deadline_ns = 0;
	agentd_begin(true);
}

/* Times. */

uint64_t agentd_sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

uint64_t agentd_deadline(uint64_t timeout_ms)
{
	/* A longer timeout counts as none. The sum could overflow. */
	if (timeout_ms == 0 || timeout_ms > AGENT_TIME_MAX_MS)
		return 0;
	return clock_now_ns() + timeout_ms * CLOCK_MS;
}

static bool agentd_has_deadline(const struct agentd_program *p)
{
	return p->deadline_ns != 0 && !p->timed_out && !p->exited && !p->forgotten;
}

uint64_t agentd_nearest_deadline(void)
{
	uint64_t nearest = 0;

	for (struct agentd_program *p = NULL; (p = ops->next(p)) != NULL;)
		if (agentd_has_deadline(p))
			nearest = agentd_sooner(nearest, p->deadline_ns);
	return nearest;
}

struct agentd_program *agentd_next_late(uint64_t now_ns)
{
	for (struct agentd_program *p = NULL; (p = ops->next(p)) != NULL;) {
		if (!agentd_has_deadline(p) || p->deadline_ns > now_ns)
			continue;
		p->timed_out = true;
		return p;
	}
	return NULL;
}

void agentd_check_deadlines(uint64_t now_ns)
{
	uint64_t nearest = agentd_nearest_deadline();

	if (nearest == 0 || nearest > now_ns)
		return;
	while (agentd_read())
		;
	ops->end_late(now_ns);
}

/* 0: a server is connected, or there is no limit. */
static uint64_t agentd_lease_end(void)
{
	return connected ? 0
			 : agentd_sooner(lease_ns == 0 ? 0 : lost_ns + lease_ns, lease_deadline_ns);
}

void agentd_check_lease(uint64_t now_ns)
{
	uint64_t end = agentd_lease_end();

	if (end == 0 || end > now_ns)
		return;
	agentd_accept();
	if (!connected)
		_exit(0);
}

uint64_t agentd_wake_ns(uint64_t now_ns)
{
	bool retry = channel_needs_retry() || exit_waits;

	return agentd_sooner(agentd_lease_end(), retry ? now_ns + RETRY_MS * CLOCK_MS : 0);
}
