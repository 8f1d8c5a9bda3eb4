#include "front/e2b/control/sandbox.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sysinfo.h>

#include "daemon/egressctl/session_policy.h"
#include "daemon/images/build.h"
#include "daemon/secrets/secret.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/allow.h"
#include "daemon/tenant/quota.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/base/rfc3339.h"
#include "front/e2b/control/network.h"
#include "front/e2b/control/network_policy.h"
#include "front/e2b/control/sandbox_spec.h"
#include "front/e2b/control/template_find.h"
#include "front/e2b/control/volume_mounts.h"
#include "front/web/json_members.h"
#include "front/web/reply.h"
#include "front/web/session_request.h"
#include "lib/base/str.h"
#include "lib/policy/policy_select.h"

/* ---- create
 *
 * A sandbox is a session with E2B's defaults and words. */

/* The sandbox runs, and its start command is ready. */
static void on_created(struct request *r, struct session *s)
{
	sandbox_reply(r, 201, s);
}

/* The requested template, without its namespace and its tag. */
static void set_alias(struct sandbox *box, const char *name)
{
	const char *slash = strchr(name, '/');
	size_t n;

	name = slash == NULL ? name : slash + 1;
	n = strcspn(name, ":");
	if (n >= sizeof(box->template))
		return;
	for (size_t i = 0; i < n; i++)
		box->template[i] = (char)tolower((unsigned char)name[i]);
}

/* The template, and what only this interface needs to know of the session. */
static int sandbox_create_complete(struct request *r, struct sandbox_spec *s, char **ret_client,
				   struct err *e)
{
	struct sandbox box = { .secure = s->secure,
			       .auto_resume = s->auto_resume,
			       .public_traffic = s->network.public_traffic,
			       .timeout_ms = s->spec.timeout_ms };
	struct template_version *v = template_find(r->core, r->tenant, s->template);

	if (v == NULL) {
		(void)err_set(e, ERR_NOT_FOUND, "template '%.100s' not found", s->template);
		err_sanitize(e);
		return -1;
	}
	s->spec.version = template_row(v)->id;
	set_alias(&box, s->template);
	str_copy(box.mask_host, s->network.mask_host);
	*ret_client = sandbox_write(&box);
	if (*ret_client == NULL)
		return err_set(e, ERR_SYSTEM, "sandbox: out of memory");
	s->spec.client = *ret_client;
	return 0;
}

/* session_request_start() copies its texts, so everything read is released here. */
static void sandbox_create_session(struct request *r, const uint8_t *body, size_t len,
				   enum sandbox_spec_version version)
{
	struct volume_mounts mounts = { .problems = "" };
	struct sandbox_spec spec;
	struct err e = { 0 };
	unsigned retry_s = 0;
	char *client = NULL, *policy = NULL;
	int making = -1;

	if (sandbox_spec_read(body, len, version, &spec, &e) == 0 &&
	    sandbox_create_complete(r, &spec, &client, &e) == 0 &&
	    volume_mounts_read(r, spec.volumes, &spec.spec, &mounts) == 0 &&
	    sandbox_network_policy(r, spec.network.text, &policy, &e) == 0) {
		spec.spec.policy = policy;
		making = session_request_start(r, &spec.spec, on_created, &retry_s, &e);
	}
	sandbox_spec_release(&spec);
	free(client);
	free(policy);
	if (making < 0 && mounts.problems[0] != '\0')
		reply_code(r, 400, "invalid", mounts.problems);
	else if (making < 0 && e.code == ERR_UNSUPPORTED)
		reply_code(r, 501, "unsupported", e.msg);
	else if (making < 0)
		reply_refusal(r, &e, retry_s);
}

static void on_body_v1(struct exchange *x, const uint8_t *body, size_t len)
{
	sandbox_create_session(request_of(x), body, len, SANDBOX_SPEC_V1);
}

static void on_body_v2(struct exchange *x, const uint8_t *body, size_t len)
{
	sandbox_create_session(request_of(x), body, len, SANDBOX_SPEC_V2);
}

void sandbox_create_v1(struct request *r)
{
	request_long_body(r, on_body_v1);
}

void sandbox_create_v2(struct request *r)
{
	request_long_body(r, on_body_v2);
}

/* ---- the network of a sandbox
 *
 * Replaces the outbound rules of a sandbox, see network.h. */

/* For network_policy_secrets(): whose secrets, and where to put the reason. */
struct sandbox_naming {
	struct request *r;
	struct err *e;
};

/* -1 ends the search at the first secret that cannot be used. */
static int check_secret(const char *name, void *arg)
{
	struct sandbox_naming *n = arg;
	struct store_secret row;

	if (secret_get(n->r->core, n->r->tenant, name, &row, n->e) == 0) {
		store_secret_release(&row);
		return 0;
	}
	if (n->e->code == ERR_NOT_FOUND)
		(void)err_set(n->e, ERR_INVALID, "network.rules: there is no secret %.100s", name);
	return -1;
}

