/* build_routes.c - builds of templates: asked for, started, watched (build.h). Archives of a build
 * follow below, tags are in template_routes.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/images/build.h"
#include "daemon/images/recipe.h"
#include "daemon/tenant/tenant.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/sandbox.h"
#include "front/e2b/control/template_find.h"
#include "front/web/auth.h"
#include "front/web/build_request.h"
#include "front/web/json_members.h"
#include "front/web/reply.h"
#include "front/web/spec_recipe.h"
#include "lib/http/url.h"
#include "lib/json/json.h"

/* ---- files of a build
 *
 * Archives for COPY: the client asks for a URL, then sends the archive there.
 *
 * The URL is the only proof that the sender may: it carries a time, the id of the key that asked
 * for it and an HMAC over these, template and hash (token.h). It is good for that archive only, for
 * a day and as long as the key is, and may be used again: the last archive that came whole counts.
 */

/* How long a URL of an upload is good. */
#define VALID_S 86400ULL
#define URL_MAX 1024

/* ---- GET /templates/{template}/files/{hash} */

/* How the client reaches this server: a proxy in front says it. */
static bool behind_tls(const struct request *r)
{
	const struct config *g = core_config(r->core);
	const struct http1_request *q = exchange_request(r->x);

	return g->tls_local || g->tls_cert[0] != '\0' ||
	       http1_lists(q->headers, q->headers_n, "x-forwarded-proto", "https");
}

/* The host is the one that the client has used, so that a proxy in front is used again. */
static void write_url(struct request *r, const char *template_id, char ret[URL_MAX])
{
	const struct http1_request *q = exchange_request(r->x);
	const char *key = r->grant.key_id;
	uint64_t until = core_now_ms() / 1000 + VALID_S;
	char token[TOKEN_UPLOAD_MAX];

	token_upload(&e2b_of(r)->key, key, template_id, r->part, until, token);
	(void)snprintf(ret, URL_MAX,
		       "%s://%.*s/templates/%s/files/%s?key=%s&expires=%" PRIu64 "&token=%s",
		       behind_tls(r) ? "https" : "http", (int)q->host.n, q->host.p, template_id,
		       r->part, key, until, token);
}

/* present: the archive is there already, and a client need not send it. */
void upload_routes_link(struct request *r)
{
	char template_id[STORE_ID_MAX], url[URL_MAX];
	struct json j;

	if (!recipe_is_hash(r->part)) {
		reply_code(r, 400, "invalid", "Invalid hash: must be 64 lower-case hex digits");
		return;
	}
	if (!auth_may_change_templates(r) || !template_find_own(r, r->id, template_id))
		return;
	write_url(r, template_id, url);
	json_init_heap(&j, 4096);
	json_open(&j, NULL, '{');
	json_bool(&j, "present",
		  build_upload_there(r->core, tenant_row(r->tenant)->id, template_id, r->part));
	json_text(&j, "url", url);
	json_close(&j, '}');
	reply_json(r, 201, &j);
}

/* ---- PUT */

/* The tenant of a valid upload URL of this server. NULL: answered. */
static struct tenant *upload_routes_check(struct request *r)
{
	char key[STORE_ID_MAX], given[TOKEN_UPLOAD_MAX], token[TOKEN_UPLOAD_MAX];
	struct tenant *t = NULL;
	uint64_t until = 0;
	struct err e = { 0 };

	if (recipe_is_hash(r->part) && request_text(r, "key", key, sizeof(key), &e) == 0 &&
	    request_text(r, "token", given, sizeof(given), &e) == 0 &&
	    request_number(r, "expires", 1, INT64_MAX / 1000, &until, &e) == 0) {
		token_upload(&e2b_of(r)->key, key, r->id, r->part, until, token);
		if (token_same(given, token))
			t = tenant_of_key(r->core, key, &r->scopes, &r->grant, &e);
		if (t == NULL && e.code != ERR_NONE && e.code != ERR_NOT_FOUND &&
		    e.code != ERR_DENIED) { /* of the store */
			reply_error(r, &e);
			return NULL;
		}
	}
	if (t == NULL || tenant_check(t, &e) < 0)
		reply_code(r, 403, "denied", "this is not the URL of an upload");
	else if (until < core_now_ms() / 1000)
		reply_code(r, 403, "denied", "the URL of the upload has expired");
	else
		return t;
	return NULL;
}

