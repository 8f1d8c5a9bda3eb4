/* code_call.c - theory of operation
 *
 * The body of the request passes through code_body.c. When its last byte is about to be sent, the
 * execution is recorded (code_execution.h); if that is refused, the byte is not sent, so the code
 * does not run. The answer passes through code_answer.c; what comes out of it and does not fit into
 * the exchange waits in `out`, and then nothing more is taken from the interpreter.
 *
 * The session may end at any time: it is looked up in each turn, and the execution is followed. */
#include "code_call.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "code_answer.h"
#include "code_body.h"
#include "code_execution.h"
#include "reply.h"
#include "session_service.h"

#define LINE_COST 32 /* bytes that a line counts for among those of a turn, beside its own */

struct code_call {
	struct request *r;
	struct forward *forward; /* borrowed; NULL until it is made */
	struct code_body body;
	uint64_t seen; /* bytes of the body */
	struct execution_follower follower;
	struct err refused;
	int status; /* of the answer; 0: none yet */
	struct code_answer answer;
	struct buf out;
	size_t at; /* bytes of out that were written */
	struct loop_timer tick;
	struct loop_task again; /* more may be masked in the next turn */
	bool ended;		/* all of the answer was read */
	const char *why;	/* why it is cut; NULL: not known here */
};

static struct session *session_now_of(const struct code_call *k)
{
	return session_find(k->r->core, k->r->session_id);
}

bool code_call_is(const struct request *r, struct session *s, uint16_t port)
{
	const struct http1_request *q = exchange_request(r->x);

	return port == CODE_CALL_PORT && q->method == HTTP1_POST &&
	       http1_span_is(q->path, "/execute") && session_service_has_interpreter(s);
}

/* ---- its record */

static void end_record(struct code_call *k, enum execution_call_outcome how, const char *why)
{
	struct execution *x = k->follower.execution;

	if (x == NULL)
		return;
	execution_call_count(x, k->answer.bytes);
	execution_call_end(x, how, why);
}

/* The end of the code, or of the answer. */
static void end_by_answer(struct code_call *k)
{
	end_record(k,
		   k->status != 200			 ? EXECUTION_CALL_REFUSED
		   : k->answer.failed || !k->answer.over ? EXECUTION_CALL_ERROR
							 : EXECUTION_CALL_DONE,
		   NULL);
}

/* Another request ends the execution. */
static void on_kill(void *arg)
{
	struct code_call *k = arg;

	end_record(k, EXECUTION_CALL_CUT, "ended by a request");
	exchange_revoke(k->r->x, 409, "the execution was ended by a request");
}

static void on_progress(struct execution_follower *f)
{
	(void)f; /* followed only so that its end is noticed */
}

static bool begin_record(struct code_call *k)
{
	struct session *s = session_now_of(k);
	uint8_t hash[SHA256_SIZE];
	struct execution_spec spec = { .kind = EXECUTION_CALL,
				       .hash = hash,
				       .language = code_body_language(&k->body),
				       .context = code_body_context(&k->body),
				       .actor = request_actor(k->r) };
	struct execution *x;

	if (!code_body_is_whole(&k->body))
		return err_set(&k->refused, ERR_INVALID,
			       "the body is not JSON, or nested too deeply") == 0;
	if (!code_body_has_code(&k->body))
		return true; /* the interpreter refuses it */
	code_body_hash(&k->body, hash);
	if (s == NULL)
		return err_set_reason(&k->refused, REASON_GONE, "the sandbox has ended") == 0;
	x = execution_call_start(s, &spec, on_kill, k, &k->refused);
	if (x == NULL)
		return false;
	execution_follow(x, &k->follower);
	return true;
}

static bool on_request(void *arg, const uint8_t *data, size_t n)
{
	struct code_call *k = arg;
	const struct http1_request *q = exchange_request(k->r->x);

	code_body_feed(&k->body, data, n);
	k->seen += n;
	if (n == 0 || (q->framing == HTTP1_LENGTH && k->seen == q->content_length))
		return begin_record(k);
	return true;
}

static void on_refused(void *arg)
{
	struct code_call *k = arg;

	reply_error(k->r, &k->refused);
}

/* ---- its answer */

static bool flush(void *arg)
{
	struct code_call *k = arg;

	if (k->at < k->out.len)
		k->at += exchange_write(k->r->x, k->out.data + k->at, k->out.len - k->at);
	if (k->at < k->out.len)
		return false;
	buf_release(&k->out);
	k->at = 0;
	return true;
}

/* Before the last line goes to the client. */
static void note(struct code_call *k, struct session *s)
{
	struct loop *l = core_loop(k->r->core);

	if (k->follower.execution != NULL)
		execution_call_count(k->follower.execution, k->answer.bytes);
	if (k->answer.over)
		end_by_answer(k);
	session_mask_covered(s, code_answer_places(&k->answer));
	if (code_answer_holds(&k->answer) && k->tick.place == 0)
		loop_timer_set(l, &k->tick, loop_now_ns(l) + MASK_TICK_MS * CLOCK_MS);
}

