/* api_executions.c - starts executions (and waits for their end), shows and ends them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "code_begin.h"
#include "stdin_feeder.h"
#include "inline_output.h"
#include "jobs.h"
#include "reply.h"
#include "request.h"
#include "routes.h"
#include "json_view.h"
#include "net_refusals.h"
#include "spec_exec.h"

#define EXECUTION_JSON_MAX (4U << 20) /* a command kept as text may have a MiB */
#define WAITED_JSON_MAX (EXECUTION_JSON_MAX + INLINE_OUTPUT_JSON_MAX)

static void reply_execution(struct request *r, int status, const struct store_execution *row,
			    const struct execution *x)
{
	struct json j;

	json_init_heap(&j, EXECUTION_JSON_MAX);
	json_view_execution_open(&j, NULL, row, x);
	net_refusals_write(r->core, row, &j);
	json_close(&j, '}');
	reply_json(r, status, &j);
}

/* ---- start */

struct starting {
	struct spec_exec spec;
	bool wait, base64;
	struct execution *x; /* while it is followed */
	struct execution_follower follower;
	struct json j; /* the answer so far, when it has ended */
	struct inline_output output;
	struct job job;
};

static void release_start(struct request *r, bool answered)
{
	struct starting *s = r->state;

	(void)answered; /* the execution continues without its waiting client */
	core_job_cancel(r->core, &s->job);
	spec_exec_release(&s->spec);
	execution_unfollow(&s->follower);
	inline_output_release(&s->output);
	json_release(&s->j);
}

static void ignore_output(struct execution_follower *f)
{
	(void)f; /* followed only so that it stays in memory */
}

static void reply_stopped(struct request *r)
{
	struct err e = { 0 };

	IGNORED(err_set_reason(&e, REASON_GONE, "session %s was stopped", r->session_id),
		"answered");
	reply_error(r, &e);
}

/* A piece of the answer to a request that waited. */
static bool on_piece(struct job *job)
{
	struct request *r = job->arg;
	struct starting *s = r->state;
	struct err e = { 0 };
	int got;

	loop_note(core_loop(r->core), r->route->pattern);
	if (s->follower.link == NULL) {
		reply_stopped(r);
		return false;
	}
	got = inline_output_piece(&s->output, &s->j, &e);
	if (got > 0)
		return true;
	if (got < 0) {
		reply_error(r, &e);
		return false;
	}
	json_close(&s->j, '}');
	reply_json(r, 200, &s->j);
	return false;
}

