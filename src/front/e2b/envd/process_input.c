/* process_input.c - SendInput: bytes for a process' pipe or terminal. Answered when it has them
 * all. */
#include <stdio.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/envd/process.h"
#include "front/e2b/envd/rpc.h"
#include "front/e2b/envd/rpc_base64_stream.h"
#include "front/web/reply.h"
#include "lib/base/buf.h"

/* ---- writing
 *
 * Bytes on their way into one process, which may take them slowly.
 *
 * Input that a pipe does not take at once waits here until there is room. The execution is
 * followed, so that it stays in memory and its end is noticed: after it nothing is written, even if
 * another process holds the other end of the pipe. */

struct process_writer {
	struct execution *x; /* stays in memory while followed */
	struct execution_follower follower;
	struct request *r;
	void (*on_done)(struct request *r); /* all of it was taken, or it failed */
	uint8_t *bytes;			    /* owned */
	size_t len, taken;
	size_t counted; /* see rpc_count() */
	bool to_pty, busy, failed;
	char why[160]; /* it failed */
};

/* The mark stands for the lifted bytes only if some were lifted. */
static int read_bytes(const json_t *input, const char *name, struct buf *lifted, uint8_t **ret,
		      size_t *ret_len, struct err *e)
{
	const char *text = json_string_value(rpc_member(input, name));

	if (lifted == NULL || lifted->len == 0 || text == NULL ||
	    strcmp(text, RPC_BASE64_STREAM_MARK) != 0)
		return rpc_bytes(input, name, ret, ret_len, e);
	*ret = lifted->data;
	*ret_len = lifted->len;
	buf_init(lifted, 0);
	return 0;
}

/* The bytes in a message's member "input" (a ProcessInput), or `lifted`, the bytes that
 * rpc_read_with_bytes() decoded before (NULL: none). Take those over. Return 1, 0 if it holds
 * neither kind, -1: ERR_INVALID, or ERR_LIMIT if all clients together keep too much. Not while
 * busy. */
static int process_writer_read(struct process_writer *w, const json_t *message, struct buf *lifted,
			       struct err *e)
{
	json_t *input = NULL;
	uint8_t *bytes = NULL;
	size_t len = 0;

	if (rpc_object(message, "input", &input, e) < 0)
		return -1;
	w->to_pty = rpc_member(input, "pty") != NULL;
	if (!w->to_pty && rpc_member(input, "stdin") == NULL)
		return 0;
	if (read_bytes(input, w->to_pty ? "pty" : "stdin", lifted, &bytes, &len, e) < 0)
		return -1;
	if (!rpc_count(rpc_countable(len))) {
		free(bytes);
		return err_set(e, ERR_LIMIT, "too much input waits for processes, try again");
	}
	free(w->bytes);
	rpc_uncount(w->counted);
	w->counted = rpc_countable(len);
	w->len = len;
	w->bytes = bytes;
	w->taken = 0;
	return 1;
}

/* The bytes are freed before on_done(), which may free the writer. */
static void process_writer_finish(struct process_writer *w)
{
	w->busy = false;
	free(w->bytes);
	w->bytes = NULL;
	rpc_uncount(w->counted);
	w->counted = 0;
	w->on_done(w->r);
}

/* why: a constant. */
static void process_writer_fail(struct process_writer *w, const char *why)
{
	w->failed = true;
	(void)snprintf(w->why, sizeof(w->why), "error writing to %s: %s",
		       w->to_pty ? "tty" : "stdin", why);
	process_writer_finish(w);
}

/* Why the kind of input does not match the process. NULL: it does. */
static const char *process_writer_mismatch(const struct process_writer *w)
{
	bool tty = execution_row(w->x)->tty;

	if (tty && !w->to_pty)
		return "tty assigned to process, input should be written to the pty, not the stdin";
	if (!tty && w->to_pty)
		return "tty not assigned to process, input should be written to the stdin, not the "
		       "tty";
	return NULL;
}

/* Writes until the pipe is full. on_room() follows then. */
static void write_more(struct process_writer *w)
{
	struct err e = { 0 };
	ssize_t n;

	if (w->follower.link == NULL) { /* its session is gone, and it, too */
		process_writer_fail(w, "the process is gone");
		return;
	}
	do {
		n = execution_input(w->x, w->bytes + w->taken, w->len - w->taken, &w->r->wait, &e);
		w->taken += n > 0 ? (size_t)n : 0;
	} while (n > 0 && w->taken < w->len);
	if (n < 0)
		process_writer_fail(w, "stdin not enabled or closed");
	else if (w->taken == w->len)
		process_writer_finish(w);
}

