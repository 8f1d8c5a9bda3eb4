/* session_egress.c - theory of operation
 *
 * What changes is noted (`due`), and composed at the moment it is sent (egress_orders.h), so that
 * egress never gets an older one than there is. One order of a session at a time is under way;
 * those that wait are called when an order that was composed after their change is in force. A
 * change of secrets sends no policy.
 *
 * PID 1 keeps its two sockets (a listener and a resolver) and passes them each time it is asked. It
 * is untrusted: it may pass anything (egress checks what they are), nothing, or not answer (the
 * timer). At most ASKING_MAX PID 1s are asked at a time after a new channel. A frozen PID 1 cannot
 * be asked: egress gets the configuration only, and continues with the sockets that it has; the
 * sockets are passed again when the session is thawed.
 *
 * With the request goes one end of a new socket pair, and the other end goes to egress with the
 * sockets: over it egress asks which program made a connection (owner_msg.h). Without it, records
 * do not name executions; nothing else depends on it. */
#include "session_egress.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "core.h"
#include "net_state.h"
#include "session.h"
#include "tenant.h"
#include "egress_config.h"
#include "egress_link.h"
#include "fd_budget.h"
#include "io.h"
#include "json.h"
#include "live_cell.h"
#include "log.h"
#include "net_usage.h"
#include "policy_select.h"
#include "session_parts.h"
#include "session_policy.h"
#include "session_stop.h"
#include "untrusted_fd.h"

#define WAIT_MS 5000
#define WAITS_MAX 5 /* more of them, while an order waits for its turn */
#define FDS 2	    /* listener and resolver */
#define OWNERS FDS  /* behind them, with EGRESS_ATTACH_OWNERS */

static void on_timer(struct loop_timer *t);

void session_egress_init(struct session *s, struct net_session *n)
{
	struct egress_links *all = &net_access_of(session_core(s))->egress;

	assert(session_row(s)->id[0] != '\0');
	n->egress.link = &all->links[egress_links_slot(session_row(s)->id, all->n)];
	n->egress.timer = (struct loop_timer){ .on_expire = on_timer, .arg = s };
	n->egress.owners = -1;
	memset(n->egress.fds, -1, sizeof(n->egress.fds));
}

static struct session_egress *egress_of(const struct session *s)
{
	return &net_session_of(s)->egress;
}