/* An answer of one piece, as most are, is sent at once. */
static void begin_answer(struct request *r)
{
	struct starting *s = r->state;
	const struct store_execution *row = execution_row(s->x);
	struct err e = { 0 };
	int fd = -1;

	if (row->out_bytes + row->err_bytes + row->result_bytes > 0 &&
	    execution_log(r->core, r->session_id, row->id, &fd, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	inline_output_init(&s->output, fd, s->base64);
	s->output.with_results = s->spec.is_code || row->result_bytes > 0;
	json_init_heap(&s->j, WAITED_JSON_MAX);
	json_view_execution_open(&s->j, NULL, row, s->x);
	net_refusals_write(r->core, row, &s->j);
	s->job.on_piece = on_piece;
	s->job.arg = r;
	if (request_turn_is_old(r) || on_piece(&s->job))
		core_job_add(r->core, r->tenant, &s->job);
}

static void on_waited(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct starting *s = r->state;

	if (why != NULL)
		reply_error(r, why);
	else if (s->follower.link == NULL)
		reply_stopped(r);
	else
		begin_answer(r);
}

/* The server is stopping, the execution continues: the client reads the result by its id later. */
static void on_drain(struct exchange *x)
{
	struct request *r = request_of(x);
	struct starting *s = r->state;

	completion_cancel(&r->wait);
	core_job_cancel(r->core, &s->job);
	exchange_header(x, "Retry-After", "1");
	if (s->follower.link != NULL)
		reply_execution(r, 202, execution_row(s->x), s->x);
	else
		reply_stopped(r);
}

static int give_input(struct starting *s, struct execution *x, struct err *e)
{
	if (!s->spec.has_input)
		return 0;
	if (stdin_feeder_start(x, s->spec.input, s->spec.input_len, e) < 0)
		return -1;
	s->spec.input = NULL;
	return 0;
}

static void on_session(struct request *r, struct session *session)
{
	struct starting *s = r->state;
	struct err e = { 0 };
	struct execution *x = NULL;

	s->spec.spec.actor = request_actor(r);
	if (code_begin(r, session, &s->spec, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (!s->spec.has_input || stdin_feeder_check(s->spec.input_len, &e) == 0)
		x = execution_start(session, &s->spec.spec, &e);
	if (x == NULL || give_input(s, x, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (!s->wait) {
		reply_execution(r, 202, execution_row(x), x);
		return;
	}
	s->x = x;
	s->follower.on_progress = ignore_output;
	execution_follow(x, &s->follower);
	r->wait.on_done = on_waited;
	exchange_on_drain(r->x, on_drain);
	execution_wait(x, &r->wait);
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct starting *s = r->state;
	struct err e = { 0 };

	if (spec_exec_read(body, len, &s->spec, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}

void api_executions_create(struct request *r)
{
	static const char *const encodings[] = { "utf-8", "base64" };
	struct starting *s = request_state(r, sizeof(*s), release_start);
	unsigned encoding = 0;
	struct err e = { 0 };

	if (s == NULL)
		return;
	if (request_bool(r, "wait", &s->wait, &e) < 0 ||
	    request_choice(r, "encoding", encodings, COUNT(encodings), &encoding, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s->base64 = encoding == 1;
	request_long_body(r, on_body);
}

/* ---- show */

struct showing {
	struct json j;
	struct inline_output output;
	struct job job;
};

static void release_show(struct request *r, bool answered)
{
	struct showing *v = r->state;

	(void)answered;
	core_job_cancel(r->core, &v->job);
	inline_output_release(&v->output);
	json_release(&v->j);
}

static bool on_show_piece(struct job *job)
{
	struct request *r = job->arg;
	struct showing *v = r->state;
	struct err e = { 0 };
	int got = inline_output_piece(&v->output, &v->j, &e);

	loop_note(core_loop(r->core), r->route->pattern);
	if (got > 0)
		return true;
	json_close(&v->j, '}');
	if (got < 0)
		reply_error(r, &e);
	else
		reply_json(r, 200, &v->j);
	return false;
}

/* With the results that are there now. */
static void show_execution(struct request *r, const struct store_execution *row,
			   const struct execution *x)
{
	struct showing *v;
	struct err e = { 0 };
	int fd = -1;

	if (row->result_bytes == 0) {
		reply_execution(r, 200, row, x);
		return;
	}
	v = request_state(r, sizeof(*v), release_show);
	if (v == NULL)
		return;
	if (execution_log(r->core, r->session_id, row->id, &fd, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	inline_output_init_results(&v->output, fd);
	json_init_heap(&v->j, EXECUTION_JSON_MAX + RESULT_VIEW_JSON_MAX);
	json_view_execution_open(&v->j, NULL, row, x);
	net_refusals_write(r->core, row, &v->j);
	v->job = (struct job){ .on_piece = on_show_piece, .arg = r };
	if (on_show_piece(&v->job))
		core_job_add(r->core, r->tenant, &v->job);
}

void api_executions_get(struct request *r)
{
	struct session *live = NULL;
	struct execution *x = NULL;
	struct store_execution row = { 0 };
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (live != NULL)
		x = execution_live(live, r->id);
	if (x != NULL) {
		show_execution(r, execution_row(x), x);
	} else if (execution_get(r->core, r->session_id, r->id, &row, &e) < 0) {
		reply_error(r, &e);
	} else {
		show_execution(r, &row, NULL);
		store_execution_release(&row);
	}
}

/* ---- end */

static void on_end(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		reply_empty(r, 204);
}

/* A paused session is resumed: its processes cannot end while they are frozen. */
static void on_session_to_kill(struct request *r, struct session *s)
{
	struct execution *x = execution_live(s, r->id);
	struct store_execution row = { 0 };
	struct err e = { 0 };

	r->wait.on_done = on_end;
	if (x != NULL) {
		execution_kill(x, &r->wait);
	} else if (execution_get(r->core, r->session_id, r->id, &row, &e) < 0) {
		reply_error(r, &e);
	} else { /* processes that the execution left behind */
		store_execution_release(&row);
		execution_kill_ended(s, row.mark, &r->wait);
	}
}

void api_executions_delete(struct request *r)
{
	bool left;
	struct session *live = NULL;
	struct execution *x = NULL;
	struct store_execution row = { 0 };
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (live != NULL)
		x = execution_live(live, r->id);
	if (x == NULL && execution_get(r->core, r->session_id, r->id, &row, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	left = x != NULL || (live != NULL && row.mark != 0); /* or processes of it may remain */
	store_execution_release(&row);
	if (left)
		request_use(r, on_session_to_kill);
	else
		reply_empty(r, 204);
}
