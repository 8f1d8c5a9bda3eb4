/* template_routes.c - the operator's templates, as E2B shows templates: each has one build, which
 * is ready, and belongs to everybody. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "e2b_private.h"
#include "clock.h"
#include "hex.h"
#include "reply.h"
#include "sandbox.h"
#include "sha256.h"

#define TEMPLATES_JSON_MAX (256U << 10)
#define MEGA (1U << 20)
#define LIMIT_MAX 100
#define BUILD_ID_MAX 37

/* A name for the one build: the same after every start, in the form of a UUID. */
static void build_id(const char *template, char ret[BUILD_ID_MAX])
{
	uint8_t hash[SHA256_SIZE];
	char digits[2 * 16 + 1];

	sha256_of(template, strlen(template), hash);
	hash[6] = (uint8_t)((hash[6] & 0x0f) | 0x80); /* version 8: made by a rule of one's own */
	hash[8] = (uint8_t)((hash[8] & 0x3f) | 0x80);
	hex_encode(hash, 16, digits);
	(void)snprintf(ret, BUILD_ID_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8,
		       digits + 12, digits + 16, digits + 20);
}

/* When the server started, in whole seconds: the templates are what it found then. */
static uint64_t since_ms(const struct core *c)
{
	uint64_t age_ms = (clock_now_ns() - core_started_ns(c)) / CLOCK_MS;

	return (clock_wall_ms() - age_ms) / 1000 * 1000;
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
static void shape_facts(struct json *j, const struct core *c, const char *template)
{
	json_text(j, "templateID", sandbox_template_id(c, template));
	json_bool(j, "public", true);
	shape_names(j, c, template, "names");
	shape_names(j, c, template, "aliases");
	sandbox_shape_time(j, "createdAt", since_ms(c));
	sandbox_shape_time(j, "updatedAt", since_ms(c));
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

static void shape_template(struct json *j, const struct core *c, const char *template)
{
	char build[BUILD_ID_MAX];

	build_id(template, build);
	json_open(j, NULL, '{');
	shape_facts(j, c, template);
	json_text(j, "buildID", build);
	shape_size(j, c);
	json_none(j, "createdBy");
	json_uint(j, "buildCount", 1);
	json_text(j, "buildStatus", "ready");
	json_close(j, '}');
}

/* From one place to another. */
static void reply_list(struct request *r, uint64_t from, uint64_t to)
{
	const struct core_options *o = core_options(r->core);
	struct json j;

	json_init_heap(&j, TEMPLATES_JSON_MAX);
	json_open(&j, NULL, '[');
	for (uint64_t i = from; i < to && i < o->ntemplates; i++)
		shape_template(&j, r->core, o->templates[i].name);
	json_close(&j, ']');
	reply_json(r, 200, &j);
}

void template_routes_list_v1(struct request *r)
{
	reply_list(r, 0, UINT64_MAX);
}

void template_routes_list_v2(struct request *r)
{
	uint64_t limit = LIMIT_MAX, from = 0;
	struct err e = { 0 };
	char next[24];

	if (request_number(r, "limit", 1, LIMIT_MAX, &limit, &e) < 0 ||
	    request_number(r, "nextToken", 0, CORE_TEMPLATES_MAX, &from, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (from + limit < core_options(r->core)->ntemplates) {
		(void)snprintf(next, sizeof(next), "%" PRIu64, from + limit);
		exchange_header(r->x, "X-Next-Token", next);
	}
	reply_list(r, from, from + limit);
}

/* The template in the path. NULL: the request was answered with 404. */
static const char *find(struct request *r)
{
	const char *template = sandbox_template(r->core, r->id);
	struct err e = { 0 };

	if (template != NULL)
		return template;
	IGNORED(err_set(&e, ERR_NOT_FOUND, "template '%.60s' not found", r->id), "answered");
	err_sanitize(&e);
	reply_error(r, &e);
	return NULL;
}

void template_routes_get(struct request *r)
{
	const char *template = find(r);
	char build[BUILD_ID_MAX];
	struct json j;

	if (template == NULL)
		return;
	build_id(template, build);
	json_init_heap(&j, TEMPLATES_JSON_MAX);
	json_open(&j, NULL, '{');
	shape_facts(&j, r->core, template);
	json_open(&j, "builds", '[');
	json_open(&j, NULL, '{');
	json_text(&j, "buildID", build);
	json_text(&j, "status", "ready");
	sandbox_shape_time(&j, "createdAt", since_ms(r->core));
	sandbox_shape_time(&j, "updatedAt", since_ms(r->core));
	sandbox_shape_time(&j, "finishedAt", since_ms(r->core));
	shape_size(&j, r->core);
	json_close(&j, '}');
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

void template_routes_alias(struct request *r)
{
	const char *template = find(r);
	struct json j;

	if (template == NULL)
		return;
	json_init_heap(&j, TEMPLATES_JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "templateID", sandbox_template_id(r->core, template));
	json_bool(&j, "public", true);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* Also how clients delete a snapshot, of which there are none. */
void template_routes_delete(struct request *r)
{
	if (find(r) != NULL)
		unsupported_builds(r);
}
