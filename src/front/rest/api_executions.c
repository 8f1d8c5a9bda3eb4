/* api_executions.c - starts executions (and waits for their end), lists, shows and ends them, and
 * sends them input and signals.
 *
 * A request with `wait` follows its execution, so that the execution stays in memory, and collects
 * the output from the log in pieces. A client that leaves ends nothing. When the server stops, the
 * answer is 202 with the execution's id.
 *
 * An ended execution can have left processes: DELETE kills them, too, by its mark. A paused session
 * is resumed for that. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/egressctl/net_log.h"
#include "daemon/tenant/record_quota.h"
#include "front/rest/api_handlers.h"
#include "front/rest/inline_output.h"
#include "front/rest/list_page.h"
#include "front/web/exec_start.h"
#include "front/web/json_view.h"
#include "front/web/once.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/routes.h"
#include "front/web/spec_exec.h"
#include "lib/base/str.h"
#include "lib/loop/jobs.h"

/* ---- input and signals
 *
 * Sends input and signals to a running execution, and changes its terminal size.
 *
 * Each handler finds a running execution with control_find(). An ended one is a conflict (409), an
 * unknown one is 404. */

/* The live execution of the path. NULL: the request was answered with the reason. */
static struct execution *control_find(struct request *r, struct session *s)
{
	struct execution *x = execution_live(s, r->id);
	struct store_execution row = { 0 };
	struct err e = { 0 };

	if (x != NULL)
		return x;
	if (execution_get(r->core, r->session_id, r->id, &row, &e) < 0) {
		reply_error(r, &e);
		return NULL;
	}
	store_execution_release(&row);
	reply_code(r, 409, "conflict", "the execution has ended");
	return NULL;
}

/* ---- input
 *
 * The body is passed on as it arrives. Backpressure: the pipe's room decides how fast the client is
 * read. The answer comes at the body's end. */

/* A body on its way to an execution's standard input. taken counts the bytes that the execution
 * has. */
struct executions_input {
	struct execution *x; /* stays while followed */
	struct execution_follower follower;
	uint64_t taken;
	bool eof, failed;
	struct err why;
};

static void release_input(struct request *r, bool answered)
{
	struct executions_input *in = r->state;

	execution_unfollow(&in->follower);
}

static void control_ignore_output(struct execution_follower *f)
{
	(void)f; /* followed only so that it stays in memory */
}

/* The pipe has room again, or the execution has ended (e). Either way the body is read on. */
static void on_room(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct executions_input *in = r->state;

	if (e != NULL && !in->failed) {
		in->failed = true;
		in->why = *e;
	}
	exchange_resume_body(r->x);
}

/* Input after a failure is read and dropped, so that the client receives the answer. Returns the
 * bytes that were used. Fewer than len: the exchange keeps the rest until on_room(). */
static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct executions_input *in = r->state;
	size_t done = 0;

	if (in->follower.link == NULL && !in->failed) { /* the session has ended */
		in->failed = true;
		IGNORED(err_set(&in->why, ERR_CONFLICT, "the execution has ended"), "answered");
	}
	while (!in->failed && done < len) {
		ssize_t n = execution_input(in->x, data + done, len - done, &r->wait, &in->why);

		if (n == 0)
			return done; /* completed when there is room */
		in->failed = n < 0;
		done += n < 0 ? 0 : (size_t)n;
		in->taken += n < 0 ? 0 : (uint64_t)n;
	}
	return len;
}

/* The answer comes at the end of the body. accepted may be less than the body after a failure, but
 * then the answer is that failure. */
static void control_on_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct executions_input *in = r->state;
	struct json j;

	if (!ok)
		return; /* the server answers if the client is still there */
	if (in->failed) {
		reply_error(r, &in->why);
		return;
	}
	if (in->eof && in->follower.link != NULL)
		execution_close_input(in->x);
	json_init_heap(&j, 256);
	json_open(&j, NULL, '{');
	json_uint(&j, "accepted", in->taken);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* The follower keeps the execution's structure, and the hold keeps the session from being paused as
 * idle. */
static void on_session_for_input(struct request *r, struct session *s)
{
	struct executions_input *in = r->state;

	in->x = control_find(r, s);
	if (in->x == NULL)
		return;
	in->follower.on_progress = control_ignore_output;
	execution_follow(in->x, &in->follower);
	request_hold(r, s);
	r->wait.on_done = on_room;
	exchange_read_body(r->x, UINT64_MAX, on_data, control_on_end);
}

