/* api_sessions.c - sessions: made, shown, listed, paused, ended. */
#include <string.h>

#include "api_handlers.h"
#include "members.h"
#include "reply.h"
#include "request.h"
#include "shape.h"
#include "spec_session.h"

#define SESSION_JSON_MAX (256U << 10)

/* fresh: it has used nothing, and nobody needs to ask the kernel how much. */
static void reply_session(struct request *r, int status, struct session *s, bool fresh)
{
	struct json j;

	json_init_heap(&j, SESSION_JSON_MAX);
	shape_session(&j, NULL, session_row(s), s, !fresh);
	reply_json(r, status, &j);
}

/* ---- create */

struct making {
	struct session *s; /* until it is told how it went */
	bool told;
	bool failed;
	struct err why; /* if so */
};

static void abandon(struct request *r, bool answered)
{
	struct making *m = r->state;
	struct err e;

	(void)answered;
	if (m->told || m->s == NULL)
		return;
	/* The client went away before it could learn the id: nobody would ever end it. One that is
	 * still queued has no id, and is forgotten with whoever waited for it. */
	(void)snprintf(r->session_id, sizeof(r->session_id), "%s", session_row(m->s)->id);
	if (r->session_id[0] != '\0')
		IGNORED(session_delete(r->core, r->tenant, r->session_id, &e),
			"its timeout will, then");
}

static void finish(struct request *r)
{
	struct making *m = r->state;

	if (m->failed) {
		reply_error(r, &m->why);
		return;
	}
	(void)snprintf(r->session_id, sizeof(r->session_id), "%s", session_row(m->s)->id);
	reply_session(r, 201, m->s, true);
}

static void made(struct wait *w, const struct err *e)
{
	struct request *r = w->arg;
	struct making *m = r->state;

	m->told = true;
	m->failed = e != NULL;
	if (e != NULL)
		m->why = *e;
	if (m->s != NULL) /* else session_create() has not returned yet */
		finish(r);
}

static void create(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct making *m = request_state(r, sizeof(*m), abandon);
	struct spec_session spec;
	struct session *s = NULL;
	struct err e = { 0 };
	unsigned retry_s = 0;
	int made_one;

	if (m == NULL)
		return;
	r->wait.done = made;
	if (spec_session_read(body, len, &spec, &e) < 0)
		made_one = -1;
	else
		made_one =
			session_create(r->core, r->tenant, &spec.spec, &r->wait, &s, &retry_s, &e);
	spec_session_release(&spec);
	if (made_one < 0) {
		m->told = true;
		reply_refusal(r, &e, retry_s);
		return;
	}
	m->s = s;
	if (m->told)
		finish(r);
}

void api_sessions_create(struct request *r)
{
	request_body(r, create);
}

/* ---- show */

void api_sessions_get(struct request *r)
{
	struct session *live = NULL;
	struct store_session row = { 0 };
	struct err e = { 0 };
	struct json j;

	if (request_owns(r, &live, &e) < 0 ||
	    (live == NULL && session_get(r->core, r->tenant, r->session_id, &row, &e) < 0)) {
		reply_error(r, &e);
	} else if (live != NULL) {
		reply_session(r, 200, live, false);
	} else {
		json_init_heap(&j, SESSION_JSON_MAX);
		shape_session(&j, NULL, &row, NULL, false);
		store_session_release(&row);
		reply_json(r, 200, &j);
	}
}

/* ---- change */

void api_sessions_delete(struct request *r)
{
	struct err e = { 0 };

	if (session_delete(r->core, r->tenant, r->session_id, &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

static void changed(struct wait *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		api_sessions_get(r);
}

static void change(struct request *r, void (*how)(struct session *s, struct wait *w))
{
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);

	if (s == NULL) {
		reply_error(r, &e);
		return;
	}
	r->wait.done = changed;
	how(s, &r->wait);
}

void api_sessions_pause(struct request *r)
{
	change(r, session_pause);
}

void api_sessions_resume(struct request *r)
{
	change(r, session_resume);
}

static int read_timeout(const uint8_t *body, size_t len, uint64_t *ret, struct err *e)
{
	json_t *root = members_parse(body, len, e);
	bool given = false;
	struct members m;
	int read;

	if (root == NULL)
		return -1;
	members_begin(&m, root, "", e);
	members_time(&m, "timeout", ret, &given);
	if (!given)
		(void)members_fail(&m, "timeout", "is missing");
	read = members_end(&m);
	json_decref(root);
	return read;
}

static void set_timeout(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	uint64_t ms = 0;

	if (s == NULL || read_timeout(body, len, &ms, &e) < 0 || session_set_timeout(s, ms, &e) < 0)
		reply_error(r, &e);
	else
		reply_session(r, 200, s, false);
}

void api_sessions_timeout(struct request *r)
{
	request_body(r, set_timeout);
}
