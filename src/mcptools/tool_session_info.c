/* tool_session_info.c - the tool `session_info`: one session, or the list of those that live. */
#include "tools.h"

#include "json_text.h"
#include "json_view.h"
#include "policy_select.h"
#include "reply.h"
#include "session_policy.h"

#define LISTED 100

struct listing {
	struct tool_call *c;
	unsigned n;
	bool more;
};

static void write_short(struct json *j, const struct store_session *row)
{
	json_text(j, "session_id", row->id);
	json_text(j, "state", session_shown_name(row));
	json_text(j, "template", row->template);
	json_view_time(j, "created_at", row->created_ms);
	json_view_time(j, "expires_at",
		       row->state == SESSION_PAUSED || row->ended_ms != 0 ? 0 : row->deadline_ms);
}

static void see(struct session *s, void *arg)
{
	struct listing *l = arg;
	const struct store_session *row = session_row(s);

	if (row->id[0] == '\0' || row->state >= SESSION_STOPPING)
		return;
	if (l->n++ >= LISTED) {
		l->more = true;
		return;
	}
	json_open(&l->c->out, NULL, '{');
	write_short(&l->c->out, row);
	json_close(&l->c->out, '}');
}

static void list(struct tool_call *c)
{
	struct listing l = { .c = c };

	tool_open(c);
	json_open(&c->out, "sessions", '[');
	session_each(c->r->core, c->r->tenant, see, &l);
	json_close(&c->out, ']');
	json_bool(&c->out, "more", l.more);
	tool_done(c);
}

static void write_usage(struct json *j, const struct store_session *row, struct session *live)
{
	struct session_sample now = { 0 };

	if (live != NULL && row->state == SESSION_RUNNING)
		session_sample_now(live, &now);
	json_open(j, "usage", '{');
	json_uint(j, "cpu_ms", (now.cpu_us > 0 ? now.cpu_us : row->usage.cpu_us) / 1000);
	json_uint(j, "memory_bytes", now.memory_bytes);
	json_uint(j, "disk_bytes", now.disk_bytes > 0 ? now.disk_bytes : row->usage.disk_bytes);
	json_uint(j, "pids", now.pids);
	json_uint(j, "network_bytes_in", row->usage.net_bytes_in);
	json_uint(j, "network_bytes_out", row->usage.net_bytes_out);
	json_close(j, '}');
}

static void write_one(struct tool_call *c, const struct store_session *row, struct session *live)
{
	const char *reason = session_reason_name((enum session_reason)row->reason);
	char name[POLICY_SELECT_NAME_MAX];
	struct json *j = &c->out;

	policy_select_name(session_policy_of_row(c->r->core, row), name);
	tool_open(c);
	write_short(j, row);
	if (reason[0] != '\0')
		json_text(j, "ended_because", reason);
	json_text(j, "network", name);
	json_view_limits(j, "limits", &row->limits);
	write_usage(j, row, live);
	json_uint(j, "commands_running", live == NULL ? 0 : session_executions_running(live));
	/* Written by spec_session.c, or by another interface. */
	json_raw(j, "metadata",
		 row->metadata == NULL || row->metadata[0] == '\0' ? "{}" : row->metadata);
	tool_done(c);
}

static void session_info(struct tool_call *c)
{
	struct request *r = c->r;
	struct store_session row = { 0 };
	struct session *live = NULL;
	struct err e = { 0 };

	if (json_tree_get(c->q.arguments, "session_id") == NULL) {
		list(c);
		return;
	}
	if (!tool_take_session(c))
		return;
	if (request_owns(r, &live, &e) < 0 ||
	    (live == NULL && session_get(r->core, r->tenant, r->session_id, &row, &e) < 0)) {
		reply_error(r, &e);
		return;
	}
	write_one(c, live != NULL ? session_row(live) : &row, live);
	store_session_release(&row);
}

/* clang-format off */
const struct tool tool_session_info = {
	.shown = {
		.name = "session_info",
		.title = "State of a session, or all sessions",
		.description =
			"Shows a session: state, limits, what it uses, its network policy and when it ends. "
			"Without session_id: lists the sessions that live, at most 100.",
		.input_schema = JSON_TEXT({
			"type": "object", "properties": {"session_id": {"type": "string"}},
			"additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"sessions": {"type": "array", "items": {"type": "object"}},
				"more": {"type": "boolean"}, "session_id": {"type": "string"},
				"state": {"type": "string"}, "template": {"type": "string"},
				"created_at": {"type": ["string", "null"]},
				"expires_at": {"type": ["string", "null"]},
				"ended_because": {"type": "string"},
				"network": {"type": "string"}, "limits": {"type": "object"},
				"usage": {"type": "object"},
				"commands_running": {"type": "integer"},
				"metadata": {"type": "object"}
			}
		}),
		.read_only = true,
	},
	.scope = TENANT_READ,
	.start = session_info,
};
/* clang-format on */