static void on_room(struct completion *wait, const struct err *e)
{
	struct request *r = wait->arg;
	struct process_writer *w = r->state;

	if (!w->busy)
		return;
	if (e != NULL)
		process_writer_fail(w, "stdin not enabled or closed");
	else
		write_more(w);
}

/* The end of the process ends a waiting write. */
static void on_more(struct execution_follower *f)
{
	struct process_writer *w = f->arg;

	if (w->busy && execution_ended(w->x)) {
		completion_cancel(&w->r->wait);
		process_writer_fail(w, "the process has ended");
	}
}

/* Set the process that gets them. */
static void process_writer_follow(struct process_writer *w, struct request *r, struct session *s,
				  struct execution *x, void (*on_done)(struct request *r))
{
	w->x = x;
	w->r = r;
	w->on_done = on_done;
	w->follower.on_progress = on_more;
	w->follower.arg = w;
	execution_follow(x, &w->follower);
	request_hold(r, s);
	r->wait.on_done = on_room;
}

/* Write them. on_done is called, from inside or later. */
static void process_writer_give(struct process_writer *w)
{
	const char *why;

	w->busy = true;
	if (w->follower.link == NULL) {
		process_writer_fail(w, "the process is gone");
		return;
	}
	why = process_writer_mismatch(w);
	if (why != NULL)
		process_writer_fail(w, why);
	else
		write_more(w);
}

/* In the request's release function. Safe if it is all zero. */
static void process_writer_release(struct process_writer *w)
{
	execution_unfollow(&w->follower);
	free(w->bytes);
	rpc_uncount(w->counted);
}

/* ---- a stream of input
 *
 * StreamInput: a request of many envelopes. The first names the process, the others hold bytes for
 * it (or nothing, to keep the connection alive). One envelope is collected at a time. While its
 * bytes wait for room in the pipe nothing more is read from the client. A long one is parsed in a
 * turn of its tenant (jobs.h). The answer is one empty message, when the client has no more.
 *
 * No known client uses it. The contract defines it. */

#define ENVELOPE_MAX (1U << 20)
#define SMALL (16U << 10) /* larger sizes are counted */
#define LONG (4U << 10)	  /* one from here on waits for a turn */

/* The state of StreamInput. */
struct process_stream_input_input {
	struct process_writer writer; /* first */
	struct process_selector which;
	struct buf envelope; /* as far as it has come */
	size_t counted;	     /* bytes of it, see rpc_count() */
	bool started;	     /* its process is known */
	struct job turn;     /* parses a long envelope */
	bool waiting;	     /* for the session, or for that turn */
	bool ended;	     /* the client has no more */
	bool answered;
};

static void forget_envelope(struct process_stream_input_input *in)
{
	buf_release(&in->envelope);
	rpc_uncount(in->counted);
	in->counted = 0;
}

static void stream_input_release(struct request *r, bool answered)
{
	struct process_stream_input_input *in = r->state;

	core_job_cancel(r->core, &in->turn);
	process_writer_release(&in->writer);
	process_selector_release(&in->which);
	forget_envelope(in);
}

/* Nothing is taken from the client after it. */
static void stream_input_refuse(struct request *r, enum rpc_code code, const char *why)
{
	struct process_stream_input_input *in = r->state;

	in->answered = true;
	rpc_fail(r, code, "%s", why);
}

/* The client has no more, and its last bytes were taken. */
static void stream_input_finish(struct request *r)
{
	static const char answer[] = "\0\0\0\0\2{}\2\0\0\0\2{}";
	struct process_stream_input_input *in = r->state;

	if (in->envelope.len > 0 || !in->started) {
		stream_input_refuse(r, RPC_INVALID_ARGUMENT,
				    "protocol error: the request ends too early");
		return;
	}
	in->answered = true;
	exchange_reply(r->x, 200, "application/connect+json", answer, sizeof(answer) - 1);
}

/* The client may have sent its end while bytes waited. */
static void continue_reading(struct request *r)
{
	const struct process_stream_input_input *in = r->state;

	if (in->ended)
		stream_input_finish(r);
	else
		exchange_resume_body(r->x);
}