const char *session_egress_state_name(const struct session *s)
{
	switch (egress_of(s)->state) {
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

static bool is_wanted(const struct session *s)
{
	return !policy_select_is_none(session_policy_own(s));
}

/* The policy that allows nothing: egress explains and records what it refuses. */
static bool is_deny(const struct session *s)
{
	char name[POLICY_SELECT_NAME_MAX];

	policy_select_name(session_policy_own(s), name);
	return strcmp(name, "deny") == 0;
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
	io_close_all(&egress_of(s)->owners, 1);
	if (egress_of(s)->state != SESSION_EGRESS_ASKED)
		return;
	core_fds(session_core(s))->owed -= FDS;
	session_egress_link(s)->asking--;
	egress_order_asking(&egress_of(s)->order, -1);
}

/* Nothing is due any more, and an answer that comes does not count. */
static void abandon(struct session_egress *d)
{
	d->stale += d->order.under_way ? 1 : 0;
	d->due = 0;
	untrusted_close(d->fds, EGRESS_FDS_MAX);
	egress_order_withdraw(&d->order);
}

/* Callbacks may begin to wait again: in a list that is not walked. */
static void end_waiting(struct session *s, const struct err *e)
{
	struct completions sent = { 0 };

	completions_move(&egress_of(s)->when_sent, &sent);
	completions_end_all(&egress_of(s)->when_open, e);
	completions_end_all(&sent, e);
}

static void settle(struct session *s, enum session_egress_state state, const struct err *e)
{
	struct err copy;

	end_request(s);
	egress_of(s)->state = state;
	abandon(egress_of(s));
	loop_timer_cancel(core_loop(session_core(s)), &egress_of(s)->timer);
	if (e != NULL) {
		copy = *e;
		log_warn("network not available for session", "session_id=%s error=%s",
			 session_row(s)->id, copy.msg);
	}
	/* A waiter may end the session, but it is not freed from here. */
	end_waiting(s, e == NULL ? NULL : &copy);
}

/* Makes egress forget the session and close its connections. */
static void detach(struct session *s)
{
	bool known = egress_of(s)->state == SESSION_EGRESS_SENT ||
		     egress_of(s)->state == SESSION_EGRESS_OPEN;
	struct err ignored;

	if (known && egress_link_up(session_egress_link(s)))
		IGNORED(egress_link_send(session_egress_link(s), EGRESS_DETACH, session_row(s)->id,
					 NULL, 0, NULL, &ignored),
			"without a channel egress has closed them already");
}

/* If an update cannot be sent, egress may enforce an older, looser policy; so the session is
 * detached (fail closed). */
static void fail(struct session *s, const struct err *e)
{
	detach(s);
	settle(s, SESSION_EGRESS_FAILED, e);
	sync_later(s);
}

/* ---- configurations */

static enum egress_type type_of(const struct session_egress *d)
{
	if (d->fds[0] >= 0)
		return d->fds[OWNERS] < 0 ? EGRESS_ATTACH : EGRESS_ATTACH_OWNERS;
	return (d->due & SESSION_EGRESS_POLICY) != 0 ? EGRESS_CHANGE : EGRESS_SECRETS;
}

size_t session_egress_send(struct session *s)
{
	struct session_egress *d = egress_of(s);
	enum egress_type type = type_of(d);
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
		fail(s, &e);
		return cost;
	}
	if (!d->claimed) {
		d->claimed = true;
		sync_later(s);
	}
	completions_move(&d->when_sent, &d->when_open);
	return cost;
}

/* fds: NULL, or its sockets, which are taken over. */
static void order(struct session *s, unsigned what, int *fds)
{
	struct session_egress *d = egress_of(s);

	d->due |= what;
	if (fds != NULL) {
		untrusted_close(d->fds, EGRESS_FDS_MAX);
		memcpy(d->fds, fds, sizeof(d->fds));
	}
	egress_order_want(&d->order, s);
}

static void start_wait(struct session *s)
{
	if (egress_of(s)->timer.place != 0)
		return;
	egress_of(s)->waits = 0;
	loop_timer_set(core_loop(session_core(s)), &egress_of(s)->timer,
		       clock_now_ns() + WAIT_MS * CLOCK_MS);
}

/* Orders of a tenant are paced: one that has not been sent is not late. */
static bool waits_for_its_turn(struct session *s)
{
	struct session_egress *d = egress_of(s);

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

	if (egress_of(s)->state == SESSION_EGRESS_ASKED) {
		(void)err_set_reason(&e, REASON_TIMEOUT,
				     "session %s: PID 1 did not pass the sockets of its network",
				     session_row(s)->id);
		egress_of(s)->late = true;
		fail(s, &e);
		return;
	}
	if (waits_for_its_turn(s))
		return;
	/* The state stays: only those that wait get an error. */
	(void)err_set_reason(&e, REASON_UNAVAILABLE, "session %s: %s", session_row(s)->id,
			     egress_link_up(session_egress_link(s))
				     ? "the network is not ready: no answer in time"
				     : "the network is not ready: cordon-egress is not running");
	end_waiting(s, &e);
}

/* ---- the sockets of the cell */

static void attach(struct session *s, int fds[EGRESS_FDS_MAX])
{
	if (!egress_link_up(session_egress_link(s))) {
		untrusted_close(fds, EGRESS_FDS_MAX);
		egress_of(s)->state = SESSION_EGRESS_WANTED; /* the next channel asks again */
		return;
	}
	egress_of(s)->state = SESSION_EGRESS_SENT;
	egress_of(s)->config_only = false;
	order(s, SESSION_EGRESS_POLICY | SESSION_EGRESS_SECRETS, fds);
	start_wait(s);
}

void session_egress_on_listens(struct session *s, struct live_cell *c, const struct agent_event *v)
{
	int fds[EGRESS_FDS_MAX];
	struct err e;

	/* A cell with little processor time may answer after the timeout; that is accepted. */
	if (egress_of(s)->state != SESSION_EGRESS_ASKED &&
	    (egress_of(s)->state != SESSION_EGRESS_FAILED || !egress_of(s)->late))
		return; /* PID 1 was not asked; the descriptors are closed */
	egress_of(s)->late = false;
	if (v->sys != 0) {
		errno = v->sys;
		(void)err_sys(&e, "session %s: the network of the cell cannot be opened",
			      session_row(s)->id);
		if (v->sys == EOPNOTSUPP)
			e.code = ERR_UNSUPPORTED;
		fail(s, &e);
		return;
	}
	memcpy(fds, c->agent.fds, FDS * sizeof(fds[0])); /* as many as agent_next() has checked */
	c->agent.nfds = 0;
	fds[OWNERS] = TAKE_FD(egress_of(s)->owners);
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

/* Makes the socket pair for questions. The cell's end is returned; -1: none, and the session goes
 * on without. */
static int make_owners(struct session_egress *d, const struct live_cell *c)
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

static int ask(struct session *s, struct err *e)
{
	struct live_cell *c = session_cell(s);

	if (c->version < AGENT_VERSION_EGRESS)
		return err_set(e, ERR_UNSUPPORTED,
			       "session %s was made by an older version and cannot have a network",
			       session_row(s)->id);
	if (fd_budget_check(core_fds(session_core(s)), e) < 0)
		return -1;
	if (agent_send_listen_egress(&c->agent, make_owners(egress_of(s), c), e) < 0)
		return -1;
	egress_of(s)->state = SESSION_EGRESS_ASKED;
	egress_of(s)->late = false;
	core_fds(session_core(s))->owed += FDS;
	session_egress_link(s)->asking++;
	egress_order_asking(&egress_of(s)->order, 1);
	start_wait(s);
	live_cell_flush(c);
	return 0;
}

/* PID 1 is frozen: sends the configuration only, for an egress that still knows the session. */
static void send_config_only(struct session *s)
{
	egress_of(s)->state = SESSION_EGRESS_SENT;
	egress_of(s)->config_only = true;
	order(s, SESSION_EGRESS_POLICY | SESSION_EGRESS_SECRETS, NULL);
}

void session_egress_try(struct session *s)
{
	struct egress_link *l = session_egress_link(s);
	struct err e;

	if (egress_of(s)->state != SESSION_EGRESS_WANTED || !egress_link_up(l))
		return;
	/* A session without a cell is attached when it has one again. */
	if (session_row(s)->state == SESSION_PAUSED && session_cell(s) != NULL && !l->synced) {
		send_config_only(s);
		return;
	}
	if (!can_be_asked(s))
		return;
	if (l->asking >= egress_link_asking_max(l) ||
	    !egress_order_may_ask(&egress_of(s)->order, s))
		l->waiting = true;
	else if (ask(s, &e) < 0)
		fail(s, &e);
}

void session_egress_on_adopted(struct session *s)
{
	if (is_wanted(s))
		egress_of(s)->state = SESSION_EGRESS_WANTED;
	session_egress_try(s);
}

/* Ends a new session whose network cannot be opened. */
static void on_opened(struct completion *w, const struct err *e)
{
	struct session *s = w->arg;

	egress_of(s)->creating = false;
	if (e == NULL)
		session_parts_settled(s);
	else
		session_fail(s, e, "the network of the session could not be opened");
}

void session_egress_on_started(struct session *s)
{
	struct session_egress *d = egress_of(s);

	if (!is_wanted(s))
		return;
	/* The cell reaches nothing before it is open, and nothing after. PID 1 gets the request
	 * before any execution, whose connections then wait for egress. */
	if (is_deny(s)) {
		session_egress_changed(s, SESSION_EGRESS_POLICY, NULL);
		return;
	}
	d->creating = true;
	d->opened = (struct completion){ .on_done = on_opened, .arg = s };
	session_egress_changed(s, SESSION_EGRESS_POLICY, &d->opened);
}

void session_egress_changed(struct session *s, unsigned what, struct completion *w)
{
	struct session_egress *d = egress_of(s);

	if (d->state == SESSION_EGRESS_NONE && !is_wanted(s)) {
		if (w != NULL)
			completion_end_soon(w, core_loop(session_core(s)), NULL);
		return;
	}
	if (w != NULL)
		completion_begin(w, core_loop(session_core(s)), &d->when_sent);
	start_wait(s);
	switch (d->state) {
	case SESSION_EGRESS_SENT:
	case SESSION_EGRESS_OPEN:
		d->state = SESSION_EGRESS_SENT;
		order(s, what, NULL);
		break;
	case SESSION_EGRESS_NONE:
	case SESSION_EGRESS_FAILED:
	case SESSION_EGRESS_WANTED:
		d->state = SESSION_EGRESS_WANTED;
		if (session_row(s)->state ==
		    SESSION_PAUSED) /* opened when it is resumed, before its programs run */
			settle(s, SESSION_EGRESS_WANTED, NULL);
		session_egress_try(s);
		break;
	case SESSION_EGRESS_ASKED: /* the newest configuration is sent when PID 1 answers */
		break;
	}
}

void session_egress_look_again(struct session *s)
{
	bool same = egress_of(s)->tenant_policy == tenant_policy_changes(session_tenant(s));

	session_egress_changed(s, SESSION_EGRESS_SECRETS | (same ? 0 : SESSION_EGRESS_POLICY),
			       NULL);
}

/* One order is in force, and another is due: those that wait for the first one are called. */
static void settle_one(struct session *s)
{
	struct session_egress *d = egress_of(s);

	loop_timer_cancel(core_loop(session_core(s)), &d->timer);
	start_wait(s);
	completions_end_all(&d->when_open, NULL);
}

void session_egress_on_taken(struct session *s, const char *why, size_t len)
{
	struct session_egress *d = egress_of(s);
	struct err e;

	if (d->stale > 0) {
		d->stale--;
		return;
	}
	if (!egress_order_answered(&d->order) || d->state != SESSION_EGRESS_SENT)
		return; /* egress was sent no configuration */
	if (len == 0) {
		if (d->due == 0)
			settle(s, SESSION_EGRESS_OPEN, NULL);
		else
			settle_one(s);
		return;
	}
	if (d->config_only) { /* a new egress, which gets the sockets after the thaw */
		d->config_only = false;
		settle(s, SESSION_EGRESS_WANTED, NULL);
		return;
	}
	(void)err_set(&e, ERR_SYSTEM, "session %s: cordon-egress refused the policy: %.*s",
		      session_row(s)->id, (int)(len < 200 ? len : 200), why);
	err_sanitize(&e);
	fail(s, &e);
}

/* ---- events of the channel and of the session */

void session_egress_on_connected(struct session *s)
{
	struct session_egress *d = egress_of(s);

	if (session_row(s)->state >= SESSION_STOPPING || d->state == SESSION_EGRESS_ASKED)
		return;
	if (d->state == SESSION_EGRESS_NONE && !is_wanted(s))
		return;
	d->state = SESSION_EGRESS_WANTED;
	d->stale = 0;
	d->claimed = false;
	session_egress_try(s);
}

void session_egress_on_disconnected(struct session *s)
{
	struct session_egress *d = egress_of(s);

	if (d->state == SESSION_EGRESS_SENT || d->state == SESSION_EGRESS_OPEN ||
	    d->state == SESSION_EGRESS_FAILED)
		d->state = SESSION_EGRESS_WANTED;
	d->due = 0;
	untrusted_close(d->fds, EGRESS_FDS_MAX);
	d->stale = 0;
	d->claimed = d->config_only = false;
	while (d->when_open.first != NULL) /* they wait for what the next channel is sent */
		completion_begin(d->when_open.first, core_loop(session_core(s)), &d->when_sent);
}

void session_egress_on_resumed(struct session *s)
{
	/* It may have failed because PID 1 was frozen when it was asked. */
	if (egress_of(s)->config_only || egress_of(s)->state == SESSION_EGRESS_FAILED) {
		egress_of(s)->config_only = false;
		abandon(egress_of(s));
		egress_of(s)->state = SESSION_EGRESS_WANTED;
	}
	session_egress_try(s);
}

bool session_egress_is_missing(const struct session *s)
{
	if (egress_of(s)->state == SESSION_EGRESS_ASKED)
		return true;
	if (egress_of(s)->state == SESSION_EGRESS_SENT && !egress_of(s)->claimed)
		return true;
	/* Adopted, and PID 1 has not reported everything yet; or others are asked first. */
	return egress_of(s)->state == SESSION_EGRESS_WANTED &&
	       session_row(s)->state == SESSION_RUNNING;
}

void session_egress_leave(struct session *s, const struct err *e)
{
	struct session_egress *d = egress_of(s);

	end_request(s);
	completion_cancel(&d->opened);
	loop_timer_cancel(core_loop(session_core(s)), &d->timer);
	abandon(d);
	d->state = SESSION_EGRESS_NONE;
	d->creating = false;
	end_waiting(s, e);
}

void session_egress_free(struct session *s, const struct err *e)
{
	session_egress_leave(s, e);
	egress_order_leave(&egress_of(s)->order);
}

void session_egress_on_cell_gone(struct session *s, const struct err *e)
{
	detach(s);
	session_egress_leave(s, e);
}

void session_egress_on_ending(struct session *s, const struct err *e)
{
	detach(s);
	session_egress_leave(s, e);
	net_usage_end(s);
}
