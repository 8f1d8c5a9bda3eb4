/* process.c - the unary calls of the process service, but for input: List, Update, SendSignal,
 * CloseStdin. */
#include "front/e2b/envd/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/sandbox.h"
#include "front/e2b/envd/process_event.h"
#include "front/e2b/envd/process_feed.h"
#include "front/e2b/envd/process_spec.h"
#include "front/e2b/envd/rpc.h"
#include "front/web/reply.h"
#include "lib/base/str.h"

/* ---- which process */

/* left: ended, with its output still open. */
struct process_search {
	const struct process_selector *which;
	struct execution *running, *left;
};

static void process_find_on_execution(struct execution *x, void *arg)
{
	struct process_search *f = arg;
	bool is = f->which->tag == NULL
			  ? f->which->pid != 0 && execution_pid(x) == f->which->pid
			  : process_spec_has_tag(execution_row(x)->client, f->which->tag);

	if (!is || execution_complete(x))
		return;
	if (!execution_ended(x))
		f->running = x;
	else
		f->left = x;
}

/* A running process wins over one with the same pid that has ended. */
struct execution *process_find(struct session *s, const struct process_selector *which)
{
	struct process_search f = { .which = which };

	execution_each(s, process_find_on_execution, &f);
	return f.running != NULL ? f.running : f.left;
}

void process_find_fail(struct request *r, const struct process_selector *which)
{
	if (which->tag != NULL)
		rpc_fail(r, RPC_NOT_FOUND, "process with tag %.256s not found", which->tag);
	else
		rpc_fail(r, RPC_NOT_FOUND, "process with pid %u not found", which->pid);
}

void process_find_refuse(struct request *r, const struct err *e)
{
	rpc_fail(r, e->code == ERR_UNSUPPORTED ? RPC_UNIMPLEMENTED : RPC_INVALID_ARGUMENT, "%s",
		 e->msg);
}

/* ---- start
 *
 * Start: a process of the contract is an execution that continues without its
 * client, whose output is kept for its streams, and whose timeout is Connect-Timeout-Ms. */

/* The state of Start. The spec is freed when the process was started. */
struct process_start {
	struct process_feed feed; /* first, see rpc.h */
	struct process_spec spec;
	size_t counted; /* bytes of it, see rpc_count() */
	uint64_t timeout_ms;
};

static void forget_spec(struct process_start *st)
{
	process_spec_release(&st->spec);
	rpc_uncount(st->counted);
	st->counted = 0;
}

static void process_start_release(struct request *r, bool answered)
{
	struct process_start *st = r->state;

	process_feed_release(&st->feed);
	forget_spec(st);
}

/* Variables of the client and of the sandbox win. */
static void set_defaults(struct process_spec *p, const struct store_session *row, struct core *c)
{
	const char *template = sandbox_template_id(c, row);

	process_spec_default(p, row->env, row->env_len, "E2B_SANDBOX", "true");
	process_spec_default(p, row->env, row->env_len, "E2B_SANDBOX_ID", row->id);
	process_spec_default(p, row->env, row->env_len, "E2B_TEMPLATE_ID",
			     template == NULL ? "" : template);
}

/* max 0: no bound. */
static uint64_t at_most(uint64_t value, uint64_t max)
{
	return max > 0 && value > max ? max : value;
}

