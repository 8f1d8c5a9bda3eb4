/* code_call.c - theory of operation
 *
 * The body of the request passes through code_body.c. When its last byte is about to be sent, the
 * execution is recorded (code_execution.h). If the store refuses, the byte is not sent, so the code
 * does not run. The answer passes through code_answer.c. Output without room in the exchange waits
 * in `out`, and then nothing more is taken from the interpreter. Bytes are taken in pieces, by jobs
 * of the tenant (lib/loop/jobs.h), whether they are masked or only counted: an interpreter that
 * sends nothing but line feeds holds up no other tenant.
 *
 * All bytes for the client go to the log of the execution first, a record for each step or change
 * of stream. While older logs are removed to make room for it, the job waits a bounded number of
 * turns. A log without room, or with a failing write, is cut, and the answer passes.
 *
 * The last bytes of an answer wait until the record is complete (execution_call_end()), for a
 * second at most: a client with all bytes finds the limits that the code hit.
 *
 * The session may end at any time: it is looked up in each turn, and the execution is followed. */
#include "front/e2b/code/code_call.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/execution/code_execution.h"
#include "daemon/session/session_service.h"
#include "front/e2b/code/code_answer.h"
#include "front/e2b/code/code_body.h"
#include "front/web/reply.h"
#include "lib/base/clock.h"

#define LINE_COST 32 /* bytes that a line counts for among those of a piece, beside its own */
#define KEEP_MAX ((size_t)16 * 1024) /* bytes that wait for a record */
#define WAITS_MAX 64		     /* turns that a piece waits for room in the log */
#define STEP ((size_t)2048)	     /* after so many bytes it is looked how many lines they were */

/* One request for code, owned by entry_request. forward calls it as its filter, and may be NULL
 * before the connection is made and after a failure. */
struct code_call {
	struct request *r;
	struct forward *forward; /* borrowed. NULL until it is made */
	struct code_body body;
	uint64_t seen; /* bytes of the body */
	struct execution_follower follower;
	struct err refused;
	int status; /* of the answer. 0: none so far */
	struct code_answer answer;
	struct buf kept; /* bytes for the log */
	enum output_stream kept_stream;
	struct buf out;
	size_t at; /* bytes of out already written */
	struct loop_timer tick;
	struct job job;	   /* the next piece of the answer */
	size_t piece_left; /* bytes that may be taken now */
	unsigned waits;	   /* turns that the next piece has waited */
	bool ended;	   /* all of the answer was read */
	const char *why;   /* why it is cut. NULL: not known here */
	/* Nothing is sent until the execution has ended. */
	bool held;
	struct completion over;
};

/* NULL: it has ended. Never kept over a turn. */
static struct session *session_now_of(const struct code_call *k)
{
	return session_find(k->r->core, k->r->session_id);
}

/* Asked for each request to a port, so the cheap comparisons come first. */
bool code_call_is(const struct request *r, struct session *s, uint16_t port)
{
	const struct http1_request *q = exchange_request(r->x);

	return port == CODE_CALL_PORT && q->method == HTTP1_POST &&
	       http1_span_is(q->path, "/execute") && session_service_has_interpreter(s);
}

/* ---- its record
 *
 * begin_record() runs before the body's last byte is sent. Without a record the follower has no
 * execution, and the other functions do nothing. */

/* The log takes the bytes or cuts itself. */
static void write_kept(struct code_call *k, const uint8_t *bytes, size_t n)
{
	struct execution *x = k->follower.execution;

	if (x != NULL && n > 0)
		execution_call_keep(x, k->kept_stream, bytes, n);
}

/* Before anything is sent to the client. */
static void keep_now(struct code_call *k)
{
	write_kept(k, k->kept.data, k->kept.len);
	buf_clear(&k->kept);
}

/* A record of the log holds bytes of one stream only. */
static void on_keep(void *arg, enum output_stream stream, const uint8_t *bytes, size_t n)
{
	struct code_call *k = arg;

	if (k->kept_stream != stream || k->kept.len + n > KEEP_MAX)
		keep_now(k);
	k->kept_stream = stream;
	if (n > KEEP_MAX)
		write_kept(k, bytes, n);
	else
		buf_put(&k->kept, bytes, n);
}

/* Called again by on_head(), when the status tells the kind of answer. */
static void begin_answer(struct code_call *k, bool is_text)
{
	code_answer_init(&k->answer, is_text);
	k->answer.keep = on_keep;
	k->answer.keep_arg = k;
}

static void code_call_let_go(struct code_call *k)
{
	completion_cancel(&k->over);
	k->held = false;
}

/* The record is complete, or its session has ended. */
static void on_over(struct completion *w, const struct err *e)
{
	struct code_call *k = w->arg;

	(void)e;
	k->held = false;
	if (k->forward != NULL)
		forward_resume(k->forward);
}

