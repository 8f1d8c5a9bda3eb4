/* session_egress.c - theory of operation
 *
 * A change is noted (`due`), and composed at the moment it is sent (egress_orders.h), so that
 * egress never gets an older one than there is. One order of a session at a time is unanswered.
 * Waiters are called when an order composed after their change is in force. A change of secrets
 * sends no policy.
 *
 * PID 1 keeps its two sockets (a listener and a resolver) and passes them each time it is asked. It
 * is untrusted: it may pass anything (egress checks the kind), nothing, or not answer (the timer).
 * At most ASKING_MAX PID 1s are asked at a time after a new channel. A frozen PID 1 cannot be
 * asked: egress gets the configuration only, and continues with the sockets that it has. The
 * sockets are passed again when the session is thawed.
 *
 * With the request goes one end of a new socket pair, and the other end goes to egress with the
 * sockets: over it egress asks which program made a connection (owner_msg.h). Without it, records
 * do not name executions. Nothing else depends on it. */
#include "daemon/egressctl/session_egress.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/cells/fd_budget.h"
#include "daemon/cells/live_cell.h"
#include "daemon/egressctl/egress_link.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/egressctl/net_usage.h"
#include "daemon/egressctl/session_policy.h"
#include "daemon/node/core.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_stop.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/untrusted_fd.h"
#include "lib/json/json.h"
#include "lib/policy/policy_select.h"

#define WAIT_MS 5000
#define WAITS_MAX 5 /* more of them, while an order waits for its turn */
#define FDS 2	    /* listener and resolver */
#define OWNERS FDS  /* behind them, with EGRESS_ATTACH_OWNERS */

static void on_timer(struct loop_timer *t);

static struct session_egress *session_egress_egress_of(const struct session *s)
{
	struct session_egress *g = &net_session_of(s)->egress;

	if (g->link == NULL) {
		struct egress_links *all = &net_access_of(session_core(s))->egress;

		assert(session_row(s)->id[0] != '\0');
		g->link = &all->links[egress_links_slot(session_row(s)->id, all->n)];
		g->timer = (struct loop_timer){ .on_expire = on_timer,
						.arg = (struct session *)(uintptr_t)s };
	}
	return g;
}

const char *session_egress_state_name(const struct session *s)
{
	switch (session_egress_egress_of(s)->state) {
	case SESSION_EGRESS_NONE:
		return "none";
	case SESSION_EGRESS_OPEN:
		return "open";
	case SESSION_EGRESS_FAILED:
		return "failed";
	case SESSION_EGRESS_WANTED:
	case SESSION_EGRESS_ASKED:
	case SESSION_EGRESS_SENT:
		break;
	}
	return "opening";
}

static bool session_egress_is_wanted(const struct session *s)
{
	return !policy_select_is_none(session_policy_own(s));
}

/* The policy that allows nothing: egress explains and records its refusals. */
static bool session_egress_is_deny(const struct session *s)
{
	char name[POLICY_SELECT_NAME_MAX];

	policy_select_name(session_policy_own(s), name);
	return strcmp(name, "deny") == 0;
}

struct egress_link *session_egress_link(const struct session *s)
{
	return session_egress_egress_of(s)->link;
}

/* The sockets of a PID 1 have come, or will not: perhaps they were the last missing ones, or
 * another one waits to be asked. Otherwise no walk over all sessions is needed. */
static void session_egress_sync_later(const struct session *s)
{
	const struct egress_link *l = session_egress_link(s);

	if (!l->synced || l->waiting)
		egress_links_sync_later(&net_access_of(session_core(s))->egress);
}

/* The request to PID 1 has ended: give back the reserve for its answer. */
static void session_egress_end_request(struct session *s)
{
	io_close_all(&session_egress_egress_of(s)->owners, 1);
	if (session_egress_egress_of(s)->state != SESSION_EGRESS_ASKED)
		return;
	core_fds(session_core(s))->owed -= FDS;
	session_egress_link(s)->asking--;
	egress_order_asking(&session_egress_egress_of(s)->order, -1);
}

/* Nothing is due any more, and an answer that comes does not count. */
static void session_egress_abandon(struct session_egress *d)
{
	d->stale += d->order.under_way ? 1 : 0;
	d->due = 0;
	untrusted_close(d->fds, EGRESS_FDS_MAX);
	egress_order_withdraw(&d->order);
}

