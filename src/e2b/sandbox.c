#include "sandbox.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/sysinfo.h>

#include "build.h"
#include "e2b_private.h"
#include "network.h"
#include "reply.h"
#include "rfc3339.h"
#include "template_find.h"
#include "templates.h"
#include "volume_mounts.h"

#define MEGA (1U << 20)
#define SANDBOX_JSON_MAX (16U << 10)
#define FOREVER_MS (100ULL * 365 * 24 * 3600 * 1000) /* the end of what has none */

/* ---- the text in the row */

static void copy_text(const json_t *root, const char *name, char *ret, size_t cap)
{
	const char *text = json_string_value(json_object_get(root, name));

	(void)snprintf(ret, cap, "%s", text == NULL ? "" : text);
}

static bool is_set(const json_t *root, const char *name, bool otherwise)
{
	const json_t *value = json_object_get(root, name);

	return value == NULL ? otherwise : json_is_true(value);
}

void sandbox_read(const struct store_session *row, struct sandbox *ret)
{
	const char *text = row->client;
	json_t *root = text == NULL || *text == '\0' ? NULL : json_loads(text, 0, NULL);
	json_int_t ms = json_integer_value(json_object_get(root, "timeout_ms"));

	*ret = (struct sandbox){ .secure = is_set(root, "secure", true),
				 /* A persistent one always wakes on traffic. */
				 .auto_resume =
					 is_set(root, "auto_resume", false) || row->keep_ms > 0,
				 /* A session of another interface: closed until its URL is asked
				  * for. */
				 .public_traffic = is_set(root, "public_traffic",
							  json_object_get(root, "secure") != NULL),
				 .timeout_ms = ms < 0 ? 0 : (uint64_t)ms };
	copy_text(root, "mask_host", ret->mask_host, sizeof(ret->mask_host));
	copy_text(root, "template", ret->template, sizeof(ret->template));
	json_decref(root);
}

char *sandbox_write(const struct sandbox *b)
{
	json_t *root = json_pack("{s:b, s:b, s:b, s:I, s:s, s:s}", "secure", b->secure,
				 "auto_resume", b->auto_resume, "public_traffic", b->public_traffic,
				 "timeout_ms", (json_int_t)b->timeout_ms, "mask_host", b->mask_host,
				 "template", b->template);
	char *text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT);

	json_decref(root);
	return text;
}

/* ---- what it is */

bool sandbox_is_paused(const struct store_session *row)
{
	return row->state == SESSION_PAUSED || row->state == SESSION_PAUSING;
}

bool sandbox_exists(const struct store_session *row)
{
	return row->state > SESSION_CREATING && row->state < SESSION_STOPPING &&
	       !build_has_session(row);
}

const char *sandbox_template_id(const struct core *c, const struct store_session *row)
{
	const struct template_version *v = templates_by_id(c, row->template_id);

	if (v != NULL)
		return template_find_id(c, template_row(v));
	return strcmp(row->template, core_config(c)->template) == 0 ? "base" : row->template;
}

static uint64_t machine_cpus(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	return (uint64_t)CPU_COUNT(&set);
}

static uint64_t machine_memory(void)
{
	struct sysinfo info;

	return sysinfo(&info) < 0 ? 0 : (uint64_t)info.totalram * info.mem_unit;
}

void sandbox_size(const struct store_limits *limits, struct sandbox_size *ret)
{
	ret->cpus = limits->cpu_millis == 0 ? machine_cpus() : (limits->cpu_millis + 999) / 1000;
	ret->memory_bytes = limits->memory_bytes == 0 ? machine_memory() : limits->memory_bytes;
	/* A cell's disk is memory. */
	ret->disk_bytes = limits->disk_bytes == 0 ? ret->memory_bytes : limits->disk_bytes;
}

/* ---- of a request */

void sandbox_missing(struct request *r)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		       "Sandbox \"%s\" doesn't exist or you don't have access to it",
		       r->session_id);
	reply_code(r, 404, "not_found", text);
}

void sandbox_fail(struct request *r, const struct err *e)
{
	if (e->code == ERR_NOT_FOUND || err_reason_is_gone(e->reason))
		sandbox_missing(r);
	else
		reply_error(r, e);
}

struct session *sandbox_find(struct request *r)
{
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);

	if (s != NULL && sandbox_exists(session_row(s)))
		return s;
	if (s != NULL)
		sandbox_missing(r);
	else
		sandbox_fail(r, &e);
	return NULL;
}

struct session *sandbox_find_running(struct request *r)
{
	struct session *s = sandbox_find(r);
	char text[256];

