#include "front/web/session_request.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/session/session_boot.h"
#include "daemon/tenant/quota.h"
#include "front/web/reply.h"
#include "lib/base/str.h"
#include "lib/policy/lockfiles_fold.h"

/* ---- snapshots and forks */

struct session_request_making {
	struct snapshot made;
	struct request *r;
	capture_answer_snapshot_fn *on_made;
};

static void release_making(struct request *r, bool answered)
{
	struct session_request_making *m = r->state;

	snapshot_cancel(&m->made);
}

static void on_snapshot(struct completion *c, const struct err *e)
{
	struct session_request_making *m = c->arg;

	m->on_made(m->r, e == NULL ? m->made.version : NULL, &m->made.capture.found, e);
}

void capture_answer_snapshot(struct request *r, struct session *s, const char *name,
			     uint64_t keep_ms, capture_answer_snapshot_fn *on_made)
{
	struct session_request_making *m = request_state(r, sizeof(*m), release_making);

	if (m == NULL)
		return;
	m->r = r;
	m->on_made = on_made;
	m->made.done = (struct completion){ .on_done = on_snapshot, .arg = m };
	snapshot_make(s, name, keep_ms, request_actor(r), &m->made);
}

struct forking {
	struct session_fork fork;
	struct request *r;
	capture_answer_fork_fn *on_forked;
};

static void release_forking(struct request *r, bool answered)
{
	struct forking *k = r->state;

	session_fork_release(&k->fork);
}

static void on_fork(struct completion *c, const struct err *e)
{
	struct forking *k = c->arg;

	k->on_forked(k->r, &k->fork, e);
}

void capture_answer_fork(struct request *r, struct session *s,
			 const struct capture_answer_fork *how, capture_answer_fork_fn *on_forked)
{
	struct forking *k = request_state(r, sizeof(*k), release_forking);

	if (k == NULL)
		return;
	k->r = r;
	k->on_forked = on_forked;
	k->fork.done = (struct completion){ .on_done = on_fork, .arg = k };
	session_fork(s, how->count, how->timeout_given, how->timeout_ms, how->by_snapshot,
		     request_actor(r), &k->fork);
}

/* ---- sessions */

/* Lockfiles count as changes of the tenant's documents: the time depends on their pins, and a short
 * text may have as many as a long one. Beyond the first bytes only a part counts, so that the
 * resulting document still fits. */
#define LOCKFILES_WHOLE ((size_t)256 << 10)
#define LOCKFILES_SHARE 8
#define BODY_SHORT ((size_t)16 << 10)

static void end_session(struct request *r)
{
	struct err e;

	IGNORED(session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e),
		"then the session ends by its timeout");
}

static void name_session(struct session_making *m)
{
	struct request *r = m->r;

	str_copy(r->session_id, session_row(m->s)->id);
}

void session_making_release(struct session_making *m)
{
	if (m->r == NULL || m->is_known || m->s == NULL)
		return;
	/* The client disconnected before it received the id, so it could never delete the session.
	 * A queued session has no id and is removed with its waiter. */
	name_session(m);
	if (m->r->session_id[0] != '\0')
		end_session(m->r);
}

/* The client gets the session when its template's start command is ready. */
static void on_ready(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct session_making *m = r->making;

	if (e != NULL)
		end_session(r);
	m->is_known = true;
	m->on_made(m, m->s, e);
}

static void on_result(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct session_making *m = r->making;

	if (e == NULL)
		name_session(m);
	if (e == NULL && session_boot_is_needed(m->s)) {
		r->wait.on_done = on_ready;
		session_boot(m->s, request_actor(r), &r->wait);
		return;
	}
	m->is_known = true;
	m->on_made(m, m->s, e);
}

int session_making_start(struct session_making *m, struct request *r, struct session_spec *spec,
			 unsigned *ret_retry_s, struct err *e)
{
	struct session *s = NULL;

	m->r = r;
	r->making = m;
	r->wait.on_done = on_result;
	spec->actor = request_actor(r);
	if (session_create(r->core, r->tenant, spec, &r->wait, &s, ret_retry_s, e) < 0) {
		m->is_known = true;
		return -1;
	}
	if (completion_is_waiting(
		    &r->wait)) /* else it failed, s is freed, and on_result() follows */
		m->s = s;
	return 0;
}

/* ---- a request for a session and nothing else */

struct creating {
	struct session_making making;
	void (*on_created)(struct request *r, struct session *s);
};

static void making_release(struct request *r, bool answered)
{
	struct creating *c = r->state;

	session_making_release(&c->making);
}

static void on_made(struct session_making *m, struct session *s, const struct err *e)
{
	struct request *r = m->r;
	struct creating *c = r->state;

	if (e != NULL)
		reply_error(r, e);
	else
		c->on_created(r, s);
}

int session_request_start(struct request *r, struct session_spec *spec,
			  void (*on_created)(struct request *r, struct session *s),
			  unsigned *ret_retry_s, struct err *e)
{
	struct creating *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return err_sys(e, "allocate");
	c->on_created = on_created;
	c->making.on_made = on_made;
	r->state = c;
	r->release = making_release;
	return session_making_start(&c->making, r, spec, ret_retry_s, e);
}

int session_request_count(struct tenant *t, const void *body, size_t len, struct err *e)
{
	size_t whole = len < LOCKFILES_WHOLE ? len : LOCKFILES_WHOLE;

	/* A long body may have the word with escapes. */
	if (!lockfiles_are_in(body, len) &&
	    (len <= BODY_SHORT || memmem(body, len, "\\u", 2) == NULL))
		return 0;
	return change_quota_take(t, whole + (len - whole) / LOCKFILES_SHARE, e);
}
