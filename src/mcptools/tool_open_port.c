/* tool_open_port.c - the tool `open_port`: the URL of a server in a session (e2b/sandbox_entry.c
 * passes requests for it on). Nothing is opened: a port can be reached as soon as a program in the
 * session listens on it. */
#include "tools.h"

#include <jansson.h>
#include <stdio.h>

#include "config.h"
#include "json_text.h"
#include "json_view.h"
#include "reply.h"

#define URL_MAX (CONFIG_DOMAIN_MAX + REQUEST_ID_MAX + 32)

/* Do clients of E2B require a token for its ports? (e2b/sandbox.h) */
static bool needs_token(const struct store_session *row)
{
	json_t *root = row->client == NULL || row->client[0] == '\0'
			       ? NULL
			       : json_loads(row->client, 0, NULL);
	bool needs = json_is_false(json_object_get(root, "public_traffic"));

	json_decref(root);
	return needs;
}

static void open_port(struct tool_call *c)
{
	struct request *r = c->r;
	const char *domain = core_config(r->core)->domain;
	const struct store_session *row;
	struct err e = { 0 };
	struct session *s;
	char url[URL_MAX];

	if (!tool_take_session(c))
		return;
	s = session_live(r->core, r->tenant, r->session_id, &e);
	if (s == NULL) {
		reply_error(r, &e);
		return;
	}
	row = session_row(s);
	(void)snprintf(url, sizeof(url), "%s://%llu-%s.%s/", c->tls ? "https" : "http",
		       (unsigned long long)tool_arg_number(c, "port", 0), row->id, domain);
	tool_open(c);
	json_text(&c->out, "url", url);
	json_bool(&c->out, "needs_token", needs_token(row));
	json_view_time(&c->out, "expires_at", row->deadline_ms);
	tool_done(c);
}

/* clang-format off */
const struct tool tool_open_port = {
	.shown = {
		.name = "open_port",
		.title = "URL of a server in a session",
		.description =
			"Gives the URL of an HTTP or WebSocket server that listens on a port of a session. Anyone "
			"who can reach this server and knows the URL can use it (unless needs_token is true), until "
			"the session ends at expires_at. Start the server first, with run and background.",
		.input_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"session_id": {"type": "string"},
				"port": {"type": "integer", "minimum": 1, "maximum": 65535}
			},
			"required": ["session_id", "port"], "additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"url": {"type": "string"}, "needs_token": {"type": "boolean"},
				"expires_at": {"type": ["string", "null"]}
			},
			"required": ["url"]
		}),
		.open_world = true,
		.idempotent = true,
	},
	.scope = TENANT_SESSIONS,
	.start = open_port,
};
/* clang-format on */
