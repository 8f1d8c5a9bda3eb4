/* execution_adopt.c - executions whose program runs already: those of an earlier daemon, whose PID
 * 1 reports them as held, and the start command of a cell of the pool. */
#include "execution_adopt.h"

#include "clock.h"
#include "core_private.h"
#include "code_execution.h"
#include "execution_calls.h"
#include "execution_deadline.h"
#include "execution_io.h"
#include "live_cell.h"
#include "log.h"
#include "output_log.h"
#include "output_quota.h"

static void count_cut(struct execution *x)
{
	const uint64_t known[] = { x->row.out_bytes, x->row.err_bytes, x->row.result_bytes };

	for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
		if (x->log.written[i] < known[i])
			x->log.written[i] = known[i];
}

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
			x->row.output_limit == 0 ? s->row.limits.output_bytes
						 : x->row.output_limit);
	if (output_log_reopen(&x->log, e) < 0)
		log_warn("output log could not be read", "execution_id=%s error=%s", x->row.id,
			 e->msg);
	output_quota_count(x, 0);
	x->ended = x->row.ended_ms != 0;
	if (x->log.cut) /* the log does not count what it left out */
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

void execution_adopt(struct execution *x, struct live_cell *c, const struct agent_event *v)
{
	struct err e;

	if (x->program.handle != 0)
		return; /* PID 1 reported it twice */
	live_cell_add_held(c, &x->program, v->handle);
	if (x->killing && agent_send_kill_tree(&c->agent, v->handle, 0, &e) < 0)
		execution_on_event(x, c, AGENT_TREE_DEAD,
				   v); /* the channel is gone, and the cell follows */
	x->stdin_open = (v->flags & AGENT_HAS_STDIN) != 0;
	if ((v->flags & AGENT_IS_STARTING) != 0) {
		execution_expect(x); /* out of a memory image nothing else ends it */
		return;
	}
	if (x->ended) {
		x->started = true;
		x->pid = v->pid;
		x->row.mark = v->mark;
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

/* ---- of a guest whose memory was saved */

/* What it wrote before is in its pipes here; what it has not written is in its own memory. */
static void detach(struct execution *x)
{
	execution_drain_last(x);
	execution_close_fds(x);
	loop_timer_cancel(x->session->core->loop, &x->late);
	if (x->session->cell != NULL && x->program.handle != 0)
		live_cell_remove(x->session->cell, &x->program);
	x->program.handle = 0;
	x->started = false;
}

/* A call ends with its connection, which the cell had. */
static void name_pause(struct execution *x)
{
	if (x->ended || x->row.error_code != ERR_NONE)
		return;
	x->row.error_code = ERR_CONFLICT;
	x->row.error = "the session was paused";
}

void execution_detach_all(struct session *s)
{
	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next; /* alone: an execution that is lost is freed from the loop */
		if (execution_is_call(x))
			name_pause(x);
		if (x->ended || x->exiting || x->killing || execution_is_call(x))
			execution_lost(x);
		else
			detach(x);
	}
}

void execution_lose_detached(struct session *s)
{
	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		next = x->next; /* alone: as above */
		if (!x->ended && x->program.handle == 0 && !execution_is_call(x))
			execution_lost(x);
	}
}

/* ---- of a cell of the pool */

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
	s->records++;
	s->running++;
	live_cell_add_held(s->cell, &x->program, v->handle);
	if ((v->flags & AGENT_IS_STARTING) != 0)
		return; /* STARTED follows */
	(void)execution_on_started(x, v, fds, n);
	if ((v->flags & AGENT_HAS_EXITED) != 0)
		execution_on_event(x, s->cell, AGENT_EXITED, v);
}

/* ---- of a session that began with the memory of another */

/* What is known of the program, where its record is: of a live session by its handle, else by its
 * mark. *ret_row is read from the store then, and released by the caller. */
static const struct store_execution *find_source(const struct session *s,
						 const struct agent_event *v,
						 struct store_execution *ret_row)
{
	struct session *source = session_by_id(s->core, s->source);
	const struct execution *was =
		source == NULL ? NULL : execution_by_handle(source, v->handle);
	char found[STORE_ID_MAX];
	struct err e;

	if (was != NULL)
		return &was->row;
	if (v->mark == 0 ||
	    store_execution_by_mark(s->core->store, s->source, v->mark, found, &e) < 0 ||
	    store_execution_get(s->core->store, found, ret_row, &e) < 0)
		return NULL;
	return ret_row;
}

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