/* process_feed.c answers from here on. */
static void process_start_on_session(struct request *r, struct session *s)
{
	const struct config *g = core_config(r->core);
	struct process_start *st = r->state;
	struct process_spec *p = &st->spec;
	struct execution_spec spec = {
		.cwd = p->cwd,
		.user = st->feed.user,
		.timeout_ms = at_most(st->timeout_ms, g->exec_timeout_max_ms),
		.output_limit = at_most(g->e2b_output_limit, g->output_limit_max),
		.stdin_open = p->stdin_open,
		.tty = p->pty,
		.rows = p->rows,
		.cols = p->cols,
		.background = true,
		.client = p->client,
		.actor = request_actor(r),
	};
	OWN_MEM char *text = process_spec_text(p);
	struct execution *x;
	struct err e = { 0 };

	set_defaults(p, session_row(s), r->core);
	spec.argc = p->argc;
	spec.envc = p->envc;
	spec.strings = (const char *)p->strings.data;
	spec.strings_len = p->strings.len;
	spec.text = text;
	x = execution_start(s, &spec, &e);
	forget_spec(st); /* it may be large, and the stream may be long */
	if (x == NULL)
		reply_error(r, &e);
	else
		process_feed_begin(&st->feed, r, s, x, true);
}

/* Large specs are counted until the process is started. */
static void process_start_on_message(struct request *r, json_t *message)
{
	struct process_start *st = request_state(r, sizeof(*st), process_start_release);
	struct err e = { 0 };

	if (st == NULL)
		return;
	if (envd_user_of_rpc(r, st->feed.user, &e) < 0) {
		rpc_fail(r, RPC_UNAUTHENTICATED, "%s", e.msg);
		return;
	}
	if (process_spec_read(message, &st->spec, &e) < 0 ||
	    rpc_timeout(r, &st->timeout_ms, &e) < 0) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
		return;
	}
	if (request_stream(r, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (!rpc_count(rpc_countable(st->spec.strings.len))) {
		rpc_fail(r, RPC_RESOURCE_EXHAUSTED, "too many large requests at a time, try again");
		return;
	}
	st->counted = rpc_countable(st->spec.strings.len);
	str_copy(st->feed.cwd, st->spec.cwd == NULL ? "" : st->spec.cwd);
	request_use(r, process_start_on_session);
}

void process_start(struct request *r)
{
	rpc_read_stream(r, process_start_on_message);
}

/* ---- connect
 *
 * Connect: follows a process from now on. For one that ended a moment ago the
 * end is taken from its record. */

/* The state of Connect. */
struct connect {
	struct process_feed feed; /* first, see rpc.h */
	struct process_selector which;
};

static void process_connect_release(struct request *r, bool answered)
{
	struct connect *c = r->state;

	process_feed_release(&c->feed);
	process_selector_release(&c->which);
}

/* Both messages were sent at once. */
static void ignore_room(struct request *r)
{
}

/* The whole stream of a process that has ended: start and end. */
static void send_ended(struct request *r, uint32_t pid, const struct store_execution *row)
{
	struct connect *c = r->state;
	char start[PROCESS_EVENT_MAX], end[PROCESS_EVENT_MAX];
	struct json j;

	c->feed.fd = -1;
	rpc_stream_begin(&c->feed.stream, r, PROCESS_EVENT_KEEPALIVE, ignore_room, NULL);
	json_init(&j, start, sizeof(start));
	process_event_start(&j, pid);
	rpc_stream_send(&c->feed.stream, j.text, j.len);
	json_init(&j, end, sizeof(end));
	process_event_end(&j, row);
	if (rpc_stream_ready(&c->feed.stream)) /* the first bytes of an answer always fit */
		rpc_stream_send(&c->feed.stream, j.text, j.len);
	rpc_stream_end(&c->feed.stream, RPC_OK, NULL);
}

/* Only by pid: past processes are not kept by tag. */
static void connect_to_ended(struct request *r, struct session *s)
{
	const struct connect *c = r->state;
	const char *id = c->which.tag != NULL ? NULL : execution_past_by_pid(s, c->which.pid);
	struct store_execution row = { 0 };
	struct err e = { 0 };

	if (id == NULL || execution_get(r->core, r->session_id, id, &row, &e) < 0) {
		process_find_fail(r, &c->which);
		return;
	}
	send_ended(r, c->which.pid, &row);
	store_execution_release(&row);
}

static void on_session(struct request *r, struct session *s)
{
	struct connect *c = r->state;
	struct execution *x = process_find(s, &c->which);

	if (x == NULL)
		connect_to_ended(r, s);
	else
		process_feed_begin(&c->feed, r, s, x, false);
}

static void on_message(struct request *r, json_t *message)
{
	struct connect *c = request_state(r, sizeof(*c), process_connect_release);
	struct err e = { 0 };
	uint64_t ms;

	if (c == NULL)
		return;
	if (process_selector_read(message, &c->which, &e) < 0 || rpc_timeout(r, &ms, &e) < 0)
		process_find_refuse(r, &e);
	else if (request_stream(r, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}

void process_connect(struct request *r)
{
	rpc_read_stream(r, on_message);
}

/* ---- list and signal */

#define SEEN_MAX 4096 /* executions of a session: the most executions_max can be */

/* ---- List */

struct one {
	uint32_t pid;
	struct execution *x;
};

/* Sorted by pid for the answer. */
struct process_seen {
	size_t n;
	struct one list[SEEN_MAX];
};

static void on_execution(struct execution *x, void *arg)
{
	struct process_seen *s = arg;

	if (execution_pid(x) != 0 && !execution_ended(x) && s->n < SEEN_MAX)
		s->list[s->n++] = (struct one){ execution_pid(x), x };
}

static int by_pid(const void *a, const void *b)
{
	uint32_t p = ((const struct one *)a)->pid, q = ((const struct one *)b)->pid;

	return p < q ? -1 : p > q;
}

static void on_session_to_list(struct request *r, struct session *s)
{
	OWN_MEM struct process_seen *seen = calloc(1, sizeof(*seen));
	struct json j;

	if (seen == NULL) {
		rpc_fail(r, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	execution_each(s, on_execution, seen);
	qsort(seen->list, seen->n, sizeof(seen->list[0]), by_pid);
	json_init_heap(&j, REPLY_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "processes", '[');
	for (size_t i = 0; i < seen->n; i++) {
		const struct store_execution *row = execution_row(seen->list[i].x);

		json_open(&j, NULL, '{');
		process_spec_show(&j, row->client, row->command);
		json_uint(&j, "pid", seen->list[i].pid);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	rpc_reply(r, &j);
}

static void on_list(struct request *r, json_t *message)
{
	(void)message; /* an empty one */
	request_use(r, on_session_to_list);
}

void process_list(struct request *r)
{
	rpc_read(r, on_list);
}

/* ---- the rest: read, then use the session, then do it to the process */

/* One order for three calls. Each reads its own members. */
struct process_order {
	struct process_selector which;
	int signal;
	bool has_size;
	uint16_t rows, cols;
};

static void process_release(struct request *r, bool answered)
{
	struct process_order *o = r->state;

	process_selector_release(&o->which);
}

/* The order with its selector read. Otherwise answer. */
static struct process_order *new_order(struct request *r, const json_t *message)
{
	struct process_order *o = request_state(r, sizeof(*o), process_release);
	struct err e = { 0 };

	if (o == NULL)
		return NULL;
	if (process_selector_read(message, &o->which, &e) == 0)
		return o;
	process_find_refuse(r, &e);
	return NULL;
}

/* The process. Otherwise answer. */
static struct execution *process_find_named(struct request *r, struct session *s)
{
	const struct process_order *o = r->state;
	struct execution *x = process_find(s, &o->which);

	if (x == NULL)
		process_find_fail(r, &o->which);
	return x;
}

/* ---- SendSignal */

static void on_killed(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e == NULL)
		rpc_reply_empty(r);
	else
		rpc_fail(r, RPC_INTERNAL, "error sending signal: %s", e->msg);
}

/* The process is looked up by the selector when the sandbox runs. */
static void on_session_to_signal(struct request *r, struct session *s)
{
	const struct process_order *o = r->state;
	struct execution *x = process_find_named(r, s);
	struct err e = { 0 };

	if (x == NULL)
		return;
	if (o->signal == 0) {
		rpc_fail(r, RPC_UNIMPLEMENTED,
			 "invalid signal: only SIGNAL_SIGKILL and SIGNAL_SIGTERM are supported");
		return;
	}
	if (execution_ended(
		    x)) { /* processes that hold its output open are killed, too, so that it ends */
		r->wait.on_done = on_killed;
		execution_kill(x, &r->wait);
		return;
	}
	if (execution_signal(x, o->signal, &e) < 0)
		rpc_fail(r, RPC_INTERNAL, "error sending signal: %s", e.msg);
	else
		rpc_reply_empty(r);
}

/* 0: no supported signal. */
static int read_signal(const json_t *message)
{
	const json_t *value = rpc_member(message, "signal");
	const char *name = json_is_string(value) ? json_string_value(value) : "";

	if (json_is_integer(value) &&
	    (json_integer_value(value) == SIGKILL || json_integer_value(value) == SIGTERM))
		return (int)json_integer_value(value);
	return strcmp(name, "SIGNAL_SIGKILL") == 0   ? SIGKILL
	       : strcmp(name, "SIGNAL_SIGTERM") == 0 ? SIGTERM
						     : 0;
}

static void on_signal(struct request *r, json_t *message)
{
	struct process_order *o = new_order(r, message);

	if (o == NULL)
		return;
	o->signal = read_signal(message);
	request_use(r, on_session_to_signal);
}

void process_send_signal(struct request *r)
{
	rpc_read(r, on_signal);
}

/* ---- Update */

static void on_session_to_update(struct request *r, struct session *s)
{
	const struct process_order *o = r->state;
	struct execution *x = process_find_named(r, s);
	struct err e = { 0 };

	if (x == NULL)
		return;
	if (o->has_size && !execution_row(x)->tty)
		rpc_fail(r, RPC_INTERNAL, "error resizing tty: tty not assigned to process");
	else if (o->has_size && execution_resize(x, o->rows, o->cols, &e) < 0)
		rpc_fail(r, RPC_INTERNAL, "error resizing tty: %s", e.msg);
	else
		rpc_reply_empty(r);
}

/* Sizes beyond a terminal's bounds are cut. */
static int read_size(const json_t *message, struct process_order *o, struct err *e)
{
	json_t *pty = NULL, *size = NULL;
	uint32_t rows = 0, cols = 0;

	if (rpc_object(message, "pty", &pty, e) < 0 || rpc_object(pty, "size", &size, e) < 0 ||
	    rpc_uint32(size, "rows", &rows, e) < 0 || rpc_uint32(size, "cols", &cols, e) < 0)
		return -1;
	o->has_size = pty != NULL;
	o->rows = rows > UINT16_MAX ? UINT16_MAX : (uint16_t)rows;
	o->cols = cols > UINT16_MAX ? UINT16_MAX : (uint16_t)cols;
	return 0;
}

static void on_update(struct request *r, json_t *message)
{
	struct process_order *o = new_order(r, message);
	struct err e = { 0 };

	if (o == NULL)
		return;
	if (read_size(message, o, &e) < 0)
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
	else
		request_use(r, on_session_to_update);
}

void process_update(struct request *r)
{
	rpc_read(r, on_update);
}

/* ---- CloseStdin */

static void on_session_to_close(struct request *r, struct session *s)
{
	struct execution *x = process_find_named(r, s);

	if (x == NULL)
		return;
	if (execution_row(x)->tty) {
		rpc_fail(r, RPC_INTERNAL,
			 "error closing stdin: cannot close stdin for PTY process - send Ctrl+D "
			 "(0x04) instead");
		return;
	}
	execution_close_input(x);
	rpc_reply_empty(r);
}

static void on_close(struct request *r, json_t *message)
{
	if (new_order(r, message) != NULL)
		request_use(r, on_session_to_close);
}

void process_close_stdin(struct request *r)
{
	rpc_read(r, on_close);
}