void api_control_input(struct request *r)
{
	struct executions_input *in = request_state(r, sizeof(*in), release_input);
	struct err e = { 0 };

	if (in == NULL)
		return;
	if (request_bool(r, "eof", &in->eof, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session_for_input);
}

/* ---- signals and size: read, then use the session, then do it */

/* signal 0: the order is a size. */
struct executions_order {
	int signal;
	uint16_t rows, cols;
};

/* The order has been done, or was refused, when this answers. */
static void control_on_session(struct request *r, struct session *s)
{
	const struct executions_order *o = r->state;
	struct execution *x = control_find(r, s);
	struct err e = { 0 };
	int done;

	if (x == NULL)
		return;
	done = o->signal != 0 ? execution_signal(x, o->signal, &e)
			      : execution_resize(x, o->rows, o->cols, &e);
	if (done < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

static void on_signal_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct executions_order *o = request_state(r, sizeof(*o), NULL);
	struct err e = { 0 };

	if (o == NULL)
		return;
	if (spec_exec_signal(body, len, &o->signal, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, control_on_session);
}

void api_control_signal(struct request *r)
{
	request_body(r, on_signal_body);
}

static void on_size_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct executions_order *o = request_state(r, sizeof(*o), NULL);
	struct err e = { 0 };

	if (o == NULL)
		return;
	if (spec_exec_size(body, len, &o->rows, &o->cols, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, control_on_session);
}

void api_control_resize(struct request *r)
{
	request_body(r, on_size_body);
}

/* ---- lists
 *
 * A session's executions, in pages, filtered by state. */

/* The state of a list. The live session is looked up for each piece, as it may end between two. */
struct executions_listing {
	struct page_walk list;	 /* first */
	struct session *session; /* live, in this piece */
	uint32_t states;	 /* a set. 0: all */
};

/* A running execution's row is newer in memory than in the store. So the filter is checked here
 * again. */
static int on_row(const struct store_execution *row, void *cookie)
{
	struct executions_listing *l = cookie;
	struct execution *x = NULL;

	if (l->session != NULL && row->ended_ms == 0)
		x = execution_live(l->session, row->id);
	if (x != NULL)
		row = execution_row(x);
	if (l->states != 0 && (l->states & 1U << row->state) == 0)
		return 0;
	if (!page_walk_admits(&l->list))
		return 1;
	json_view_execution(&l->list.job.j, NULL, row, x);
	return 0;
}

/* Called for each piece of the page. */
static int read_rows(struct page_walk *p, struct store_looked *ret, struct err *e)
{
	struct executions_listing *l = (struct executions_listing *)p;
	struct request *r = p->job.r;
	struct store_execution_filter filter = { .session = r->session_id,
						 .states = l->states,
						 .ascending = p->page.ascending,
						 .after_ms = p->page.after_ms,
						 .after_id = p->page.after_id,
						 .limit = LIST_JOB_PIECE };

	if (request_owns(r, &l->session, e) < 0)
		return -1;
	return store_execution_list(core_store(r->core), &filter, on_row, l, ret, e);
}

/* A set with the one wanted state. 0 if the parameter is absent. */
static int read_state(struct request *r, uint32_t *ret, struct err *e)
{
	const char *names[EXECUTION_STATES];
	unsigned state = EXECUTION_STATES;

	for (unsigned i = 0; i < EXECUTION_STATES; i++)
		names[i] = execution_state_name((enum execution_state)i);
	if (request_choice(r, "state", names, EXECUTION_STATES, &state, e) < 0)
		return -1;
	*ret = state == EXECUTION_STATES ? 0 : 1U << state;
	return 0;
}

void api_executions_list(struct request *r)
{
	struct executions_listing *l = page_walk_new(r, sizeof(*l), read_rows);
	struct err e = { 0 };

	if (l == NULL)
		return;
	if (request_owns(r, &l->session, &e) < 0 || read_state(r, &l->states, &e) < 0)
		reply_error(r, &e);
	else
		page_walk_start(&l->list, "executions");
}

/* ---- start and end */

#define EXECUTION_JSON_MAX (4U << 20) /* a command kept as text may have a MiB */
#define WAITED_JSON_MAX (EXECUTION_JSON_MAX + INLINE_OUTPUT_JSON_MAX)

/* Location: where the client finds the execution later. */
static void locate_execution(struct request *r, const struct store_execution *row)
{
	char prefix[2 * STORE_ID_MAX];

	(void)snprintf(prefix, sizeof(prefix), "/v1/sessions/%s/executions/", row->session);
	reply_location(r, prefix, row->id);
}

/* The execution with the connections that were refused to it. x: NULL if it has ended. */
static void reply_execution(struct request *r, int status, const struct store_execution *row,
			    const struct execution *x)
{
	struct json j;

	if (status == 202)
		locate_execution(r, row);
	json_init_heap(&j, EXECUTION_JSON_MAX);
	json_view_execution_open(&j, NULL, row, x);
	net_refusals_write(r->core, row, &j);
	json_close(&j, '}');
	reply_json(r, status, &j);
}

/* ---- start
 *
 * on_body() reads the request and on_session() starts the execution. Without `wait` the answer
 * follows at once (202). With it, on_waited() comes at the execution's end, and the answer with its
 * output is written in pieces (200). on_drain() comes instead if the server stops. */

/* The state of a start. text is kept for the answer, since records may have a hash in place of the
 * command. */
struct starting {
	struct spec_exec spec;
	bool wait, base64;
	struct execution *x; /* while it is followed */
	struct execution_follower follower;
	char text[RECORD_TEXT_MAX + 2]; /* the command */
	struct json j;			/* the answer so far, when it has ended */
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

/* The session ended while the request waited, and the execution's structure with it. */
static void reply_ended(struct request *r)
{
	struct err e = { 0 };

	IGNORED(err_set_reason(&e, REASON_GONE, "session %s has ended", r->session_id), "answered");
	reply_error(r, &e);
}

/* The row as its creator sees it: with the command, also if the record has its hash only. */
static struct store_execution row_of_creator(const struct starting *s, const struct execution *x)
{
	struct store_execution row = *execution_row(x);

	if (row.command == NULL || row.command[0] == '\0')
		row.command = s->text;
	return row;
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
		reply_ended(r);
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

/* An answer of one piece, as most are, is sent at once. The execution has ended and is still
 * followed, so s->x is valid. */
static void begin_answer(struct request *r)
{
	struct starting *s = r->state;
	const struct store_execution shown = row_of_creator(s, s->x), *row = &shown;
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

/* The wait ends once. A follower without a link: the session has ended. */
static void on_waited(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct starting *s = r->state;

	if (why != NULL)
		reply_error(r, why);
	else if (s->follower.link == NULL)
		reply_ended(r);
	else
		begin_answer(r);
}

/* 202: the execution runs. */
static void reply_started(struct request *r, const struct execution *x)
{
	const struct store_execution row = row_of_creator(r->state, x);

	reply_execution(r, 202, &row, x);
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
		reply_started(r, s->x);
	else
		reply_ended(r);
}

/* The feeder takes the input over and writes it at the execution's pace. The request does not wait
 * for it. */
static int give_input(struct starting *s, struct execution *x, struct err *e)
{
	if (!s->spec.has_input)
		return 0;
	if (stdin_feeder_start(x, s->spec.input, s->spec.input_len, e) < 0)
		return -1;
	s->spec.input = NULL;
	return 0;
}

/* At once, or when it has ended. x must be live. */
static void api_executions_answer(struct request *r, struct session *session, struct execution *x)
{
	struct starting *s = r->state;

	session_redact(session, s->text); /* as records and output are */
	if (!s->wait) {
		reply_started(r, x);
		return;
	}
	s->x = x;
	s->follower.on_progress = ignore_output;
	execution_follow(x, &s->follower);
	r->wait.on_done = on_waited;
	exchange_on_drain(r->x, on_drain);
	execution_wait(x, &r->wait);
}

/* The session runs now. Input that has no room is refused before the execution exists. */
static void on_session(struct request *r, struct session *session)
{
	struct starting *s = r->state;
	struct err e = { 0 };
	struct execution *x = NULL;

	s->spec.spec.actor = request_actor(r);
	s->spec.spec.once = once_row(r);
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
	api_executions_answer(r, session, x);
}

/* It was done before: the answer shows the execution as it is now. */
static void reply_again(struct request *r, const char *id)
{
	struct session *live = session_by_id(r->core, r->session_id);
	struct execution *x = live == NULL ? NULL : execution_live(live, id);
	struct store_execution row = { 0 };
	struct err e = { 0 };

	once_replayed(r);
	if (x != NULL) {
		api_executions_answer(r, live, x);
	} else if (execution_get(r->core, r->session_id, id, &row, &e) < 0) {
		reply_error(r, &e);
	} else {
		reply_execution(r, 202, &row, NULL);
		store_execution_release(&row);
	}
}

/* For the answers. A long command is cut, as in records. */
static void keep_text(struct starting *s)
{
	str_copy_to(s->text, sizeof(s->text), s->spec.spec.text == NULL ? "" : s->spec.spec.text);
	record_quota_cut(s->text);
}

/* once_begin() finds an earlier request with the same key. Then nothing is started. */
static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct starting *s = r->state;
	struct err e = { 0 };

	char before[STORE_ID_MAX];
	int again = once_begin(r, body, len, before, &e);

	if (again < 0 || spec_exec_read(body, len, &s->spec, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	keep_text(s);
	if (again > 0)
		reply_again(r, before);
	else
		request_use(r, on_session);
}

/* The long body is for code and input. */
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

/* ---- show
 *
 * An execution without results is one short answer. Results are read from the log in pieces. */

struct executions_showing {
	struct json j;
	struct inline_output output;
	struct job job;
};

static void release_show(struct request *r, bool answered)
{
	struct executions_showing *v = r->state;

	core_job_cancel(r->core, &v->job);
	inline_output_release(&v->output);
	json_release(&v->j);
}

/* True: the job calls again. Otherwise the request is answered. */
static bool on_show_piece(struct job *job)
{
	struct request *r = job->arg;
	struct executions_showing *v = r->state;
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

/* With the results so far. */
static void show_execution(struct request *r, const struct store_execution *row,
			   const struct execution *x)
{
	struct executions_showing *v;
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

/* The live structure has newer numbers than the store. */
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

/* ---- end
 *
 * A running execution is killed. An ended one may have left processes, and those are killed by its
 * mark. */

/* The kill has been done, or e says why not. */
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

/* 204 also if it had ended with no process left: the result is as wanted. */
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
