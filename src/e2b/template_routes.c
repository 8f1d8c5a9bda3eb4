/* template_routes.c - the templates that a tenant may use, as E2B shows templates: each has one
 * build, its current version, which is ready. The operator's belong to everybody. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "e2b_private.h"
#include "hex.h"
#include "reply.h"
#include "sandbox.h"
#include "sha256.h"
#include "templates.h"

#define TEMPLATES_JSON_MAX (256U << 10)
#define MEGA (1U << 20)
#define LIMIT_MAX 100
#define BUILD_ID_MAX 37

/* A name for the build: the id of the version, in the form of a UUID. */
static void build_id(const struct store_template *t, char ret[BUILD_ID_MAX])
{
	uint8_t hash[SHA256_SIZE];
	char digits[2 * 16 + 1];

	sha256_of(t->id, strlen(t->id), hash);
	hash[6] = (uint8_t)((hash[6] & 0x0f) | 0x80); /* version 8: made by a rule of one's own */
	hash[8] = (uint8_t)((hash[8] & 0x3f) | 0x80);
	hex_encode(hash, 16, digits);
	(void)snprintf(ret, BUILD_ID_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8,
		       digits + 12, digits + 16, digits + 20);
}

/* The resources of a sandbox that does not request any. */
static void default_size(const struct core *c, struct sandbox_size *ret)
{
	const struct config *g = core_config(c);
	unsigned can = core_restrictions(c)->limits;
	struct store_limits limits = {
		.memory_bytes = (can & CELL_LIMIT_MEMORY) == 0 ? 0 : g->memory_default,
		.cpu_millis = (can & CELL_LIMIT_CPU) == 0 ? 0 : g->cpus_default_milli,
		.disk_bytes = g->disk_default,
	};

	sandbox_size(&limits, ret);
}

static void shape_names(struct json *j, const struct core *c, const char *template,
			const char *member)
{
	bool is_default = strcmp(template, core_config(c)->template) == 0;

	json_open(j, member, '[');
	if (is_default) {
		json_text(j, NULL, "base");
		json_text(j, NULL, "code-interpreter-v1");
	}
	if (!is_default || strcmp(template, "base") != 0)
		json_text(j, NULL, template);
	json_close(j, ']');
}

/* What Template and TemplateWithBuilds have in common. */
static void shape_facts(struct json *j, const struct core *c, const struct store_template *t)
{
	json_text(j, "templateID", sandbox_template_id(c, t->name));
	json_bool(j, "public", t->tenant[0] == '\0');
	shape_names(j, c, t->name, "names");
	shape_names(j, c, t->name, "aliases");
	sandbox_shape_time(j, "createdAt", t->created_ms);
	sandbox_shape_time(j, "updatedAt", t->created_ms);
	json_none(j, "lastSpawnedAt");
	json_uint(j, "spawnCount", 0);
}

static void shape_size(struct json *j, const struct core *c)
{
	struct sandbox_size size;

	default_size(c, &size);
	json_uint(j, "cpuCount", size.cpus);
	json_uint(j, "memoryMB", size.memory_bytes / MEGA);
	json_uint(j, "diskSizeMB", size.disk_bytes / MEGA);
	json_text(j, "envdVersion", E2B_ENVD_VERSION);
}

static void shape_template(struct json *j, const struct core *c, const struct store_template *t)
{
	char build[BUILD_ID_MAX];

	build_id(t, build);
	json_open(j, NULL, '{');
	shape_facts(j, c, t);
	json_text(j, "buildID", build);
	shape_size(j, c);
	json_none(j, "createdBy");
	json_uint(j, "buildCount", 1);
	json_text(j, "buildStatus", "ready");
	json_close(j, '}');
}

/* A part of the list: from one place to another. */
struct page {
	struct json j;
	const struct core *core;
	uint64_t at, from, to;
};

static void on_version(const struct template_version *v, void *arg)
{
	struct page *p = arg;

	if (p->at >= p->from && p->at < p->to)
		shape_template(&p->j, p->core, template_row(v));
	p->at++;
}

static void shape_list(struct request *r, struct page *p, uint64_t from, uint64_t to)
{
	*p = (struct page){ .core = r->core, .from = from, .to = to };
	json_init_heap(&p->j, TEMPLATES_JSON_MAX);
	json_open(&p->j, NULL, '[');
	templates_each(r->core, r->tenant, on_version, p);
	json_close(&p->j, ']');
}

void template_routes_list_v1(struct request *r)
{
	struct page p;

	shape_list(r, &p, 0, UINT64_MAX);
	reply_json(r, 200, &p.j);
}

void template_routes_list_v2(struct request *r)
{
	uint64_t limit = LIMIT_MAX, from = 0;
	struct err e = { 0 };
	struct page p;
	char next[24];

	if (request_number(r, "limit", 1, LIMIT_MAX, &limit, &e) < 0 ||
	    request_number(r, "nextToken", 0, TEMPLATES_MAX, &from, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	shape_list(r, &p, from, from + limit);
	if (from + limit < p.at) {
		(void)snprintf(next, sizeof(next), "%" PRIu64, from + limit);
		exchange_header(r->x, "X-Next-Token", next);
	}
	reply_json(r, 200, &p.j);
}

/* The template in the path. NULL: the request was answered with 404. */
static const struct store_template *find(struct request *r)
{
	const struct store_template *t = sandbox_template(r->core, r->tenant, r->id);
	struct err e = { 0 };

	if (t != NULL)
		return t;
	IGNORED(err_set(&e, ERR_NOT_FOUND, "template '%.60s' not found", r->id), "answered");
	err_sanitize(&e);
	reply_error(r, &e);
	return NULL;
}

void template_routes_get(struct request *r)
{
	const struct store_template *t = find(r);
	char build[BUILD_ID_MAX];
	struct json j;

	if (t == NULL)
		return;
	build_id(t, build);
	json_init_heap(&j, TEMPLATES_JSON_MAX);
	json_open(&j, NULL, '{');
	shape_facts(&j, r->core, t);
	json_open(&j, "builds", '[');
	json_open(&j, NULL, '{');
	json_text(&j, "buildID", build);
	json_text(&j, "status", "ready");
	sandbox_shape_time(&j, "createdAt", t->created_ms);
	sandbox_shape_time(&j, "updatedAt", t->created_ms);
	sandbox_shape_time(&j, "finishedAt", t->created_ms);
	shape_size(&j, r->core);
	json_close(&j, '}');
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

void template_routes_alias(struct request *r)
{
	const struct store_template *t = find(r);
	struct json j;

	if (t == NULL)
		return;
	json_init_heap(&j, TEMPLATES_JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "templateID", sandbox_template_id(r->core, t->name));
	json_bool(&j, "public", t->tenant[0] == '\0');
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* Also how clients delete a snapshot, of which there are none. */
void template_routes_delete(struct request *r)
{
	if (find(r) != NULL)
		unsupported_builds(r);
}
