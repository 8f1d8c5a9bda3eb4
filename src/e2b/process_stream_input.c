/* process_stream_input.c - theory of operation
 *
 * StreamInput: a request of many envelopes. The first names the process, the others hold bytes for
 * it (or nothing, to keep the connection alive). One envelope is collected at a time; while its
 * bytes wait for room in the pipe nothing more is read from the client. A long one is parsed in a
 * turn of its tenant (jobs.h). The answer is one empty message, when the client has no more.
 *
 * No known client uses it; the contract has it. */
#include "e2b_private.h"
#include "buf.h"
#include "process_writer.h"
#include "reply.h"

#define ENVELOPE_MAX (1U << 20)
#define SMALL (16U << 10) /* more than that is counted */
#define LONG (4U << 10)	  /* one from here on waits for a turn */

struct input {
	struct process_writer writer; /* first, see process_writer.c */
	struct process_selector which;
	struct buf envelope; /* as far as it has come */
	size_t counted;	     /* bytes of it, see rpc_count() */
	bool started;	     /* its process is known */
	struct job turn;     /* parses an envelope that is long */
	bool waiting;	     /* for the session, or for that turn */
	bool ended;	     /* the client has no more */
	bool answered;
};

static void forget_envelope(struct input *in)
{
	buf_release(&in->envelope);
	rpc_uncount(in->counted);
	in->counted = 0;
}

static void release(struct request *r, bool answered)
{
	struct input *in = r->state;

	(void)answered;
	core_job_cancel(r->core, &in->turn);
	process_writer_release(&in->writer);
	process_selector_release(&in->which);
	forget_envelope(in);
}

static void refuse(struct request *r, enum rpc_code code, const char *why)
{
	struct input *in = r->state;

	in->answered = true;
	rpc_fail(r, code, "%s", why);
}

/* The client has no more, and its last bytes were taken. */
static void finish(struct request *r)
{
	static const char answer[] = "\0\0\0\0\2{}\2\0\0\0\2{}";
	struct input *in = r->state;

	if (in->envelope.len > 0 || !in->started) {
		refuse(r, RPC_INVALID_ARGUMENT, "protocol error: the request ends too early");
		return;
	}
	in->answered = true;
	exchange_reply(r->x, 200, "application/connect+json", answer, sizeof(answer) - 1);
}

static void continue_reading(struct request *r)
{
	const struct input *in = r->state;

	if (in->ended)
		finish(r);
	else
		exchange_resume_body(r->x);
}

static void on_written(struct request *r)
{
	const struct input *in = r->state;

	if (in->writer.failed)
		refuse(r, RPC_INTERNAL, in->writer.why);
	else
		continue_reading(r);
}

static void on_session(struct request *r, struct session *s)
{
	struct input *in = r->state;
	struct execution *x = process_find(s, &in->which);

	in->waiting = false;
	if (x == NULL) {
		in->answered = true;
		process_find_fail(r, &in->which);
		return;
	}
	in->started = true;
	process_writer_follow(&in->writer, r, s, x, on_written);
	continue_reading(r);
}

static void take_start(struct request *r, const json_t *start)
{
	struct input *in = r->state;
	struct err e = { 0 };

	if (in->started) {
		refuse(r, RPC_INVALID_ARGUMENT, "start: was sent before");
		return;
	}
	if (process_selector_read(start, &in->which, &e) < 0) {
		in->answered = true;
		process_find_refuse(r, &e);
		return;
	}
	in->waiting = true;
	request_use(r, on_session);
}

static void take_data(struct request *r, const json_t *data)
{
	struct input *in = r->state;
	struct err e = { 0 };
	int given;

	if (!in->started) {
		refuse(r, RPC_INVALID_ARGUMENT, "data: there was no start before it");
		return;
	}
	given = process_writer_read(&in->writer, data, NULL, &e);
	if (given == 0)
		refuse(r, RPC_UNIMPLEMENTED, "invalid input: neither stdin nor pty");
	else if (given < 0)
		refuse(r, e.code == ERR_LIMIT ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT,
		       e.msg);
	else
		process_writer_give(&in->writer);
}

