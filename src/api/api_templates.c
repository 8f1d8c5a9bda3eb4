/* api_templates.c - templates: listed and shown to all tenants, added and removed by the operator.
 */
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "cell_level.h"
#include "json.h"
#include "json_view.h"
#include "reply.h"
#include "request.h"
#include "spec_template.h"
#include "core_metrics.h"
#include "templates.h"

#define TEMPLATE_JSON_MAX (2U << 20)

static void show_root(struct json *j, const struct core *c, const struct store_template *t)
{
	const struct core_host *host = &core_options(c)->host;

	json_open(j, "root", '{');
	json_text(j, "kind", template_kind_name(t->kind));
	json_open(j, "layers", '[');
	for (const char *line = t->layers; *line != '\0';) {
		size_t n = strcspn(line, "\n");

		json_bytes(j, NULL, line, n);
		line += n + (line[n] == '\n');
	}
	json_close(j, ']');
	json_close(j, '}');
	/* Where each layer is in a cell. */
	json_open(j, "layers", '[');
	for (uint32_t i = 0; t->kind == TEMPLATE_HOST && i < host->nlayers; i++)
		json_text(j, NULL, host->layers[i].at);
	if (t->kind != TEMPLATE_HOST)
		json_text(j, NULL, "/");
	json_close(j, ']');
}

static void show_env(struct json *j, const struct store_template *t)
{
	const char *at = t->env;
	char name[256];

	json_open(j, "env", '{');
	for (size_t left = t->env_len; left > 0;) {
		size_t n = strlen(at) + 1, key = strcspn(at, "=");

		if (key < sizeof(name) && at[key] == '=') {
			(void)snprintf(name, sizeof(name), "%.*s", (int)key, at);
			json_text(j, name, at + key + 1);
		}
		at += n;
		left -= n < left ? n : left;
	}
	json_close(j, '}');
}

static const char *or_null(const char *text)
{
	return text[0] == '\0' ? NULL : text;
}

static void show_use(struct json *j, const struct template_version *v)
{
	struct core_metrics_pool pool;

	template_pool(v, &pool);
	json_uint(j, "sessions", template_sessions(v));
	json_open(j, "pool", '{');
	json_uint(j, "size", pool.size);
	json_uint(j, "ready", pool.ready);
	json_uint(j, "hits", pool.hits);
	json_uint(j, "misses", pool.misses);
	json_close(j, '}');
}

/* How much it is used is for the operator: tenants do not see each other's sessions. */
static void show(struct json *j, const struct core *c, const struct template_version *v,
		 bool is_operator)
{
	const struct store_template *t = template_row(v);

	json_open(j, NULL, '{');
	json_text(j, "name", t->name);
	json_text(j, "id", t->id);
	json_uint(j, "version", t->version);
	json_bool(j, "current", t->current);
	json_text(j, "owner", or_null(t->tenant));
	json_text(j, "level", cell_level_of(t->level)->name);
	show_root(j, c, t);
	json_view_mounts(j, t->mounts);
	show_env(j, t);
	json_text(j, "user", or_null(t->user));
	json_text(j, "workdir", or_null(t->workdir));
	json_text(j, "start_command", or_null(t->start_command));
	json_text(j, "ready_command", or_null(t->ready_command));
	json_view_time(j, "created_at", t->created_ms);
	if (is_operator) {
		show_use(j, v);
	} else {
		json_none(j, "sessions");
		json_none(j, "pool");
	}
	json_close(j, '}');
}

struct list {
	struct json j;
	const struct core *core;
	bool is_operator;
};

static void on_version(const struct template_version *v, void *arg)
{
	struct list *l = arg;

	show(&l->j, l->core, v, l->is_operator);
}

void api_templates_list(struct request *r)
{
	struct list l = { .core = r->core, .is_operator = auth_is_operator(r) };

	json_init_heap(&l.j, REPLY_JSON_MAX);
	json_open(&l.j, NULL, '{');
	json_open(&l.j, "templates", '[');
	templates_each(r->core, l.is_operator ? NULL : r->tenant, on_version, &l);
	json_close(&l.j, ']');
	json_close(&l.j, '}');
	reply_json(r, 200, &l.j);
}

static void reply_template(struct request *r, int status, const char *name)
{
	const struct template_version *v = templates_find(r->core, r->tenant, name);
	struct json j;

	if (v == NULL) {
		reply_code(r, 404, "not_found", "there is no such template");
		return;
	}
	json_init_heap(&j, TEMPLATE_JSON_MAX);
	show(&j, r->core, v, auth_is_operator(r));
	reply_json(r, status, &j);
}

void api_templates_get(struct request *r)
{
	reply_template(r, 200, r->id);
}

/* The template in the path, to be changed. */
static struct template_version *find_own(struct request *r, struct err *e)
{
	struct template_version *v;

	if (auth_check_unlimited(r, e) < 0)
		return NULL;
	v = templates_find(r->core, r->tenant, r->id);
	if (v == NULL)
		(void)err_set(e, ERR_NOT_FOUND, "there is no such template");
	else if (!template_is_own(r->core, v, r->tenant))
		(void)err_set(e, ERR_DENIED, "the template belongs to another");
	else
		return v;
	return NULL;
}

static void on_added(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		reply_template(r, 201, r->id);
}

static void on_add_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct spec_template spec;
	struct err e = { 0 };
	int adding = spec_template_read(body, len, core_options(r->core)->template_dir, &spec, &e);

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

	if (auth_check_operator(r, &e) < 0)
		reply_error(r, &e);
	else
		request_long_body(r, on_add_body);
}

void api_templates_delete(struct request *r)
{
	struct err e = { 0 };
	struct template_version *v = find_own(r, &e);

	if (v == NULL || templates_remove(r->core, v, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