/* The route needs no key, so the request becomes the tenant's only here. */
void upload_routes_put(struct request *r)
{
	struct tenant *t = upload_routes_check(r);
	struct err e = { 0 };

	if (t == NULL)
		return;
	r->tenant = t;
	if (request_count(r, &e) < 0)
		reply_error(r, &e);
	else
		build_receive(r, tenant_row(t)->id, r->id, r->part, 200);
}

/* ---- builds */

#define LOGS_MAX 100 /* entries of an answer */
#define STATUS_JSON_MAX (4U << 20)
#define NAME_TEXT_MAX 256

/* ---- POST /v3/templates */

static void add_tag(const char *tag, void *arg)
{
	json_text(arg, NULL, tag);
}

/* build_ask_body() calls this when the build's row is written. */
static void reply_requested(struct request *r, const struct store_build *row)
{
	struct json j;

	json_init_heap(&j, STATUS_JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "templateID", row->template_id);
	json_text(&j, "buildID", row->id);
	json_bool(&j, "public", template_find_is_public(r->core, row->template_id));
	template_find_shape_names(&j, r->core, row->tenant, row->name);
	json_open(&j, "tags", '[');
	build_tags_each(row->tags, add_tag, &j);
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(r, 202, &j);
}

/* alias is another word for name. */
static int read_ask(json_t *root, struct build_ask *ask, struct err *e)
{
	const char *alias = NULL;
	struct json_members m;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", NAME_TEXT_MAX, &ask->name);
	json_members_text(&m, "alias", NAME_TEXT_MAX, &alias);
	json_members_count(&m, "cpuCount", 1, 1024, &ask->cpus);
	json_members_count(&m, "memoryMB", 1, 1U << 24, &ask->memory_mb);
	json_members_count(&m, "minFreeDiskMb", 0, 1U << 24, &ask->free_mb);
	build_ask_tags(&m, ask);
	if (ask->name == NULL)
		ask->name = alias;
	if (ask->name == NULL && !m.failed)
		(void)json_members_fail(&m, "name", "is missing");
	return json_members_end_lenient(&m);
}

static void on_request(struct exchange *x, const uint8_t *body, size_t len)
{
	build_ask_body(request_of(x), body, len, read_ask, reply_requested);
}

/* The build waits for its start. */
void build_routes_request(struct request *r)
{
	if (auth_may_change_templates(r))
		request_body(r, on_request);
}

/* ---- POST /v2/templates/{template}/builds/{build} */

/* The template and the build of the path. False: answered. */
static bool build_routes_find(struct request *r, struct store_build *ret)
{
	struct err e = { 0 };

	if (!template_ref_is_uuid(r->part)) {
		reply_code(r, 400, "invalid", "Invalid build ID");
		return false;
	}
	if (build_get(r->core, r->tenant, r->id, r->part, ret, &e) == 0)
		return true;
	reply_error(r, &e);
	return false;
}

/* The client polls the status from here on. */
static void on_start(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct recipe recipe;
	struct err e = { 0 };

	if (spec_recipe_read(body, len, &recipe, &e) < 0)
		recipe_release(&recipe);
	else if (build_start(r->core, r->tenant, r->id, r->part, &recipe, request_actor(r), &e) ==
		 0) {
		exchange_reply(r->x, 202, NULL, "", 0);
		return;
	}
	reply_error(r, &e);
}

/* The build is looked up before the body is read, so a wrong id is answered first. */
void build_routes_start(struct request *r)
{
	struct store_build row;

	if (!auth_may_change_templates(r) || !build_routes_find(r, &row))
		return;
	store_build_release(&row);
	request_long_body(r, on_start);
}

/* ---- GET .../status and .../logs */

/* One entry of the log, in E2B's form. */
static int on_entry(const struct store_build_entry *row, void *cookie)
{
	struct json *j = cookie;

	json_open(j, NULL, '{');
	sandbox_shape_time(j, "timestamp", row->time_ms);
	json_text(j, "level", build_level_name(row->level));
	json_text(j, "message", row->message);
	if (row->step[0] != '\0')
		json_text(j, "step", row->step);
	json_close(j, '}');
	return 0;
}