/* Callbacks may begin to wait again: in a list not walked. */
static void session_egress_end_waiting(struct session *s, const struct err *e)
{
	struct completions sent = { 0 };

	completions_move(&session_egress_egress_of(s)->when_sent, &sent);
	completions_end_all(&session_egress_egress_of(s)->when_open, e);
	completions_end_all(&sent, e);
}

static void session_egress_settle(struct session *s, enum session_egress_state state,
				  const struct err *e)
{
	struct err copy;

	session_egress_end_request(s);
	session_egress_egress_of(s)->state = state;
	session_egress_abandon(session_egress_egress_of(s));
	loop_timer_cancel(core_loop(session_core(s)), &session_egress_egress_of(s)->timer);
	if (e != NULL) {
		copy = *e;
		log_warn("network not available for session", "session_id=%s error=%s",
			 session_row(s)->id, copy.msg);
	}
	/* A waiter may end the session, but it is not freed from here. */
	session_egress_end_waiting(s, e == NULL ? NULL : &copy);
}

/* Make egress forget the session and close its connections. */
static void session_egress_detach(struct session *s)
{
	bool known = session_egress_egress_of(s)->state == SESSION_EGRESS_SENT ||
		     session_egress_egress_of(s)->state == SESSION_EGRESS_OPEN;
	struct err ignored;

	if (known && egress_link_up(session_egress_link(s)))
		IGNORED(egress_link_send(session_egress_link(s), EGRESS_DETACH, session_row(s)->id,
					 NULL, 0, NULL, &ignored),
			"without a channel egress has closed them already");
}

/* If an update cannot be sent, egress may enforce an older, looser policy. So the session is
 * detached (fail closed). */
static void session_egress_fail(struct session *s, const struct err *e)
{
	session_egress_detach(s);
	session_egress_settle(s, SESSION_EGRESS_FAILED, e);
	session_egress_sync_later(s);
}

/* ---- configurations */

static enum egress_type session_egress_type_of(const struct session_egress *d)
{
	if (d->fds[0] >= 0)
		return d->fds[OWNERS] < 0 ? EGRESS_ATTACH : EGRESS_ATTACH_OWNERS;
	return (d->due & SESSION_EGRESS_POLICY) != 0 ? EGRESS_CHANGE : EGRESS_SECRETS;
}

size_t session_egress_send(struct session *s)
{
	struct session_egress *d = session_egress_egress_of(s);
	enum egress_type type = session_egress_type_of(d);
	OWN_MEM char *policy = NULL;
	size_t cost = 0;
	struct json j;
	struct err e;
	int sent;

	json_init_heap(&j, EGRESS_TEXT_MAX);
	sent = (d->due & SESSION_EGRESS_POLICY) != 0 ? session_policy_merge(s, &policy, &e) : 0;
	if (sent == 0)
		sent = egress_config_write(s, policy, &j, &cost, &e);
	if (sent == 0)
		sent = egress_link_send(session_egress_link(s), type, session_row(s)->id, j.text,
					j.len, d->fds[0] < 0 ? NULL : d->fds, &e);
	untrusted_close(d->fds, EGRESS_FDS_MAX);
	if (j.text != NULL)
		explicit_bzero(j.text, j.len);
	json_release(&j);
	if ((d->due & SESSION_EGRESS_POLICY) != 0)
		d->tenant_policy = tenant_policy_changes(session_tenant(s));
	d->due = 0;
	if (sent < 0) {
		egress_order_withdraw(&d->order); /* there is no answer to wait for */
		session_egress_fail(s, &e);
		return cost;
	}
	if (!d->claimed) {
		d->claimed = true;
		session_egress_sync_later(s);
	}
	completions_move(&d->when_sent, &d->when_open);
	return cost;
}

/* fds: NULL, or its sockets, taken over. */
static void session_egress_order(struct session *s, unsigned what, int *fds)
{
	struct session_egress *d = session_egress_egress_of(s);

	d->due |= what;
	if (fds != NULL) {
		untrusted_close(d->fds, EGRESS_FDS_MAX);
		memcpy(d->fds, fds, sizeof(d->fds));
	}
	egress_order_want(&d->order, s);
}

static void session_egress_start_wait(struct session *s)
{
	if (session_egress_egress_of(s)->timer.place != 0)
		return;
	session_egress_egress_of(s)->waits = 0;
	loop_timer_set(core_loop(session_core(s)), &session_egress_egress_of(s)->timer,
		       clock_now_ns() + WAIT_MS * CLOCK_MS);
}

