/* tool_run.c - the tool `run`: a command, or code of a language, in a session or in a fresh one.
 *
 * A fresh session exists for this call only: it is ended before the answer, when the client is
 * gone, and by mcptools_recover() if the server dies first. In any other session a cancelled call
 * ends only the program that it started. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/execution/execution.h"
#include "daemon/store/store_net.h"
#include "front/mcptools/run_end.h"
#include "front/mcptools/tools.h"
#include "front/web/exec_start.h"
#include "front/web/reply.h"
#include "front/web/session_request.h"
#include "front/web/spec_exec.h"
#include "lib/base/log.h"
#include "lib/mcp/server/json_text.h"

/* ---- killed later
 *
 * Ends an execution for a client that does not wait for it any more. */

struct execution;

/* The completion owns itself, since its request has ended. */
static void on_done(struct completion *w, const struct err *e)
{
	if (e != NULL)
		log_warn("the processes of a cancelled call were not ended", "error=%s", e->msg);
	free(w);
}

/* Kill it with all processes that it started. */
static void kill_later(struct execution *x)
{
	struct completion *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		log_error("out of memory: a cancelled call goes on", "execution_id=%s",
			  execution_row(x)->id);
		return;
	}
	w->on_done = on_done;
	execution_kill(x, w);
}

/* ---- the tool */

#define BODY_MAX (2U << 20)
#define TIMEOUT_S 120	      /* by default */
#define FRESH_MARGIN_MS 60000 /* a fresh session lives that much longer than its command may */
#define CODE_TEMPLATE "code-interpreter-v1" /* whose interpreter runs already */

/* The state of a call. fresh: the session is this call's own. */
struct tool_run {
	struct session_making making;
	struct spec_exec spec;
	bool has_spec, fresh, background;
	uint64_t timeout_s;
	struct execution_follower follower;
	struct run_end end;
	struct run_progress progress;
};

static struct tool_run *run_own(const struct tool_call *c)
{
	return c->own;
}

static bool is_there(const struct run_end *n)
{
	return run_own(n->c)->follower.link != NULL;
}

/* Repeatable. */
static void end_fresh(struct tool_call *c)
{
	struct request *r = c->r;
	struct err e;

	if (!run_own(c)->fresh || r->session_id[0] == '\0')
		return;
	IGNORED(session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e),
		"then the session ends by its timeout");
	run_own(c)->fresh = false;
}

/* A fresh session is ended by run_release(), with all that runs in it. */
static void run_cancel(struct tool_call *c)
{
	struct tool_run *u = run_own(c);

	if (!u->fresh && u->follower.link != NULL)
		kill_later(u->follower.execution);
}

static void run_release(struct tool_call *c)
{
	struct tool_run *u = run_own(c);

	run_end_release(&u->end);
	execution_unfollow(&u->follower);
	session_making_release(&u->making);
	end_fresh(c);
	if (u->has_spec)
		spec_exec_release(&u->spec);
	run_progress_release(&u->progress);
}

/* False before the start and after the end. */
static bool tool_run_progress(struct tool_call *c, uint64_t *ret_done, struct buf *message)
{
	struct tool_run *u = run_own(c);

	if (u->follower.link == NULL)
		return false;
	run_progress_show(&u->progress, c, u->follower.execution, ret_done, message);
	return true;
}

/* ---- the end
 *
 * on_waited() comes when the execution has ended. run_end.c writes the result, and on_written()
 * answers. */

/* The fresh session is ended before its result is sent. */
static void on_written(struct run_end *n)
{
	end_fresh(n->c);
	tool_done(n->c);
}

static void on_waited(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct tool_call *c = tool_of(r);
	struct tool_run *u = run_own(c);
	struct err e = { 0 };

	if (why == NULL && u->follower.link != NULL) {
		run_end_start(&u->end);
		return;
	}
	IGNORED(err_set_reason(&e, REASON_GONE, "session %s has ended", r->session_id), "answered");
	reply_error(r, why != NULL ? why : &e);
}

