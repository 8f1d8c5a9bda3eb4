/* api_network.c - the network policy of a session, shown and changed while it runs, and the policy
 * layer of a tenant, for the operator. */
#include <stdlib.h>
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "change_quota.h"
#include "lockfiles_fold.h"
#include "policy_select.h"
#include "json.h"
#include "reply.h"
#include "request.h"
#include "session.h"
#include "session_egress.h"
#include "session_policy.h"
#include "tenant.h"
#include "walk.h"

#define NETWORK_JSON_MAX (8U << 20)

/* A document as the key of the request may see it; 500 later if out of memory. */
static void show_document(struct json *j, const char *name, const char *document, bool all)
{
	OWN_MEM char *text = policy_select_shown(document, all);

	if (text == NULL)
		j->full = true;
	else
		json_raw(j, name, text);
}

/* ---- of a session */

/* A long document is merged, parsed and copied in milliseconds each: in pieces, one request of a
 * tenant at a time. */
struct view {
	struct walk walk;
	struct store_session row;
	char *merged; /* owned */
	bool effective;
	int (*next)(struct view *v, struct err *e);
};

static void release_view(struct walk *w)
{
	struct view *v = (struct view *)w;

	store_session_release(&v->row);
	if (v->merged != NULL)
		explicit_bzero(v->merged, strlen(v->merged)); /* the password of a proxy */
	free(v->merged);
}

static int show_effective(struct view *v, struct err *e)
{
	(void)e;
	show_document(&v->walk.j, "effective", v->merged, auth_is_operator(v->walk.r));
	return 0;
}

static int merge(struct view *v, struct err *e)
{
	struct request *r = v->walk.r;

	v->next = show_effective;
	return session_policy_merge_row(r->core, r->tenant, &v->row, &v->merged, e) < 0 ? -1 : 1;
}

static int show_own(struct view *v, struct err *e)
{
	struct request *r = v->walk.r;
	const char *chosen = session_policy_of_row(r->core, &v->row);
	const struct session *live = session_by_id(r->core, v->row.id);
	struct json *j = &v->walk.j;
	char name[POLICY_SELECT_NAME_MAX];

	(void)e;
	policy_select_name(chosen, name);
	json_open(j, NULL, '{');
	json_text(j, "name", name);
	json_text(j, "from", v->row.policy[0] == '\0' ? "default" : "session");
	json_text(j, "state", live == NULL ? "none" : session_egress_state_name(live));
	show_document(j, "policy", chosen, true);
	v->next = merge;
	return v->effective ? 1 : 0;
}

static int on_piece(struct walk *w, struct err *e)
{
	struct view *v = (struct view *)w;

	return v->next(v, e);
}

static void on_finish(struct walk *w)
{
	const struct store_usage *u = &((struct view *)w)->row.usage;
	struct json *j = &w->j;

	json_open(j, "usage", '{');
	json_uint(j, "bytes_in", u->net_bytes_in);
	json_uint(j, "bytes_out", u->net_bytes_out);
	json_uint(j, "requests", u->net_requests);
	json_close(j, '}');
	json_close(j, '}');
}

/* count: a merged document counts as a change: what is merged, not only the session's own. */
static int begin_view(struct view *v, bool count, struct err *e)
{
	struct request *r = v->walk.r;
	struct session *live = NULL;

	if (request_bool(r, "effective", &v->effective, e) < 0 || request_owns(r, &live, e) < 0 ||
	    session_get(r->core, r->tenant, r->session_id, &v->row, e) < 0)
		return -1;
	if (!v->effective || !count)
		return 0;
	return change_quota_take(r->tenant,
				 strlen(session_policy_of_row(r->core, &v->row)) +
					 strlen(tenant_policy(r->tenant)),
				 e);
}

static void view(struct request *r, bool count)
{
	struct view *v = walk_new(r, sizeof(*v), on_piece, on_finish);
	struct err e = { 0 };

	if (v == NULL)
		return;
	v->walk.release = release_view;
	v->next = show_own;
	if (begin_view(v, count, &e) < 0)
		reply_error(r, &e);
	else
		walk_start(&v->walk);
}

void api_network_get(struct request *r)
{
	view(r, true);
}

static void on_applied(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		view(r, false); /* counted before the change was made */
}

static int read_policy(const char *body, size_t len, enum policy_layer layer, char **ret,
		       struct err *e)
{
	char *folded = NULL;
	size_t n = 0;
	int done = lockfiles_fold(body, len, NULL, &folded, &n, e);

	if (done == 0)
		done = policy_select_read(folded == NULL ? body : folded, folded == NULL ? len : n,
					  layer, ret, e);
	lockfiles_fold_free(&folded);
	return done;
}

static void on_session_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	OWN_MEM char *document = NULL;
	bool effective = false;

	r->wait.on_done = on_applied;
	if (s == NULL || request_bool(r, "effective", &effective, &e) < 0 ||
	    change_quota_take(r->tenant, effective ? 2 * len : len, &e) < 0 ||
	    read_policy((const char *)body, len, POLICY_SESSION, &document, &e) < 0 ||
	    session_policy_set(s, document, request_actor(r), &r->wait, &e) < 0)
		reply_error(r, &e);
}

void api_network_put(struct request *r)
{
	request_lockfiles_body(r, on_session_body);
}

/* ---- of a tenant */

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

static bool is_null(const uint8_t *body, size_t len)
{
	return len == 4 && memcmp(body, "null", 4) == 0;
}

static void on_tenant_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct tenant *t = api_tenants_find(r);
	OWN_MEM char *document = NULL;
	struct err e = { 0 };

	if (t == NULL)
		return;
	if ((!is_null(body, len) &&
	     read_policy((const char *)body, len, POLICY_TENANT, &document, &e) < 0) ||
	    tenant_set_policy(r->core, t, document == NULL ? "" : document, request_actor(r), &e) <
		    0)
		reply_error(r, &e);
	else
		reply_tenant(r, t);
}

void api_network_tenant_put(struct request *r)
{
	if (api_tenants_find_to_change(r) != NULL)
		request_lockfiles_body(r, on_tenant_body);
}
