/* api_template_tags.c - tags of templates, and whether others may use them. */
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "json_members.h"
#include "reply.h"
#include "templates.h"

static struct template_version *check_own(struct request *r, struct template_version *v,
					  struct err *e)
{
	if (v == NULL)
		IGNORED(templates_missing(r->core, r->tenant, r->id, e), "the answer");
	else if (!template_is_own(r->core, v, r->tenant))
		(void)err_set(e, ERR_DENIED, "the template belongs to another");
	else
		return v;
	return NULL;
}

/* The version in the path, to be changed. */
static struct template_version *own_version(struct request *r, struct err *e)
{
	return auth_check_template_owner(r, e) < 0
		       ? NULL
		       : check_own(r, templates_find(r->core, r->tenant, r->id), e);
}

struct template_version *api_template_own(struct request *r, struct err *e)
{
	return auth_check_template_owner(r, e) < 0
		       ? NULL
		       : check_own(r, templates_find_any(r->core, r->tenant, r->id), e);
}

static int read_tags(const uint8_t *body, size_t len, json_t **ret_root,
		     const char *ret[TEMPLATES_TAGS_MAX], size_t *ret_n, struct err *e)
{
	struct json_members m;
	json_t *list;

	*ret_root = json_members_parse(body, len, e);
	if (*ret_root == NULL)
		return -1;
	json_members_begin(&m, *ret_root, "", e);
	list = json_members_array(&m, "tags", TEMPLATES_TAGS_MAX);
	*ret_n = json_array_size(list);
	if (*ret_n == 0)
		(void)json_members_fail(&m, "tags", "is missing");
	for (size_t i = 0; i < *ret_n; i++) {
		ret[i] = json_string_value(json_array_get(list, i));
		if (ret[i] == NULL)
			(void)json_members_fail(&m, "tags", "must be texts");
	}
	return json_members_end(&m);
}

static void on_tags_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct template_version *v = own_version(r, &e);
	const char *tags[TEMPLATES_TAGS_MAX];
	json_t *root = NULL;
	size_t n;

	if (v == NULL || read_tags(body, len, &root, tags, &n, &e) < 0 ||
	    templates_tag(r->core, v, tags, n, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		api_template_reply(r, 200, v);
	json_decref(root);
}

void api_template_tags_add(struct request *r)
{
	request_body(r, on_tags_body);
}

void api_template_tags_delete(struct request *r)
{
	struct err e = { 0 };
	struct template_version *v = api_template_own(r, &e);

	if (v != NULL)
		v = templates_of(r->core, template_row(v)->tenant, template_row(v)->name, r->part);
	if (v == NULL && e.code == ERR_NONE)
		(void)err_set(&e, ERR_NOT_FOUND, "the template does not have this tag");
	if (v == NULL || templates_untag(r->core, v, r->part, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

static void on_change_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct template_version *v = own_version(r, &e);
	json_t *root = json_members_parse(body, len, &e);
	struct json_members m;
	bool public;

	if (v == NULL || root == NULL) {
		reply_error(r, &e);
		json_decref(root);
		return;
	}
	public = template_row(v)->public;
	json_members_begin(&m, root, "", &e);
	json_members_bool(&m, "public", &public);
	if (json_members_end(&m) < 0 || templates_set_public(r->core, v, public, &e) < 0)
		reply_error(r, &e);
	else
		api_template_reply(r, 200, v);
	json_decref(root);
}

void api_template_change(struct request *r)
{
	request_body(r, on_change_body);
}
