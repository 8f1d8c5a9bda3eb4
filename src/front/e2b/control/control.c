/* control.c - the table of E2B's control plane. routes.h explains its effects. Routes of the
 * contract that Cordon lacks stand and are answered here, too. */
#include <stdio.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/destination.h"
#include "front/web/reply.h"
#include "lib/http/url.h"
#include "lib/json/json.h"

/* ---- not supported
 *
 * Routes of E2B that Cordon does not support. Each is answered with 501 and a
 * message that E2B's clients show. */

/* what: a constant. */
static void unsupported_missing(struct request *r, const char *what)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "%s: not supported by this Cordon server", what);
	reply_code(r, 501, "unsupported", text);
}

void unsupported_builds(struct request *r)
{
	unsupported_missing(r,
			    "builds of E2B's first system, by docker push (use the newer one: POST "
			    "/v3/templates)");
}

void unsupported_teams(struct request *r)
{
	unsupported_missing(
		r, "teams, API keys and access tokens of E2B (Cordon's own are at /v1/keys)");
}

/* Short names, so that a row fits into one line. */
#define USE TENANT_SESSIONS
#define READ TENANT_READ
#define ADMIN TENANT_ADMIN

#define ONE "/sandboxes/{sandbox}"
#define BUILD "/templates/{template}/builds/{build}"
#define FILES "/templates/{template}/files/{hash}"
#define CONTENT "/volumecontent/{volume}"

/* A row: method, pattern, scope, handler. Unknown query parameters are ignored, as clients of many
 * versions send them. */
static const struct route table[] = {
	{ HTTP1_GET, "/health", 0, control_health, NULL },

	{ HTTP1_POST, "/v2/sandboxes", USE, sandbox_create_v2, NULL },
	{ HTTP1_POST, "/sandboxes", USE, sandbox_create_v1, NULL },
	{ HTTP1_GET, "/v2/sandboxes", READ, sandbox_list_v2, NULL },
	{ HTTP1_GET, "/sandboxes", READ, sandbox_list_v1, NULL },
	{ HTTP1_GET, "/sandboxes/metrics", READ, sandbox_metrics_many, NULL },
	{ HTTP1_GET, ONE, READ, sandbox_get, NULL },
	{ HTTP1_DELETE, ONE, USE, sandbox_delete, NULL },
	{ HTTP1_POST, "/v2" ONE "/connect", USE, sandbox_connect_v2, NULL },
	{ HTTP1_POST, ONE "/connect", USE, sandbox_connect_v1, NULL },
	{ HTTP1_POST, ONE "/resume", USE, sandbox_resume, NULL },
	{ HTTP1_POST, ONE "/pause", USE, sandbox_pause, NULL },
	{ HTTP1_POST, ONE "/timeout", USE, sandbox_timeout, NULL },
	{ HTTP1_POST, ONE "/refreshes", USE, sandbox_refreshes, NULL },
	{ HTTP1_PUT, ONE "/network", USE, sandbox_network, NULL },
	{ HTTP1_GET, ONE "/metrics", READ, sandbox_metrics, NULL },
	{ HTTP1_GET, ONE "/logs", READ, sandbox_logs_v1, NULL },
	{ HTTP1_GET, "/v2" ONE "/logs", READ, sandbox_logs_v2, NULL },

	{ HTTP1_GET, "/templates", READ, template_routes_list_v1, NULL },
	{ HTTP1_GET, "/v2/templates", READ, template_routes_list_v2, NULL },
	{ HTTP1_GET, "/templates/aliases/{template}", READ, template_routes_alias, NULL },
	{ HTTP1_GET, "/templates/{template}", READ, template_routes_get, NULL },
	{ HTTP1_DELETE, "/templates/tags", ADMIN, tag_routes_remove, NULL },
	/* USE for a snapshot, ADMIN for a template, as in the native interface. */
	{ HTTP1_DELETE, "/templates/{template}", TENANT_EITHER | USE | ADMIN,
	  template_changes_delete, NULL },

	{ HTTP1_POST, ONE "/snapshots", USE, snapshot_routes_create, NULL },
	{ HTTP1_GET, "/snapshots", READ, snapshot_routes_list, NULL },
	{ HTTP1_POST, ONE "/fork", USE, fork_routes_v1, NULL },
	{ HTTP1_POST, "/v2" ONE "/fork", USE, fork_routes_v2, NULL },
	{ HTTP1_POST, ONE "/clone", USE, fork_routes_clone, NULL },
	{ HTTP1_POST, ONE "/reset", USE, fork_routes_reset, NULL },

	{ HTTP1_POST, "/templates", USE, unsupported_builds, NULL },
	{ HTTP1_POST, "/v2/templates", USE, unsupported_builds, NULL },
	{ HTTP1_POST, "/v3/templates", USE, build_routes_request, NULL },
	{ HTTP1_POST, "/templates/tags", ADMIN, tag_routes_assign, NULL },
	{ HTTP1_GET, "/templates/{template}/tags", READ, tag_routes_list, NULL },
	{ HTTP1_GET, FILES, USE, upload_routes_link, NULL },
	{ HTTP1_PUT, FILES, 0, upload_routes_put, NULL },
	{ HTTP1_POST, "/templates/{template}", USE, unsupported_builds, NULL },
	/* All tenants can read published templates, as in the native interface. */
	{ HTTP1_PATCH, "/templates/{template}", ADMIN, template_changes_patch_v1, NULL },
	{ HTTP1_PATCH, "/v2/templates/{template}", ADMIN, template_changes_patch_v2, NULL },
	{ HTTP1_POST, BUILD, USE, unsupported_builds, NULL },
	{ HTTP1_POST, "/v2" BUILD, USE, build_routes_start, NULL },
	{ HTTP1_GET, BUILD "/status", READ, build_routes_status, NULL },
	{ HTTP1_GET, BUILD "/logs", READ, build_routes_logs, NULL },

	{ HTTP1_GET, "/volumes", READ, volume_routes_list, NULL },
	{ HTTP1_POST, "/volumes", USE, volume_routes_create, NULL },
	{ HTTP1_GET, "/volumes/{volume}", USE, volume_routes_get, NULL },
	{ HTTP1_DELETE, "/volumes/{volume}", USE, volume_routes_delete, NULL },
	/* These use a volume's own token. */
	{ HTTP1_GET, CONTENT "/path", 0, volume_content_stat, NULL },
	{ HTTP1_PATCH, CONTENT "/path", 0, volume_content_change, NULL },
	{ HTTP1_DELETE, CONTENT "/path", 0, volume_content_remove, NULL },
	{ HTTP1_GET, CONTENT "/dir", 0, volume_content_list, NULL },
	{ HTTP1_POST, CONTENT "/dir", 0, volume_content_make_dir, NULL },
	{ HTTP1_GET, CONTENT "/file", 0, volume_file_read, NULL },
	{ HTTP1_PUT, CONTENT "/file", 0, volume_file_write, NULL },

	/* A key without scope admin may use secrets in sessions, but neither list nor change them.
	 */
	{ HTTP1_GET, "/secrets", ADMIN, secret_routes_list, NULL },
	{ HTTP1_POST, "/secrets", ADMIN, secret_routes_create, NULL },
	{ HTTP1_GET, "/secrets/{secret}", ADMIN, secret_routes_get, NULL },
	{ HTTP1_POST, "/secrets/{secret}", ADMIN, secret_routes_update, NULL },
	{ HTTP1_PUT, "/secrets/{secret}", ADMIN, secret_routes_update, NULL },
	{ HTTP1_DELETE, "/secrets/{secret}", ADMIN, secret_routes_delete, NULL },

	{ HTTP1_GET, "/teams", READ, unsupported_teams, NULL },
	{ HTTP1_GET, "/teams/{team}/metrics", READ, unsupported_teams, NULL },
	{ HTTP1_GET, "/teams/{team}/metrics/max", READ, unsupported_teams, NULL },
	{ HTTP1_GET, "/api-keys", ADMIN, unsupported_teams, NULL },
	{ HTTP1_POST, "/api-keys", ADMIN, unsupported_teams, NULL },
	{ HTTP1_PATCH, "/api-keys/{key}", ADMIN, unsupported_teams, NULL },
	{ HTTP1_DELETE, "/api-keys/{key}", ADMIN, unsupported_teams, NULL },
	{ HTTP1_POST, "/access-tokens", ADMIN, unsupported_teams, NULL },
	{ HTTP1_DELETE, "/access-tokens/{token}", ADMIN, unsupported_teams, NULL },
};

