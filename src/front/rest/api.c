/* api.c - the table of the native interface. routes.h explains its effects. */
#include "front/rest/api.h"

#include <stdio.h>
#include <string.h>

#include "daemon/images/recipe.h"
#include "daemon/secrets/secret_spec.h"
#include "daemon/session/volume_line.h"
#include "daemon/template/template_name.h"
#include "daemon/template/templates.h"
#include "front/rest/api_handlers.h"
#include "front/web/reply.h"
#include "front/web/routes.h"
#include "lib/http/url.h"
#include "lib/json/json.h"

/* The common beginnings in the patterns. find_wrong() compares a route's pattern with them to
 * choose the form its ids must have. */
#define SESSION "/v1/sessions/{session}"
#define EXECUTION SESSION "/executions/{execution}"
#define FILES SESSION "/files"
#define SECRET "/v1/secrets/{secret}"
#define TEMPLATE "/v1/templates/{template}"
#define BUILDS "/v1/builds"

#define SNAPSHOT "/v1/snapshots/{snapshot}"
#define VOLUME "/v1/volumes/{volume}"

/* Short names for the scopes, so that a row fits into one line. A row with two scopes needs a key
 * that has both. */
#define ADMIN TENANT_ADMIN
#define USE TENANT_SESSIONS
#define READ TENANT_READ
#define AUDIT TENANT_AUDIT
#define AUDIT_ROUTES "/v1/audit"

/* A row: method, pattern, scope, handler, names of query parameters. routes.c matches requests
 * against the rows and refuses unnamed parameters. A test compares the rows with doc/openapi.yaml.
 */