/* The record may need another turn. Until then nothing is sent (held). */
static void end_record(struct code_call *k, enum execution_call_outcome how, const char *why)
{
	struct execution *x = k->follower.execution;

	keep_now(k);
	if (x == NULL)
		return;
	execution_call_count(x, k->answer.bytes);
	if (execution_call_end(x, how, why)) {
		code_call_let_go(k);
	} else if (!k->held) {
		k->held = true;
		execution_wait(x, &k->over);
	}
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

/* The answer is not complete. Its held text goes to the record. */
static void end_cut(struct code_call *k, const char *why)
{
	struct session *s = session_now_of(k);

	if (s != NULL && !k->ended && k->follower.execution != NULL) {
		k->ended = true;
		code_answer_end(&k->answer, session_mask(s), &k->out);
		session_mask_covered(s, code_answer_places(&k->answer));
	}
	end_record(k, EXECUTION_CALL_CUT, why);
}

/* Another request ends the execution. */
static void on_kill(void *arg)
{
	struct code_call *k = arg;

	end_cut(k, "ended by a request");
	exchange_revoke(k->r->x, 409, "the execution was ended by a request");
}

static void on_progress(struct execution_follower *f)
{
	(void)f; /* followed only so that its end is noticed */
}

/* False: refused says why, and no byte more is sent to the interpreter. */
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
			       "the body is not JSON that every reader understands alike: it is "
			       "malformed, nested too deeply, has a member twice or named with an "
			       "escape sequence, half a surrogate pair in a text, or context_name "
			       "(use context_id)") == 0;
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

/* forward asks before it sends the bytes. n 0: the end of a chunked body. */
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

/* forward calls this after on_request() has returned false. */
static void on_refused(void *arg)
{
	struct code_call *k = arg;

	reply_error(k->r, &k->refused);
}

/* ---- its answer
 *
 * write_answer() takes bytes from the interpreter, write_step() passes some of them through the
 * mask into out, and code_call_flush() sends out. piece_left bounds the work of a turn. */

/* True: all of out was sent. */
static bool code_call_flush(void *arg)
{
	struct code_call *k = arg;

	if (k->held)
		return false;
	if (k->at < k->out.len)
		k->at += exchange_write(k->r->x, k->out.data + k->at, k->out.len - k->at);
	if (k->at < k->out.len)
		return false;
	buf_release(&k->out);
	k->at = 0;
	return true;
}

/* Before the last line goes to the client. */
static void code_call_note(struct code_call *k, struct session *s)
{
	struct loop *l = core_loop(k->r->core);

	keep_now(k);
	if (k->answer.over)
		end_by_answer(k);
	session_mask_covered(s, code_answer_places(&k->answer));
	if (code_answer_holds(&k->answer) && k->tick.place == 0)
		loop_timer_set(l, &k->tick, loop_now_ns(l) + MASK_TICK_MS * CLOCK_MS);
}

/* Without a mask the bytes go to the client without a copy, unless the answer is held. */
static size_t write_plain(struct code_call *k, struct session *s, const uint8_t *data, size_t n)
{
	size_t room = exchange_room(k->r->x);

	if (room == 0) /* takes nothing, and on_writable follows: only a short write asks for it */
		return exchange_write(k->r->x, data, n);
	n = n < room ? n : room;
	code_answer_note(&k->answer, data, n);
	code_call_note(k, s);
	if (!k->held)
		return exchange_write(k->r->x, data, n);
	buf_put(&k->out, data, n);
	return n;
}

/* All n bytes are taken: out has room for a piece. */
static size_t write_masked(struct code_call *k, struct session *s, const struct mask *m,
			   const uint8_t *data, size_t n)
{
	code_answer_feed(&k->answer, m, data, n, &k->out);
	code_call_note(k, s);
	return n;
}

/* Some bytes, as far as this piece allows. 0: no room. */
static size_t write_step(struct code_call *k, struct session *s, const struct mask *m,
			 const uint8_t *data, size_t n)
{
	uint64_t lines = k->answer.lines, cost;

	n = n < STEP ? n : STEP;
	n = n < k->piece_left ? n : k->piece_left;
	n = code_answer_is_plain(&k->answer, m) ? write_plain(k, s, data, n)
						: write_masked(k, s, m, data, n);
	cost = n + (k->answer.lines - lines) * LINE_COST;
	k->piece_left -= cost < k->piece_left ? (size_t)cost : k->piece_left;
	return n;
}

