/* tool_sessions.c - tools about sessions: `session_info` (one session, or the list of those that
 * live), `get_changes`, `stop` and `open_port`. */
#include <string.h>

#include "daemon/egressctl/session_policy.h"
#include "daemon/execution/execution.h"
#include "front/mcptools/tools.h"
#include "front/web/changes.h"
#include "front/web/json_view.h"
#include "front/web/port_url.h"
#include "front/web/reply.h"
#include "front/web/spec_exec.h"
#include "lib/mcp/server/json_text.h"
#include "lib/policy/policy_select.h"

/* ---- get_changes
 *
 * The tool `get_changes`: files that a session added, changed and deleted since its start, also of
 * an ended session with a kept list. */

#define GET_CHANGES_LISTED 500
#define PATHS_MAX ((size_t)256 << 10) /* bytes of paths in an answer */
#define LIST_JSON_MAX (1U << 20)

enum { ADDED, CHANGED, DELETED, KINDS };
static const char *const names[KINDS] = { "added", "changed", "deleted" };

/* The state of a call. Each kind has a list of its own. */
struct get_changes_listing {
	struct changes changes;
	struct json lists[KINDS];
	unsigned n;
	size_t paths;	 /* their bytes */
	bool more, kept; /* kept: of an ended session */
};

static struct get_changes_listing *get_changes_own(const struct changes *l)
{
	return tool_of(l->r)->own;
}

static void get_changes_release(struct tool_call *c)
{
	struct get_changes_listing *l = c->own;

	changes_release(&l->changes);
	for (unsigned i = 0; i < KINDS; i++)
		json_release(&l->lists[i]);
}

/* Paths in a kept list were masked when it was kept. */
static void on_change(struct changes *changes, const struct diff_record *r)
{
	struct get_changes_listing *l = get_changes_own(changes);
	unsigned kind = r->kind == 'A' ? ADDED : r->kind == 'C' ? CHANGED : DELETED;

	if (r->kind == 'T' || l->n == GET_CHANGES_LISTED ||
	    l->paths + strlen(r->path) > PATHS_MAX) {
		l->more = true;
		return;
	}
	l->n++;
	l->paths += strlen(r->path);
	json_open(&l->lists[kind], NULL, '{');
	if (l->kept)
		tool_shown_stored(&l->lists[kind], "path", r->path);
	else
		tool_shown_in(tool_of(changes->r), &l->lists[kind], "path", r->path);
	if (kind != DELETED)
		json_uint(&l->lists[kind], "size", r->size);
	json_close(&l->lists[kind], '}');
}

/* The one end of the listing. */
static void on_end(struct changes *changes, const struct err *e)
{
	struct tool_call *c = tool_of(changes->r);
	struct get_changes_listing *l = get_changes_own(changes);

	if (e != NULL) {
		reply_error(c->r, e);
		return;
	}
	tool_open(c);
	for (unsigned i = 0; i < KINDS; i++) {
		json_close(&l->lists[i], ']');
		c->out.full |= !json_ok(&l->lists[i]);
		json_raw_bytes(&c->out, names[i], l->lists[i].text, l->lists[i].len);
		json_release(&l->lists[i]); /* a client may take its time to read the answer */
	}
	json_bool(&c->out, "more", l->more);
	tool_done(c);
}

static void get_changes_on_session(struct request *r, struct session *s)
{
	struct get_changes_listing *l = tool_of(r)->own;

	changes_start(&l->changes, r, s);
}

/* A kept list needs no cell. */
static void get_changes(struct tool_call *c)
{
	struct get_changes_listing *l = c->own;

	for (unsigned i = 0; i < KINDS; i++) {
		json_init_heap(&l->lists[i], LIST_JSON_MAX);
		json_open(&l->lists[i], NULL, '[');
	}
	l->changes.on_change = on_change;
	l->changes.on_end = on_end;
	if (!tool_take_session(c))
		return;
	l->kept = session_find(c->r->core, c->r->session_id) == NULL;
	if (!changes_read_kept(&l->changes, c->r))
		request_use(c->r, get_changes_on_session);
}

/* clang-format off */
const struct tool tool_get_changes = {
	.shown = {
		.name = "get_changes",
		.title = "List changed files",
		.description =
			"Lists the files that a session added, changed or deleted since its start, compared with "
			"its template: at most 500, and 256 KiB of paths; `more` says whether there are others. For the text of changes "
			"use run with git diff or diff.",
		.input_schema = JSON_TEXT({
			"type": "object", "properties": {"session_id": {"type": "string"}},
			"required": ["session_id"], "additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"added": {"type": "array", "items": {"type": "object"}},
				"changed": {"type": "array", "items": {"type": "object"}},
				"deleted": {"type": "array", "items": {"type": "object"}},
				"more": {"type": "boolean"}
			},
			"required": ["added", "changed", "deleted", "more"]
		}),
		.read_only = true,
	},
	.scope = TENANT_READ,
	.own_size = sizeof(struct get_changes_listing),
	.start = get_changes,
	.release = get_changes_release,
};
/* clang-format on */

/* ---- stop
 *
 * The tool `stop`: ends an execution with all that it started, or a whole session. */

static void stop_answer(struct tool_call *c, bool stopped)
{
	tool_open(c);
	json_bool(&c->out, "stopped", stopped);
	tool_done(c);
}

static void on_killed(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		stop_answer(tool_of(r), true);
}