static size_t write_plain(struct code_call *k, struct session *s, const uint8_t *data, size_t n)
{
	size_t room = exchange_room(k->r->x);

	if (room > 0) {
		code_answer_note(&k->answer, data, n < room ? n : room);
		note(k, s);
	}
	return exchange_write(k->r->x, data, n);
}

/* A piece, as far as this turn of the loop allows; 0: none. */
static size_t write_piece(struct code_call *k, struct session *s, const struct mask *m,
			  const uint8_t *data, size_t n)
{
	size_t all = CODE_ANSWER_PIECE, *left = m == NULL ? &all : session_mask_turn(s, m);
	uint64_t lines = k->answer.lines;

	n = n < CODE_ANSWER_PIECE ? n : CODE_ANSWER_PIECE;
	n = n < *left ? n : *left;
	if (n == 0) {
		loop_defer(core_loop(k->r->core), &k->again);
		return 0;
	}
	*left -= n;
	code_answer_feed(&k->answer, m, data, n, &k->out);
	lines = (k->answer.lines - lines) * LINE_COST;
	*left -= lines < *left ? (size_t)lines : *left;
	note(k, s);
	return n;
}

static size_t write_answer(void *arg, const uint8_t *data, size_t n)
{
	struct code_call *k = arg;
	struct session *s = session_now_of(k);
	const struct mask *m = s == NULL ? NULL : session_mask(s);
	size_t taken = 0;

	if (s == NULL) { /* what was masked is not known any more */
		exchange_abort(k->r->x);
		return n;
	}
	while (taken < n && flush(k)) {
		size_t got = code_answer_is_plain(&k->answer, m)
				     ? write_plain(k, s, data + taken, n - taken)
				     : write_piece(k, s, m, data + taken, n - taken);

		if (got == 0)
			break;
		taken += got;
	}
	(void)flush(k);
	return taken;
}

static bool end_answer(void *arg)
{
	struct code_call *k = arg;
	struct session *s = session_now_of(k);

	if (!k->ended && s == NULL) {
		exchange_abort(k->r->x);
		return false; /* on_done is on its way */
	}
	if (!k->ended) {
		k->ended = true;
		code_answer_end(&k->answer, session_mask(s), &k->out);
		note(k, s);
		end_by_answer(k);
		loop_timer_cancel(core_loop(k->r->core), &k->tick);
	}
	return flush(k);
}

static void on_head(void *arg, int status)
{
	struct code_call *k = arg;

	k->status = status;
	code_answer_init(&k->answer, status != 200);
}

static void on_cut(void *arg)
{
	struct code_call *k = arg;

	k->why = "the interpreter ended";
}

static void on_tick(struct loop_timer *t)
{
	struct code_call *k = t->arg;
	struct session *s = session_now_of(k);

	if (s == NULL || k->ended)
		return;
	code_answer_tick(&k->answer, session_mask(s), &k->out);
	note(k, s);
	(void)flush(k);
}

static void on_again(struct loop_task *t)
{
	struct code_call *k = t->arg;

	if (k->forward != NULL)
		forward_resume(k->forward);
}

/* ---- its life */

struct code_call *code_call_new(struct request *r)
{
	struct code_call *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->r = r;
	k->follower = (struct execution_follower){ .on_progress = on_progress, .arg = k };
	k->tick = (struct loop_timer){ .on_expire = on_tick, .arg = k };
	k->again = (struct loop_task){ .on_run = on_again, .arg = k };
	code_body_init(&k->body);
	code_answer_init(&k->answer, false);
	buf_init(&k->out, CODE_ANSWER_OUT_MAX);
	return k;
}

void code_call_options(struct code_call *k, struct forward_options *o)
{
	static const struct forward_filter filter = { .on_request = on_request,
						      .on_refused = on_refused,
						      .on_head = on_head,
						      .write = write_answer,
						      .flush = flush,
						      .end = end_answer,
						      .on_cut = on_cut };

	o->filter = &filter;
	o->filter_arg = k;
}

void code_call_forwarded(struct code_call *k, struct forward *f)
{
	k->forward = f;
}

void code_call_unanswered(struct code_call *k)
{
	k->why = "the interpreter did not answer";
}

void code_call_free(struct code_call *k, bool answered)
{
	if (k == NULL)
		return;
	loop_timer_cancel(core_loop(k->r->core), &k->tick);
	loop_task_cancel(core_loop(k->r->core), &k->again);
	end_record(k, EXECUTION_CALL_CUT,
		   k->why != NULL ? k->why
		   : answered	  ? "the request was ended"
				  : "the client went away");
	execution_unfollow(&k->follower);
	code_answer_release(&k->answer);
	buf_release(&k->out);
	free(k);
}