/* The program continues: the model reads the rest later. */
static void answer_running(struct tool_call *c)
{
	const struct store_execution *row = execution_row(run_own(c)->follower.execution);

	tool_open(c);
	json_text(&c->out, "execution_id", row->id);
	json_bool(&c->out, "running", true);
	tool_done(c);
}

/* Only an execution in a client's own session continues. */
static void run_drain(struct tool_call *c)
{
	completion_cancel(&c->r->wait);
	if (run_own(c)->follower.link != NULL && !run_own(c)->fresh)
		answer_running(c);
	else
		tool_failed(c, "The server is being restarted. Call the tool again.");
}

/* ---- the start
 *
 * tool_run_begin() reads the arguments. on_session() follows with the session of the client, or by
 * on_made() with a fresh one. */

/* -1: e is the answer. An execution without its input may have been started. */
static int tool_run_start(struct tool_call *c, struct session *s, struct err *e)
{
	struct tool_run *u = run_own(c);
	struct execution *x;

	u->spec.spec.actor = request_actor(c->r);
	if (code_begin(c->r, s, &u->spec, e) < 0 ||
	    store_net_last(core_store(c->r->core), &u->end.net_seq, e) < 0)
		return -1;
	if (u->spec.has_input && stdin_feeder_check(u->spec.input_len, e) < 0)
		return -1;
	x = execution_start(s, &u->spec.spec, e);
	if (x == NULL)
		return -1;
	execution_follow(x, &u->follower);
	if (u->spec.has_input && stdin_feeder_start(x, u->spec.input, u->spec.input_len, e) < 0)
		return -1;
	u->spec.input = NULL;
	return 0;
}

static void ignore_output(struct execution_follower *f)
{
	(void)f; /* followed only so that it stays in memory */
}