/* The id of a sandbox, perhaps followed by a client's id, or another id. */
static bool take_ids(struct request *r, const struct url_params *params)
{
	struct http1_span sandbox;

	if (params->n == 0)
		return true;
	if (url_decode(params->raw[0], r->id, sizeof(r->id)) < 0 ||
	    (params->n > 1 && url_decode(params->raw[1], r->part, sizeof(r->part)) < 0)) {
		reply_code(r, 404, "not_found", "no object has this id");
		return false;
	}
	if (strstr(r->route->pattern, ONE) == NULL)
		return true;
	sandbox = (struct http1_span){ r->id, strlen(r->id) };
	if (destination_id(sandbox, r->session_id))
		return true;
	reply_code(r, 400, "invalid", "Invalid sandbox ID");
	return false;
}

/* {"code", "message"}, with room for a message of escapes only. */
static void control_fail(struct request *r, const struct failure *f)
{
	char text[256 + 6 * sizeof(((struct err *)NULL)->msg)];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_int(&j, "code", f->status);
	json_text(&j, "message", f->message);
	json_close(&j, '}');
	exchange_reply(r->x, f->status, "application/json; charset=utf-8", j.text, j.len);
}

const struct dialect control_dialect = { .interface = "e2b", .fail = control_fail };

const struct routes control_routes = {
	.table = table, .n = COUNT(table), .dialect = &control_dialect, .take_ids = take_ids
};

/* E2B's own text. */
void control_health(struct request *r)
{
	static const char text[] = "Health check successful";

	exchange_reply(r->x, 200, "text/plain; charset=utf-8", text, sizeof(text) - 1);
}