/* Returns how many bytes were taken. on_piece() asks for the rest. */
static size_t write_answer(void *arg, const uint8_t *data, size_t n)
{
	struct code_call *k = arg;
	struct session *s = session_now_of(k);
	const struct mask *m = s == NULL ? NULL : session_mask(s);
	size_t taken = 0;

	if (k->ended) /* by a request: there is no client any more */
		return n;
	if (s == NULL) { /* what was masked is not known any more */
		exchange_abort(k->r->x);
		return n;
	}
	while (taken < n && k->piece_left > 0 && code_call_flush(k)) {
		size_t got = write_step(k, s, m, data + taken, n - taken);

		if (got == 0)
			break;
		taken += got;
	}
	(void)code_call_flush(k);
	if (taken < n && k->piece_left == 0)
		core_job_add(k->r->core, k->r->tenant, &k->job);
	return taken;
}

/* Behind the other jobs of the tenant again, if there is more. */
static bool on_piece(struct job *j)
{
	struct code_call *k = j->arg;
	const struct session *s = session_now_of(k);
	const struct mask *m = s == NULL ? NULL : session_mask(s);

	struct execution *x = k->follower.execution;

	loop_note(core_loop(k->r->core), "/execute");
	if (x != NULL && k->waits < WAITS_MAX &&
	    !execution_call_has_room(x, 2 * CODE_ANSWER_PIECE)) {
		k->waits++;
		core_job_add(k->r->core, k->r->tenant, &k->job); /* behind the others again */
		return false;
	}
	k->waits = 0;
	k->piece_left = CODE_ANSWER_PIECE;
	if (m != NULL && mask_turn(m) < k->piece_left)
		k->piece_left = mask_turn(m);
	if (k->forward != NULL)
		forward_resume(k->forward);
	k->piece_left = 0;
	return false;
}

/* forward calls this at the answer's end, and again until it returns true. */
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
		code_call_note(k, s);
		end_by_answer(k);
		loop_timer_cancel(core_loop(k->r->core), &k->tick);
	}
	return code_call_flush(k);
}

/* An error of the interpreter is a text, not lines. */
static void on_head(void *arg, int status)
{
	struct code_call *k = arg;

	k->status = status;
	begin_answer(k, status != 200);
}

/* Texts of the head do not reach the mask of the answer. A header with such a text is left out. */
static bool may_pass(void *arg, struct http1_span text)
{
	struct code_call *k = arg;
	struct session *s = session_now_of(k);
	const struct mask *m = s == NULL ? NULL : session_mask(s);
	OWN_MEM uint8_t *copy = malloc(text.n + 1);
	size_t places;

	if (s == NULL || copy == NULL)
		return false;
	if (m == NULL || text.n == 0)
		return true;
	memcpy(copy, text.p, text.n);
	places = mask_text(m, NULL, copy, text.n);
	session_mask_covered(s, places);
	return places == 0;
}

/* code_call_free() uses the reason. */
static void on_cut(void *arg)
{
	struct code_call *k = arg;

	k->why = "the interpreter ended";
}

/* Held text leaves after one or two ticks. code_call_note() sets the timer again if some is left.
 */
static void on_tick(struct loop_timer *t)
{
	struct code_call *k = t->arg;
	struct session *s = session_now_of(k);

	if (s == NULL || k->ended)
		return;
	code_answer_tick(&k->answer, session_mask(s), &k->out);
	code_call_note(k, s);
	(void)code_call_flush(k);
}

/* ---- its life
 *
 * sandbox_entry.c calls these in the order of code_call.h. */

struct code_call *code_call_new(struct request *r)
{
	struct code_call *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->r = r;
	k->follower = (struct execution_follower){ .on_progress = on_progress, .arg = k };
	k->tick = (struct loop_timer){ .on_expire = on_tick, .arg = k };
	k->job = (struct job){ .on_piece = on_piece, .arg = k };
	k->over = (struct completion){ .on_done = on_over, .arg = k };
	code_body_init(&k->body);
	begin_answer(k, false);
	buf_init(&k->kept, KEEP_MAX);
	buf_init(&k->out, CODE_ANSWER_OUT_MAX);
	return k;
}

void code_call_options(struct code_call *k, struct forward_options *o)
{
	static const struct forward_filter filter = { .on_request = on_request,
						      .on_refused = on_refused,
						      .on_head = on_head,
						      .may_pass = may_pass,
						      .write = write_answer,
						      .flush = code_call_flush,
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

/* The record ends here if nothing has ended it before. */
void code_call_free(struct code_call *k, bool answered)
{
	if (k == NULL)
		return;
	loop_timer_cancel(core_loop(k->r->core), &k->tick);
	core_job_cancel(k->r->core, &k->job);
	end_cut(k, k->why != NULL ? k->why
		   : answered	  ? "the request was ended"
				  : "the client went away");
	code_call_let_go(k);
	execution_unfollow(&k->follower);
	code_answer_release(&k->answer);
	buf_release(&k->kept);
	buf_release(&k->out);
	free(k);
}