/* In the background the call ends here. */
static void on_session(struct request *r, struct session *s)
{
	struct tool_call *c = tool_of(r);
	struct tool_run *u = run_own(c);
	struct err e = { 0 };

	u->follower.on_progress = ignore_output;
	if (tool_run_start(c, s, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (u->background) {
		answer_running(c);
		return;
	}
	u->end.c = c;
	u->end.x = u->follower.execution;
	u->end.is_code = u->spec.is_code;
	u->end.with_changes = tool_arg_bool(c, "report_changes");
	u->end.is_there = is_there;
	u->end.on_written = on_written;
	r->wait.on_done = on_waited;
	execution_wait(u->follower.execution, &r->wait);
}

static void on_made(struct session_making *m, struct session *s, const struct err *e)
{
	if (e != NULL)
		reply_error(m->r, e);
	else
		on_session(m->r, s);
}

/* From the default template, or from the one for code. */
static void start_fresh(struct tool_call *c)
{
	struct tool_run *u = run_own(c);
	struct session_spec spec = { .profile = -1,
				     .template = u->spec.is_code ? CODE_TEMPLATE : NULL,
				     .client = TOOLS_FRESH,
				     .timeout_ms = u->timeout_s * 1000 + FRESH_MARGIN_MS,
				     .timeout_given = true };
	struct err e = { 0 };
	unsigned retry_s = 0;

	u->fresh = true;
	u->making.on_made = on_made;
	if (session_making_start(&u->making, c->r, &spec, &retry_s, &e) < 0)
		reply_refusal(c->r, &e, retry_s);
}

/* The arguments as the body of a native request, whose reader checks the rest. */
static int read_spec(struct tool_call *c, struct tool_run *u, struct err *e)
{
	static const char *const same[] = { "command", "code", "language", "context",
					    "cwd",     "env",  "stdin",	   "background" };
	struct json j;
	int done;

	json_init_heap(&j, BODY_MAX);
	json_open(&j, NULL, '{');
	for (size_t i = 0; i < COUNT(same); i++) {
		const struct json_node *v = json_tree_get(c->q.arguments, same[i]);

		if (v != NULL)
			json_tree_write(&j, same[i], v);
	}
	json_uint(&j, "timeout", u->timeout_s);
	json_close(&j, '}');
	u->has_spec = json_ok(&j);
	done = u->has_spec ? spec_exec_read(j.text, j.len, &u->spec, e)
			   : err_set(e, ERR_INVALID, "the arguments are too large");
	json_release(&j);
	return done;
}

static void tool_run_begin(struct tool_call *c)
{
	struct tool_run *u = run_own(c);
	struct err e = { 0 };

	u->end.c = c;
	if ((json_tree_get(c->q.arguments, "command") != NULL) ==
	    (json_tree_get(c->q.arguments, "code") != NULL)) {
		tool_failed(c, "Give either command, for sh -c, or code with its language.");
		return;
	}
	u->timeout_s = tool_arg_number(c, "timeout_s", TIMEOUT_S);
	u->background = tool_arg_bool(c, "background");
	if (read_spec(c, u, &e) < 0) {
		reply_error(c->r, &e);
	} else if (json_tree_get(c->q.arguments, "session_id") != NULL) {
		if (tool_take_session(c))
			request_use(c->r, on_session);
	} else if (u->background) {
		tool_failed(c, "background needs session_id: a session for one call ends with it. "
			       "Call create_session first.");
	} else {
		start_fresh(c);
	}
}

/* clang-format off */
const struct tool tool_run = {
	.shown = {
		.name = "run",
		.title = "Run a command or code",
		.description = "Runs a shell command (or code in a language) in a sandbox and waits for its end. "
			"Without session_id a fresh sandbox is made for this call and removed after it, with all "
			"its files. stdout and stderr have at most 16 KiB each, their beginning and end; "
			"read_output has the rest while the session exists. The command is ended after timeout_s "
			"(120 by default). With background it goes on after the answer: use read_output and stop. "
			"denied lists what the network policy refused meanwhile. code keeps its variables between "
			"calls in a session; its results come as text and pictures.",
		.input_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"session_id": {
					"type": "string",
					"description": "of create_session; left out: a fresh sandbox, gone after this call"
				},
				"command": {"type": "string", "minLength": 1, "description": "for sh -c"},
				"code": {
					"type": "string", "minLength": 1,
					"description": "instead of command; state is kept between calls in one session"
				},
				"language": {
					"type": "string",
					"enum": [
						"python", "javascript", "js", "typescript", "ts",
						"bash", "sh", "r", "java"
					],
					"description": "of code"
				},
				"context": {
					"type": "string",
					"description": "name of the state that code uses; left out: the language's default"
				},
				"cwd": {"type": "string"},
				"env": {"type": "object", "additionalProperties": {"type": "string"}},
				"stdin": {"type": "string"},
				"timeout_s": {"type": "integer", "minimum": 1, "maximum": 86400},
				"background": {"type": "boolean"},
				"report_changes": {
					"type": "boolean",
					"description": "list the files that it changed, at most 50; takes longer"
				}
			},
			"additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"execution_id": {"type": "string"},
				"running": {"type": "boolean"},
				"exit_code": {"type": "integer"}, "signal": {"type": "integer"},
				"limit": {"type": "string"},
				"limits_hit": {"type": "array", "items": {"type": "string"}},
				"error": {"type": "string"},
				"duration_ms": {"type": "integer"},
				"stdout": {"type": "string"}, "stderr": {"type": "string"},
				"truncated": {"type": "boolean"},
				"files_changed": {"type": "array", "items": {"type": "object"}},
				"more_files_changed": {"type": "boolean"},
				"results": {"type": "array", "items": {"type": "object"}},
				"more_results": {"type": "boolean"},
				"code_error": {"type": "object"},
				"denied": {"type": "array", "items": {"type": "object"}}
			},
			"required": ["execution_id", "running"]
		}),
		.open_world = true,
		.destructive = true,
	},
	.scope = TENANT_SESSIONS,
	.own_size = sizeof(struct tool_run),
	.start = tool_run_begin,
	.progress = tool_run_progress,
	.cancel = run_cancel,
	.drain = run_drain,
	.release = run_release,
};
/* clang-format on */
