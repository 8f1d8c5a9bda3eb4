/* template_view.c - a template as JSON. */
#include "template_view.h"

#include <stdio.h>
#include <string.h>

#include "cell_level.h"
#include "core_metrics.h"
#include "json_view.h"
#include "tenant.h"

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

static void show_tags(struct json *j, const struct template_version *v)
{
	const struct store_template_tag *tags;
	size_t n = template_tags(v, &tags);

	json_open(j, "tags", '[');
	if (template_row(v)->current)
		json_text(j, NULL, STORE_TAG_DEFAULT);
	for (size_t i = 0; i < n; i++)
		json_text(j, NULL, tags[i].tag);
	json_close(j, ']');
}

/* How much it is used is for the operator: tenants do not see each other's sessions. */
static void view(struct json *j, const struct core *c, const struct template_version *v,
		 bool is_operator, bool in_list)
{
	const struct store_template *t = template_row(v);

	json_open(j, NULL, '{');
	json_text(j, "name", t->name);
	json_text(j, "id", t->id);
	json_text(j, "template_id", or_null(t->template_id));
	json_uint(j, "version", t->version);
	json_bool(j, "current", t->current);
	json_text(j, "owner", or_null(t->tenant));
	json_bool(j, "public", t->public || t->tenant[0] == '\0');
	show_tags(j, v);
	json_uint(j, "bytes", t->bytes);
	json_text(j, "level", cell_level_of(t->level)->name);
	show_root(j, c, t);
	json_view_mounts(j, t->mounts);
	if (in_list)
		json_none(j, "env");
	else
		show_env(j, t);
	json_text(j, "user", or_null(t->user));
	json_text(j, "workdir", or_null(t->workdir));
	json_text(j, "start_command", or_null(t->start_command));
	json_text(j, "ready_command", or_null(t->ready_command));
	json_bool(j, "start_restart", t->start_restart);
	json_bool(j, "interpreter", t->interpreter);
	json_raw(j, "offered_command", t->offered_command[0] == '\0' ? "null" : t->offered_command);
	json_view_lines(j, "provenance", t->provenance);
	json_view_time(j, "created_at", t->created_ms);
	if (is_operator) {
		show_use(j, v);
	} else {
		json_none(j, "sessions");
		json_none(j, "pool");
	}
	json_close(j, '}');
}

void template_view(struct json *j, const struct core *c, const struct template_version *v,
		   bool is_operator)
{
	view(j, c, v, is_operator, false);
}

void template_view_in_list(struct json *j, const struct core *c, const struct template_version *v,
			   bool is_operator)
{
	view(j, c, v, is_operator, true);
}
