/* execution_adopt.c - executions whose program runs already: those of an earlier daemon, reported
 * as held by PID 1, the start command of a cell of the pool, and programs of a saved memory.
 *
 * A row and a program belong together if their handles are the same. A program without a row is the
 * caller's to forget.
 */
#include "daemon/execution/execution_adopt.h"

#include "daemon/cells/live_cell.h"
#include "daemon/execution/code_execution.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/execution/execution_io.h"
#include "daemon/execution/execution_marks.h"
#include "daemon/node/core_private.h"
#include "daemon/output/output_log.h"
#include "daemon/session/session.h"
#include "daemon/tenant/record_quota.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"

/* The log does not count cut bytes, so the totals come from the row. */
static void count_cut(struct execution *x)
{
	const uint64_t known[] = { x->row.out_bytes, x->row.err_bytes, x->row.result_bytes };

	for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
		if (x->log.written[i] < known[i])
			x->log.written[i] = known[i];
}

/* The log is reopened where it ended. Its size, not the row, says how much was kept, because the
 * row is written only at the end. */
int execution_recover(struct session *s, const struct store_execution *row, struct err *e)
{
	struct execution *x = execution_new(s);

	if (store_execution_get(s->core->store, row->id, &x->row, e) < 0) {
		execution_free(x);
		return -1;
	}
	x->background = x->row.kind != 0;
	x->started_ns = clock_now_ns();
	output_log_init(&x->log, s->core->output_fd, x->row.id,
			x->row.output_limit == 0 ? s->row.output_limit : x->row.output_limit);
	if (output_log_reopen(&x->log, e) < 0)
		log_warn("output log could not be read", "execution_id=%s error=%s", x->row.id,
			 e->msg);
	output_quota_count(x, 0);
	execution_marks_begin(x);
	x->ended = x->row.ended_ms != 0;
	if (x->log.cut) /* the log does not count cut bytes */
		count_cut(x);
	s->running += !x->ended;
	execution_expect(x);
	return 0;
}

struct execution *execution_by_handle(struct session *s, uint32_t handle)
{
	for (struct execution *x = s->executions; x != NULL; x = x->next)
		if (x->row.handle == handle && !execution_is_call(x))
			return x;
	return NULL;
}

static int take_held(struct execution *x, struct live_cell *c, const struct agent_event *v,
		     struct err *e)
{
	unsigned n = c->agent.nfds;

	c->agent.nfds = 0;
	return execution_take_fds(x, v, c->agent.fds, n, e);
}

/* PID 1 reports each held program once after a reconnect: as starting, running or exited. */
void execution_adopt(struct execution *x, struct live_cell *c, const struct agent_event *v)
{
	struct err e;

	if (x->program.handle != 0)
		return; /* PID 1 reported it twice */
	live_cell_add_held(c, &x->program, v->handle);
	if (x->killing && agent_send_kill_tree(&c->agent, v->handle, 0, &e) < 0) {
		x->killing = false; /* execution_expect_death() asks again while it runs */
		if (x->ended)
			completions_end_all(&x->when_dead, &e);
	}
	x->stdin_open = (v->flags & AGENT_HAS_STDIN) != 0;
	if ((v->flags & AGENT_IS_STARTING) != 0) {
		execution_expect(x); /* from a memory image: no other event would end it */
		return;
	}
	/* The outcome is recorded, but children may still write: only the output is taken. */
	if (x->ended) {
		x->started = true;
		x->pid = v->pid;
		x->row.mark = v->mark;
		if (x->row.timed_out) {
			execution_kill_leftovers(x);
			execution_expect_leftovers(x);
		}
		if (take_held(x, c, v, &e) == 0)
			execution_catch_up(x);
		else
			log_warn("output of an execution lost", "execution_id=%s error=%s",
				 x->row.id, e.msg);
		execution_maybe_complete(x);
		return;
	}
	execution_on_event(x, c, AGENT_STARTED, v);
	if ((v->flags & AGENT_HAS_EXITED) != 0)
		execution_on_event(x, c, AGENT_EXITED, v);
}

void execution_adopt_failed(struct execution *x, struct live_cell *c, const struct agent_event *v)
{
	if (x->program.handle != 0)
		return; /* PID 1 reported it twice */
	live_cell_add_held(c, &x->program, v->handle);
	execution_on_event(x, c, AGENT_FAILED, v);
}

/* ---- executions of a guest whose memory was saved */

/* Detach an execution from its cell. Written output is in the pipes and moves to the log now.
 * Unwritten output is in the program's saved memory. */
