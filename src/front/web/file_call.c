#include "front/web/file_call.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "front/web/auth.h"
#include "front/web/file_event.h"
#include "lib/net/server.h"

/* ---- bodies as content */

/* The call is the first member of every state with an upload, and the upload the second. */
struct file_call_state {
	struct file_call call;
	struct upload upload;
};

/* The exchange knows the request, and the request its state. */
static struct upload *upload_of(const struct exchange *x)
{
	struct file_call_state *s = request_of(x)->state;

	return &s->upload;
}

/* Once: later calls find no function. */
static void upload_answer(struct upload *u)
{
	void (*on_finished)(struct file_call * c) = u->on_finished;

	u->on_finished = NULL;
	if (on_finished != NULL)
		on_finished(u->out.call);
}

/* Returns the bytes that were taken. upload_room() asks for the rest. */
static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct upload *u = upload_of(x);
	struct file_call *c = u->out.call;

	if (c->op != NULL && !c->failed)
		return chunk_writer_put(&u->out, data, len);
	/* The built-in has ended or failed: the rest of the body is dropped. */
	u->dropped += len;
	if (u->dropped > UPLOAD_DROP_MAX)
		upload_answer(u);
	return len;
}

static void on_body_end(struct exchange *x, bool ok)
{
	struct upload *u = upload_of(x);

	u->reading = false;
	if (!ok) { /* the server answers a present client. Without the last chunk nothing is kept */
		file_call_release(u->out.call);
		u->on_finished = NULL;
		return;
	}
	if (u->out.call->op == NULL)
		upload_answer(u);
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

/* The built-in has read some of its input. */
void upload_room(struct upload *u)
{
	if (chunk_writer_room(&u->out) && u->reading)
		exchange_resume_body(u->out.call->r->x);
}

void upload_finish(struct upload *u, void (*on_finished)(struct file_call *c))
{
	u->on_finished = on_finished;
	if (!u->reading)
		upload_answer(u);
	else
		exchange_resume_body(u->out.call->r->x);
}

/* ---- content in chunks
 *
 * Each chunk has a head with its length. An empty chunk says that the content is complete. */

void chunk_writer_init(struct chunk_writer *k, struct file_call *c, uint64_t known)
{
	*k = (struct chunk_writer){ .call = c, .known = known };
}

/* False: there is no room, and the room event follows. */
static bool send_head(struct chunk_writer *k)
{
	while (k->head_left > 0) {
		size_t n = file_op_input(k->call->op, k->head + sizeof(k->head) - k->head_left,
					 k->head_left);

		if (n == 0)
			return false;
		k->head_left -= n;
	}
	return true;
}

/* len 0: the last one. */
static void begin_chunk(struct chunk_writer *k, uint64_t len)
{
	k->chunk_left = len < FILE_MSG_CHUNK_MAX ? len : FILE_MSG_CHUNK_MAX;
	file_msg_chunk_write(k->head, (uint32_t)k->chunk_left);
	k->head_left = sizeof(k->head);
}

size_t chunk_writer_put(struct chunk_writer *k, const uint8_t *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		size_t part, n;

		if (k->call->op == NULL || k->call->failed)
			return len;
		/* The cell reads a missing announced chunk as an abort, as intended. */
		if (k->chunk_left == 0)
			begin_chunk(k, k->known > len - done ? k->known : len - done);
		if (!send_head(k))
			return done;
		part = len - done < k->chunk_left ? len - done : (size_t)k->chunk_left;
		n = file_op_input(k->call->op, data + done, part);
		if (n == 0)
			return done;
		file_audit_add(&k->call->audit, data + done, n);
		done += n;
		k->chunk_left -= n;
		k->known -= n < k->known ? n : k->known;
	}
	return done;
}

/* Called again by chunk_writer_room() until the last head is written. */
static void chunk_writer_finish(struct chunk_writer *k)
{
	if (k->call->op == NULL || !send_head(k))
		return;
	k->ending = false;
	file_op_end_input(k->call->op);
}

void chunk_writer_end(struct chunk_writer *k)
{
	if (k->call->op == NULL)
		return;
	begin_chunk(k, 0);
	k->ending = true;
	chunk_writer_finish(k);
}

bool chunk_writer_room(struct chunk_writer *k)
{
	if (k->call == NULL)
		return false;
	if (!k->ending)
		return true;
	chunk_writer_finish(k);
	return false;
}

/* The first failure is the one reported. */
static void file_call_fail(struct file_call *c, const struct err *e)
{
	if (c->failed)
		return;
	c->failed = true;
	c->why = *e;
}

/* DATA announces raw bytes, once in a call. */
static int take_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	if (m->kind == FILE_MSG_ERROR) {
		*e = m->error;
		if (e->code == ERR_NONE)
			e->code = ERR_SYSTEM;
		return -1;
	}
	if (m->kind == FILE_MSG_DATA && c->events->on_raw != NULL && !c->raw_came) {
		c->raw_came = true;
		c->raw_left = m->data.len;
		return 0;
	}
	return c->events->on_record(c, m, e);
}

/* Take one record from the bytes. Return how many were used, 0 if it is incomplete. */
static size_t next_record(struct file_call *c, const uint8_t *data, size_t len)
{
	struct file_msg m;
	struct err e = { 0 };
	int n = file_msg_next(data, len, &m, &e);

	if (n == 0)
		return 0;
	if (n < 0) {
		IGNORED(err_set(&e, ERR_SYSTEM,
				"internal protocol error: malformed answer from the cell"),
			"kept");
	}
	if (n < 0 || take_record(c, &m, &e) < 0) {
		file_call_fail(c, &e);
		return len; /* the rest is dropped */
	}
	return (size_t)n;
}

