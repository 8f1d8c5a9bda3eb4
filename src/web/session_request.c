#include "session_request.h"

#include <stdio.h>
#include <stdlib.h>

#include "reply.h"
#include "session_boot.h"

struct making {
	struct session *s; /* until the result is known; NULL: creation could not begin */
	bool is_known;
	bool failed;
	struct err why; /* if so */
	void (*on_created)(struct request *r, struct session *s);
};

static void abandon(struct request *r, bool answered)
{
	struct making *m = r->state;
	struct err e;

	(void)answered;
	if (m->is_known || m->s == NULL)
		return;
	/* The client disconnected before it received the id, so it could never delete the session.
	 * A queued session has no id and is removed with its waiter. */
	(void)snprintf(r->session_id, sizeof(r->session_id), "%s", session_row(m->s)->id);
	if (r->session_id[0] != '\0')
		IGNORED(session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e),
			"then the session ends by its timeout");
}

static void finish(struct request *r)
{
	struct making *m = r->state;

	if (m->failed) {
		reply_error(r, &m->why);
		return;
	}
	(void)snprintf(r->session_id, sizeof(r->session_id), "%s", session_row(m->s)->id);
	m->on_created(r, m->s);
}

/* The client gets the session when its template's start command is ready. */
static void on_ready(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct making *m = r->state;
	struct err ignored;

	if (e != NULL) {
		m->why = *e;
		m->failed = true;
		IGNORED(session_delete(r->core, r->tenant, r->session_id, request_actor(r),
				       &ignored),
			"then the session ends by its timeout");
	}
	m->is_known = true;
	finish(r);
}

static void on_result(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct making *m = r->state;

	if (e == NULL && session_boot_is_needed(m->s)) {
		(void)snprintf(r->session_id, sizeof(r->session_id), "%s", session_row(m->s)->id);
		r->wait.on_done = on_ready;
		session_boot(m->s, request_actor(r), &r->wait);
		return;
	}
	m->is_known = true;
	m->failed = e != NULL;
	if (e != NULL)
		m->why = *e;
	finish(r);
}

int session_request_start(struct request *r, struct session_spec *spec,
			  void (*on_created)(struct request *r, struct session *s),
			  unsigned *ret_retry_s, struct err *e)
{
	struct making *m = calloc(1, sizeof(*m));
	struct session *s = NULL;

	if (m == NULL)
		return err_sys(e, "allocate");
	m->on_created = on_created;
	r->state = m;
	r->release = abandon;
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