	if (s == NULL || !sandbox_is_paused(session_row(s)))
		return s;
	(void)snprintf(text, sizeof(text), "Sandbox '%s' is paused", r->session_id);
	reply_code(r, 409, "conflict", text);
	return NULL;
}

/* ---- how it is written */

void sandbox_shape_time(struct json *j, const char *name, uint64_t ms)
{
	char text[RFC3339_MAX];

	rfc3339_write(ms, text);
	json_text(j, name, text);
}

/* When it will end by itself. A paused sandbox ends when it would have ended; one whose time had
 * passed when it was paused has its end then. */
static uint64_t end_of(const struct store_session *row)
{
	if (row->deadline_ms > 0)
		return row->deadline_ms;
	if (row->paused_since_ms > 0)
		return row->paused_since_ms;
	return row->started_ms + (row->timeout_ms == 0 ? FOREVER_MS : row->timeout_ms);
}

static void shape_names(struct json *j, const struct e2b *b, const struct store_session *row,
			const struct sandbox *box)
{
	const char *id = sandbox_template_id(b->core, row);

	json_text(j, "templateID", id);
	json_text(j, "alias", box->template[0] == '\0' ? id : box->template);
	json_text(j, "sandboxID", row->id);
	json_text(j, "clientID", E2B_CLIENT_ID);
	json_text(j, "envdVersion", E2B_ENVD_VERSION);
}

static void shape_access(struct json *j, const struct e2b *b, const struct store_session *row,
			 const struct sandbox *box, bool secrets)
{
	const char *domain = core_config(b->core)->domain;
	char token[TOKEN_MAX];

	if (box->secure && secrets) {
		token_make(&b->key, TOKEN_ENVD, row->id, token);
		json_text(j, "envdAccessToken", token);
	}
	json_text(j, "domain", domain[0] == '\0' ? NULL : domain);
}

/* What lists and details have in common. */
static void shape_facts(struct json *j, const struct store_session *row)
{
	struct sandbox_size size;

	sandbox_size(&row->limits, &size);
	sandbox_shape_time(j, "startedAt", row->started_ms);
	sandbox_shape_time(j, "endAt", end_of(row));
	json_uint(j, "cpuCount", size.cpus);
	json_uint(j, "memoryMB", size.memory_bytes / MEGA);
	json_uint(j, "diskSizeMB", size.disk_bytes / MEGA);
	json_text(j, "state", sandbox_is_paused(row) ? "paused" : "running");
	/* Written when the request was read. */
	json_raw(j, "metadata",
		 row->metadata == NULL || row->metadata[0] == '\0' ? "{}" : row->metadata);
	volume_mounts_shape(j, row->mounts);
}

void sandbox_shape(struct json *j, const char *name, const struct e2b *b, const struct session *s)
{
	const struct store_session *row = session_row(s);
	char token[TOKEN_MAX];
	struct sandbox box;

	sandbox_read(row, &box);
	json_open(j, name, '{');
	shape_names(j, b, row, &box);
	shape_access(j, b, row, &box, true);
	if (!box.public_traffic) {
		token_make(&b->key, TOKEN_TRAFFIC, row->id, token);
		json_text(j, "trafficAccessToken", token);
	}
	json_close(j, '}');
}

void sandbox_reply(struct request *r, int status, const struct session *s)
{
	struct json j;

	json_init_heap(&j, SANDBOX_JSON_MAX);
	sandbox_shape(&j, NULL, e2b_of(r), s);
	reply_json(r, status, &j);
}

void sandbox_shape_detail(struct json *j, const char *name, const struct e2b *b,
			  const struct store_session *row, bool secrets)
{
	struct sandbox box;

	sandbox_read(row, &box);
	json_open(j, name, '{');
	shape_names(j, b, row, &box);
	shape_access(j, b, row, &box, secrets);
	shape_facts(j, row);
	network_shape(j, row->network == NULL ? "" : row->network);
	json_open(j, "lifecycle", '{');
	json_bool(j, "autoResume", box.auto_resume);
	json_text(j, "onTimeout", row->on_timeout != SESSION_KILL ? "pause" : "kill");
	json_close(j, '}');
	json_close(j, '}');
}

void sandbox_shape_listed(struct json *j, const char *name, const struct e2b *b,
			  const struct store_session *row)
{
	struct sandbox box;

	sandbox_read(row, &box);
	json_open(j, name, '{');
	shape_names(j, b, row, &box);
	shape_facts(j, row);
	json_close(j, '}');
}