static const struct route routes[] = {
	{ HTTP1_GET, "/", 0, api_node_root, "" },
	{ HTTP1_GET, "/openapi.yaml", 0, api_node_document, "" },
	{ HTTP1_GET, "/healthz", 0, api_node_health, "" },
	{ HTTP1_GET, "/readyz", 0, api_node_ready, "" },
	{ HTTP1_GET, "/metrics", READ, api_node_metrics, "" },
	{ HTTP1_GET, "/v1/node", READ, api_node_get, "" },
	{ HTTP1_GET, "/v1/templates", READ, api_templates_list, "limit after " },
	{ HTTP1_POST, "/v1/templates", ADMIN, api_templates_add, "name tag user workdir public " },
	{ HTTP1_POST, "/v1/templates/pull", ADMIN, api_pull, "" },
	{ HTTP1_POST, BUILDS, USE, api_builds_request, "" },
	{ HTTP1_GET, BUILDS, READ, api_builds_list, "limit after " },
	{ HTTP1_DELETE, BUILDS "/cache", USE, api_builds_clear_cache, "" },
	{ HTTP1_GET, BUILDS "/{build}", READ, api_builds_get, "after " },
	{ HTTP1_DELETE, BUILDS "/{build}", USE, api_builds_cancel, "" },
	{ HTTP1_PUT, BUILDS "/{build}/files/{hash}", USE, api_builds_upload, "" },
	{ HTTP1_POST, BUILDS "/{build}/start", USE, api_builds_start, "" },
	{ HTTP1_GET, TEMPLATE, READ, api_templates_get, "" },
	{ HTTP1_DELETE, TEMPLATE, ADMIN, api_templates_delete, "" },
	{ HTTP1_PATCH, TEMPLATE, ADMIN, api_template_change, "" },
	{ HTTP1_GET, TEMPLATE "/files", READ, api_template_files, "path limit " },
	{ HTTP1_POST, TEMPLATE "/tags", ADMIN, api_template_tags_add, "" },
	{ HTTP1_DELETE, TEMPLATE "/tags/{tag}", ADMIN, api_template_tags_delete, "" },

	{ HTTP1_GET, "/v1/snapshots", READ, api_snapshots_list, "session name limit after " },
	{ HTTP1_GET, SNAPSHOT, READ, api_snapshots_get, "" },
	{ HTTP1_DELETE, SNAPSHOT, USE, api_snapshots_delete, "" },
	{ HTTP1_GET, "/v1/layers", ADMIN, api_layers_list, "limit after " },
	{ HTTP1_POST, "/v1/gc", ADMIN, api_layers_collect, "" },

	{ HTTP1_GET, "/v1/packages/cache", ADMIN, api_package_cache_get, "" },
	{ HTTP1_GET, "/v1/packages/cache/entries", ADMIN, api_package_cache_list, "after " },
	{ HTTP1_POST, "/v1/packages/cache/gc", ADMIN, api_package_cache_collect, "bytes " },
	{ HTTP1_POST, "/v1/packages/cache/verify", ADMIN, api_package_cache_verify, "" },

	{ HTTP1_POST, "/v1/sessions", USE, api_sessions_create, "" },
	{ HTTP1_GET, "/v1/sessions", READ, api_sessions_list,
	  "state ended template limit after order metadata.* metadata[* " },
	{ HTTP1_GET, SESSION, READ, api_sessions_get, "" },
	{ HTTP1_DELETE, SESSION, USE, api_sessions_delete, "" },
	{ HTTP1_PATCH, SESSION, USE, api_sessions_patch, "" },
	{ HTTP1_POST, SESSION "/pause", USE, api_sessions_pause, "" },
	{ HTTP1_POST, SESSION "/resume", USE, api_sessions_resume, "" },
	{ HTTP1_POST, SESSION "/reset", USE, api_sessions_reset, "" },
	{ HTTP1_POST, SESSION "/snapshots", USE, api_snapshots_create, "" },
	{ HTTP1_POST, SESSION "/fork", USE, api_fork_create, "" },
	{ HTTP1_POST, SESSION "/timeout", USE, api_sessions_timeout, "" },
	{ HTTP1_GET, SESSION "/metrics", READ, api_metrics_get, "" },
	{ HTTP1_GET, SESSION "/resources", READ, api_resources_get, "" },
	{ HTTP1_GET, SESSION "/timeline", READ, api_timeline_get, "after limit types follow " },
	{ HTTP1_GET, SESSION "/diff", READ, api_diff_get, "" },
	{ HTTP1_GET, SESSION "/network", READ, api_network_get, "effective " },
	{ HTTP1_PUT, SESSION "/network", USE, api_network_put, "effective " },
	{ HTTP1_POST, SESSION "/ports", USE, api_ports_open, "" },
	{ HTTP1_DELETE, SESSION "/ports/{port}", USE, api_ports_close, "" },
	{ HTTP1_GET, SESSION "/network/log", READ, api_network_log,
	  "after limit follow kind allowed name execution " },
	{ HTTP1_GET, SESSION "/packages", READ, api_packages_list,
	  "after limit ecosystem name result execution " },
	{ HTTP1_GET, SESSION "/mcp", READ, api_mcp_get, "" },
	{ HTTP1_GET, SESSION "/events", READ, api_events_session, "after limit follow " },
	{ HTTP1_GET, SESSION "/trace", READ, api_trace, "after limit follow " },

	{ HTTP1_POST, SESSION "/executions", USE, api_executions_create, "wait encoding " },
	{ HTTP1_GET, SESSION "/executions", READ, api_executions_list, "state limit after order " },
	{ HTTP1_GET, EXECUTION, READ, api_executions_get, "" },
	{ HTTP1_DELETE, EXECUTION, USE, api_executions_delete, "" },
	{ HTTP1_GET, EXECUTION "/output", READ, api_output_get, "stream offset length " },
	{ HTTP1_GET, EXECUTION "/cast", READ, api_cast_get, "" },
	{ HTTP1_GET, EXECUTION "/events", READ, api_stream_get, "after " },
	{ HTTP1_GET, EXECUTION "/attach", USE, api_attach_get, "after " },
	{ HTTP1_POST, EXECUTION "/input", USE, api_control_input, "eof " },
	{ HTTP1_POST, EXECUTION "/signals", USE, api_control_signal, "" },
	{ HTTP1_POST, EXECUTION "/resize", USE, api_control_resize, "" },

	{ HTTP1_GET, SESSION "/processes", READ, api_processes_list, "" },
	{ HTTP1_DELETE, SESSION "/processes/{pid}", USE, api_processes_kill, "" },

	{ HTTP1_GET, FILES, READ, api_content_get, "path user offset length " },
	{ HTTP1_PUT, FILES, USE, api_content_put, "path user mode owner append exclusive " },
	{ HTTP1_DELETE, FILES, USE, api_files_delete, "path user recursive " },
	{ HTTP1_GET, FILES "/stat", READ, api_files_stat, "path user follow " },
	{ HTTP1_GET, FILES "/list", READ, api_files_list, "path user depth limit " },
	{ HTTP1_POST, FILES "/mkdir", USE, api_files_mkdir, "user " },
	{ HTTP1_POST, FILES "/move", USE, api_files_move, "user " },
	{ HTTP1_GET, FILES "/watch", READ, api_watch_get, "path user recursive " },
	{ HTTP1_GET, FILES "/tar", READ, api_archive_get, "path user " },
	{ HTTP1_PUT, FILES "/tar", USE, api_archive_put, "path user " },

	{ HTTP1_GET, "/v1/network/log", READ, api_network_log,
	  "after limit follow kind allowed name execution " },
	{ HTTP1_GET, "/v1/events", READ, api_events_tenant, "after limit follow " },
	{ HTTP1_GET, "/v1/report", AUDIT, api_report, "" },
	{ HTTP1_GET, SESSION "/report", AUDIT, api_report, "" },
	{ HTTP1_GET, "/v1/audit", AUDIT, api_audit_list,
	  "after limit follow proofs session type tenant epoch " },
	{ HTTP1_GET, "/v1/audit/checkpoint", AUDIT, api_audit_checkpoint,
	  "tenant epoch fresh cosigned " },
	{ HTTP1_GET, "/v1/audit/tile/{*}", AUDIT, api_audit_tile, "tenant epoch " },
	{ HTTP1_POST, "/v1/audit/cosignature", AUDIT, api_audit_cosignature, "tenant " },
	{ HTTP1_GET, "/v1/audit/rotate", AUDIT, api_audit_keys, "" },
	{ HTTP1_POST, "/v1/audit/rotate", ADMIN | AUDIT, api_audit_rotate, "" },
	{ HTTP1_POST, "/v1/audit/erase", ADMIN | AUDIT, api_audit_erase, "" },
	{ HTTP1_POST, "/v1/audit/prune", ADMIN | AUDIT, api_audit_prune, "" },
	{ HTTP1_GET, "/v1/limits", READ, api_limits_get, "" },
	{ HTTP1_GET, "/v1/usage", READ, api_usage_get, "from to by key limit after " },
	{ HTTP1_GET, "/v1/keys", ADMIN, api_keys_list, "limit after " },
	{ HTTP1_POST, "/v1/keys", ADMIN, api_keys_create, "" },
	{ HTTP1_DELETE, "/v1/keys/{key}", ADMIN, api_keys_delete, "" },
	{ HTTP1_GET, "/v1/secrets", ADMIN, api_secrets_list, "limit after " },
	{ HTTP1_POST, "/v1/secrets", ADMIN, api_secrets_create, "" },
	{ HTTP1_GET, SECRET, ADMIN, api_secrets_get, "" },
	{ HTTP1_PUT, SECRET, ADMIN, api_secrets_update, "" },
	{ HTTP1_DELETE, SECRET, ADMIN, api_secrets_delete, "" },
	{ HTTP1_GET, "/v1/volumes", READ, api_volumes_list, "limit after " },
	{ HTTP1_POST, "/v1/volumes", USE, api_volumes_create, "" },
	{ HTTP1_GET, VOLUME, READ, api_volumes_get, "" },
	{ HTTP1_DELETE, VOLUME, USE, api_volumes_delete, "" },
	{ HTTP1_GET, "/v1/tenants", ADMIN, api_tenants_list, "limit after " },
	{ HTTP1_POST, "/v1/tenants", ADMIN, api_tenants_create, "" },
	{ HTTP1_GET, "/v1/tenants/{tenant}", ADMIN, api_tenants_get, "" },
	{ HTTP1_PATCH, "/v1/tenants/{tenant}", ADMIN, api_tenants_update, "" },
	{ HTTP1_DELETE, "/v1/tenants/{tenant}", ADMIN, api_tenants_delete, "" },
	{ HTTP1_GET, "/v1/tenants/{tenant}/network", ADMIN, api_network_tenant_get, "" },
	{ HTTP1_PUT, "/v1/tenants/{tenant}/network", ADMIN, api_network_tenant_put, "" },
	{ HTTP1_POST, "/v1/tenants/{tenant}/keys", ADMIN, api_keys_create_for, "" },
};