static void process_stream_input_on_written(struct request *r)
{
	const struct process_stream_input_input *in = r->state;

	if (in->writer.failed)
		stream_input_refuse(r, RPC_INTERNAL, in->writer.why);
	else
		continue_reading(r);
}

static void process_stream_input_on_session(struct request *r, struct session *s)
{
	struct process_stream_input_input *in = r->state;
	struct execution *x = process_find(s, &in->which);

	in->waiting = false;
	if (x == NULL) {
		in->answered = true;
		process_find_fail(r, &in->which);
		return;
	}
	in->started = true;
	process_writer_follow(&in->writer, r, s, x, process_stream_input_on_written);
	continue_reading(r);
}

/* The process is known when the sandbox runs. */
static void take_start(struct request *r, const json_t *start)
{
	struct process_stream_input_input *in = r->state;
	struct err e = { 0 };

	if (in->started) {
		stream_input_refuse(r, RPC_INVALID_ARGUMENT, "start: was sent before");
		return;
	}
	if (process_selector_read(start, &in->which, &e) < 0) {
		in->answered = true;
		process_find_refuse(r, &e);
		return;
	}
	in->waiting = true;
	request_use(r, process_stream_input_on_session);
}

static void take_data(struct request *r, const json_t *data)
{
	struct process_stream_input_input *in = r->state;
	struct err e = { 0 };
	int given;

	if (!in->started) {
		stream_input_refuse(r, RPC_INVALID_ARGUMENT, "data: there was no start before it");
		return;
	}
	given = process_writer_read(&in->writer, data, NULL, &e);
	if (given == 0)
		stream_input_refuse(r, RPC_UNIMPLEMENTED, "invalid input: neither stdin nor pty");
	else if (given < 0)
		stream_input_refuse(
			r, e.code == ERR_LIMIT ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT,
			e.msg);
	else
		process_writer_give(&in->writer);
}

/* message is freed here, so nothing may keep a text of it. */
static void take_message(struct request *r, const uint8_t *text, size_t len)
{
	struct err e = { 0 };
	json_t *message = rpc_parse(text, len, &e), *start = NULL, *data = NULL;

	if (message == NULL || rpc_object(message, "start", &start, &e) < 0 ||
	    rpc_object(message, "data", &data, &e) < 0)
		stream_input_refuse(r, RPC_INVALID_ARGUMENT, e.msg);
	else if (start != NULL)
		take_start(r, start);
	else if (data != NULL)
		take_data(r, data);
	else if (rpc_member(message, "keepalive") == NULL)
		stream_input_refuse(r, RPC_UNIMPLEMENTED,
				    "invalid event: none of start, data, keepalive");
	json_decref(message);
}

/* The share of the arrived bytes that belongs to the current envelope. */
static size_t stream_input_wanted(const struct process_stream_input_input *in, size_t len)
{
	const uint8_t *b = in->envelope.data;
	size_t whole = RPC_ENVELOPE_HEAD;

	if (in->envelope.len >= RPC_ENVELOPE_HEAD)
		whole += (size_t)b[1] << 24 | (size_t)b[2] << 16 | (size_t)b[3] << 8 | b[4];
	whole -= in->envelope.len;
	return whole < len ? whole : len;
}

/* Only large envelopes are counted. */
static int stream_input_add(struct process_stream_input_input *in, const uint8_t *bytes, size_t n,
			    struct err *e)
{
	if (in->envelope.len + n > SMALL) {
		if (!rpc_count(n))
			return err_set(e, ERR_LIMIT,
				       "too much input waits for processes, try again");
		in->counted += n;
	}
	return buf_add(&in->envelope, bytes, n, e);
}

/* Add bytes, and take the message if that makes it whole. */
static void stream_input_collect(struct request *r, const uint8_t *bytes, size_t n)
{
	struct process_stream_input_input *in = r->state;
	const uint8_t *text;
	struct err e = { 0 };
	size_t len;
	int whole;

	if (stream_input_add(in, bytes, n, &e) < 0) {
		stream_input_refuse(r, RPC_RESOURCE_EXHAUSTED, e.msg);
		return;
	}
	whole = rpc_envelope_read(in->envelope.data, in->envelope.len, ENVELOPE_MAX, &text, &len,
				  &e);
	if (whole < 0)
		stream_input_refuse(r,
				    e.code == ERR_LIMIT		? RPC_RESOURCE_EXHAUSTED
				    : e.code == ERR_UNSUPPORTED ? RPC_INTERNAL
								: RPC_INVALID_ARGUMENT,
				    e.msg);
	if (whole <= 0)
		return;
	if (len >= LONG) {
		in->waiting = true;
		core_job_add(r->core, r->tenant, &in->turn);
		return;
	}
	take_message(r, text, len);
	forget_envelope(in);
}

