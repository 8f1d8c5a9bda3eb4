/* request_body.c - theory of operation
 *
 * The body of a request: where it ends, which handler gets it, and what happens if it is malformed.
 * Bytes are delivered straight out of the input buffer. Bytes a handler does not take stay there,
 * and then nothing more is read from the socket.
 *
 * A handler that keeps a body works on it when it has ended, which takes some milliseconds if it is
 * long. So the end of a long body is a job of its account (jobs.h): accounts take turns, and
 * between two turns everything else is served. While the job waits, the body is complete and no
 * deadline runs. */
#include "lib/net/conn.h"

#include <assert.h>

#include "lib/loop/loop.h"

#define LONG_BODY ((size_t)4 * 1024)

enum request_body_next { NEXT_DATA, NEXT_MORE, NEXT_END, NEXT_BAD, NEXT_TOO_LONG };

void request_body_start(struct conn *c, const struct http1_request *r)
{
	struct request_body *b = &c->body;

	*b = (struct request_body){ .framing = r->framing, .left = r->content_length };
	if (r->framing == HTTP1_CHUNKED)
		chunk_init(&b->chunk, UINT64_MAX); /* the reader sets the bound later */
	b->done = r->framing == HTTP1_NO_BODY || (r->framing == HTTP1_LENGTH && b->left == 0);
}

static enum request_body_next body_next_chunked(struct conn *c, struct http1_span *ret)
{
	size_t used = 0;
	enum chunk_result r = chunk_read(&c->body.chunk, fifo_bytes(&c->in), c->in.len, &used, ret);

	fifo_consume(&c->in, used);
	switch (r) {
	case CHUNK_DATA:
		return NEXT_DATA;
	case CHUNK_END:
		return NEXT_END;
	case CHUNK_BAD:
		return NEXT_BAD;
	case CHUNK_TOO_LONG:
		return NEXT_TOO_LONG;
	case CHUNK_MORE:
		break;
	}
	return NEXT_MORE;
}

/* The bytes of the body at the front of the input. */
static enum request_body_next body_next(struct conn *c, struct http1_span *ret)
{
	struct request_body *b = &c->body;

	if (b->framing == HTTP1_CHUNKED)
		return body_next_chunked(c, ret);
	if (c->x && c->x->too_long)
		return NEXT_TOO_LONG;
	if (b->left == 0)
		return NEXT_END;
	if (c->in.len == 0)
		return NEXT_MORE;
	ret->p = (const char *)fifo_bytes(&c->in);
	ret->n = c->in.len < b->left ? c->in.len : (size_t)b->left;
	return NEXT_DATA;
}

static void body_took(struct conn *c, size_t n)
{
	if (c->body.framing == HTTP1_CHUNKED)
		chunk_took(&c->body.chunk, n);
	else
		c->body.left -= n;
	fifo_consume(&c->in, n);
}

bool request_body_is_awaited(const struct conn *c)
{
	return c->x->on_data && !c->x->paused && !c->body.done && c->x->answer != ANSWER_ENDED;
}

void request_body_fault(struct conn *c, int status, const char *words)
{
	struct exchange *x = c->x;
	void (*on_end)(struct exchange * x, bool ok) = x->on_end;

	request_body_forget_turn(x);
	x->on_data = NULL;
	x->on_end = NULL;
	x->close = true;
	x->truncated = true;
	if (on_end)
		on_end(x, false);
	if (x->answer == ANSWER_NONE)
		response_refuse(x, status, words);
	else if (x->answer == ANSWER_BEGUN)
		conn_drop_later(c);
}

static void body_ended(struct conn *c)
{
	struct exchange *x = c->x;
	void (*on_end)(struct exchange * x, bool ok) = x->on_end;

	c->body.done = true;
	x->on_data = NULL;
	x->on_end = NULL;
	if (on_end)
		on_end(x, true);
}

/* The handler took fewer bytes than it was given: no more are delivered until
 * exchange_resume_body(). */
static void body_give(struct conn *c, struct http1_span data)
{
	struct exchange *x = c->x;
	size_t n = x->on_data(x, (const uint8_t *)data.p, data.n);

	assert(n <= data.n);
	x->paused = n < data.n;
	body_took(c, n);
	/* time spent in the handler does not count against the client */
	c->read_ns = loop_now_ns(c->loop);
}

/* Only collected bodies are counted. A streamed one goes where its handler takes it. */
static bool body_may_keep(struct conn *c, size_t n)
{
	int status = c->x->on_body ? conn_account_body(c->x, n) : 0;

	if (status == 0)
		return true;
	request_body_fault(c, status,
			   status == 429 ? "too many request bodies are under way already"
					 : "the server has too many request bodies under way");
	return false;
}

static bool on_turn(struct job *j)
{
	struct exchange *x = j->arg;

	conn_do(x->conn, body_ended);
	return false;
}

bool request_body_waits_for_turn(const struct exchange *x)
{
	return x->handover.link != NULL;
}

/* Call on_end of the handler: at once, or in the account's turn if the body is long. */
static void body_hand_over(struct conn *c)
{
	struct exchange *x = c->x;
	struct job_queue *work = c->account->work;

	if (x->charged < LONG_BODY) {
		body_ended(c);
		return;
	}
	c->body.done = true;
	x->handover = (struct job){ .on_piece = on_turn, .arg = x };
	jobs_add(c->server->jobs, work ? work : &c->server->work, &x->handover);
}

void request_body_forget_turn(struct exchange *x)
{
	jobs_cancel(x->conn->server->jobs, &x->handover);
}

bool request_body_deliver(struct conn *c)
{
	struct http1_span data;

	if (request_body_waits_for_turn(c->x))
		return false;
	if (c->x->on_data && c->body.done && c->x->answer != ANSWER_ENDED) {
		body_ended(c); /* there is no body */
		return true;
	}
	if (!request_body_is_awaited(c))
		return false;
	switch (body_next(c, &data)) {
	case NEXT_DATA:
		if (body_may_keep(c, data.n))
			body_give(c, data);
		return true;
	case NEXT_END:
		body_hand_over(c);
		return true;
	case NEXT_BAD:
		request_body_fault(c, 400, "the request's body is malformed");
		return true;
	case NEXT_TOO_LONG:
		request_body_fault(c, 413, "the request's body is too long");
		return true;
	case NEXT_MORE:
		break;
	}
	return false;
}

bool request_body_discard(struct conn *c)
{
	struct http1_span data;

	if (c->body.framing == HTTP1_CHUNKED)
		c->body.chunk.max = UINT64_MAX; /* `discarded` bounds it */
	switch (body_next(c, &data)) {
	case NEXT_DATA:
		c->discarded += data.n;
		body_took(c, data.n);
		if (c->discarded > CONN_DISCARD_MAX)
			c->drop_pending = true;
		return true;
	case NEXT_END:
		c->body.done = true;
		c->state = CONN_HEAD;
		c->read_ns = loop_now_ns(c->loop);
		return true;
	case NEXT_BAD:
	case NEXT_TOO_LONG:
		c->drop_pending = true;
		return true;
	case NEXT_MORE:
		break;
	}
	if (c->ended)
		c->drop_pending = true;
	return c->ended;
}
