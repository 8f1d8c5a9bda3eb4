/* api_executions.c - executions: started (and waited for), shown, ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "base64.h"
#include "buf.h"
#include "feeder.h"
#include "reply.h"
#include "request.h"
#include "shape.h"
#include "spec_exec.h"

#define EXECUTION_JSON_MAX (4U << 20) /* a command kept as text may have a MiB */
#define INLINE_MAX (1U << 20)	      /* bytes of each stream in the answer of wait=true */
/* Each byte may become "\u0000". */
#define WAITED_JSON_MAX (EXECUTION_JSON_MAX + 2 * (6 * INLINE_MAX + 64))
#define READ_SIZE 65536

static void reply_execution(struct request *r, int status, const struct store_execution *row,
			    const struct execution *x)
{
	struct json j;

	json_init_heap(&j, EXECUTION_JSON_MAX);
	shape_execution(&j, NULL, row, x);
	reply_json(r, status, &j);
}

/* ---- start */

struct starting {
	struct spec_exec spec;
	bool wait, base64;
	struct execution *x; /* while it is followed */
	struct execution_follower follower;
};

static void release_start(struct request *r, bool answered)
{
	struct starting *s = r->state;

	(void)answered; /* an execution goes on without whoever waited for it */
	spec_exec_release(&s->spec);
	execution_unfollow(&s->follower);
}

static void no_matter(struct execution_follower *f)
{
	(void)f; /* followed only so that it stays in memory */
}

struct inlined {
	struct buf streams[2];
	bool cut;
};

/* What it said so far, each stream up to the bound. */
static int read_log(struct request *r, const char *id, struct inlined *ret, struct err *e)
{
	static uint8_t bytes[READ_SIZE];
	struct output_chunk chunk;
	uint64_t cursor = 0;
	OWN_FD fd = -1;
	int got;

	if (execution_log(r->core, r->session_id, id, &fd, e) < 0)
		return -1;
	while ((got = output_read(fd, &cursor, &chunk, bytes, sizeof(bytes), e)) > 0) {
		struct buf *to = &ret->streams[chunk.stream == OUTPUT_STDERR];
		size_t room = INLINE_MAX - to->len;

		if (chunk.stream == OUTPUT_CUT)
			continue;
		if (chunk.len > room)
			ret->cut = true;
		buf_put(to, bytes, chunk.len < room ? chunk.len : room);
		if (ret->streams[0].len == INLINE_MAX && ret->streams[1].len == INLINE_MAX)
			break;
	}
	return got < 0 ? -1 : 0;
}

static void write_stream(struct json *j, const struct starting *s, const char *name,
			 const char *coded_name, struct buf *bytes)
{
	OWN_MEM char *coded = NULL;

	if (!s->base64) {
		json_bytes(j, name, buf_text(bytes), bytes->len);
		return;
	}
	coded = malloc(BASE64_LENGTH(bytes->len) + 1);
	if (coded == NULL) {
		json_none(j, coded_name);
		return;
	}
	base64_encode(buf_text(bytes), bytes->len, coded);
	json_text(j, coded_name, coded);
}

static void waited(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct starting *s = r->state;
	struct inlined in = { .streams = { BUF_INIT(INLINE_MAX), BUF_INIT(INLINE_MAX) } };
	const struct store_execution *row;
	struct err e = { 0 };
	struct json j;

	if (why == NULL && s->follower.link == NULL) {
		IGNORED(err_set(&e, ERR_CONFLICT, "session %s was stopped", r->session_id), "told");
		e.sys = ESTALE;
		why = &e;
	}
	if (why != NULL) {
		reply_error(r, why);
		return;
	}
	row = execution_row(s->x);
	json_init_heap(&j, WAITED_JSON_MAX);
	if (row->out_bytes + row->err_bytes > 0 && read_log(r, row->id, &in, &e) < 0) {
		json_release(&j);
		reply_error(r, &e);
	} else {
		shape_execution_open(&j, NULL, row, s->x);
		write_stream(&j, s, "stdout", "stdout_base64", &in.streams[0]);
		write_stream(&j, s, "stderr", "stderr_base64", &in.streams[1]);
		json_bool(&j, "inline_truncated", in.cut);
		json_close(&j, '}');
		reply_json(r, 200, &j);
	}
	buf_release(&in.streams[0]);
	buf_release(&in.streams[1]);
}

/* The server ends, the execution does not: its client asks again by the id. */
static void hand_over(struct exchange *x)
{
	struct request *r = request_of(x);
	struct starting *s = r->state;
	struct err e = { 0 };

	completion_cancel(&r->wait);
	exchange_header(x, "Retry-After", "1");
	if (s->follower.link != NULL) {
		reply_execution(r, 202, execution_row(s->x), s->x);
		return;
	}
	IGNORED(err_set(&e, ERR_CONFLICT, "session %s was stopped", r->session_id), "told");
	e.sys = ESTALE;
	reply_error(r, &e);
}

static int give_input(struct starting *s, struct execution *x, struct err *e)
{
	if (!s->spec.has_input)
		return 0;
	if (feeder_start(x, s->spec.input, s->spec.input_len, e) < 0)
		return -1;
	s->spec.input = NULL;
	return 0;
}

static void start(struct request *r, struct session *session)
{
	struct starting *s = r->state;
	struct err e = { 0 };
	struct execution *x = NULL;

	if (!s->spec.has_input || feeder_check(s->spec.input_len, &e) == 0)
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
	s->follower.more = no_matter;
	execution_follow(x, &s->follower);
	r->wait.on_done = waited;
	exchange_on_drain(r->x, hand_over);
	execution_wait(x, &r->wait);
}

static void create(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct starting *s = r->state;
	struct err e = { 0 };

	if (spec_exec_read(body, len, &s->spec, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, start);
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
	request_long_body(r, create);
}

/* ---- show */

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
		reply_execution(r, 200, execution_row(x), x);
	} else if (execution_get(r->core, r->session_id, r->id, &row, &e) < 0) {
		reply_error(r, &e);
	} else {
		reply_execution(r, 200, &row, NULL);
		store_execution_release(&row);
	}
}

/* ---- end */

static void ended(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		reply_empty(r, 204);
}

/* A paused session is woken: what stands still cannot be seen to end. */
static void start_kill(struct request *r, struct session *s)
{
	struct execution *x = execution_live(s, r->id);
	struct store_execution row = { 0 };
	struct err e = { 0 };

	r->wait.on_done = ended;
	if (x != NULL) {
		execution_kill(x, &r->wait);
	} else if (execution_get(r->core, r->session_id, r->id, &row, &e) < 0) {
		reply_error(r, &e);
	} else { /* what it left behind */
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
	left = x != NULL || (live != NULL && row.mark != 0); /* or may have left something */
	store_execution_release(&row);
	if (left)
		request_use(r, start_kill);
	else
		reply_empty(r, 204);
}
