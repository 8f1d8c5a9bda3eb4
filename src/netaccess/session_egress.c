/* session_egress.c - theory of operation
 *
 * The order (policy and secrets) is composed at the moment it is sent, so that what waits for a
 * door or for an egress is always the newest. Orders are answered in the order they were sent;
 * waiters are called when all of them are in force.
 *
 * PID 1 keeps its two sockets and passes them each time it is asked. It is hostile: it may pass
 * anything (egress checks what they are), nothing, or wait for ever (the timer). Only so many are
 * asked at a time after a new channel. A frozen PID 1 cannot be asked: egress gets the order
 * only and keeps what it has of the session; the door is passed again when it is thawed. */
#include "session_egress.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "core.h"
#include "net_access.h"
#include "session.h"
#include "tenant.h"
#include "egress_link.h"
#include "fd_budget.h"
#include "json.h"
#include "log.h"
#include "net_usage.h"
#include "policy_select.h"
#include "secret.h"
#include "secret_egress.h"
#include "session_policy.h"
#include "untrusted_fd.h"

#define WAIT_MS 5000
#define FDS 2 /* listener and resolver */

static void on_timer(struct loop_timer *t);

void session_egress_init(struct session *s, struct net_session *n)
{
	struct egress_links *all = &net_access_of(session_core(s))->egress;

	assert(session_row(s)->id[0] != '\0');
	n->egress.link = &all->links[egress_links_slot(session_row(s)->id, all->n)];
	n->egress.timer = (struct loop_timer){ .on_expire = on_timer, .arg = s };
}

static bool is_wanted(const struct session *s)
{
	return !policy_select_is_none(session_choice(s));
}

struct egress_link *session_egress_link(const struct session *s)
{
	return net_session_of(s)->egress.link;
}

/* What PID 1 was asked for has come, or will not: perhaps it was the last that was missing, or
 * another one waits to be asked. Otherwise no walk over all sessions is needed. */
static void sync_later(const struct session *s)
{
	const struct egress_link *l = session_egress_link(s);

	if (!l->synced || l->waiting)
		egress_links_sync_later(&net_access_of(session_core(s))->egress);
}

/* The request to PID 1 is over: gives back what was reserved for its answer. */
static void end_request(struct session *s)
{
	if (net_session_of(s)->egress.state != DOOR_ASKED)
		return;
	core_fds(session_core(s))->owed -= FDS;
	session_egress_link(s)->asking--;
}

/* Answers to orders that were sent before do not count any more. */
static void abandon(struct session_egress *d)
{
	d->stale += d->orders;
	d->orders = 0;
}

static void settle(struct session *s, enum session_egress_state state, const struct err *e)
{
	struct err copy;

	end_request(s);
	net_session_of(s)->egress.state = state;
	abandon(&net_session_of(s)->egress);
	loop_timer_cancel(core_loop(session_core(s)), &net_session_of(s)->egress.timer);
	if (e != NULL) {
		copy = *e;
		log_warn("network not available for session", "session_id=%s error=%s",
			 session_row(s)->id, copy.msg);
	}
	/* A waiter may end the session, but it is not freed from here. */
	completions_end_all(&net_session_of(s)->egress.when, e == NULL ? NULL : &copy);
}

/* It forgets what it knows of the session, and cuts its connections. */
static void detach(struct session *s)
{
	bool known = net_session_of(s)->egress.state == DOOR_SENT ||
		     net_session_of(s)->egress.state == DOOR_OPEN;
	struct err ignored;

	if (known && egress_link_up(session_egress_link(s)))
		IGNORED(egress_link_send(session_egress_link(s), EGRESS_DETACH, session_row(s)->id,
					 NULL, 0, NULL, &ignored),
			"then it is gone, and its sessions with it");
}

/* If an update cannot be sent, egress may enforce an older, looser policy; so the session is
 * detached (fail closed). */
static void fail(struct session *s, const struct err *e)
{
	detach(s);
	settle(s, DOOR_FAILED, e);
	sync_later(s);
}

/* ---- orders */

static int write_order(struct session *s, struct json *j, struct err *e)
{
	OWN_MEM char *policy = NULL;

	if (session_policy(s, &policy, e) < 0)
		return -1;
	json_open(j, NULL, '{');
	json_text(j, "tenant", session_row(s)->tenant);
	if (net_usage_write(s, j, e) < 0)
		return -1;
	json_raw(j, "policy", policy);
	if (secret_write_order(s, j, e) < 0)
		return -1;
	json_close(j, '}');
	if (!json_ok(j))
		return err_set(e, ERR_LIMIT, "policy and secrets are too large together");
	return 0;
}

