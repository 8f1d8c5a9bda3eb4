/* api_control.c - sends input and signals to a running execution, and changes its terminal size. */
#include "api_handlers.h"
#include "reply.h"
#include "request.h"
#include "spec_exec.h"

/* The live execution of the path. NULL: the request was answered with the reason. */
static struct execution *find(struct request *r, struct session *s)
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

/* ---- input */

struct input {
	struct execution *x; /* stays while followed */
	struct execution_follower follower;
	uint64_t taken;
	bool eof, failed;
	struct err why;
};

static void release_input(struct request *r, bool answered)
{
	struct input *in = r->state;

	(void)answered;
	execution_unfollow(&in->follower);
}

static void ignore_output(struct execution_follower *f)
{
	(void)f; /* followed only so that it stays in memory */
}

static void on_room(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct input *in = r->state;

	if (e != NULL && !in->failed) {
		in->failed = true;
		in->why = *e;
	}
	exchange_resume_body(r->x);
}

/* Input after a failure is read and dropped, so that the client receives the answer. */
static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct input *in = r->state;
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

static void on_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct input *in = r->state;
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

static void on_session_for_input(struct request *r, struct session *s)
{
	struct input *in = r->state;

	in->x = find(r, s);
	if (in->x == NULL)
		return;
	in->follower.on_progress = ignore_output;
	execution_follow(in->x, &in->follower);
	request_hold(r, s);
	r->wait.on_done = on_room;
	exchange_read_body(r->x, UINT64_MAX, on_data, on_end);
}

void api_control_input(struct request *r)
{
	struct input *in = request_state(r, sizeof(*in), release_input);
	struct err e = { 0 };

	if (in == NULL)
		return;
	if (request_bool(r, "eof", &in->eof, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session_for_input);
}

/* ---- signals and size: read, then use the session, then do it */

struct order {
	int signal;
	uint16_t rows, cols;
};

static void on_session(struct request *r, struct session *s)
{
	const struct order *o = r->state;
	struct execution *x = find(r, s);
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
	struct order *o = request_state(r, sizeof(*o), NULL);
	struct err e = { 0 };

	if (o == NULL)
		return;
	if (spec_exec_signal(body, len, &o->signal, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}

void api_control_signal(struct request *r)
{
	request_body(r, on_signal_body);
}

static void on_size_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct order *o = request_state(r, sizeof(*o), NULL);
	struct err e = { 0 };

	if (o == NULL)
		return;
	if (spec_exec_size(body, len, &o->rows, &o->cols, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}

void api_control_resize(struct request *r)
{
	request_body(r, on_size_body);
}
