/* api_templates.c - templates: listed, shown, added and removed. Directories of the machine can
 * only be added by the operator; archives (api_template_import.c), and templates that have the
 * layers of others, by all tenants. */
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "json.h"
#include "reply.h"
#include "request.h"
#include "spec_template.h"
#include "template_view.h"
#include "templates.h"

#define TEMPLATE_JSON_MAX (2U << 20)
#define PAGE_MAX 1000
#define PAGE_BYTES (64U << 10) /* a page ends with the template that comes to this: one turn */

/* A page. It ends before the answer would be too large, however large the templates of others are.
 */
struct list {
	struct json j;
	const struct core *core;
	bool is_operator;
	char after[STORE_ID_MAX]; /* the version that the page before ended with; "": none */
	bool begun;		  /* that one was seen */
	uint64_t n, limit;
	char last[STORE_ID_MAX];
	bool more;
};

static void on_version(const struct template_version *v, void *arg)
{
	const char *id = template_row(v)->id;
	struct list *l = arg;

	if (!l->begun) {
		l->begun = strcmp(id, l->after) == 0;
		return;
	}
	l->more = l->more || l->n == l->limit || l->j.len > PAGE_BYTES;
	if (l->more)
		return;
	template_view_in_list(&l->j, l->core, v, l->is_operator);
	(void)snprintf(l->last, sizeof(l->last), "%s", id);
	l->n++;
}

void api_templates_list(struct request *r)
{
	struct list l = { .core = r->core, .is_operator = auth_is_operator(r), .limit = PAGE_MAX };
	struct err e = { 0 };

	if (request_number(r, "limit", 1, PAGE_MAX, &l.limit, &e) < 0 ||
	    request_text(r, "after", l.after, sizeof(l.after), &e) < 0) {
		reply_error(r, &e);
		return;
	}
	l.begun = l.after[0] == '\0';
	json_init_heap(&l.j, REPLY_JSON_MAX);
	json_open(&l.j, NULL, '{');
	json_open(&l.j, "templates", '[');
	templates_each(r->core, l.is_operator ? NULL : r->tenant, on_version, &l);
	json_close(&l.j, ']');
	json_text(&l.j, "next", l.more ? l.last : NULL);
	json_close(&l.j, '}');
	if (l.begun) {
		reply_json(r, 200, &l.j);
		return;
	}
	json_release(&l.j);
	IGNORED(err_set(&e, ERR_INVALID,
			"after: there is no such version of a template any more; begin again"),
		"answered");
	reply_error(r, &e);
}

void api_template_reply(struct request *r, int status, const struct template_version *v)
{
	struct json j;

	json_init_heap(&j, TEMPLATE_JSON_MAX);
	template_view(&j, r->core, v, auth_is_operator(r));
	reply_json(r, status, &j);
}

static void reply_found(struct request *r, int status)
{
	const struct template_version *v = templates_find(r->core, r->tenant, r->id);

	struct err e;

	if (v != NULL)
		api_template_reply(r, status, v);
	else if (templates_missing(r->core, r->tenant, r->id, &e) < 0)
		reply_error(r, &e);
}

void api_templates_get(struct request *r)
{
	reply_found(r, 200);
}

static void on_added(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		reply_found(r, 201);
}

/* The layers of another template, with commands of its own. */
static void derive(struct request *r, struct spec_template *spec)
{
	const struct template_version *v = templates_find(r->core, r->tenant, spec->from);
	struct err e = { 0 };

	if (v == NULL)
		IGNORED(templates_missing(r->core, r->tenant, spec->from, &e), "answered");
	else if (!spec->level_given)
		spec->row.level = template_row(v)->level;
	if (v != NULL)
		v = templates_derive(r->core, r->tenant, v, &spec->row, request_actor(r), &e);
	if (v == NULL)
		reply_error(r, &e);
	else
		api_template_reply(r, 201, v);
}

static void on_add_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct spec_template spec;
	struct err e = { 0 };
	int adding = spec_template_read(body, len, core_options(r->core)->template_dir, &spec, &e);

	if (adding == 0 && spec.from[0] != '\0') {
		derive(r, &spec);
		spec_template_release(&spec);
		return;
	}
	if (adding == 0)
		adding = auth_check_operator(r, &e);
	r->wait = (struct completion){ .on_done = on_added, .arg = r };
	(void)snprintf(r->id, sizeof(r->id), "%s", spec.row.name);
	if (adding == 0)
		adding = templates_add(r->core, &spec.row, request_actor(r), &r->wait, &e);
	spec_template_release(&spec);
	if (adding < 0)
		reply_error(r, &e);
}

void api_templates_add(struct request *r)
{
	struct err e = { 0 };

	if (api_template_is_archive(r)) {
		api_template_import(r);
		return;
	}
	if (auth_check_unlimited(r, &e) < 0)
		reply_error(r, &e);
	else
		request_long_body(r, on_add_body);
}

void api_templates_delete(struct request *r)
{
	struct err e = { 0 };
	struct template_version *v = api_template_own(r, &e);

	if (v == NULL || templates_remove(r->core, v, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