/* fds: NULL or two, closed here if they could not be sent. */
static int send_order(struct session *s, enum egress_type type, int *fds, struct err *e)
{
	struct json j;
	int sent;

	json_init_heap(&j, EGRESS_TEXT_MAX);
	sent = write_order(s, &j, e);
	if (sent == 0)
		sent = egress_link_send(session_egress_link(s), type, session_row(s)->id, j.text,
					j.len, fds, e);
	if (fds != NULL)
		untrusted_close(fds, FDS);
	if (j.text != NULL)
		explicit_bzero(j.text, j.len);
	json_release(&j);
	if (sent == 0)
		net_session_of(s)->egress.orders++;
	return sent;
}

static void start_wait(struct session *s)
{
	if (net_session_of(s)->egress.timer.place == 0)
		loop_timer_set(core_loop(session_core(s)), &net_session_of(s)->egress.timer,
			       clock_now_ns() + WAIT_MS * CLOCK_MS);
}

static void on_timer(struct loop_timer *t)
{
	struct session *s = t->arg;
	struct err e;

	if (net_session_of(s)->egress.state == DOOR_ASKED) {
		(void)err_set_reason(&e, REASON_TIMEOUT,
				     "session %s: PID 1 did not pass the sockets of its network",
				     session_row(s)->id);
		net_session_of(s)->egress.late = true;
		fail(s, &e);
		return;
	}
	/* The state stays; those that wait get an error. */
	(void)err_set_reason(&e, REASON_UNAVAILABLE, "session %s: %s", session_row(s)->id,
			     egress_link_up(session_egress_link(s))
				     ? "the network is not ready: no answer in 5 s"
				     : "the network is not ready: cordon-egress is not running");
	completions_end_all(&net_session_of(s)->egress.when, &e);
}

/* ---- the door */

static void attach(struct session *s, int fds[FDS])
{
	struct err e;

	if (!egress_link_up(session_egress_link(s))) {
		untrusted_close(fds, FDS);
		net_session_of(s)->egress.state = DOOR_WANTED; /* the next channel asks again */
		return;
	}
	net_session_of(s)->egress.state = DOOR_SENT;
	net_session_of(s)->egress.kept = false;
	if (send_order(s, EGRESS_ATTACH, fds, &e) < 0)
		fail(s, &e);
	else
		start_wait(s);
}

void session_egress_answered(struct session *s, struct live_cell *c, const struct agent_event *v)
{
	int fds[FDS];
	struct err e;

	/* The answer of a cell with little processor time may be late; it is taken all the same. */
	if (net_session_of(s)->egress.state != DOOR_ASKED &&
	    (net_session_of(s)->egress.state != DOOR_FAILED || !net_session_of(s)->egress.late))
		return; /* PID 1 was not asked; the descriptors are closed */
	net_session_of(s)->egress.late = false;
	if (v->sys != 0) {
		errno = v->sys;
		(void)err_sys(&e, "session %s: the network of the cell cannot be opened",
			      session_row(s)->id);
		if (v->sys == EOPNOTSUPP)
			e.code = ERR_UNSUPPORTED;
		fail(s, &e);
		return;
	}
	memcpy(fds, c->agent.fds, sizeof(fds)); /* as many as agent_next() has checked */
	c->agent.nfds = 0;
	end_request(s);
	attach(s, fds);
	sync_later(s);
}

static bool can_be_asked(const struct session *s)
{
	const struct live_cell *c = session_cell(s);

	return session_row(s)->state == SESSION_RUNNING && c != NULL && c->state == LIVE_UP &&
	       c->synced && c->connected && c->greeted && !c->frozen;
}

static int ask(struct session *s, struct err *e)
{
	struct live_cell *c = session_cell(s);

	if (c->version < AGENT_VERSION_EGRESS)
		return err_set(e, ERR_UNSUPPORTED,
			       "session %s was made by an older version and cannot have a network",
			       session_row(s)->id);
	if (fd_budget_check(core_fds(session_core(s)), e) < 0)
		return -1;
	if (agent_send_listen_egress(&c->agent, e) < 0)
		return -1;
	net_session_of(s)->egress.state = DOOR_ASKED;
	net_session_of(s)->egress.late = false;
	core_fds(session_core(s))->owed += FDS;
	session_egress_link(s)->asking++;
	start_wait(s);
	live_cell_flush(c);
	return 0;
}

/* PID 1 is frozen. If egress still knows the session, what it has of it stays. */
static void keep(struct session *s)
{
	struct err e;

	net_session_of(s)->egress.state = DOOR_SENT;
	net_session_of(s)->egress.kept = true;
	if (send_order(s, EGRESS_CHANGE, NULL, &e) < 0)
		fail(s, &e);
}

void session_egress_try(struct session *s)
{
	struct egress_link *l = session_egress_link(s);
	struct err e;

	if (net_session_of(s)->egress.state != DOOR_WANTED || !egress_link_up(l))
		return;
	if (session_row(s)->state == SESSION_PAUSED && !l->synced) {
		keep(s);
		return;
	}
	if (!can_be_asked(s))
		return;
	if (l->asking >= egress_link_asking_max(l))
		l->waiting = true;
	else if (ask(s, &e) < 0)
		fail(s, &e);
}

