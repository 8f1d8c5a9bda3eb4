/* tool_open_port.c - the tool `open_port`: the URL of a server in a session (e2b/sandbox_entry.c
 * passes requests for it on). The URL has a token (port_url.h): without it, and without a key, the
 * ports of a session are closed. */
#include "tools.h"

#include "json_text.h"
#include "json_view.h"
#include "port_url.h"
#include "reply.h"

static void open_port(struct tool_call *c)
{
	struct request *r = c->r;
	const struct store_session *row;
	struct err e = { 0 };
	struct session *s;
	char url[PORT_URL_MAX];

	if (!tool_take_session(c))
		return;
	s = session_live(r->core, r->tenant, r->session_id, &e);
	if (s == NULL) {
		reply_error(r, &e);
		return;
	}
	row = session_row(s);
	if (port_url_open(s, (unsigned)tool_arg_number(c, "port", 0), c->tls, request_actor(r), url,
			  &e) < 0) {
		reply_error(r, &e);
		return;
	}
	tool_open(c);
	json_text(&c->out, "url", url);
	json_bool(&c->out, "needs_token", false); /* the URL has it */
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
			"who can reach this server and knows the URL can use it, until "
			"the port is closed or the session ends at expires_at. Start the server first, with run and background.",
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