int sandbox_network_policy(struct request *r, const char *text, char **ret, struct err *e)
{
	struct sandbox_naming naming = { .r = r, .e = e };
	char name[POLICY_SELECT_NAME_MAX];
	OWN_MEM char *policy = NULL;

	if (network_policy_secrets(text, check_secret, &naming) != 0)
		return -1;
	policy_select_name(session_policy_of_row(r->core, &(struct store_session){ 0 }), name);
	if (network_policy_write(text, strcmp(name, "internet") == 0, &policy, e) < 0)
		return -1;
	/* Checked once more, as what any client gives. */
	if (policy[0] != '\0')
		return policy_select_read(policy, strlen(policy), POLICY_SESSION, ret, e);
	*ret = policy;
	policy = NULL;
	return 0;
}

/* The egress gateway has the rules, or refused them. */
static void on_applied(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		sandbox_fail(r, e);
	else
		reply_empty(r, 204);
}

/* All checks come first. The row's text is written before the gateway is asked. */
static int sandbox_network_update(struct request *r, struct session *s, json_t *root, struct err *e)
{
	OWN_MEM char *text = NULL, *policy = NULL;
	char name[POLICY_SELECT_NAME_MAX];

	if (network_update(session_row(s)->network, root, &text, e) < 0 ||
	    change_quota_take(r->tenant, strlen(text), e) < 0 ||
	    sandbox_network_policy(r, text, &policy, e) < 0 ||
	    session_policy_check(r->core, r->tenant, policy, e) < 0)
		return -1;
	policy_select_name(policy, name); /* refused before anything is stored */
	if (allow_network(r->core, r->tenant, request_actor(r), name, e) < 0 ||
	    session_set_network(s, text, e) < 0)
		return -1;
	r->wait.on_done = on_applied;
	return session_policy_set(s, policy, request_actor(r), &r->wait, e);
}

/* Only a running sandbox can be changed. */
static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct session *s = sandbox_find_running(r);
	struct err e = { 0 };
	json_t *root;
	int set;

	if (s == NULL)
		return;
	root = json_members_parse(body, len, &e);
	set = root == NULL ? -1 : sandbox_network_update(r, s, root, &e);
	json_decref(root);
	if (set < 0)
		sandbox_fail(r, &e);
}

void sandbox_network(struct request *r)
{
	request_long_body(r, on_body);
}

/* ---- show */

#define MEGA (1U << 20)
#define SANDBOX_JSON_MAX (16U << 10)
#define FOREVER_MS (100ULL * 365 * 24 * 3600 * 1000) /* the end of sandboxes without one */

/* ---- the text in the row
 *
 * Written once, when a sandbox is created, and read by every request into it. */

static void copy_text(const json_t *root, const char *name, char *ret, size_t cap)
{
	const char *text = json_string_value(json_object_get(root, name));

	str_copy_to(ret, cap, text == NULL ? "" : text);
}

/* otherwise: the value for rows without the member. */
static bool is_set(const json_t *root, const char *name, bool otherwise)
{
	const json_t *value = json_object_get(root, name);

	return value == NULL ? otherwise : json_is_true(value);
}

/* A text that cannot be parsed is as an absent one. */
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

/* ---- facts of a sandbox
 *
 * E2B's words, as facts of a session. */

bool sandbox_is_paused(const struct store_session *row)
{
	return row->state == SESSION_PAUSED || row->state == SESSION_PAUSING;
}

bool sandbox_exists(const struct store_session *row)
{
	return row->state > SESSION_CREATING && row->state < SESSION_ENDING &&
	       !build_has_session(row);
}

const char *sandbox_template_id(const struct core *c, const struct store_session *row)
{
	const struct template_version *v = templates_by_id(c, row->template_id);

	if (v != NULL)
		return template_find_id(c, template_row(v));
	return strcmp(row->template, core_config(c)->template) == 0 ? "base" : row->template;
}

/* Those that cordond may use. */
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

void sandbox_size(const struct cell_limits *limits, struct sandbox_size *ret)
{
	ret->cpus = limits->cpu_millis == 0 ? machine_cpus() : (limits->cpu_millis + 999) / 1000;
	ret->memory_bytes = limits->memory_bytes == 0 ? machine_memory() : limits->memory_bytes;
	/* A cell's disk is memory. */
	ret->disk_bytes = limits->disk_bytes == 0 ? ret->memory_bytes : limits->disk_bytes;
}

/* ---- of a request
 *
 * Handlers find their sandbox here, so every route has the same words for a missing one. */

void sandbox_missing(struct request *r)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		       "Sandbox \"%s\" doesn't exist or you don't have access to it",
		       r->session_id);
	reply_code(r, 404, "not_found", text);
}

/* A sandbox that has just ended is as one that never was. */
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

/* When it will end by itself. A paused sandbox keeps its end. If its time had passed before the
 * pause, it ended at the pause. */
static uint64_t end_of(const struct store_session *row)
{
	if (row->deadline_ms > 0)
		return row->deadline_ms;
	if (row->paused_since_ms > 0)
		return row->paused_since_ms;
	return row->started_ms + (row->timeout_ms == 0 ? FOREVER_MS : row->timeout_ms);
}

/* The members by which clients know a sandbox. */
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

/* secrets: the key may use the sandbox. Otherwise no token is shown. */
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

/* The members common to lists and details. */
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

/* The token for ports is needed only if ports are closed without it. */
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