/* ---- ids in paths
 *
 * Each take_ function decodes one segment and checks the form of the id. False: no object can have
 * this id, so the answer is 404. The core looks for the object later. */
static bool take_id(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	int n = url_decode(raw, ret, REQUEST_ID_MAX);

	return n > 0 && strspn(ret, "abcdefghijklmnopqrstuvwxyz0123456789_") == (size_t)n;
}

/* The id's form is that of session_id.h. */
static bool take_session(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	int n = url_decode(raw, ret, REQUEST_ID_MAX);

	return n > 0 && session_id_is_valid(ret, (size_t)n);
}

/* Secrets are found by name. */
static bool take_name(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	return url_decode(raw, ret, REQUEST_ID_MAX) > 0 && secret_spec_is_name(ret);
}

static bool take_volume(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	return url_decode(raw, ret, REQUEST_ID_MAX) > 0 && volume_line_is_name(ret);
}

static bool take_tag(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	return url_decode(raw, ret, REQUEST_ID_MAX) > 0 && template_name_is_tag(ret);
}

/* [owner/]name[:tag], or an id in place of the name. */
static bool take_template(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	struct template_name name;
	struct err e;

	return url_decode(raw, ret, REQUEST_ID_MAX) > 0 && template_name_read(ret, &name, &e) == 0;
}

