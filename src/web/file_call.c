#include "file_call.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "auth.h"

static void fail(struct file_call *c, const struct err *e)
{
	if (c->failed)
		return;
	c->failed = true;
	c->why = *e;
}

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

/* One record from the bytes; how many were used, 0 if it is not all there. */
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
		fail(c, &e);
		return len; /* the rest is dropped */
	}
	return (size_t)n;
}

static size_t take_raw(struct file_call *c, const uint8_t *data, size_t len)
{
	size_t n = len < c->raw_left ? len : (size_t)c->raw_left;
	size_t taken = c->events->on_raw(c, data, n);

	if (c->raw_left != UINT64_MAX)
		c->raw_left -= taken;
	return taken;
}

/* Records may come in pieces: what is incomplete is kept, and completed with as much as can belong
 * to one record. */
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

static void on_end(struct file_op *op, int status, const struct err *e)
{
	struct file_call *c = file_op_arg(op);

	c->op = NULL;
	if (e != NULL)
		fail(c, e);
	if (!c->failed &&
	    (status == 1 || c->len > 0 || (c->raw_left > 0 && c->raw_left != UINT64_MAX))) {
		c->failed = true;
		IGNORED(err_set(&c->why, ERR_SYSTEM,
				"internal protocol error: incomplete answer from the cell"),
			"kept");
	}
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
	c->op = file_op_start(s, user, argv, argc, write, &op_events, c, e);
	return c->op == NULL ? -1 : 0;
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

void file_call_release(struct file_call *c)
{
	if (c->op != NULL)
		file_op_cancel(c->op);
	c->op = NULL;
	free(c->bytes);
	c->bytes = NULL;
}
