/* process_writer.c - theory of operation
 *
 * Input that a pipe does not take at once waits here until there is room. The execution is
 * followed, so that it stays in memory and its end is noticed: after it nothing is written, even if
 * another process holds the other end of the pipe. */
#include "process_writer.h"

#include <stdio.h>
#include <string.h>

#include "rpc_base64_stream.h"

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

int process_writer_read(struct process_writer *w, const json_t *message, struct buf *lifted,
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

static void finish(struct process_writer *w)
{
	w->busy = false;
	free(w->bytes);
	w->bytes = NULL;
	rpc_uncount(w->counted);
	w->counted = 0;
	w->on_done(w->r);
}

static void fail(struct process_writer *w, const char *why)
{
	w->failed = true;
	(void)snprintf(w->why, sizeof(w->why), "error writing to %s: %s",
		       w->to_pty ? "tty" : "stdin", why);
	finish(w);
}

/* Why the kind of input does not match the process; NULL: it does. */
static const char *mismatch(const struct process_writer *w)
{
	bool tty = execution_row(w->x)->tty;

	if (tty && !w->to_pty)
		return "tty assigned to process, input should be written to the pty, not the stdin";
	if (!tty && w->to_pty)
		return "tty not assigned to process, input should be written to the stdin, not the "
		       "tty";
	return NULL;
}

static void write_more(struct process_writer *w)
{
	struct err e = { 0 };
	ssize_t n;

	if (w->follower.link == NULL) { /* its session is gone, and it, too */
		fail(w, "the process is gone");
		return;
	}
	do {
		n = execution_input(w->x, w->bytes + w->taken, w->len - w->taken, &w->r->wait, &e);
		w->taken += n > 0 ? (size_t)n : 0;
	} while (n > 0 && w->taken < w->len);
	if (n < 0)
		fail(w, "stdin not enabled or closed");
	else if (w->taken == w->len)
		finish(w);
}

static void on_room(struct completion *wait, const struct err *e)
{
	struct request *r = wait->arg;
	struct process_writer *w = r->state;

	if (!w->busy)
		return;
	if (e != NULL)
		fail(w, "stdin not enabled or closed");
	else
		write_more(w);
}

static void on_more(struct execution_follower *f)
{
	struct process_writer *w = f->arg;

	if (w->busy && execution_ended(w->x)) {
		completion_cancel(&w->r->wait);
		fail(w, "the process has ended");
	}
}

void process_writer_follow(struct process_writer *w, struct request *r, struct session *s,
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

void process_writer_give(struct process_writer *w)
{
	const char *why;

	w->busy = true;
	if (w->follower.link == NULL) {
		fail(w, "the process is gone");
		return;
	}
	why = mismatch(w);
	if (why != NULL)
		fail(w, why);
	else
		write_more(w);
}

void process_writer_release(struct process_writer *w)
{
	execution_unfollow(&w->follower);
	free(w->bytes);
	rpc_uncount(w->counted);
}