void session_egress_adopted(struct session *s)
{
	if (is_wanted(s))
		net_session_of(s)->egress.state = DOOR_WANTED;
	session_egress_try(s);
}

/* The network of a new session is as its policy says, or the session ends. */
static void on_created(struct completion *w, const struct err *e)
{
	struct session *s = w->arg;

	net_session_of(s)->egress.creating = false;
	if (e == NULL)
		session_part_settled(s);
	else
		session_part_failed(s, e, "the network of the session could not be opened");
}

void session_egress_started(struct session *s)
{
	struct session_egress *d = &net_session_of(s)->egress;

	if (!is_wanted(s))
		return;
	d->creating = true;
	d->made = (struct completion){ .on_done = on_created, .arg = s };
	session_egress_changed(s, &d->made);
}

void session_egress_changed(struct session *s, struct completion *w)
{
	struct session_egress *d = &net_session_of(s)->egress;
	struct err e;

	if (d->state == DOOR_NONE && !is_wanted(s)) {
		if (w != NULL)
			completion_end_soon(w, core_loop(session_core(s)), NULL);
		return;
	}
	if (w != NULL)
		completion_begin(w, core_loop(session_core(s)), &d->when);
	start_wait(s);
	switch (d->state) {
	case DOOR_SENT:
	case DOOR_OPEN:
		d->state = DOOR_SENT;
		if (send_order(s, EGRESS_CHANGE, NULL, &e) < 0)
			fail(s, &e);
		break;
	case DOOR_NONE:
	case DOOR_FAILED:
	case DOOR_WANTED:
		d->state = DOOR_WANTED;
		if (session_row(s)->state ==
		    SESSION_PAUSED) /* opened before anything in it runs again */
			settle(s, DOOR_WANTED, NULL);
		session_egress_try(s);
		break;
	case DOOR_ASKED: /* what is sent then is the newest */
		break;
	}
}

/* Egress has seen what was sent first. */
void session_egress_taken(struct session *s, const char *why, size_t len)
{
	struct session_egress *d = &net_session_of(s)->egress;
	struct err e;

	if (d->stale > 0) {
		d->stale--;
		return;
	}
	if (d->state != DOOR_SENT || d->orders == 0)
		return; /* egress was sent no order */
	d->orders--;
	if (len == 0) {
		if (d->orders == 0)
			settle(s, DOOR_OPEN, NULL);
		return;
	}
	if (d->kept) { /* a new egress: it will know the session when that is thawed */
		d->kept = false;
		settle(s, DOOR_WANTED, NULL);
		return;
	}
	(void)err_set(&e, ERR_SYSTEM, "session %s: cordon-egress refused the policy: %.*s",
		      session_row(s)->id, (int)(len < 200 ? len : 200), why);
	err_sanitize(&e);
	fail(s, &e);
}

/* ---- what happens around it */

void session_egress_channel_new(struct session *s)
{
	struct session_egress *d = &net_session_of(s)->egress;

	if (session_row(s)->state >= SESSION_STOPPING || d->state == DOOR_ASKED)
		return;
	if (d->state == DOOR_NONE && !is_wanted(s))
		return;
	d->state = DOOR_WANTED;
	d->orders = d->stale = 0;
	session_egress_try(s);
}

void session_egress_channel_lost(struct session *s)
{
	struct session_egress *d = &net_session_of(s)->egress;

	if (d->state == DOOR_SENT || d->state == DOOR_OPEN || d->state == DOOR_FAILED)
		d->state = DOOR_WANTED;
	d->orders = d->stale = 0;
	d->kept = false;
}

void session_egress_resumed(struct session *s)
{
	/* Perhaps it failed because PID 1 was frozen when it was asked. */
	if (net_session_of(s)->egress.kept || net_session_of(s)->egress.state == DOOR_FAILED) {
		net_session_of(s)->egress.kept = false;
		abandon(&net_session_of(s)->egress);
		net_session_of(s)->egress.state = DOOR_WANTED;
	}
	session_egress_try(s);
}

bool session_egress_is_missing(const struct session *s)
{
	if (net_session_of(s)->egress.state == DOOR_ASKED)
		return true;
	/* Adopted, and PID 1 has not said everything; or others are asked first. */
	return net_session_of(s)->egress.state == DOOR_WANTED &&
	       session_row(s)->state == SESSION_RUNNING;
}

void session_egress_leave(struct session *s, const struct err *e)
{
	struct session_egress *d = &net_session_of(s)->egress;

	end_request(s);
	completion_cancel(&d->made);
	loop_timer_cancel(core_loop(session_core(s)), &d->timer);
	d->state = DOOR_NONE;
	d->creating = false;
	completions_end_all(&d->when, e);
}

void session_egress_end(struct session *s, const struct err *e)
{
	detach(s);
	session_egress_leave(s, e);
	net_usage_end(s);
}