/* The digest that names an archive of a build. */
static bool take_hash(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	return url_decode(raw, ret, REQUEST_ID_MAX) > 0 && recipe_is_hash(ret);
}

/* A UUID. Other texts are not found. */
static bool take_any(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	return url_decode(raw, ret, REQUEST_ID_MAX) > 0;
}

/* The ids of a path: the first of a session's route is the session. Secrets, templates and volumes
 * have names. Return the place of the first that cannot be one, or -1. The session is written to
 * session_id, the next one to id, and a build's hash or a template's tag to part. */
static int find_wrong(struct request *r, const struct url_params *params)
{
	bool of_build = strncmp(r->route->pattern, BUILDS, sizeof(BUILDS) - 1) == 0;
	bool of_template = strncmp(r->route->pattern, TEMPLATE, sizeof(TEMPLATE) - 1) == 0;
	bool (*take)(struct http1_span raw, char ret[REQUEST_ID_MAX]) =
		strcmp(r->route->pattern, SECRET) == 0			  ? take_name
		: of_template || strcmp(r->route->pattern, SNAPSHOT) == 0 ? take_template
		: of_build						  ? take_any
		: strcmp(r->route->pattern, VOLUME) == 0		  ? take_volume
									  : take_id;
	bool of_session = strncmp(r->route->pattern, SESSION, sizeof(SESSION) - 1) == 0;
	size_t at = 0;

	if (strncmp(r->route->pattern, AUDIT_ROUTES, sizeof(AUDIT_ROUTES) - 1) == 0)
		return -1; /* the handler reads the path of a tile */
	if (of_session && !take_session(params->raw[at++], r->session_id)) {
		r->session_id[0] = '\0';
		return 0;
	}
	if (at < params->n && !take(params->raw[at], r->id))
		return (int)at;
	if ((of_build && params->n > 1 && !take_hash(params->raw[1], r->part)) ||
	    (of_template && params->n > 1 && !take_tag(params->raw[1], r->part)))
		return 1;
	return -1;
}

/* The pattern names the kind of each id: "{session}". Answer with 404 if an id has the wrong form,
 * as for a missing object, so that clients need one case only. */
static bool take_ids(struct request *r, const struct url_params *params)
{
	int wrong = find_wrong(r, params);
	const char *at = r->route->pattern;
	char kind[32], name[REQUEST_ID_MAX];

	if (wrong < 0)
		return true;
	for (int i = 0; i <= wrong; i++)
		at = strchr(at, '{') + 1;
	(void)snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(at, "}"), at);
	/* A segment that cannot be decoded is shown as it came, cut to 64 bytes. */
	if (url_decode(params->raw[wrong], name, sizeof(name)) < 0)
		(void)snprintf(name, sizeof(name), "%.*s",
			       (int)(params->raw[wrong].n < 64 ? params->raw[wrong].n : 64),
			       params->raw[wrong].p);
	reply_missing(r, kind, name);
	return false;
}

/* The one shape of errors in this interface. The buffer has room for a message in which JSON
 * escapes each byte with six characters. */
static void api_fail(struct request *r, const struct failure *f)
{
	char text[1024 + 6 * sizeof(((struct err *)NULL)->msg)];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_open(&j, "error", '{');
	json_text(&j, "code", f->word);
	json_text(&j, "message", f->message);
	json_text(&j, "fault", f->platform ? "platform" : "user");
	json_text(&j, "session_id", r->session_id[0] == '\0' ? NULL : r->session_id);
	json_text(&j, "request_id", exchange_id(r->x));
	json_close(&j, '}');
	json_close(&j, '}');
	exchange_reply(r->x, f->status, "application/json", j.text, j.len);
}

/* reply.c reports each failure by it. */
static const struct dialect dialect = { .interface = "api", .fail = api_fail };

/* Is the route opened by the operator? Only the metrics can be open. The setting decides for whom.
 */
static bool api_waives(const struct request *r)
{
	return r->route->handle == api_node_metrics && api_node_metrics_are_open(r);
}

const struct routes api_routes = { .table = routes,
				   .n = COUNT(routes),
				   .dialect = &dialect,
				   .waives = api_waives,
				   .take_ids = take_ids };
