/* template_changes.c - templates are deleted, published and made private again. */
#include <string.h>

#include "auth.h"
#include "build.h"
#include "e2b_private.h"
#include "json_members.h"
#include "reply.h"
#include "template_find.h"

struct uses {
	const char *template_id;
	unsigned sessions;
};

static void on_session(struct session *s, void *arg)
{
	const struct store_template *t = session_template(s);
	struct uses *u = arg;

	u->sessions += t != NULL && strcmp(t->template_id, u->template_id) == 0;
}

static int delete_template(struct request *r, const char *id, struct err *e)
{
	struct uses u = { .template_id = id };
	struct template_version *v;

	/* Those of other tenants keep their version, and do not keep its owner from deleting it. */
	session_each(r->core, r->tenant, on_session, &u);
	if (u.sessions > 0)
		return err_set(e, ERR_INVALID,
			       "cannot delete template '%s' because there are sandboxes using it",
			       id);
	build_cancel_all(r->core, id, "the template was deleted");
	v = template_find_any(r->core, id);
	if (v != NULL && templates_remove(r->core, v, request_actor(r), e) < 0)
		return -1;
	return build_delete_template(r->core, id, e);
}

/* Also how clients delete a snapshot. */
void template_changes_delete(struct request *r)
{
	char id[STORE_ID_MAX];
	struct err e = { 0 };

	if (snapshot_routes_delete(r) || !auth_is_template_owner(r) ||
	    !template_find_own(r, r->id, id))
		return;
	if (delete_template(r, id, &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

static int read_public(const uint8_t *body, size_t len, bool *ret, bool *given, struct err *e)
{
	json_t *root = json_members_parse(body, len, e), *value;

	if (root == NULL)
		return -1;
	value = json_object_get(root, "public");
	*given = json_is_boolean(value);
	*ret = json_is_true(value);
	json_decref(root);
	return 0;
}

static void patch(struct request *r, const uint8_t *body, size_t len, bool names)
{
	struct template_version *v = NULL;
	bool public = false, given = false;
	char id[STORE_ID_MAX];
	struct err e = { 0 };
	struct json j;

	if (read_public(body, len, &public, &given, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (!template_find_own(r, r->id, id))
		return;
	v = template_find_any(r->core, id);
	if (v == NULL) {
		reply_code(r, 404, "not_found", "the template has no finished build");
		return;
	}
	if (given && templates_set_public(r->core, v, public, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (!names) {
		exchange_reply(r->x, 200, "application/json", "null", 4);
		return;
	}
	json_init_heap(&j, 4096);
	json_open(&j, NULL, '{');
	template_find_shape_names(&j, r->core, template_row(v)->tenant, template_row(v)->name);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

static void on_patch_v1(struct exchange *x, const uint8_t *body, size_t len)
{
	patch(request_of(x), body, len, false);
}

static void on_patch_v2(struct exchange *x, const uint8_t *body, size_t len)
{
	patch(request_of(x), body, len, true);
}

void template_changes_patch_v1(struct request *r)
{
	if (auth_is_template_owner(r))
		request_body(r, on_patch_v1);
}

void template_changes_patch_v2(struct request *r)
{
	if (auth_is_template_owner(r))
		request_body(r, on_patch_v2);
}