/* The signal is read by the reader of the native interface. */
static int send_signal(struct tool_call *c, struct execution *x, const struct json_node *signal,
		       struct err *e)
{
	char body[64];
	struct json j;
	int number;

	json_init(&j, body, sizeof(body));
	json_open(&j, NULL, '{');
	json_tree_write(&j, "signal", signal);
	json_close(&j, '}');
	if (!json_ok(&j))
		return err_set(e, ERR_INVALID, "signal: must be a signal like TERM");
	return spec_exec_signal(j.text, j.len, &number, e) < 0 ? -1
							       : execution_signal(x, number, e);
}

/* A paused session was resumed: its processes cannot end while they are frozen. */
static void on_session(struct request *r, struct session *s)
{
	struct tool_call *c = tool_of(r);
	const struct json_node *signal = json_tree_get(c->q.arguments, "signal");
	struct execution *x = execution_live(s, r->id);
	struct store_execution row = { 0 };
	struct err e = { 0 };

	r->wait.on_done = on_killed;
	if (x != NULL && signal != NULL && !execution_ended(x)) {
		if (send_signal(c, x, signal, &e) < 0)
			reply_error(r, &e);
		else
			stop_answer(c, true);
	} else if (x != NULL) {
		execution_kill(x, &r->wait);
	} else if (execution_get(r->core, r->session_id, r->id, &row, &e) < 0) {
		reply_error(r, &e);
	} else { /* processes that it left behind */
		uint64_t mark = row.mark;

		store_execution_release(&row);
		execution_kill_ended(s, mark, &r->wait);
	}
}

/* Its executions end with it. */
static void stop_session(struct tool_call *c)
{
	struct request *r = c->r;
	struct err e = { 0 };

	if (!tool_take_session(c))
		return;
	if (session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		stop_answer(c, true);
}

/* stopped false: there was nothing left to stop. */
static void stop_execution(struct tool_call *c)
{
	struct session *live = NULL;
	struct err e = { 0 };

	if (!tool_take_execution(c))
		return;
	if (request_owns(c->r, &live, &e) < 0)
		reply_error(c->r, &e);
	else if (live == NULL)
		stop_answer(c, false); /* it ended with its session */
	else
		request_use(c->r, on_session);
}

static void tool_stop_begin(struct tool_call *c)
{
	bool execution = json_tree_get(c->q.arguments, "execution_id") != NULL;
	bool session = json_tree_get(c->q.arguments, "session_id") != NULL;

	if (execution == session)
		tool_failed(c,
			    "Give either execution_id, to end a command, or session_id, to end a "
			    "session with its files.");
	else if (execution)
		stop_execution(c);
	else
		stop_session(c);
}

/* clang-format off */
const struct tool tool_stop = {
	.shown = {
		.name = "stop",
		.title = "Stop a command or a session",
		.description =
			"Ends a command with all processes that it started (execution_id), or a session with "
			"its files (session_id). With signal the command itself gets that signal instead and "
			"may go on. Ending what has ended is no error.",
		.input_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"execution_id": {"type": "string"},
				"session_id": {"type": "string"},
				"signal": {
					"type": "string", "maxLength": 20,
					"description": "like TERM or INT, for execution_id"
				}
			},
			"additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"stopped": {
					"type": "boolean",
					"description": "false: there was nothing left to stop"
				}
			},
			"required": ["stopped"]
		}),
		.destructive = true,
		.idempotent = true,
	},
	.scope = TENANT_SESSIONS,
	.start = tool_stop_begin,
};
/* clang-format on */

/* ---- open_port
 *
 * The tool `open_port`: the URL of a server in a session (front/e2b/control/sandbox_entry.c
 * passes requests for it on). The URL has a token (port_url.h): without it, and without a key, the
 * ports of a session are closed. */

/* Answered at once. Opening a port again gives its URL again. */
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

/* ---- session_info
 *
 * One session as an object, or the live sessions of the tenant. */

#define LISTED 100

struct sessions_listing {
	struct tool_call *c;
	unsigned n;
	bool more;
};

/* A paused session has no end. */
static void write_short(struct json *j, const struct store_session *row)
{
	json_text(j, "session_id", row->id);
	json_text(j, "state", session_shown_name(row));
	json_text(j, "template", row->template);
	json_view_time(j, "created_at", row->created_ms);
	json_view_time(j, "expires_at",
		       row->state == SESSION_PAUSED || row->ended_ms != 0 ? 0 : row->deadline_ms);
}

static void session_info_see(struct session *s, void *arg)
{
	struct sessions_listing *l = arg;
	const struct store_session *row = session_row(s);

	if (row->id[0] == '\0' || row->state >= SESSION_ENDING)
		return;
	if (l->n++ >= LISTED) {
		l->more = true;
		return;
	}
	json_open(&l->c->out, NULL, '{');
	write_short(&l->c->out, row);
	json_close(&l->c->out, '}');
}

/* Sessions beyond LISTED only set more. */
static void session_info_list(struct tool_call *c)
{
	struct sessions_listing l = { .c = c };

	tool_open(c);
	json_open(&c->out, "sessions", '[');
	session_each(c->r->core, c->r->tenant, session_info_see, &l);
	json_close(&c->out, ']');
	json_bool(&c->out, "more", l.more);
	tool_done(c);
}

/* The kernel's numbers of a running session, otherwise the last known ones. */
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
		session_info_list(c);
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
