/* tool_stop.c - the tool `stop`: ends an execution with all that it started, or a whole session. */
#include "tools.h"

#include "execution.h"
#include "json_text.h"
#include "reply.h"
#include "spec_exec.h"

static void answer(struct tool_call *c, bool stopped)
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
		answer(tool_of(r), true);
}

static int send_signal(struct tool_call *c, struct execution *x, const struct json_node *signal,
		       struct err *e)
{
	char body[64];
	struct json j;
	int number;

	(void)c;
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
			answer(c, true);
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

static void stop_session(struct tool_call *c)
{
	struct request *r = c->r;
	struct err e = { 0 };

	if (!tool_take_session(c))
		return;
	if (session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		answer(c, true);
}

static void stop_execution(struct tool_call *c)
{
	struct session *live = NULL;
	struct err e = { 0 };

	if (!tool_take_execution(c))
		return;
	if (request_owns(c->r, &live, &e) < 0)
		reply_error(c->r, &e);
	else if (live == NULL)
		answer(c, false); /* it ended with its session */
	else
		request_use(c->r, on_session);
}

static void stop(struct tool_call *c)
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
	.start = stop,
};
/* clang-format on */