/* Orders of a tenant are paced: an unsent one is not late. */
static bool session_egress_waits_for_its_turn(struct session *s)
{
	struct session_egress *d = session_egress_egress_of(s);

	if (!egress_link_up(d->link) || d->order.link == NULL || d->waits == WAITS_MAX)
		return false;
	d->waits++;
	loop_timer_set(core_loop(session_core(s)), &d->timer, clock_now_ns() + WAIT_MS * CLOCK_MS);
	return true;
}

static void on_timer(struct loop_timer *t)
{
	struct session *s = t->arg;
	struct err e;

	if (session_egress_egress_of(s)->state == SESSION_EGRESS_ASKED) {
		(void)err_set_reason(&e, REASON_TIMEOUT,
				     "session %s: PID 1 did not pass the sockets of its network",
				     session_row(s)->id);
		session_egress_egress_of(s)->late = true;
		session_egress_fail(s, &e);
		return;
	}
	if (session_egress_waits_for_its_turn(s))
		return;
	/* The state stays: only those that wait get an error. */
	(void)err_set_reason(&e, REASON_UNAVAILABLE, "session %s: %s", session_row(s)->id,
			     egress_link_up(session_egress_link(s))
				     ? "the network is not ready: no answer in time"
				     : "the network is not ready: cordon-egress is not running");
	session_egress_end_waiting(s, &e);
}

/* ---- the sockets of the cell */

static void session_egress_attach(struct session *s, int fds[EGRESS_FDS_MAX])
{
	if (!egress_link_up(session_egress_link(s))) {
		untrusted_close(fds, EGRESS_FDS_MAX);
		session_egress_egress_of(s)->state =
			SESSION_EGRESS_WANTED; /* the next channel asks again */
		return;
	}
	session_egress_egress_of(s)->state = SESSION_EGRESS_SENT;
	session_egress_egress_of(s)->config_only = false;
	session_egress_order(s, SESSION_EGRESS_POLICY | SESSION_EGRESS_SECRETS, fds);
	session_egress_start_wait(s);
}

void session_egress_on_listens(struct session *s, struct live_cell *c, const struct agent_event *v)
{
	int fds[EGRESS_FDS_MAX];
	struct err e;

	/* A cell with little processor time may answer after the timeout. That is accepted. */
	if (session_egress_egress_of(s)->state != SESSION_EGRESS_ASKED &&
	    (session_egress_egress_of(s)->state != SESSION_EGRESS_FAILED ||
	     !session_egress_egress_of(s)->late))
		return; /* PID 1 was not asked. The descriptors are closed */
	session_egress_egress_of(s)->late = false;
	if (v->sys != 0) {
		errno = v->sys;
		(void)err_sys(&e, "session %s: the network of the cell cannot be opened",
			      session_row(s)->id);
		if (v->sys == EOPNOTSUPP)
			e.code = ERR_UNSUPPORTED;
		session_egress_fail(s, &e);
		return;
	}
	memcpy(fds, c->agent.fds, FDS * sizeof(fds[0])); /* as many as agent_next() has checked */
	c->agent.nfds = 0;
	fds[OWNERS] = TAKE_FD(session_egress_egress_of(s)->owners);
	session_egress_end_request(s);
	session_egress_attach(s, fds);
	session_egress_sync_later(s);
}

static bool session_egress_can_be_asked(const struct session *s)
{
	const struct live_cell *c = session_cell(s);

	return session_row(s)->state == SESSION_RUNNING && c != NULL && c->state == LIVE_UP &&
	       c->synced && c->connected && c->greeted && !c->frozen;
}

/* Make the socket pair for questions. The cell's end is returned. -1: none, and the session
 * continues without. */
static int session_egress_make_owners(struct session_egress *d, const struct live_cell *c)
{
	int pair[2];

	io_close_all(&d->owners, 1);
	if (c->version < AGENT_VERSION_OWNERS)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -1;
	d->owners = pair[0];
	return pair[1];
}

