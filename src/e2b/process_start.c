/* process_start.c - Start: a process of the contract is an execution that continues without its
 * client, whose output is kept for its streams, and whose timeout is Connect-Timeout-Ms. */
#include <stdio.h>

#include "e2b_private.h"
#include "process_feed.h"
#include "process_spec.h"
#include "reply.h"
#include "sandbox.h"

struct start {
	struct process_feed feed; /* first, see rpc.h */
	struct process_spec spec;
	size_t counted; /* bytes of it, see rpc_count() */
	uint64_t timeout_ms;
};

static void forget_spec(struct start *st)
{
	process_spec_release(&st->spec);
	rpc_uncount(st->counted);
	st->counted = 0;
}

static void release(struct request *r, bool answered)
{
	struct start *st = r->state;

	(void)answered;
	process_feed_release(&st->feed);
	forget_spec(st);
}

static void set_defaults(struct process_spec *p, const struct store_session *row, struct core *c)
{
	const char *template = sandbox_template_id(c, row);

	process_spec_default(p, row->env, row->env_len, "E2B_SANDBOX", "true");
	process_spec_default(p, row->env, row->env_len, "E2B_SANDBOX_ID", row->id);
	process_spec_default(p, row->env, row->env_len, "E2B_TEMPLATE_ID",
			     template == NULL ? "" : template);
}

static uint64_t at_most(uint64_t value, uint64_t max)
{
	return max > 0 && value > max ? max : value;
}

static void on_session(struct request *r, struct session *s)
{
	const struct config *g = core_config(r->core);
	struct start *st = r->state;
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

static void on_message(struct request *r, json_t *message)
{
	struct start *st = request_state(r, sizeof(*st), release);
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
	(void)snprintf(st->feed.cwd, sizeof(st->feed.cwd), "%s",
		       st->spec.cwd == NULL ? "" : st->spec.cwd);
	request_use(r, on_session);
}

void process_start(struct request *r)
{
	rpc_read_stream(r, on_message);
}