static void adopt_detach(struct execution *x)
{
	execution_drain_last(x);
	execution_close_fds(x);
	loop_timer_cancel(x->session->core->loop, &x->late);
	live_cell_remove(x->session->cell, &x->program);
	x->program.handle = 0;
	x->started = false;
}

/* A call ends with its connection, lost with the cell. */
static void name_pause(struct execution *x)
{
	if (x->ended || x->row.error_code != ERR_NONE)
		return;
	x->row.error_code = ERR_CONFLICT;
	x->row.error = "the session was paused";
}

void execution_detach_all(struct session *s)
{
	/* alone: the loop frees a lost execution later */
	LIST_WALK_ENDING(struct execution, x, s->executions) {
		if (execution_is_call(x))
			name_pause(x);
		if (x->ended || x->exiting || x->killing || execution_is_call(x))
			execution_lost(x);
		else
			adopt_detach(x);
	}
}

/* Called when the new cell has reported all its programs. Unreported ones ended with the saved
 * guest. */
void execution_lose_detached(struct session *s)
{
	LIST_WALK_ENDING(struct execution, x, s->executions) {
		/* alone: the loop frees a lost execution later */
		if (!x->ended && x->program.handle == 0 && !execution_is_call(x))
			execution_lost(x);
	}
}

/* ---- executions of a cell of the pool */

/* A pool program has no record until its session has one. Both are written in one transaction of
 * the caller. */
struct execution *execution_claim(struct session *s, const struct execution_spec *spec,
				  uint32_t handle, uint64_t mark, struct err *e)
{
	struct execution *x = execution_new(s);

	x->background = true;
	x->row.output_limit = s->core->o.config->output_limit_default;
	x->row.mark = mark;
	x->program.handle = handle;
	if (execution_record(x, spec, e) < 0) {
		execution_free(x);
		return NULL;
	}
	x->row.state = EXECUTION_RUNNING;
	return x;
}

void execution_claimed(struct execution *x, const struct agent_event *v, const int *fds, unsigned n)
{
	struct session *s = x->session;

	output_log_init(&x->log, s->core->output_fd, x->row.id, x->row.output_limit);
	x->started_ns = clock_now_ns();
	x->stdin_open = (v->flags & AGENT_HAS_STDIN) != 0;
	s->records.n++;
	s->running++;
	live_cell_add_held(s->cell, &x->program, v->handle);
	if ((v->flags & AGENT_IS_STARTING) != 0) {
		execution_expect(x); /* STARTED follows, or its time ends */
		return;
	}
	(void)execution_on_started(x, v, fds, n);
	if ((v->flags & AGENT_HAS_EXITED) != 0)
		execution_on_event(x, s->cell, AGENT_EXITED, v);
}

/* ---- executions of a session that began with the memory of another */

/* Find the record of the program in the source session: by its handle if the source is live, else
 * by its mark. Only then *ret_row is read from the store, and released by the caller. */
static const struct store_execution *find_source(const struct session *s,
						 const struct agent_event *v,
						 struct store_execution *ret_row)
{
	struct session *source = session_by_id(s->core, s->guest.source);
	const struct execution *was =
		source == NULL ? NULL : execution_by_handle(source, v->handle);
	char found[STORE_ID_MAX];
	struct err e;

	if (was != NULL)
		return &was->row;
	if (v->mark == 0 ||
	    store_execution_by_mark(s->core->store, s->guest.source, v->mark, found, &e) < 0 ||
	    store_execution_get(s->core->store, found, ret_row, &e) < 0)
		return NULL;
	return ret_row;
}

/* The child's execution copies the source's command, user and kind. Without a record the program
 * could not be shown or killed, so it is not taken. */
void execution_continue(struct session *s, struct live_cell *c, const struct agent_event *v)
{
	struct store_execution row = { 0 };
	const struct store_execution *was = find_source(s, v, &row);
	struct execution_spec spec = { .background = true,
				       .tty = (v->flags & AGENT_IS_TTY) != 0,
				       .actor = &s->actor };
	struct execution *x;
	unsigned n = c->agent.nfds;
	struct err e;

	if (was != NULL) {
		spec.kind = was->kind;
		spec.text = was->command;
		spec.keep_text = was->command[0] != '\0';
		spec.hash = was->command_hash;
		spec.user = was->user;
		spec.client = was->client;
		spec.language = was->language;
		spec.context = was->context;
	}
	x = execution_claim(s, &spec, v->handle, v->mark, &e);
	store_execution_release(&row);
	if (x == NULL) {
		log_warn("a program that goes on has no record", "session_id=%s error=%s",
			 s->row.id, e.msg);
		return;
	}
	c->agent.nfds = 0;
	execution_claimed(x, v, c->agent.fds, n);
}
