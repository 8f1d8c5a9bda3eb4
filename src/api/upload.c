#include "upload.h"

#include "server.h"

#define DROP_MAX (64U << 20)

/* The call is the first member of every state that has an upload, and the upload the second. */
struct state {
	struct file_call call;
	struct upload upload;
};

static struct upload *upload_of(const struct exchange *x)
{
	struct state *s = request_of(x)->state;

	return &s->upload;
}

static bool send_head(struct upload *u)
{
	struct file_op *op = u->call->op;

	while (u->head_left > 0) {
		size_t n =
			file_op_input(op, u->head + sizeof(u->head) - u->head_left, u->head_left);

		if (n == 0)
			return false;
		u->head_left -= n;
	}
	return true;
}

static void begin_chunk(struct upload *u, size_t len)
{
	u->chunk_left = len < FILE_MSG_CHUNK_MAX ? len : FILE_MSG_CHUNK_MAX;
	file_msg_chunk_write(u->head, (uint32_t)u->chunk_left);
	u->head_left = sizeof(u->head);
}

static void answer(struct upload *u)
{
	void (*then)(struct file_call * c) = u->then;

	u->then = NULL;
	if (then != NULL)
		then(u->call);
}

static size_t take(struct exchange *x, const uint8_t *data, size_t len)
{
	struct upload *u = upload_of(x);
	size_t done = 0;

	while (done < len && u->call->op != NULL && !u->call->failed) {
		size_t part, n;

		if (u->chunk_left == 0)
			begin_chunk(u, len - done);
		if (!send_head(u))
			return done;
		part = len - done < u->chunk_left ? len - done : (size_t)u->chunk_left;
		n = file_op_input(u->call->op, data + done, part);
		if (n == 0)
			return done;
		done += n;
		u->chunk_left -= n;
	}
	/* The built-in has given up: the rest is dropped. */
	u->dropped += len - done;
	if (u->dropped > DROP_MAX)
		answer(u);
	return len;
}

static void finish(struct upload *u)
{
	if (u->call->op == NULL || !send_head(u))
		return;
	u->ending = false;
	file_op_end_input(u->call->op);
}

static void body_ended(struct exchange *x, bool ok)
{
	struct upload *u = upload_of(x);

	u->reading = false;
	if (!ok) { /* the server answers, if anybody listens; without the last chunk nothing is kept
		    */
		file_call_release(u->call);
		u->then = NULL;
		return;
	}
	if (u->call->op == NULL) {
		answer(u);
		return;
	}
	begin_chunk(u, 0);
	u->ending = true;
	finish(u);
}

void upload_start(struct upload *u, struct file_call *c, uint64_t max)
{
	u->call = c;
	u->reading = true;
	exchange_read_body(c->r->x, max, take, body_ended);
}

void upload_room(struct upload *u)
{
	if (u->call == NULL)
		return;
	if (u->ending)
		finish(u);
	else if (u->reading)
		exchange_resume_body(u->call->r->x);
}

void upload_then(struct upload *u, void (*then)(struct file_call *c))
{
	u->then = then;
	if (!u->reading)
		answer(u);
	else
		exchange_resume_body(u->call->r->x);
}