/* Bytes outside of records. on_raw takes as many as it can. */
static size_t take_raw(struct file_call *c, const uint8_t *data, size_t len)
{
	size_t n = len < c->raw_left ? len : (size_t)c->raw_left;
	size_t taken = c->events->on_raw(c, data, n);

	file_audit_add(&c->audit, data, taken);
	if (c->raw_left != UINT64_MAX)
		c->raw_left -= taken;
	return taken;
}

/* Records may come in pieces: an incomplete one is kept, and completed with at most the bytes of
 * one record. */
static size_t take_some(struct file_call *c, const uint8_t *data, size_t len)
{
	size_t room, used;

	if (c->len == 0) {
		used = next_record(c, data, len);
		if (used > 0)
			return used;
	}
	room = FILE_MSG_MAX - c->len;
	used = len < room ? len : room;
	memcpy(c->bytes + c->len, data, used);
	room = c->len; /* of which these came before */
	c->len += used;
	used = next_record(c, c->bytes, c->len);
	if (used == 0)
		return c->len - room;
	c->len = 0;
	return used - room;
}

/* Returns the bytes that were used. Output after a failure is dropped. */
static size_t on_output(struct file_op *op, const uint8_t *data, size_t len)
{
	struct file_call *c = file_op_arg(op);
	size_t done = 0;

	while (done < len && !c->failed) {
		size_t n = 0;

		if (c->raw_left > 0)
			n = take_raw(c, data + done, len - done);
		else if (c->events->is_ready == NULL || c->events->is_ready(c))
			n = take_some(c, data + done, len - done);
		if (n == 0)
			return done; /* file_call_resume() follows */
		done += n;
	}
	return len;
}

static void on_room(struct file_op *op)
{
	struct file_call *c = file_op_arg(op);

	if (c->events->on_room != NULL && !c->failed)
		c->events->on_room(c);
}

/* The one end of the call. An answer that stops within a record or its raw bytes is a failure. */
static void on_end(struct file_op *op, int status, const struct err *e)
{
	struct file_call *c = file_op_arg(op);

	c->op = NULL;
	if (e != NULL)
		file_call_fail(c, e);
	if (!c->failed &&
	    (status == 1 || c->len > 0 || (c->raw_left > 0 && c->raw_left != UINT64_MAX))) {
		c->failed = true;
		IGNORED(err_set(&c->why, ERR_SYSTEM,
				"internal protocol error: incomplete answer from the cell"),
			"kept");
	}
	if (!c->failed && c->change != NULL && c->r != NULL)
		file_event_append(c->r, c->change);
	free(c->change);
	c->change = NULL;
	file_audit_end(&c->audit, c->r, c->failed ? "failed" : "done");
	c->events->on_end(c, status, c->failed ? &c->why : NULL);
}

int file_call_start(struct file_call *c, struct request *r, struct session *s,
		    const char *const *argv, unsigned argc, bool write,
		    const struct file_call_events *events, struct err *e)
{
	static const struct file_op_events op_events = { .on_output = on_output,
							 .on_room = on_room,
							 .on_end = on_end };
	const char *limited[2 + FILE_CALL_ARGS_MAX] = { "--without", FILE_CALL_HIDDEN };
	char name[STORE_NAME_MAX] = "";
	const char *user = c->user;

	c->r = r;
	c->events = events;
	if (user == NULL && request_text(r, "user", name, sizeof(name), e) < 0)
		return -1;
	if (user == NULL)
		user = name[0] == '\0' ? FILE_CALL_USER : name;
	if (r != NULL && auth_only_reads(r)) { /* NULL: for no request, such as a polled watch */
		if (c->user == NULL && strcmp(user, FILE_CALL_USER) != 0)
			return err_set(e, ERR_DENIED,
				       "a key of scope read may read files only as the "
				       "user " FILE_CALL_USER);
		assert(argc <= FILE_CALL_ARGS_MAX);
		memcpy(&limited[2], argv, argc * sizeof(*argv));
		argv = limited;
		argc += 2;
	}
	if (c->bytes == NULL)
		c->bytes = malloc(FILE_MSG_MAX);
	if (c->bytes == NULL)
		return err_sys(e, "allocate");
	file_audit_end(&c->audit, c->r, "cut"); /* of a call before this one */
	c->op = file_op_start(s, user, argv, argc, write, &op_events, c, e);
	if (c->op == NULL)
		return -1;
	free(c->change);
	c->change = file_event_new(s, argv, argc);
	file_audit_begin(&c->audit, s, argv, argc);
	return 0;
}

int file_call_refuse(struct err *e)
{
	return err_set(e, ERR_SYSTEM, "internal protocol error: unexpected answer from the cell");
}

void file_call_raw(struct file_call *c)
{
	c->raw_left = UINT64_MAX;
}

void file_call_resume(struct file_call *c)
{
	if (c->op != NULL)
		file_op_resume(c->op);
}

/* on_end is not called any more. */
void file_call_release(struct file_call *c)
{
	if (c->op != NULL)
		file_op_cancel(c->op);
	c->op = NULL;
	free(c->change);
	c->change = NULL;
	/* A client has the last byte before the built-in has ended. */
	file_audit_end(&c->audit, c->r,
		       c->raw_came && c->raw_left == 0 && !c->failed ? "done" : "cut");
	free(c->bytes);
	c->bytes = NULL;
}