/* A long envelope in a turn of its tenant. */
static bool on_turn(struct job *j)
{
	struct request *r = j->arg;
	struct process_stream_input_input *in = r->state;
	struct buf whole = in->envelope; /* stream_input_finish() expects that none is left */

	buf_init(&in->envelope, RPC_ENVELOPE_HEAD + ENVELOPE_MAX);
	in->waiting = false;
	take_message(r, whole.data + RPC_ENVELOPE_HEAD, whole.len - RPC_ENVELOPE_HEAD);
	buf_release(&whole);
	forget_envelope(in);
	if (!in->answered && !in->waiting && !in->writer.busy)
		continue_reading(r);
	return false;
}

/* Fewer bytes than len: something waits, and the exchange keeps the rest. */
static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct process_stream_input_input *in = r->state;
	size_t done = 0;

	while (done < len && !in->answered) {
		size_t n;

		if (in->waiting || in->writer.busy)
			return done; /* resumed at its end */
		n = stream_input_wanted(in, len - done);
		stream_input_collect(r, data + done, n);
		done += n;
	}
	return len;
}

static void on_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct process_stream_input_input *in = r->state;

	in->ended = ok; /* else the server answers if the client is still there */
	if (ok && !in->answered && !in->waiting && !in->writer.busy)
		stream_input_finish(r);
}

void process_stream_input(struct request *r)
{
	struct process_stream_input_input *in;
	struct err e = { 0 };

	if (!rpc_check_head(r, true))
		return;
	if (request_stream(r, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	in = request_state(r, sizeof(*in), stream_input_release);
	if (in == NULL)
		return;
	in->turn = (struct job){ .on_piece = on_turn, .arg = r };
	buf_init(&in->envelope, RPC_ENVELOPE_HEAD + ENVELOPE_MAX);
	exchange_read_body(r->x, UINT64_MAX, on_data, on_end);
}

/* ---- one piece of input */

#define INPUT_MAX (64U << 20) /* bytes of a request */

/* The state of SendInput. given: the message has bytes of either kind. */
struct process_input {
	struct process_writer writer; /* first */
	struct process_selector which;
	bool given;
};

static void process_input_release(struct request *r, bool answered)
{
	struct process_input *in = r->state;

	process_writer_release(&in->writer);
	process_selector_release(&in->which);
}

/* The process has all bytes, or the writer failed. */
static void on_written(struct request *r)
{
	const struct process_input *in = r->state;

	if (in->writer.failed)
		rpc_fail(r, RPC_INTERNAL, "%s", in->writer.why);
	else
		rpc_reply_empty(r);
}

static void on_session(struct request *r, struct session *s)
{
	struct process_input *in = r->state;
	struct execution *x = process_find(s, &in->which);

	if (x == NULL) {
		process_find_fail(r, &in->which);
		return;
	}
	if (!in->given) {
		rpc_fail(r, RPC_UNIMPLEMENTED, "invalid input: neither stdin nor pty");
		return;
	}
	process_writer_follow(&in->writer, r, s, x, on_written);
	process_writer_give(&in->writer);
}

static void on_message(struct request *r, json_t *message, struct buf *lifted)
{
	struct process_input *in = request_state(r, sizeof(*in), process_input_release);
	struct err e = { 0 };
	int given;

	if (in == NULL)
		return;
	if (process_selector_read(message, &in->which, &e) < 0) {
		process_find_refuse(r, &e);
		return;
	}
	given = process_writer_read(&in->writer, message, lifted, &e);
	if (given < 0) {
		rpc_fail(r, e.code == ERR_LIMIT ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT,
			 "%s", e.msg);
		return;
	}
	in->given = given > 0;
	request_use(r, on_session);
}

void process_send_input(struct request *r)
{
	rpc_read_with_bytes(r, INPUT_MAX, on_message);
}
