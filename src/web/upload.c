#include "upload.h"

#include "server.h"

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

static void answer(struct upload *u)
{
	void (*on_finished)(struct file_call * c) = u->on_finished;

	u->on_finished = NULL;
	if (on_finished != NULL)
		on_finished(u->out.call);
}

static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct upload *u = upload_of(x);
	struct file_call *c = u->out.call;

	if (c->op != NULL && !c->failed)
		return chunk_writer_put(&u->out, data, len);
	/* The built-in has ended or failed: the rest of the body is dropped. */
	u->dropped += len;
	if (u->dropped > UPLOAD_DROP_MAX)
		answer(u);
	return len;
}

static void on_body_end(struct exchange *x, bool ok)
{
	struct upload *u = upload_of(x);

	u->reading = false;
	if (!ok) { /* the server answers if the client is still there; without the last chunk
		      nothing is kept */
		file_call_release(u->out.call);
		u->on_finished = NULL;
		return;
	}
	if (u->out.call->op == NULL)
		answer(u);
	else
		chunk_writer_end(&u->out);
}

void upload_start(struct upload *u, struct file_call *c, uint64_t max)
{
	const struct http1_request *q = exchange_request(c->r->x);

	chunk_writer_init(&u->out, c, q->framing == HTTP1_LENGTH ? q->content_length : 0);
	u->reading = true;
	exchange_read_body(c->r->x, max, on_data, on_body_end);
}

void upload_room(struct upload *u)
{
	if (chunk_writer_room(&u->out) && u->reading)
		exchange_resume_body(u->out.call->r->x);
}

void upload_finish(struct upload *u, void (*on_finished)(struct file_call *c))
{
	u->on_finished = on_finished;
	if (!u->reading)
		answer(u);
	else
		exchange_resume_body(u->out.call->r->x);
}
