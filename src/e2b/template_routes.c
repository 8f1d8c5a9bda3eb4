/* template_routes.c - the templates that a tenant may use, as E2B shows templates: each with its
 * builds. The operator's belong to all tenants; a template that is only being built has no version
 * yet. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "e2b_private.h"
#include "reply.h"
#include "sandbox.h"
#include "template_find.h"
#include "tenant.h"

#define TEMPLATES_JSON_MAX (4U << 20)
#define MEGA (1U << 20)
#define LIMIT_MAX 100
#define LISTED_MAX 1000

/* The resources of a sandbox that does not request any. */
static void shape_size(struct json *j, const struct core *c, uint64_t cpu_millis,
		       uint64_t memory_bytes)
{
	const struct config *g = core_config(c);
	unsigned can = core_restrictions(c)->limits;
	struct store_limits limits = {
		.memory_bytes = memory_bytes > 0		 ? memory_bytes
				: (can & CELL_LIMIT_MEMORY) == 0 ? 0
								 : g->memory_default,
		.cpu_millis = cpu_millis > 0		    ? cpu_millis
			      : (can & CELL_LIMIT_CPU) == 0 ? 0
							    : g->cpus_default_milli,
		.disk_bytes = g->disk_default,
	};
	struct sandbox_size size;

	sandbox_size(&limits, &size);
	json_uint(j, "cpuCount", size.cpus);
	json_uint(j, "memoryMB", size.memory_bytes / MEGA);
	json_uint(j, "diskSizeMB", size.disk_bytes / MEGA);
	json_text(j, "envdVersion", E2B_ENVD_VERSION);
}

/* ---- one template, with a version or with builds only */

struct shown {
	struct core *core;
	const struct store_template *row; /* NULL: it has no version */
	struct store_build build;	  /* the newest; id "": none */
	bool built;			  /* there is one, which is owned */
};

static int find_newest_build(struct shown *s, const char *template_id, struct err *e)
{
	s->built = store_build_by_template(core_store(s->core), template_id, &s->build, e) == 0;
	if (!s->built)
		s->build = (struct store_build){ .status = BUILD_READY };
	return s->built || e->code == ERR_NOT_FOUND ? 0 : -1;
}

/* What Template and TemplateWithBuilds have in common. */
static void shape_facts(struct json *j, const struct shown *s)
{
	const struct store_template *t = s->row;
	uint64_t created = t != NULL ? t->created_ms : s->build.created_ms;
	uint64_t updated = s->build.updated_ms > created ? s->build.updated_ms : created;

	json_text(j, "templateID", t != NULL ? template_find_id(s->core, t) : s->build.template_id);
	json_bool(j, "public", t != NULL && (t->tenant[0] == '\0' || t->public));
	template_find_shape_names(j, s->core, t != NULL ? t->tenant : s->build.tenant,
				  t != NULL ? t->name : s->build.name);
	sandbox_shape_time(j, "createdAt", created);
	sandbox_shape_time(j, "updatedAt", updated);
	json_none(j, "lastSpawnedAt");
	json_uint(j, "spawnCount", 0);
}

/* The id of its newest build, and how many builds there are. */
static int count_builds(struct shown *s, const char *template_id,
			char ret_build[TEMPLATE_FIND_BUILD_MAX], uint64_t *ret_n, struct err *e)
{
	if (find_newest_build(s, template_id, e) < 0)
		return -1;
	if (!s->built)
		return s->row == NULL ? 0 : template_find_build(s->core, s->row, ret_build, e);
	memcpy(ret_build, s->build.id, TEMPLATE_FIND_BUILD_MAX);
	return store_build_count_of(core_store(s->core), template_id, ret_n, e);
}

static void shape_counted(struct json *j, const struct shown *s, const char *build, uint64_t n)
{
	json_open(j, NULL, '{');
	shape_facts(j, s);
	json_text(j, "buildID", build);
	if (s->row != NULL)
		shape_size(j, s->core, s->row->cpu_millis, s->row->memory_bytes);
	else
		shape_size(j, s->core, s->build.cpu_millis, s->build.memory_bytes);
	json_none(j, "createdBy");
	json_uint(j, "buildCount", n);
	json_text(j, "buildStatus", build_status_name(s->build.status));
	json_close(j, '}');
}

