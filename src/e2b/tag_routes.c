/* tag_routes.c - tags of templates: which version, that is which build, a name with a tag means. */
#include <stdio.h>
#include <string.h>

#include "auth.h"
#include "build.h"
#include "e2b_private.h"
#include "json_members.h"
#include "reply.h"
#include "sandbox.h"
#include "template_find.h"
#include "tenant.h"

#define TEXT_MAX 256
#define JSON_MAX (256U << 10)

/* ---- bodies */

struct tags {
	json_t *root;
	const char *target; /* of `target` or `name` */
	size_t n;
	char texts[BUILD_TAGS_MAX][STORE_NAME_MAX];
	const char *list[BUILD_TAGS_MAX];
};

static int read_list(struct json_members *m, struct tags *ret)
{
	json_t *tags = json_members_array(m, "tags", BUILD_TAGS_MAX), *value;
	size_t i;

	if (tags == NULL || json_array_size(tags) == 0)
		return json_members_fail(m, "tags", "at least one tag is needed");
	json_array_foreach(tags, i, value)
	{
		if (!json_is_string(value))
			return json_members_fail(m, "tags", "must be an array of texts");
		if (template_ref_tag(json_string_value(value), ret->texts[i], m->e) < 0) {
			m->failed = true;
			return -1;
		}
		ret->list[i] = ret->texts[i];
		ret->n++;
	}
	return 0;
}

static int read_tags(const uint8_t *body, size_t len, const char *member, struct tags *ret,
		     struct template_name *ref, struct err *e)
{
	struct json_members m;

	*ret = (struct tags){ .root = json_members_parse(body, len, e) };
	if (ret->root == NULL)
		return -1;
	json_members_begin(&m, ret->root, "", e);
	json_members_text(&m, member, TEXT_MAX, &ret->target);
	if (ret->target == NULL)
		(void)json_members_fail(&m, member, "is missing");
	if (!m.failed)
		IGNORED(read_list(&m, ret), "kept in m");
	if (json_members_end_lenient(&m) < 0)
		return -1;
	return template_ref_read(ret->target, ref, e);
}

/* ---- POST /templates/tags */

static void reply_assigned(struct request *r, struct template_version *v, const struct tags *t)
{
	char build[TEMPLATE_FIND_BUILD_MAX];
	struct err e = { 0 };
	struct json j;

	if (template_find_build(r->core, template_row(v), build, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "buildID", build);
	json_open(&j, "tags", '[');
	for (size_t i = 0; i < t->n; i++)
		json_text(&j, NULL, t->list[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(r, 201, &j);
}

static void assign(struct request *r, const struct tags *t, const struct template_name *ref)
{
	char id[STORE_ID_MAX];
	struct template_version *v;
	struct err e = { 0 };

	if (!template_find_own(r, t->target, id))
		return;
	v = templates_by_template_id(r->core, id, ref->tag);
	if (v == NULL) {
		IGNORED(err_set(&e, ERR_NOT_FOUND, "Template '%s' with tag '%s' not found",
				ref->name, ref->tag[0] == '\0' ? "default" : ref->tag),
			"answered");
		reply_error(r, &e);
	} else if (templates_tag(r->core, v, t->list, t->n, request_actor(r), &e) < 0) {
		reply_error(r, &e);
	} else {
		reply_assigned(r, v, t);
	}
}

static void on_assign(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct template_name ref;
	struct err e = { 0 };
	struct tags t;

	if (read_tags(body, len, "target", &t, &ref, &e) < 0)
		reply_error(r, &e);
	else
		assign(r, &t, &ref);
	json_decref(t.root);
}

void tag_routes_assign(struct request *r)
{
	if (auth_is_template_owner(r))
		request_body(r, on_assign);
}

/* ---- DELETE /templates/tags */

static int remove_all(struct request *r, const char *id, const struct tags *t, struct err *e)
{
	for (size_t i = 0; i < t->n; i++)
		if (templates_by_template_id(r->core, id, t->list[i]) == NULL)
			return err_set(e, ERR_NOT_FOUND, "tag '%s' not found", t->list[i]);
	for (size_t i = 0; i < t->n; i++) {
		struct template_version *v = templates_by_template_id(r->core, id, t->list[i]);

		if (v != NULL && templates_untag(r->core, v, t->list[i], request_actor(r), e) < 0)
			return -1;
	}
	return 0;
}

static int check_removal(const struct tags *t, const struct template_name *ref, struct err *e)
{
	if (ref->tag[0] != '\0')
		return err_set(e, ERR_INVALID, "name: must not have a tag");
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->list[i], TEMPLATE_REF_TAG_DEFAULT) == 0)
			return err_set(e, ERR_INVALID, "Cannot delete the 'default' tag");
	return 0;
}

static void on_remove(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct template_name ref;
	char id[STORE_ID_MAX];
	struct err e = { 0 };
	struct tags t;

	if (read_tags(body, len, "name", &t, &ref, &e) < 0 || check_removal(&t, &ref, &e) < 0)
		reply_error(r, &e);
	else if (template_find_own(r, t.target, id)) {
		if (remove_all(r, id, &t, &e) < 0)
			reply_error(r, &e);
		else
			reply_empty(r, 204);
	}
	json_decref(t.root);
}

void tag_routes_remove(struct request *r)
{
	if (auth_is_template_owner(r))
		request_body(r, on_remove);
}

/* ---- GET /templates/{template}/tags */

#define LISTED_MAX (TEMPLATES_TAGS_MAX + 1)

struct listed {
	const char *id;
	size_t n;
	struct {
		const char *tag;
		const struct store_template *row;
		uint64_t created_ms;
	} tags[LISTED_MAX];
};

static void list_in(struct listed *l, const char *tag, const struct store_template *row,
		    uint64_t created_ms)
{
	size_t at = l->n;

	if (l->n == LISTED_MAX)
		return;
	for (; at > 0 && strcmp(l->tags[at - 1].tag, tag) > 0; at--)
		l->tags[at] = l->tags[at - 1];
	l->tags[at].tag = tag;
	l->tags[at].row = row;
	l->tags[at].created_ms = created_ms;
	l->n++;
}

static void on_version(const struct template_version *v, void *arg)
{
	const struct store_template *row = template_row(v);
	const struct store_template_tag *tags;
	struct listed *l = arg;
	size_t n;

	if (strcmp(row->template_id, l->id) != 0)
		return;
	if (row->current)
		list_in(l, TEMPLATE_REF_TAG_DEFAULT, row, row->created_ms);
	n = template_tags(v, &tags);
	for (size_t i = 0; i < n; i++)
		list_in(l, tags[i].tag, row, tags[i].created_ms);
}

void tag_routes_list(struct request *r)
{
	char id[STORE_ID_MAX], build[TEMPLATE_FIND_BUILD_MAX];
	struct listed l = { .id = id };
	struct err e = { 0 };
	struct json j;

	if (!template_find_own(r, r->id, id))
		return;
	templates_each(r->core, NULL, on_version, &l);
	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '[');
	for (size_t i = 0; i < l.n; i++) {
		if (template_find_build(r->core, l.tags[i].row, build, &e) < 0) {
			json_release(&j);
			reply_error(r, &e);
			return;
		}
		json_open(&j, NULL, '{');
		json_text(&j, "tag", l.tags[i].tag);
		json_text(&j, "buildID", build);
		sandbox_shape_time(&j, "createdAt", l.tags[i].created_ms);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	reply_json(r, 200, &j);
}
