/* api_builds.c - builds of templates (build.h): asked for, given archives, started with a recipe,
 * followed, cancelled. The recipe is that of E2B's clients (web/spec_recipe.h). */
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "build.h"
#include "build_ask.h"
#include "build_receive.h"
#include "json_members.h"
#include "json_view.h"
#include "reply.h"
#include "request.h"
#include "spec_recipe.h"
#include "tenant.h"

#define JSON_MAX (8U << 20)
#define ENTRIES_MAX 1000
#define LOG_JSON_MAX (JSON_MAX / 2) /* of the entries; a client asks for the rest with `after` */
#define NAME_TEXT_MAX 256
#define MIB (1U << 20)

/* ---- shown */

static void add_tag(const char *tag, void *arg)
{
	json_text(arg, NULL, tag);
}

static void show(struct json *j, const struct store_build *row)
{
	json_text(j, "id", row->id);
	json_text(j, "template_id", row->template_id);
	json_text(j, "name", row->name);
	json_open(j, "tags", '[');
	build_tags_each(row->tags, add_tag, j);
	json_close(j, ']');
	json_text(j, "status", build_status_name(row->status));
	json_text(j, "step", row->step[0] == '\0' ? NULL : row->step);
	json_text(j, "reason", row->reason[0] == '\0' ? NULL : row->reason);
	json_text(j, "version", row->version[0] == '\0' ? NULL : row->version);
	json_view_time(j, "created_at", row->created_ms);
	json_view_time(j, "finished_at", row->finished_ms);
}

static int on_entry(const struct store_build_entry *row, void *cookie)
{
	struct json *j = cookie;

	json_open(j, NULL, '{');
	json_uint(j, "seq", row->seq);
	json_view_time(j, "time", row->time_ms);
	json_text(j, "level", build_level_name(row->level));
	json_text(j, "step", row->step);
	json_text(j, "message", row->message);
	json_close(j, '}');
	return j->len > LOG_JSON_MAX;
}

static void reply_build(struct request *r, int status, const struct store_build *row)
{
	struct json j;

	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	show(&j, row);
	json_close(&j, '}');
	reply_json(r, status, &j);
}

/* The build in the path, which is the tenant's. False: answered. */
static bool find(struct request *r, struct store_build *ret)
{
	struct err e = { 0 };

	if (store_build_get(core_store(r->core), r->id, ret, &e) == 0) {
		if (strcmp(ret->tenant, tenant_row(r->tenant)->id) == 0)
			return true;
		store_build_release(ret);
	} else if (e.code != ERR_NOT_FOUND) {
		reply_error(r, &e);
		return false;
	}
	reply_code(r, 404, "not_found", "there is no such build");
	return false;
}

/* ---- POST /v1/templates/builds */

static int read_ask(json_t *root, struct build_ask *ask, struct err *e)
{
	struct json_members m;
	uint64_t memory = 0;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", NAME_TEXT_MAX, &ask->name);
	json_members_count(&m, "cpus", 1, 1024, &ask->cpus);
	json_members_bytes(&m, "memory", &memory, NULL);
	ask->memory_mb = (memory + MIB - 1) / MIB; /* not 0, which is the default */
	build_ask_tags(&m, ask);
	if (ask->name == NULL && !m.failed)
		(void)json_members_fail(&m, "name", "is missing");
	return json_members_end(&m);
}

static void reply_requested(struct request *r, const struct store_build *row)
{
	reply_build(r, 201, row);
}

static void on_request(struct exchange *x, const uint8_t *body, size_t len)
{
	build_ask_body(request_of(x), body, len, read_ask, reply_requested);
}

void api_builds_request(struct request *r)
{
	if (auth_may_change_templates(r))
		request_body(r, on_request);
}

/* ---- PUT .../files/{hash} */

void api_builds_upload(struct request *r)
{
	struct store_build row;

	if (!find(r, &row))
		return;
	build_receive(r, row.tenant, row.template_id, r->part, 204);
	store_build_release(&row);
}

/* ---- POST .../start */

static void on_start(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct store_build row;
	struct recipe recipe;
	struct err e = { 0 };
	int rc;

	if (!find(r, &row))
		return;
	if (spec_recipe_read(body, len, &recipe, &e) < 0) {
		recipe_release(&recipe);
		rc = -1;
	} else {
		rc = build_start(r->core, r->tenant, row.template_id, r->id, &recipe,
				 request_actor(r), &e);
	}
	store_build_release(&row);
	if (rc < 0) {
		reply_error(r, &e);
		return;
	}
	if (find(r, &row)) {
		reply_build(r, 202, &row);
		store_build_release(&row);
	}
}

void api_builds_start(struct request *r)
{
	if (auth_may_change_templates(r))
		request_long_body(r, on_start);
}

/* ---- GET, DELETE */

/* With the entries of its log from the number `after` on. */
void api_builds_get(struct request *r)
{
	struct store_build_part part = { .step = "", .limit = ENTRIES_MAX };
	struct store_build row;
	uint64_t after = 0;
	struct err e = { 0 };
	struct json j;
	int rc;

	if (!find(r, &row))
		return;
	if (request_number(r, "after", 0, INT32_MAX, &after, &e) < 0) {
		store_build_release(&row);
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	show(&j, &row);
	part.skip = after;
	json_open(&j, "log", '[');
	rc = store_build_log_list(core_store(r->core), row.id, &part, on_entry, &j, &e);
	json_close(&j, ']');
	json_close(&j, '}');
	store_build_release(&row);
	if (rc < 0) {
		json_release(&j);
		reply_error(r, &e);
	} else {
		reply_json(r, 200, &j);
	}
}

static int on_listed(const struct store_build *row, void *cookie)
{
	json_open(cookie, NULL, '{');
	show(cookie, row);
	json_close(cookie, '}');
	return 0;
}

/* The newest build of each template. */
void api_builds_list(struct request *r)
{
	struct err e = { 0 };
	struct json j;
	int rc;

	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "builds", '[');
	rc = store_build_templates(core_store(r->core), tenant_row(r->tenant)->id, on_listed, &j,
				   &e);
	json_close(&j, ']');
	json_close(&j, '}');
	if (rc < 0) {
		json_release(&j);
		reply_error(r, &e);
	} else {
		reply_json(r, 200, &j);
	}
}

void api_builds_cancel(struct request *r)
{
	struct store_build row;
	struct err e = { 0 };
	int rc;

	if (!auth_may_change_templates(r) || !find(r, &row))
		return;
	rc = build_cancel(r->core, r->tenant, row.template_id, r->id, &e);
	store_build_release(&row);
	if (rc < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

/* ---- DELETE /v1/templates/builds/cache */

void api_builds_clear_cache(struct request *r)
{
	struct err e = { 0 };

	if (!auth_may_change_templates(r))
		return;
	if (build_cache_clear(r->core, r->tenant, &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