static int shape_template(struct json *j, struct shown *s, const char *template_id, struct err *e)
{
	char build[TEMPLATE_FIND_BUILD_MAX] = "";
	uint64_t n = 1;
	int result = count_builds(s, template_id, build, &n, e);

	if (result == 0)
		shape_counted(j, s, build, n);
	if (s->built)
		store_build_release(&s->build);
	return result;
}

/* ---- the list */

/* A part of the list: from one place to another. */
struct page {
	struct json j;
	struct core *core;
	const struct tenant *tenant;
	uint64_t at, from, to;
	struct err failure; /* of the store; code ERR_NONE: none */
	size_t n;
	char seen[LISTED_MAX][STORE_ID_MAX]; /* templates that were listed */
};

static bool is_new(struct page *p, const char *template_id)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->seen[i], template_id) == 0)
			return false;
	if (p->n < LISTED_MAX)
		(void)snprintf(p->seen[p->n++], STORE_ID_MAX, "%s", template_id);
	return true;
}

/* One row for each template: that of its current version, or of any if there is none. */
static const struct store_template *shown_row(const struct page *p,
					      const struct store_template *row)
{
	const struct template_version *v = templates_by_template_id(p->core, row->template_id, "");

	return v == NULL ? row : template_row(v);
}

static void list_template(struct page *p, const struct store_template *row, const char *template_id)
{
	struct shown s = { .core = p->core, .row = row };
	struct err e;

	if (p->at >= p->from && p->at < p->to && p->failure.code == ERR_NONE &&
	    shape_template(&p->j, &s, template_id, &e) < 0)
		p->failure = e;
	p->at++;
}

static bool is_image(const struct store_template *row)
{
	return strncmp(row->name, BUILD_IMAGE_PREFIX, strlen(BUILD_IMAGE_PREFIX)) == 0;
}

static void on_version(const struct template_version *v, void *arg)
{
	struct page *p = arg;
	const struct store_template *row = shown_row(p, template_row(v));

	if (row->kind == TEMPLATE_SNAPSHOT || is_image(row) || !is_new(p, row->template_id))
		return;
	list_template(p, row, row->template_id);
}

struct waiting {
	size_t n;
	char ids[LISTED_MAX][STORE_ID_MAX];
};

static int on_build(const struct store_build *row, void *cookie)
{
	struct waiting *w = cookie;

	if (w->n < LISTED_MAX)
		(void)snprintf(w->ids[w->n++], STORE_ID_MAX, "%s", row->template_id);
	return 0;
}

static void add_unbuilt(struct page *p)
{
	struct waiting *w = p->failure.code != ERR_NONE ? NULL : calloc(1, sizeof(*w));

	if (w == NULL) {
		if (p->failure.code == ERR_NONE)
			IGNORED(err_set(&p->failure, ERR_SYSTEM, "out of memory"), "answered");
		return;
	}
	if (store_build_templates(core_store(p->core), tenant_row(p->tenant)->id, on_build, w,
				  &p->failure) == 0)
		for (size_t i = 0; i < w->n; i++)
			if (is_new(p, w->ids[i]))
				list_template(p, NULL, w->ids[i]);
	free(w);
}

/* NULL: answered. */
static struct page *shape_list(struct request *r, uint64_t from, uint64_t to)
{
	struct page *p = request_state(r, sizeof(*p), NULL);

	if (p == NULL)
		return NULL;
	p->core = r->core;
	p->tenant = r->tenant;
	p->from = from;
	p->to = to;
	json_init_heap(&p->j, TEMPLATES_JSON_MAX);
	json_open(&p->j, NULL, '[');
	templates_each(r->core, r->tenant, on_version, p);
	add_unbuilt(p);
	json_close(&p->j, ']');
	if (p->failure.code == ERR_NONE)
		return p;
	json_release(&p->j);
	reply_error(r, &p->failure);
	return NULL;
}

void template_routes_list_v1(struct request *r)
{
	struct page *p = shape_list(r, 0, UINT64_MAX);

	if (p != NULL)
		reply_json(r, 200, &p->j);
}

