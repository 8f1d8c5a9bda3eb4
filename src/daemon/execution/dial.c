/* dial.c - theory of operation
 *
 * A call asks PID 1, gets a socket that may still be connecting, waits until it is connected, and
 * is held by the caller until it cancels. All calls of a session are in its list. When the session
 * ends, each of them ends with an error or, if a caller holds it, is taken out of the list.
 *
 * A call follows the rules of a completion, although its result is a held descriptor: it is out of
 * every list before on_done is called, on_done is called once and only from the loop, and it has a
 * deadline, WAIT_MS.
 *
 * A call to an adopted cell waits until PID 1 has reported its version. PID 1 connects to 127.0.0.1
 * and, if refused, to ::1. On a busy machine only this file sees the refusal of the first: then PID
 * 1 is asked once more.
 */
#include "daemon/execution/dial.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "daemon/cells/fd_budget.h"
#include "daemon/cells/live_cell.h"
#include "daemon/node/core_private.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/untrusted_fd.h"

#define WAIT_MS 5000
#define GREETING_MS 10 /* between checks of a cell before its greeting */

struct dial_call {
	struct dial_call *next, **link; /* list.h: of its session */
	struct session *session;	/* NULL: the session has ended */
	struct loop *loop;
	struct dial *dial;
	struct live_program program;
	/* again: the second try was made. owed: a descriptor is reserved. */
	bool asked, again, owed, held;
	uint16_t port;
	int fd; /* owned */
	uint64_t end_ns;
	struct err err; /* of a call that failed at once */
	struct loop_fd watch;
	struct loop_timer timer;
	struct loop_task later;
};

static int dial_ask(struct dial_call *k, struct err *e) MUST_USE;

/* End the reservation of its descriptor. */
static void settle_fds(struct dial_call *k)
{
	if (k->owed)
		k->session->core->cells.fds.owed--;
	k->owed = false;
}

/* Remove the call from its session, which counts it no more. */
static void dial_detach(struct dial_call *k)
{
	struct session *s = k->session;

	if (s == NULL)
		return;
	LIST_REMOVE(k);
	s->ndials--;
	settle_fds(k);
	live_cell_remove(s->cell, &k->program);
	k->session = NULL;
}

/* Free the call in any state. The caller may start its dial again afterwards. */
static void dial_release(struct dial_call *k)
{
	dial_detach(k);
	loop_remove(k->loop, &k->watch);
	loop_timer_cancel(k->loop, &k->timer);
	loop_task_cancel(k->loop, &k->later);
	untrusted_close(&k->fd, 1);
	k->dial->call = NULL;
	free(k);
}

static void dial_fail(struct dial_call *k, const struct err *e)
{
	struct dial *d = k->dial;
	const struct err copy = *e; /* the error may be in the call */

	dial_release(k);
	d->on_done(d, -1, &copy);
}

/* End a call with the error of the kernel. */
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
	dial_fail(k, &e);
}

/* The deadline applied only to the connect: a held connection has none. */
static void dial_connected(struct dial_call *k)
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

	if (dial_ask(k, &e) < 0)
		dial_fail(k, &e);
}

/* Ask PID 1 a second time. It tries ::1 if the port at 127.0.0.1 still refuses. */
static void dial_retry(struct dial_call *k)
{
	k->again = true;
	loop_remove(k->loop, &k->watch);
	untrusted_close(&k->fd, 1);
	ask_or_fail(k);
}

/* A nonblocking connect has ended. getpeername() tells a real connection from a socket that PID 1
 * never connected. */
static void on_writable(struct loop_fd *f, uint32_t events)
{
	struct dial_call *k = f->arg;
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer), sys_len = sizeof(int);
	int sys = 0;

	if (getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &sys, &sys_len) < 0)
		sys = errno;
	if (sys == ECONNREFUSED && !k->again) {
		dial_retry(k);
		return;
	}
	if (sys == 0 && getpeername(k->fd, (struct sockaddr *)&peer, &len) < 0)
		sys = errno; /* not connected, or not any more */
	if (sys != 0)
		fail_with(k, sys);
	else
		dial_connected(k);
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
		dial_fail(k, &e);
}

/* Send the request: PID 1 has reported its version. */
static int dial_ask(struct dial_call *k, struct err *e)
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

/* The timer has two uses: it polls for the greeting of the cell, and it is the deadline of the
 * call. */
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

	dial_fail(k, &k->err);
}

static int dial_check(struct session *s, uint16_t port, struct err *e)
{
	if (s->row.state != SESSION_RUNNING || s->cell == NULL || !s->cell->connected) {
		(void)err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			      session_shown_name(&s->row));
		if (s->row.state >= SESSION_ENDING)
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
	if (dial_check(s, port, &k->err) < 0) {
		k->session = NULL; /* it is not in the session's list */
		loop_defer(l, &k->later);
		return;
	}
	LIST_PUSH(&s->dials, k);
	s->ndials++;
	live_cell_add(s->cell, &k->program);
	if (!s->cell->greeted)
		loop_timer_set(l, &k->timer, loop_now_ns(l) + GREETING_MS * CLOCK_MS);
	else if (dial_ask(k, &k->err) < 0)
		loop_defer(l, &k->later);
}

/* The socket is untrusted, so the release closes it with untrusted_close(). */
void dial_cancel(struct dial *d)
{
	if (d->call != NULL)
		dial_release(d->call);
}

void dial_all_lost(struct session *s, const struct err *e)
{
	struct dial_call *k = s->dials;

	while (k != NULL) {
		if (k->held || k->later.queued)
			dial_detach(k); /* the caller may use it after the session has ended */
		else
			dial_fail(k, e);
		k = s->dials; /* a callback may have changed the list, or even started another call
			       */
	}
}
