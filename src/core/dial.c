/* dial.c - theory of operation
 *
 * A call asks PID 1, gets a socket that may still be connecting, waits until it is connected, and
 * is held by the caller until it cancels. All calls of a session are in its list. When the session
 * ends, each of them ends with an error or, if a caller holds it, is taken out of the list.
 *
 * A call follows the rules of a completion, although its result is a descriptor that stays held: it
 * is out of every list before on_done is called, on_done is called once and only from the loop, and
 * it has a deadline, WAIT_MS.
 *
 * A call to an adopted cell waits until PID 1 has reported its version. PID 1 connects to
 * 127.0.0.1 and, if that is refused, to ::1. On a busy machine the refusal of the first is known
 * only here: then PID 1 is asked once more. */
#include "dial.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "core_private.h"
#include "fd_budget.h"
#include "list.h"
#include "live_cell.h"
#include "untrusted_fd.h"

#define WAIT_MS 5000
#define GREETING_MS 10 /* between looks at a cell that has not greeted yet */

struct dial_call {
	struct dial_call *next, **link; /* list.h: of its session */
	struct session *session;	/* NULL: it has ended */
	struct loop *loop;
	struct dial *dial;
	struct live_program program;
	bool asked, again, owed, held;
	uint16_t port;
	int fd; /* owned */
	uint64_t end_ns;
	struct err err; /* of one that failed at once */
	struct loop_fd watch;
	struct loop_timer timer;
	struct loop_task later;
};

static int ask(struct dial_call *k, struct err *e) MUST_USE;

/* Ends the reservation of its descriptor. */
static void settle_fds(struct dial_call *k)
{
	if (k->owed)
		k->session->core->cells.fds.owed--;
	k->owed = false;
}

/* Takes the call out of its session, where it is not counted any more. */
static void detach(struct dial_call *k)
{
	struct session *s = k->session;

	if (s == NULL)
		return;
	LIST_REMOVE(k);
	s->ndials--;
	settle_fds(k);
	if (s->cell != NULL)
		live_cell_remove(s->cell, &k->program);
	k->session = NULL;
}

static void release(struct dial_call *k)
{
	detach(k);
	loop_remove(k->loop, &k->watch);
	loop_timer_cancel(k->loop, &k->timer);
	loop_task_cancel(k->loop, &k->later);
	untrusted_close(&k->fd, 1);
	k->dial->call = NULL;
	free(k);
}

static void fail(struct dial_call *k, const struct err *e)
{
	struct dial *d = k->dial;
	const struct err copy = *e; /* it may be in the call */

	release(k);
	d->on_done(d, -1, &copy);
}

/* Ends a call with the error of the kernel. */
static void fail_with(struct dial_call *k, int sys)
{
	struct err e;
	const char *id = k->session->row.id;

	switch (sys) {
	case ECONNREFUSED:
		(void)err_set(&e, ERR_NOT_FOUND, "session %s: no program listens at port %u", id,
			      k->port);
		break;
	case EAFNOSUPPORT:
	case EPROTONOSUPPORT:
		(void)err_set(&e, ERR_UNSUPPORTED, "session %s has no network at all", id);
		break;
	default:
		errno = sys;
		(void)err_sys(&e, "session %s: port %u", id, k->port);
	}
	fail(k, &e);
}

static void connected(struct dial_call *k)
{
	struct dial *d = k->dial;

	loop_remove(k->loop, &k->watch);
	loop_timer_cancel(k->loop, &k->timer);
	k->held = true;
	d->on_done(d, k->fd, NULL);
}

static void ask_or_fail(struct dial_call *k)
{
	struct err e;

	if (ask(k, &e) < 0)
		fail(k, &e);
}

static void retry(struct dial_call *k)
{
	k->again = true;
	loop_remove(k->loop, &k->watch);
	untrusted_close(&k->fd, 1);
	ask_or_fail(k);
}

static void on_writable(struct loop_fd *f, uint32_t events)
{
	struct dial_call *k = f->arg;
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer), sys_len = sizeof(int);
	int sys = 0;

	(void)events;
	if (getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &sys, &sys_len) < 0)
		sys = errno;
	if (sys == ECONNREFUSED && !k->again) {
		retry(k);
		return;
	}
	if (sys == 0 && getpeername(k->fd, (struct sockaddr *)&peer, &len) < 0)
		sys = errno; /* not connected, or not any more */
	if (sys != 0)
		fail_with(k, sys);
	else
		connected(k);
}