static int session_egress_ask(struct session *s, struct err *e)
{
	struct live_cell *c = session_cell(s);

	if (c->version < AGENT_VERSION_EGRESS)
		return err_set(e, ERR_UNSUPPORTED,
			       "session %s was made by an older version and cannot have a network",
			       session_row(s)->id);
	if (fd_budget_check(core_fds(session_core(s)), e) < 0)
		return -1;
	if (agent_send_listen_egress(
		    &c->agent, session_egress_make_owners(session_egress_egress_of(s), c), e) < 0)
		return -1;
	session_egress_egress_of(s)->state = SESSION_EGRESS_ASKED;
	session_egress_egress_of(s)->late = false;
	core_fds(session_core(s))->owed += FDS;
	session_egress_link(s)->asking++;
	egress_order_asking(&session_egress_egress_of(s)->order, 1);
	session_egress_start_wait(s);
	live_cell_flush(c);
	return 0;
}

/* PID 1 is frozen: sends the configuration only, for an egress that still knows the session. */
static void session_egress_send_config_only(struct session *s)
{
	session_egress_egress_of(s)->state = SESSION_EGRESS_SENT;
	session_egress_egress_of(s)->config_only = true;
	session_egress_order(s, SESSION_EGRESS_POLICY | SESSION_EGRESS_SECRETS, NULL);
}

void session_egress_try(struct session *s)
{
	struct egress_link *l = session_egress_link(s);
	struct err e;

	if (session_egress_egress_of(s)->state != SESSION_EGRESS_WANTED || !egress_link_up(l))
		return;
	/* A session without a cell is attached when it has one again. */
	if (session_row(s)->state == SESSION_PAUSED && session_cell(s) != NULL && !l->synced) {
		session_egress_send_config_only(s);
		return;
	}
	if (!session_egress_can_be_asked(s))
		return;
	if (l->asking >= egress_link_asking_max(l) ||
	    !egress_order_may_ask(&session_egress_egress_of(s)->order, s))
		l->waiting = true;
	else if (session_egress_ask(s, &e) < 0)
		session_egress_fail(s, &e);
}

void session_egress_on_adopted(struct session *s)
{
	if (session_egress_is_wanted(s))
		session_egress_egress_of(s)->state = SESSION_EGRESS_WANTED;
	session_egress_try(s);
}

/* End a new session whose network cannot be opened. */
static void on_opened(struct completion *w, const struct err *e)
{
	struct session *s = w->arg;

	session_egress_egress_of(s)->creating = false;
	if (e == NULL)
		session_parts_settled(s);
	else
		session_fail(s, e, "the network of the session could not be opened");
}

void session_egress_on_started(struct session *s)
{
	struct session_egress *d = session_egress_egress_of(s);

	if (!session_egress_is_wanted(s))
		return;
	/* The cell reaches nothing before it is open, and nothing after. PID 1 gets the request
	 * before any execution, whose connections then wait for egress. */
	if (session_egress_is_deny(s)) {
		session_egress_changed(s, SESSION_EGRESS_POLICY, NULL);
		return;
	}
	d->creating = true;
	d->opened = (struct completion){ .on_done = on_opened, .arg = s };
	session_egress_changed(s, SESSION_EGRESS_POLICY, &d->opened);
}

void session_egress_changed(struct session *s, unsigned what, struct completion *w)
{
	struct session_egress *d = session_egress_egress_of(s);

	if (d->state == SESSION_EGRESS_NONE && !session_egress_is_wanted(s)) {
		if (w != NULL)
			completion_end_soon(w, core_loop(session_core(s)), NULL);
		return;
	}
	if (w != NULL)
		completion_begin(w, core_loop(session_core(s)), &d->when_sent);
	session_egress_start_wait(s);
	switch (d->state) {
	case SESSION_EGRESS_SENT:
	case SESSION_EGRESS_OPEN:
		d->state = SESSION_EGRESS_SENT;
		session_egress_order(s, what, NULL);
		break;
	case SESSION_EGRESS_NONE:
	case SESSION_EGRESS_FAILED:
	case SESSION_EGRESS_WANTED:
		d->state = SESSION_EGRESS_WANTED;
		if (session_row(s)->state ==
		    SESSION_PAUSED) /* opened when it is resumed, before its programs run */
			session_egress_settle(s, SESSION_EGRESS_WANTED, NULL);
		session_egress_try(s);
		break;
	case SESSION_EGRESS_ASKED: /* the newest configuration is sent when PID 1 answers */
		break;
	}
}

void session_egress_look_again(struct session *s)
{
	bool same = session_egress_egress_of(s)->tenant_policy ==
		    tenant_policy_changes(session_tenant(s));

	session_egress_changed(s, SESSION_EGRESS_SECRETS | (same ? 0 : SESSION_EGRESS_POLICY),
			       NULL);
}