void template_routes_list_v2(struct request *r)
{
	uint64_t limit = LIMIT_MAX, from = 0;
	struct err e = { 0 };
	struct page *p;
	char next[24];

	if (request_number(r, "limit", 1, LIMIT_MAX, &limit, &e) < 0 ||
	    request_number(r, "nextToken", 0, UINT32_MAX, &from, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	p = shape_list(r, from, from + limit);
	if (p == NULL)
		return;
	if (from + limit < p->at) {
		(void)snprintf(next, sizeof(next), "%" PRIu64, from + limit);
		exchange_header(r->x, "X-Next-Token", next);
	}
	reply_json(r, 200, &p->j);
}

/* ---- one */

static void missing(struct request *r)
{
	struct err e = { 0 };

	IGNORED(err_set(&e, ERR_NOT_FOUND, "template '%.60s' not found", r->id), "answered");
	err_sanitize(&e);
	reply_error(r, &e);
}

struct builds_page {
	struct json *j;
	struct core *core;
	size_t n;
};

static void shape_build(struct builds_page *p, const struct store_build *row)
{
	json_open(p->j, NULL, '{');
	json_text(p->j, "buildID", row->id);
	json_text(p->j, "status", build_status_name(row->status));
	sandbox_shape_time(p->j, "createdAt", row->created_ms);
	sandbox_shape_time(p->j, "updatedAt", row->updated_ms);
	if (row->finished_ms > 0)
		sandbox_shape_time(p->j, "finishedAt", row->finished_ms);
	shape_size(p->j, p->core, row->cpu_millis, row->memory_bytes);
	json_close(p->j, '}');
	p->n++;
}

static int on_one_build(const struct store_build *row, void *cookie)
{
	shape_build(cookie, row);
	return 0;
}

/* A template that no build made shows its current version as one. */
static int shape_builds(struct json *j, struct core *c, const struct store_template *row,
			const char *template_id, unsigned limit, unsigned skip, struct err *e)
{
	struct builds_page p = { .j = j, .core = c };
	struct store_build build = { .status = BUILD_READY };

	json_open(j, "builds", '[');
	if (store_build_list(core_store(c), template_id, limit, skip, on_one_build, &p, e) < 0)
		return -1;
	if (p.n == 0 && skip == 0 && row != NULL) {
		if (template_find_build(c, row, build.id, e) < 0)
			return -1;
		build.created_ms = build.updated_ms = build.finished_ms = row->created_ms;
		build.cpu_millis = row->cpu_millis;
		build.memory_bytes = row->memory_bytes;
		shape_build(&p, &build);
	}
	json_close(j, ']');
	return 0;
}

static int shape_one(struct json *j, struct shown *s, const char *id, unsigned limit, unsigned from,
		     struct err *e)
{
	int result;

	if (find_newest_build(s, id, e) < 0)
		return -1;
	json_open(j, NULL, '{');
	shape_facts(j, s);
	result = shape_builds(j, s->core, s->row, id, limit, from, e);
	json_close(j, '}');
	if (s->built)
		store_build_release(&s->build);
	return result;
}

void template_routes_get(struct request *r)
{
	struct template_version *v = template_find(r->core, r->tenant, r->id);
	struct shown s = { .core = r->core, .row = v == NULL ? NULL : template_row(v) };
	uint64_t limit = LIMIT_MAX, from = 0;
	char id[STORE_ID_MAX];
	struct err e = { 0 };
	struct json j;

	if (v != NULL)
		(void)snprintf(id, sizeof(id), "%s", s.row->template_id);
	else if (!template_find_own(r, r->id, id))
		return;
	if (request_number(r, "limit", 1, LIMIT_MAX, &limit, &e) < 0 ||
	    request_number(r, "nextToken", 0, INT32_MAX, &from, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, TEMPLATES_JSON_MAX);
	if (shape_one(&j, &s, id, (unsigned)limit, (unsigned)from, &e) == 0) {
		reply_json(r, 200, &j);
		return;
	}
	json_release(&j);
	reply_error(r, &e);
}

void template_routes_alias(struct request *r)
{
	const struct template_version *v = template_find(r->core, r->tenant, r->id);
	const struct store_template *row = v == NULL ? NULL : template_row(v);
	char id[STORE_ID_MAX];
	struct json j;

	/* A name with a tag that nothing has is not there, even if the name is. */
	if (row == NULL && strchr(r->id, ':') != NULL) {
		missing(r);
		return;
	}
	if (row == NULL && !template_find_own(r, r->id, id))
		return;
	json_init_heap(&j, TEMPLATES_JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "templateID", row == NULL ? id : template_find_id(r->core, row));
	json_bool(&j, "public", row != NULL && (row->tenant[0] == '\0' || row->public));
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
