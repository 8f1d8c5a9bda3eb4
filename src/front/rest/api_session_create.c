/* api_session_create.c - POST /v1/sessions. A body may have lockfiles of megabytes: they are read,
 * the policy is checked and merged with the other layers, and the session is made. Each of these
 * takes milliseconds, so a long body is read in steps.
 *
 * The steps: read_lockfiles() until none is left, read_spec(), merge_policy(), make_session(). The
 * last one hands the request over to session_request.c, which waits for the session. */
#include <stdlib.h>

#include "daemon/egressctl/session_policy.h"
#include "front/mcpservers/server_spec.h"
#include "front/rest/api_handlers.h"
#include "front/web/once.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/session_request.h"
#include "front/web/spec_session.h"
#include "front/web/step_job.h"
#include "lib/base/str.h"
#include "lib/http/http1.h"
#include "lib/http/traceparent.h"
#include "lib/policy/lockfiles_fold.h"

#define SHORT_BODY ((size_t)16 << 10) /* done at once */

/* The state of a creation. body is borrowed from the exchange. */
struct session_create {
	struct session_making making;
	struct step_job steps;
	const uint8_t *body; /* the exchange's */
	size_t len;
	struct lockfiles_folding *folding; /* owned. NULL: none */
	struct spec_session *spec;	   /* owned. NULL: not read */
	char *servers;			   /* owned */
};

/* The steps are not the first member, so the state is found by the request. */
static struct session_create *create_of(struct step_job *s)
{
	return s->r->state;
}

/* NULL is allowed. */
static void release_spec(struct spec_session *s)
{
	if (s != NULL)
		spec_session_release(s);
	free(s);
}

static void release_create(struct request *r, bool answered)
{
	struct session_create *c = r->state;

	/* The session ends then, because its client has not received its id. */
	if (c->making.r != NULL && !c->making.is_known)
		once_forget(r);
	session_making_release(&c->making);
	step_job_cancel(&c->steps);
	lockfiles_folding_free(c->folding);
	release_spec(c->spec);
	free(c->servers);
}

/* A failed creation may be repeated with its key: nothing was made. */
static void on_made(struct session_making *m, struct session *s, const struct err *e)
{
	if (e != NULL) {
		once_forget(m->r);
		reply_error(m->r, e);
		return;
	}
	reply_location(m->r, "/v1/sessions/", session_row(s)->id);
	api_sessions_reply(m->r, 201, s, true);
}

/* The session that the first request with this key made. False: it never ran, so there is none.
 * True: the request was answered. */
static bool reply_again(struct request *r, const char *id)
{
	struct session *live = session_by_id(r->core, id);
	struct store_session row = { 0 };
	struct err e = { 0 };

	str_copy(r->session_id, id);
	if (live == NULL && (session_get(r->core, r->tenant, id, &row, &e) < 0 ||
			     (row.ended_ms != 0 && row.started_ms == 0))) {
		store_session_release(&row);
		r->session_id[0] = '\0';
		once_forget(r);
		return false;
	}
	once_replayed(r);
	reply_location(r, "/v1/sessions/", id);
	if (live != NULL)
		api_sessions_reply(r, 201, live, false);
	else
		api_sessions_reply_row(r, 201, &row);
	store_session_release(&row);
	return true;
}

/* The end of the steps. Every path answers the request, at once or by on_made(). */
static int make_session(struct step_job *s, struct err *e)
{
	struct session_create *c = create_of(s);
	struct spec_session *spec = c->spec;
	struct request *r = s->r;
	char *servers = c->servers;
	unsigned retry_s = 0;

	/* The session may be there at once, and c is gone then. */
	c->spec = NULL;
	c->servers = NULL;
	c->making.on_made = on_made;
	spec->spec.once = once_row(r);
	if (session_making_start(&c->making, r, &spec->spec, &retry_s, e) < 0)
		reply_refusal(r, e, retry_s);
	release_spec(spec);
	free(servers);
	return 0;
}

/* Merge the policy and remember the result. A fault is found again. */
static int merge_policy(struct step_job *s, struct err *e)
{
	const struct session_create *c = create_of(s);
	struct err fault;

	s->next = make_session;
	if (c->folding != NULL && c->spec->policy != NULL)
		IGNORED(session_policy_check(s->r->core, s->r->tenant, c->spec->policy, &fault),
			"make_session() fails");
	return 1;
}

/* The header counts unless the body names a trace. One that is none is left aside, as its
 * specification has it: other programs on the way may have written it. */
static void take_trace(const struct request *r, struct spec_session *s)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;

	if (s->traceparent[0] == '\0' &&
	    http1_find(q->headers, q->headers_n, "traceparent", &value) == 1)
		(void)traceparent_read(value.p, value.n, s->traceparent);
	s->spec.traceparent = s->traceparent;
}

/* The body without its lockfiles is read as a whole. Its volumes and MCP servers are checked here.
 */
static int read_spec(struct step_job *s, struct err *e)
{
	struct session_create *c = create_of(s);
	const void *body = c->body;
	size_t n = c->len;

	if (c->folding != NULL)
		body = lockfiles_folding_body(c->folding, &n);
	c->spec = calloc(1, sizeof(*c->spec));
	if (c->spec == NULL)
		return err_sys(e, "allocate");
	if (spec_session_read(body, n, c->spec, e) < 0 ||
	    (c->spec->mcp != NULL && server_spec_check(c->spec->mcp, &c->servers, e) < 0) ||
	    spec_volumes_find(c->spec, s->r->core, s->r->tenant, e) < 0)
		return -1;
	if (c->spec->mcp != NULL)
		c->spec->spec.client = c->servers;
	take_trace(s->r, c->spec);
	s->next = merge_policy;
	return 1;
}

/* One piece of a lockfile in each step. */
static int read_lockfiles(struct step_job *s, struct err *e)
{
	int more = lockfiles_folding_step(create_of(s)->folding, e);

	if (more == 0)
		s->next = read_spec;
	return more < 0 ? -1 : 1;
}

static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	bool is_long = len > SHORT_BODY || lockfiles_are_in((const char *)body, len);
	struct session_create *c = request_state(r, sizeof(*c), release_create);
	char before[STORE_ID_MAX];
	struct err e = { 0 };
	int again;

	if (c == NULL)
		return;
	again = once_begin(r, body, len, before, &e);
	if (again < 0)
		reply_error(r, &e);
	if (again < 0 || (again > 0 && reply_again(r, before)))
		return;
	c->body = body;
	c->len = len;
	c->steps.next = is_long ? read_lockfiles : read_spec;
	/* Reading lockfiles costs time, also if the session is refused afterwards. */
	if (session_request_count(r->tenant, body, len, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (is_long)
		c->folding = lockfiles_folding_new((const char *)body, len, "network", &e);
	if (is_long && c->folding == NULL)
		reply_error(r, &e);
	else
		step_job_start(&c->steps, r, is_long);
}

/* The body may be long, as network policies may have lockfiles. */
void api_sessions_create(struct request *r)
{
	request_lockfiles_body(r, on_create_body);
}