/* The entries that an answer has of a log. */
struct build_routes_page {
	uint64_t skip, limit;
	unsigned level;
};

/* A higher limit than LOGS_MAX is cut, as E2B does it. */
static int read_page(struct request *r, struct build_routes_page *p, struct err *e)
{
	static const char *const levels[] = { "debug", "info", "warn", "error" };

	*p = (struct build_routes_page){ .limit = LOGS_MAX };
	if (request_number(r, "logsOffset", 0, INT32_MAX, &p->skip, e) < 0 ||
	    request_number(r, "limit", 1, INT32_MAX, &p->limit, e) < 0)
		return -1;
	if (p->limit > LOGS_MAX)
		p->limit = LOGS_MAX;
	return request_choice(r, "level", levels, COUNT(levels), &p->level, e);
}

/* step "": the entries of all steps. */
static int shape_entries(struct json *j, struct core *c, const char *name,
			 const struct store_build *row, const struct build_routes_page *p,
			 const char *step, struct err *e)
{
	const struct store_build_part part = {
		.level = p->level, .step = step, .skip = p->skip, .limit = (unsigned)p->limit
	};
	int rc;

	json_open(j, name, '[');
	rc = store_build_log_list(core_store(c), row->id, &part, on_entry, j, e);
	json_close(j, ']');
	return rc;
}

/* A failed build names its step, with the last warnings and errors of that step. */
static int shape_reason(struct json *j, struct core *c, const struct store_build *row,
			struct err *e)
{
	const struct build_routes_page errors = { .limit = LOGS_MAX, .level = BUILD_WARN };
	int rc = 0;

	if (row->status != BUILD_ERROR)
		return 0;
	json_open(j, "reason", '{');
	json_text(j, "message", row->reason);
	if (row->step[0] != '\0') {
		json_text(j, "step", row->step);
		rc = shape_entries(j, c, "logEntries", row, &errors, row->step, e);
	}
	json_close(j, '}');
	return rc;
}

/* The member logs stays empty. logEntries has the entries. */
static int shape_status(struct json *j, struct request *r, const struct store_build *row,
			struct build_routes_page *p, struct err *e)
{
	int rc;

	json_open(j, NULL, '{');
	json_text(j, "templateID", row->template_id);
	json_text(j, "buildID", row->id);
	json_text(j, "status", build_status_name(row->status));
	json_open(j, "logs", '[');
	json_close(j, ']');
	rc = shape_entries(j, r->core, "logEntries", row, p, "", e);
	if (rc == 0)
		rc = shape_reason(j, r->core, row, e);
	json_close(j, '}');
	return rc;
}

/* cursor wins over logsOffset. */
static int shape_logs(struct json *j, struct request *r, const struct store_build *row,
		      struct build_routes_page *p, struct err *e)
{
	int rc;

	if (request_number(r, "cursor", 0, INT32_MAX, &p->skip, e) < 0)
		return -1;
	json_open(j, NULL, '{');
	rc = shape_entries(j, r->core, "logs", row, p, "", e);
	json_close(j, '}');
	return rc;
}

/* Both answers differ in their shape only. */
static void build_routes_answer(struct request *r,
				int (*shape_answer)(struct json *j, struct request *r,
						    const struct store_build *row,
						    struct build_routes_page *p, struct err *e))
{
	struct store_build row;
	struct err e = { 0 };
	struct build_routes_page p;
	struct json j;
	int rc;

	if (!build_routes_find(r, &row))
		return;
	json_init_heap(&j, STATUS_JSON_MAX);
	rc = read_page(r, &p, &e);
	if (rc == 0)
		rc = shape_answer(&j, r, &row, &p, &e);
	store_build_release(&row);
	if (rc < 0) {
		json_release(&j);
		reply_error(r, &e);
	} else {
		reply_json(r, 200, &j);
	}
}

void build_routes_status(struct request *r)
{
	build_routes_answer(r, shape_status);
}

void build_routes_logs(struct request *r)
{
	build_routes_answer(r, shape_logs);
}
