/* session_egress.c - theory of operation
 *
 * The configuration of a session (policy and secrets) is composed at the moment it is sent, so that
 * egress never gets an older one than there is. Egress answers configurations in the order in which
 * they were sent; those that wait are called when all of them are in force.
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
#include "egress_link.h"
#include "fd_budget.h"
#include "io.h"
#include "json.h"
#include "live_cell.h"
#include "log.h"
#include "net_usage.h"
#include "policy_select.h"
#include "secret.h"
#include "secret_egress.h"
#include "session_parts.h"
#include "session_policy.h"
#include "session_stop.h"
#include "untrusted_fd.h"

#define WAIT_MS 5000
#define FDS 2	   /* listener and resolver */
#define OWNERS FDS /* behind them, with EGRESS_ATTACH_OWNERS */

static void on_timer(struct loop_timer *t);

void session_egress_init(struct session *s, struct net_session *n)
{
	struct egress_links *all = &net_access_of(session_core(s))->egress;

	assert(session_row(s)->id[0] != '\0');
	n->egress.link = &all->links[egress_links_slot(session_row(s)->id, all->n)];
	n->egress.timer = (struct loop_timer){ .on_expire = on_timer, .arg = s };
	n->egress.owners = -1;
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
}

/* Answers to configurations that were sent before do not count any more. */
static void abandon(struct session_egress *d)
{
	d->stale += d->unanswered;
	d->unanswered = 0;
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
	completions_end_all(&egress_of(s)->when_open, e == NULL ? NULL : &copy);
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

static int write_config(struct session *s, struct json *j, struct err *e)
{
	OWN_MEM char *policy = NULL;

	if (session_policy_merge(s, &policy, e) < 0)
		return -1;
	json_open(j, NULL, '{');
	json_text(j, "tenant", session_row(s)->tenant);
	if (net_usage_write(s, j, e) < 0)
		return -1;
	json_raw(j, "policy", policy);
	if (secret_egress_write(s, j, e) < 0)
		return -1;
	json_close(j, '}');
	if (!json_ok(j))
		return err_set(e, ERR_LIMIT, "policy and secrets are too large together");
	return 0;
}

/* fds: NULL or as many as the type has, closed here if they could not be sent. */
static int send_config(struct session *s, enum egress_type type, int *fds, struct err *e)
{
	struct json j;
	int sent;

	json_init_heap(&j, EGRESS_TEXT_MAX);
	sent = write_config(s, &j, e);
	if (sent == 0)
		sent = egress_link_send(session_egress_link(s), type, session_row(s)->id, j.text,
					j.len, fds, e);
	if (fds != NULL)
		untrusted_close(fds, egress_msg_fds(type));
	if (j.text != NULL)
		explicit_bzero(j.text, j.len);
	json_release(&j);
	if (sent == 0)
		egress_of(s)->unanswered++;
	return sent;
}

static void start_wait(struct session *s)
{
	if (egress_of(s)->timer.place == 0)
		loop_timer_set(core_loop(session_core(s)), &egress_of(s)->timer,
			       clock_now_ns() + WAIT_MS * CLOCK_MS);
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
	/* The state stays: only those that wait get an error. */
	(void)err_set_reason(&e, REASON_UNAVAILABLE, "session %s: %s", session_row(s)->id,
			     egress_link_up(session_egress_link(s))
				     ? "the network is not ready: no answer in 5 s"
				     : "the network is not ready: cordon-egress is not running");
	completions_end_all(&egress_of(s)->when_open, &e);
}

/* ---- the sockets of the cell */

static void attach(struct session *s, int fds[EGRESS_FDS_MAX])
{
	enum egress_type type = fds[OWNERS] < 0 ? EGRESS_ATTACH : EGRESS_ATTACH_OWNERS;
	struct err e;

	if (!egress_link_up(session_egress_link(s))) {
		untrusted_close(fds, EGRESS_FDS_MAX);
		egress_of(s)->state = SESSION_EGRESS_WANTED; /* the next channel asks again */
		return;
	}
	egress_of(s)->state = SESSION_EGRESS_SENT;
	egress_of(s)->config_only = false;
	if (send_config(s, type, fds, &e) < 0)
		fail(s, &e);
	else
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
	start_wait(s);
	live_cell_flush(c);
	return 0;
}

/* PID 1 is frozen: sends the configuration only, for an egress that still knows the session. */
static void send_config_only(struct session *s)
{
	struct err e;

	egress_of(s)->state = SESSION_EGRESS_SENT;
	egress_of(s)->config_only = true;
	if (send_config(s, EGRESS_CHANGE, NULL, &e) < 0)
		fail(s, &e);
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
	if (l->asking >= egress_link_asking_max(l))
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
		session_egress_changed(s, NULL);
		return;
	}
	d->creating = true;
	d->opened = (struct completion){ .on_done = on_opened, .arg = s };
	session_egress_changed(s, &d->opened);
}

void session_egress_changed(struct session *s, struct completion *w)
{
	struct session_egress *d = egress_of(s);
	struct err e;

	if (d->state == SESSION_EGRESS_NONE && !is_wanted(s)) {
		if (w != NULL)
			completion_end_soon(w, core_loop(session_core(s)), NULL);
		return;
	}
	if (w != NULL)
		completion_begin(w, core_loop(session_core(s)), &d->when_open);
	start_wait(s);
	switch (d->state) {
	case SESSION_EGRESS_SENT:
	case SESSION_EGRESS_OPEN:
		d->state = SESSION_EGRESS_SENT;
		if (send_config(s, EGRESS_CHANGE, NULL, &e) < 0)
			fail(s, &e);
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

void session_egress_on_taken(struct session *s, const char *why, size_t len)
{
	struct session_egress *d = egress_of(s);
	struct err e;

	if (d->stale > 0) {
		d->stale--;
		return;
	}
	if (d->state != SESSION_EGRESS_SENT || d->unanswered == 0)
		return; /* egress was sent no configuration */
	d->unanswered--;
	if (len == 0) {
		if (d->unanswered == 0)
			settle(s, SESSION_EGRESS_OPEN, NULL);
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
	d->unanswered = d->stale = 0;
	session_egress_try(s);
}

void session_egress_on_disconnected(struct session *s)
{
	struct session_egress *d = egress_of(s);

	if (d->state == SESSION_EGRESS_SENT || d->state == SESSION_EGRESS_OPEN ||
	    d->state == SESSION_EGRESS_FAILED)
		d->state = SESSION_EGRESS_WANTED;
	d->unanswered = d->stale = 0;
	d->config_only = false;
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
	d->state = SESSION_EGRESS_NONE;
	d->creating = false;
	completions_end_all(&d->when_open, e);
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