static void on_program(struct live_program *p, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v)
{
	struct dial_call *k = (struct dial_call *)((char *)p - offsetof(struct dial_call, program));
	struct err e;

	if (type != AGENT_DIALED || !k->asked || k->fd >= 0)
		return; /* PID 1 was not asked: it is untrusted */
	k->asked = false;
	settle_fds(k);
	if (v->sys != 0) {
		fail_with(k, v->sys);
		return;
	}
	k->fd = c->agent.fds[0];
	c->agent.nfds = 0;
	if (loop_add(k->loop, &k->watch, k->fd, EPOLLOUT, &e) < 0)
		fail(k, &e);
}

/* Sends the request; PID 1 has reported its version. */
static int ask(struct dial_call *k, struct err *e)
{
	struct live_cell *c = k->session->cell;

	if (c->version < AGENT_VERSION_DIAL)
		return err_set(
			e, ERR_UNSUPPORTED,
			"session %s was made by an older version: its ports cannot be reached",
			k->session->row.id);
	if (agent_send_dial(&c->agent, k->program.handle, k->port, e) < 0)
		return -1;
	k->asked = true;
	if (!k->owed)
		k->session->core->cells.fds.owed++;
	k->owed = true;
	loop_timer_set(k->loop, &k->timer, k->end_ns);
	live_cell_flush(c);
	return 0;
}

static void on_timer(struct loop_timer *t)
{
	struct dial_call *k = t->arg;
	struct live_cell *c = k->session->cell;

	if (loop_now_ns(k->loop) >= k->end_ns)
		fail_with(k, ETIMEDOUT);
	else if (c->connected && c->greeted)
		ask_or_fail(k);
	else
		loop_timer_set(k->loop, t, loop_now_ns(k->loop) + GREETING_MS * CLOCK_MS);
}

static void on_fail_later(struct loop_task *t)
{
	struct dial_call *k = t->arg;

	fail(k, &k->err);
}

static int check(struct session *s, uint16_t port, struct err *e)
{
	if (s->row.state != SESSION_RUNNING || s->cell == NULL || !s->cell->connected) {
		(void)err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			      session_shown_name(&s->row));
		if (s->row.state >= SESSION_STOPPING)
			e->reason = session_gone_reason(&s->row);
		return -1;
	}
	/* An older PID 1 would connect to the listener of cordon-egress. */
	if (port == 0 || port == AGENT_EGRESS_PORT)
		return err_set(e, ERR_NOT_FOUND, "session %s: no program listens at port %u",
			       s->row.id, port);
	if (s->ndials >= DIAL_MAX)
		return err_set_reason(e, REASON_QUOTA_CONNECTIONS,
				      "session %s has %u connections already", s->row.id, DIAL_MAX);
	return fd_budget_check(&s->core->cells.fds, e);
}

void dial_start(struct session *s, uint16_t port, struct dial *d)
{
	struct dial_call *k = calloc(1, sizeof(*k));
	struct loop *l = s->core->loop;

	assert(k != NULL && d->call == NULL);
	d->call = k;
	k->dial = d;
	k->session = s;
	k->loop = l;
	k->port = port;
	k->fd = -1;
	k->end_ns = clock_now_ns() + WAIT_MS * CLOCK_MS;
	k->watch = (struct loop_fd){ .fd = -1, .on_ready = on_writable, .arg = k };
	k->timer = (struct loop_timer){ .on_expire = on_timer, .arg = k };
	k->later = (struct loop_task){ .on_run = on_fail_later, .arg = k };
	k->program.on_event = on_program;
	if (check(s, port, &k->err) < 0) {
		k->session = NULL; /* it is not in the session's list */
		loop_defer(l, &k->later);
		return;
	}
	LIST_PUSH(&s->dials, k);
	s->ndials++;
	live_cell_add(s->cell, &k->program);
	if (!s->cell->greeted)
		loop_timer_set(l, &k->timer, loop_now_ns(l) + GREETING_MS * CLOCK_MS);
	else if (ask(k, &k->err) < 0)
		loop_defer(l, &k->later);
}

void dial_cancel(struct dial *d)
{
	if (d->call != NULL)
		release(d->call);
}

void dial_all_lost(struct session *s, const struct err *e)
{
	struct dial_call *k = s->dials;

	while (k != NULL) {
		if (k->held || k->later.queued)
			detach(k);
		else
			fail(k, e);
		k = s->dials; /* a callback may have changed the list, even started another call */
	}
}