static void take_message(struct request *r, const uint8_t *text, size_t len)
{
	struct err e = { 0 };
	json_t *message = rpc_parse(text, len, &e), *start = NULL, *data = NULL;

	if (message == NULL || rpc_object(message, "start", &start, &e) < 0 ||
	    rpc_object(message, "data", &data, &e) < 0)
		refuse(r, RPC_INVALID_ARGUMENT, e.msg);
	else if (start != NULL)
		take_start(r, start);
	else if (data != NULL)
		take_data(r, data);
	else if (rpc_member(message, "keepalive") == NULL)
		refuse(r, RPC_UNIMPLEMENTED, "invalid event: none of start, data, keepalive");
	json_decref(message);
}

/* How much of what has come belongs to the envelope that is being collected. */
static size_t wanted(const struct input *in, size_t len)
{
	const uint8_t *b = in->envelope.data;
	size_t whole = RPC_ENVELOPE_HEAD;

	if (in->envelope.len >= RPC_ENVELOPE_HEAD)
		whole += (size_t)b[1] << 24 | (size_t)b[2] << 16 | (size_t)b[3] << 8 | b[4];
	whole -= in->envelope.len;
	return whole < len ? whole : len;
}

/* Only large envelopes are counted. */
static int add(struct input *in, const uint8_t *bytes, size_t n, struct err *e)
{
	if (in->envelope.len + n > SMALL) {
		if (!rpc_count(n))
			return err_set(e, ERR_LIMIT,
				       "too much input waits for processes, try again");
		in->counted += n;
	}
	return buf_add(&in->envelope, bytes, n, e);
}

/* Adds bytes, and takes the message if that makes it whole. */
static void collect(struct request *r, const uint8_t *bytes, size_t n)
{
	struct input *in = r->state;
	const uint8_t *text;
	struct err e = { 0 };
	size_t len;
	int whole;

	if (add(in, bytes, n, &e) < 0) {
		refuse(r, RPC_RESOURCE_EXHAUSTED, e.msg);
		return;
	}
	whole = rpc_envelope_read(in->envelope.data, in->envelope.len, ENVELOPE_MAX, &text, &len,
				  &e);
	if (whole < 0)
		refuse(r,
		       e.code == ERR_LIMIT	   ? RPC_RESOURCE_EXHAUSTED
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

static bool on_turn(struct job *j)
{
	struct request *r = j->arg;
	struct input *in = r->state;
	struct buf whole = in->envelope; /* finish() expects that none is left */

	buf_init(&in->envelope, RPC_ENVELOPE_HEAD + ENVELOPE_MAX);
	in->waiting = false;
	take_message(r, whole.data + RPC_ENVELOPE_HEAD, whole.len - RPC_ENVELOPE_HEAD);
	buf_release(&whole);
	forget_envelope(in);
	if (!in->answered && !in->waiting && !in->writer.busy)
		continue_reading(r);
	return false;
}

static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct input *in = r->state;
	size_t done = 0;

	while (done < len && !in->answered) {
		size_t n;

		if (in->waiting || in->writer.busy)
			return done; /* resumed when that is over */
		n = wanted(in, len - done);
		collect(r, data + done, n);
		done += n;
	}
	return len;
}

static void on_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct input *in = r->state;

	in->ended = ok; /* else the server answers if the client is still there */
	if (ok && !in->answered && !in->waiting && !in->writer.busy)
		finish(r);
}

void process_stream_input(struct request *r)
{
	struct input *in;
	struct err e = { 0 };

	if (!rpc_check_head(r, true))
		return;
	if (request_stream(r, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	in = request_state(r, sizeof(*in), release);
	if (in == NULL)
		return;
	in->turn = (struct job){ .on_piece = on_turn, .arg = r };
	buf_init(&in->envelope, RPC_ENVELOPE_HEAD + ENVELOPE_MAX);
	exchange_read_body(r->x, UINT64_MAX, on_data, on_end);
}
