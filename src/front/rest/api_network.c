/* api_network.c - the network policy of a session, shown and changed while it runs, and the policy
 * layer of a tenant, for the operator.
 *
 * A document may have megabytes of lockfiles. So each step (parse, read lockfiles, merge, copy) is
 * a piece of work, one request of a tenant at a time. The effective policy is the merge of the
 * layers of node, tenant and session. */
#include <stdlib.h>
#include <string.h>

#include "daemon/egressctl/session_egress.h"
#include "daemon/egressctl/session_policy.h"
#include "daemon/session/session.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/web/auth.h"
#include "front/web/list_job.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/step_job.h"
#include "lib/json/json.h"
#include "lib/policy/lockfiles_fold.h"
#include "lib/policy/policy_select.h"

/* A document with its lockfiles has megabytes. */
#define NETWORK_JSON_MAX (8U << 20)

/* A document as the key of the request may see it. 500 later if out of memory. */
static void show_document(struct json *j, const char *name, const char *document, bool all)
{
	OWN_MEM char *text = policy_select_shown(document, all);

	if (text == NULL)
		j->full = true;
	else
		json_raw(j, name, text);
}

/* ---- of a session
 *
 * A view answers GET, and PUT when its change is in force. The section on changes answers both
 * kinds of PUT. */

/* A long document is read, parsed, merged and copied in milliseconds each: in pieces, one request
 * of a tenant at a time. The session may change or end between two pieces, so the first one copies
 * the input of the others. next is the step of the next piece: read_row, show_name, show_own, and
 * for `effective` also network_merge and show_effective. */
struct network_view {
	struct list_job job;
	char *document, *merged; /* owned */
	bool is_default;	 /* the session has no document of its own */
	bool effective;
	bool count; /* see read_row() */
	struct store_usage usage;
	int (*next)(struct network_view *v, struct err *e);
};

/* Free a document. NULL is allowed. */
static void api_network_drop(char *document)
{
	if (document != NULL)
		explicit_bzero(document, strlen(document)); /* the password of a proxy */
	free(document);
}

static void release_view(struct list_job *w)
{
	struct network_view *v = (struct network_view *)w;

	api_network_drop(v->document);
	api_network_drop(v->merged);
}

/* The last step. Private addresses and set headers in the other layers are for the operator only.
 */
static int show_effective(struct network_view *v, struct err *e)
{
	show_document(&v->job.j, "effective", v->merged, auth_is_operator(v->job.r));
	return 0;
}

/* The merged document is owned by the view. */
static int network_merge(struct network_view *v, struct err *e)
{
	struct request *r = v->job.r;

	v->next = show_effective;
	return session_policy_merge_document(r->core, r->tenant, v->document, &v->merged, e) < 0
		       ? -1
		       : 1;
}

/* A tenant sees all of its session's own document. */
static int show_own(struct network_view *v, struct err *e)
{
	show_document(&v->job.j, "policy", v->document, true);
	v->next = network_merge;
	return v->effective ? 1 : 0;
}

/* The state of the egress gateway is that of this moment. */
static int show_name(struct network_view *v, struct err *e)
{
	struct request *r = v->job.r;
	const struct session *live = session_by_id(r->core, r->session_id);
	struct json *j = &v->job.j;
	char name[POLICY_SELECT_NAME_MAX];

	policy_select_name(v->document, name);
	json_open(j, NULL, '{');
	json_text(j, "name", name);
	json_text(j, "from", v->is_default ? "default" : "session");
	json_text(j, "state", live == NULL ? "none" : session_egress_state_name(live));
	v->next = show_own;
	return 1;
}

/* count: a merged document counts as a change: all of it, not only the session's own. Works for
 * ended sessions as well. */
static int read_row(struct network_view *v, struct err *e)
{
	struct request *r = v->job.r;
	struct store_session row = { 0 };
	const char *document;
	size_t merged;

	if (session_get(r->core, r->tenant, r->session_id, &row, e) < 0)
		return -1;
	document = session_policy_of_row(r->core, &row);
	merged = strlen(document) + strlen(tenant_policy(r->tenant));
	v->is_default = row.policy == NULL || row.policy[0] == '\0';
	v->usage = row.usage;
	v->document = strdup(document);
	store_session_release(&row);
	if (v->document == NULL)
		return err_sys(e, "allocate");
	v->next = show_name;
	return v->effective && v->count && change_quota_take(r->tenant, merged, e) < 0 ? -1 : 1;
}

/* Returns the step's answer: 1 for a further piece. */
static int on_piece(struct list_job *w, struct err *e)
{
	struct network_view *v = (struct network_view *)w;

	return v->next(v, e);
}

/* The sums are those of the first piece. */
static void on_finish(struct list_job *w)
{
	const struct store_usage *u = &((struct network_view *)w)->usage;
	struct json *j = &w->j;

	json_open(j, "usage", '{');
	json_uint(j, "bytes_in", u->net_bytes_in);
	json_uint(j, "bytes_out", u->net_bytes_out);
	json_uint(j, "requests", u->net_requests);
	json_close(j, '}');
	json_close(j, '}');
}

/* Answers with the policy. count false: the change that this answers was counted. */
static void network_view(struct request *r, bool count)
{
	struct network_view *v = list_job_new(r, sizeof(*v), on_piece, on_finish);
	struct err e = { 0 };

	if (v == NULL)
		return;
	v->job.release = release_view;
	v->next = read_row;
	v->count = count;
	if (request_bool(r, "effective", &v->effective, &e) < 0)
		reply_error(r, &e);
	else
		list_job_start(&v->job);
}

void api_network_get(struct request *r)
{
	network_view(r, true);
}

