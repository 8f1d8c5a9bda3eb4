/* process_input.c - SendInput: bytes for a process' pipe or terminal. Answered when it has them
 * all. */
#include "e2b_private.h"
#include "process_writer.h"

#define INPUT_MAX (64U << 20) /* bytes of a request */

struct input {
	struct process_writer writer; /* first, see process_writer.c */
	struct process_selector which;
	bool given;
};

static void release(struct request *r, bool answered)
{
	struct input *in = r->state;

	(void)answered;
	process_writer_release(&in->writer);
	process_selector_release(&in->which);
}

static void on_written(struct request *r)
{
	const struct input *in = r->state;

	if (in->writer.failed)
		rpc_fail(r, RPC_INTERNAL, "%s", in->writer.why);
	else
		rpc_reply_empty(r);
}

static void on_session(struct request *r, struct session *s)
{
	struct input *in = r->state;
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
	struct input *in = request_state(r, sizeof(*in), release);
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