/* One order is in force, and another is due: those that wait for the first one are called. */
static void session_egress_settle_one(struct session *s)
{
	struct session_egress *d = session_egress_egress_of(s);

	loop_timer_cancel(core_loop(session_core(s)), &d->timer);
	session_egress_start_wait(s);
	completions_end_all(&d->when_open, NULL);
}

void session_egress_on_taken(struct session *s, const char *why, size_t len)
{
	struct session_egress *d = session_egress_egress_of(s);
	struct err e;

	if (d->stale > 0) {
		d->stale--;
		return;
	}
	if (!egress_order_answered(&d->order) || d->state != SESSION_EGRESS_SENT)
		return; /* egress was sent no configuration */
	if (len == 0) {
		if (d->due == 0)
			session_egress_settle(s, SESSION_EGRESS_OPEN, NULL);
		else
			session_egress_settle_one(s);
		return;
	}
	if (d->config_only) { /* a new egress, which gets the sockets after the thaw */
		d->config_only = false;
		session_egress_settle(s, SESSION_EGRESS_WANTED, NULL);
		return;
	}
	(void)err_set(&e, ERR_SYSTEM, "session %s: cordon-egress refused the policy: %.*s",
		      session_row(s)->id, (int)(len < 200 ? len : 200), why);
	err_sanitize(&e);
	session_egress_fail(s, &e);
}

/* ---- events of the channel and of the session */

void session_egress_on_connected(struct session *s)
{
	struct session_egress *d = session_egress_egress_of(s);

	if (session_row(s)->state >= SESSION_ENDING || d->state == SESSION_EGRESS_ASKED)
		return;
	if (d->state == SESSION_EGRESS_NONE && !session_egress_is_wanted(s))
		return;
	d->state = SESSION_EGRESS_WANTED;
	d->stale = 0;
	d->claimed = false;
	session_egress_try(s);
}

void session_egress_on_disconnected(struct session *s)
{
	struct session_egress *d = session_egress_egress_of(s);

	if (d->state == SESSION_EGRESS_SENT || d->state == SESSION_EGRESS_OPEN ||
	    d->state == SESSION_EGRESS_FAILED)
		d->state = SESSION_EGRESS_WANTED;
	d->due = 0;
	untrusted_close(d->fds, EGRESS_FDS_MAX);
	d->stale = 0;
	d->claimed = d->config_only = false;
	while (d->when_open.first != NULL) /* they wait for an order over the next channel */
		completion_begin(d->when_open.first, core_loop(session_core(s)), &d->when_sent);
}

void session_egress_on_resumed(struct session *s)
{
	/* It may have failed because PID 1 was frozen when it was asked. */
	if (session_egress_egress_of(s)->config_only ||
	    session_egress_egress_of(s)->state == SESSION_EGRESS_FAILED) {
		session_egress_egress_of(s)->config_only = false;
		session_egress_abandon(session_egress_egress_of(s));
		session_egress_egress_of(s)->state = SESSION_EGRESS_WANTED;
	}
	session_egress_try(s);
}

bool session_egress_is_missing(const struct session *s)
{
	if (session_egress_egress_of(s)->state == SESSION_EGRESS_ASKED)
		return true;
	if (session_egress_egress_of(s)->state == SESSION_EGRESS_SENT &&
	    !session_egress_egress_of(s)->claimed)
		return true;
	/* Adopted, and PID 1 has not reported everything yet, or others are asked first. */
	return session_egress_egress_of(s)->state == SESSION_EGRESS_WANTED &&
	       session_row(s)->state == SESSION_RUNNING;
}

void session_egress_leave(struct session *s, const struct err *e)
{
	struct session_egress *d = session_egress_egress_of(s);

	session_egress_end_request(s);
	completion_cancel(&d->opened);
	loop_timer_cancel(core_loop(session_core(s)), &d->timer);
	session_egress_abandon(d);
	d->state = SESSION_EGRESS_NONE;
	d->creating = false;
	session_egress_end_waiting(s, e);
}

void session_egress_free(struct session *s, const struct err *e)
{
	session_egress_leave(s, e);
	egress_order_leave(&session_egress_egress_of(s)->order);
}

void session_egress_on_cell_gone(struct session *s, const struct err *e)
{
	session_egress_detach(s);
	session_egress_leave(s, e);
}

void session_egress_on_ending(struct session *s, const struct err *e)
{
	session_egress_detach(s);
	session_egress_leave(s, e);
	net_usage_end(s);
}