/* The egress gateway has the new policy, or refused it. */
static void on_applied(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		network_view(r, false); /* counted before the change was made */
}

/* ---- changes
 *
 * A body of megabytes becomes a document: its lockfiles are read, the document is checked, written
 * again, and merged with the other layers. Each of these takes milliseconds.
 *
 * The steps: read_lockfiles() until none is left, read_document(), then merge_session() and
 * set_session(), or set_tenant(). */

#define SHORT_BODY ((size_t)16 << 10) /* done at once */

/* The state of a change. Each step owns nothing that outlives it except document. */
struct network_change {
	struct step_job steps; /* first */
	struct lockfiles_folding *folding;
	enum policy_layer layer;
	char *document; /* owned */
	/* The step behind the document. */
	int (*set)(struct step_job *s, struct err *e);
};

static void release_change(struct request *r, bool answered)
{
	struct network_change *c = r->state;

	step_job_cancel(&c->steps);
	lockfiles_folding_free(c->folding);
	api_network_drop(c->document);
}

/* The document has passed the checks for its layer from here on. */
static int read_document(struct step_job *s, struct err *e)
{
	struct network_change *c = (struct network_change *)s;
	size_t n;
	const char *body = lockfiles_folding_body(c->folding, &n);

	s->next = c->set;
	return policy_select_read(body, n, c->layer, &c->document, e) < 0 ? -1 : 1;
}

/* One lockfile or a part of one in each step. */
static int read_lockfiles(struct step_job *s, struct err *e)
{
	struct network_change *c = (struct network_change *)s;
	int more = lockfiles_folding_step(c->folding, e);

	if (more == 0)
		s->next = read_document;
	return more < 0 ? -1 : 1;
}

/* set follows the document. Short bodies without lockfiles are handled in this turn. */
static void begin_change(struct request *r, enum policy_layer layer, const uint8_t *body,
			 size_t len, int (*set)(struct step_job *s, struct err *e))
{
	struct network_change *c = request_state(r, sizeof(*c), release_change);
	struct err e = { 0 };

	if (c == NULL)
		return;
	c->layer = layer;
	c->set = set;
	c->steps.next = read_lockfiles;
	c->folding = lockfiles_folding_new((const char *)body, len, NULL, &e);
	if (c->folding == NULL)
		reply_error(r, &e);
	else
		step_job_start(&c->steps, r,
			       len > SHORT_BODY || lockfiles_are_in((const char *)body, len));
}

/* The session may have ended since the body came. The request waits until the gateway has the
 * policy. */
static int set_session(struct step_job *steps, struct err *e)
{
	struct request *r = steps->r;
	struct session *s = session_live(r->core, r->tenant, r->session_id, e);
	OWN_MEM char *document = ((struct network_change *)steps)->document;

	((struct network_change *)steps)->document = NULL;
	request_drop_state(r); /* the answer has one of its own */
	return s == NULL ? -1 : session_policy_set(s, document, request_actor(r), &r->wait, e);
}

/* Merge the document and remember the result. A fault is found again. */
static int merge_session(struct step_job *s, struct err *e)
{
	struct err fault;

	s->next = set_session;
	IGNORED(session_policy_check(s->r->core, s->r->tenant,
				     ((struct network_change *)s)->document, &fault),
		"set_session() fails");
	return 1;
}

/* The change is counted before any work, with the merge for the answer if one is wanted. */
static void on_session_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	bool effective = false;

	r->wait.on_done = on_applied;
	if (session_live(r->core, r->tenant, r->session_id, &e) == NULL ||
	    request_bool(r, "effective", &effective, &e) < 0 ||
	    change_quota_take(r->tenant, effective ? 2 * len : len, &e) < 0)
		reply_error(r, &e);
	else
		begin_change(r, POLICY_SESSION, body, len, merge_session);
}

void api_network_put(struct request *r)
{
	request_lockfiles_body(r, on_session_body);
}

/* ---- of a tenant
 *
 * Only the operator gets here. The tenant is looked up in each step, as it may be removed in
 * between. */

/* null: the tenant has no layer. */
static void reply_tenant(struct request *r, const struct tenant *t)
{
	struct json j;

	json_init_heap(&j, NETWORK_JSON_MAX);
	json_open(&j, NULL, '{');
	if (tenant_policy(t)[0] == '\0')
		json_none(&j, "policy");
	else
		show_document(&j, "policy", tenant_policy(t), true);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

void api_network_tenant_get(struct request *r)
{
	struct tenant *t = api_tenants_find(r);

	if (t != NULL)
		reply_tenant(r, t);
}

/* The body `null` removes the layer. */
static bool is_null(const uint8_t *body, size_t len)
{
	return len == 4 && memcmp(body, "null", 4) == 0;
}

/* 0 in each case in which the request was answered. */
static int set_tenant(struct step_job *s, struct err *e)
{
	struct request *r = s->r;
	struct tenant *t = api_tenants_find(r);

	if (t == NULL)
		return 0;
	if (tenant_set_policy(r->core, t, ((struct network_change *)s)->document, request_actor(r),
			      e) < 0)
		return -1;
	reply_tenant(r, t);
	return 0;
}

static void on_tenant_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct tenant *t = api_tenants_find(r);
	struct err e = { 0 };

	if (t == NULL)
		return;
	if (!is_null(body, len))
		begin_change(r, POLICY_TENANT, body, len, set_tenant);
	else if (tenant_set_policy(r->core, t, "", request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_tenant(r, t);
}

void api_network_tenant_put(struct request *r)
{
	if (api_tenants_find_to_change(r) != NULL)
		request_lockfiles_body(r, on_tenant_body);
}
