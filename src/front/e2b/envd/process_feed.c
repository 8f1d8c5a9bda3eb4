/* process_feed.c - theory of operation
 *
 * The execution's log is the only source: each stream reads it at its client's pace, from where it
 * began, and puts several small records into one message. The check for the execution's end
 * precedes the read of the log. If the log then has no more, everything was sent.
 *
 * The end is sent when no process holds the output open any more, as E2B does. After a signal or a
 * timeout it is sent at once, after the log's content at the process's end.
 *
 * If the sandbox dies, the connection is closed without a last frame: only that makes clients ask
 * for the sandbox's health. */
#include "front/e2b/envd/process_feed.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/egressctl/net_log.h"
#include "front/e2b/envd/process_event.h"
#include "front/e2b/envd/process_piece.h"
#include "front/web/json_view.h"
#include "lib/base/str.h"

#define EXHAUSTED                                                          \
	"%s written more output than %s (%llu bytes) allows; the process " \
	"continues, but the rest is not kept"

/* After the end of its session the execution must not be used: the core has dropped its
 * followers. */
static struct execution *process_feed_live(struct process_feed *f)
{
	if (f->follower.link == NULL)
		f->x = NULL;
	return f->x;
}

static void process_feed_send(struct process_feed *f, const struct json *j)
{
	assert(json_ok(j));
	rpc_stream_send(&f->stream, j->text, j->len);
}

/* ---- the start
 *
 * A stream's first message has the pid. A process that did not start ends the stream with the
 * reason. */

/* ret gets the words. */
static enum rpc_code why_not(struct process_feed *f, char *ret, size_t cap)
{
	const struct store_execution *row = execution_row(f->x);
	int sys;

	switch (execution_fault(f->x, &sys)) {
	case EXECUTION_NO_USER:
		(void)snprintf(ret, cap, "invalid username: '%s'", f->user);
		return RPC_UNAUTHENTICATED;
	case EXECUTION_NO_CWD:
		(void)snprintf(ret, cap,
			       sys == ENOENT ? "cwd '%s' does not exist"
					     : "cwd '%s' cannot be entered",
			       f->cwd);
		return RPC_INVALID_ARGUMENT;
	case EXECUTION_NO_PROGRAM:
		(void)snprintf(ret, cap, "error starting process: %s", strerror(sys));
		return RPC_INVALID_ARGUMENT;
	case EXECUTION_NO_PROCESS:
		(void)snprintf(ret, cap, "error starting process: %s", strerror(sys));
		return RPC_RESOURCE_EXHAUSTED;
	case EXECUTION_NO_FAULT:
		break;
	}
	(void)snprintf(ret, cap, "error starting process: %s", row->error);
	return RPC_INTERNAL;
}

/* False: nothing to send yet, or nothing more. */
static bool send_start(struct process_feed *f)
{
	char text[PROCESS_EVENT_MAX];
	struct json j;

	if (execution_pid(f->x) == 0) {
		if (execution_ended(f->x)) {
			enum rpc_code code = why_not(f, text, sizeof(text));

			rpc_stream_end(&f->stream, code, text);
		}
		return false;
	}
	json_init(&j, text, sizeof(text));
	process_event_start(&j, execution_pid(f->x));
	f->started = true;
	process_feed_send(f, &j);
	return true;
}

/* ---- the end
 *
 * Only one of these ends the stream. */

/* The output was cut, so the client must not take it for whole. */
static void end_exhausted(struct process_feed *f)
{
	bool by_disk = strcmp(execution_cut(f->x), OUTPUT_BY_DISK) == 0;
	bool by_session = strcmp(execution_cut(f->x), OUTPUT_BY_SESSION) == 0;
	uint64_t max = by_session ? core_config(f->stream.paced.r->core)->session_output_max
				  : execution_row(f->x)->output_limit;
	char text[PROCESS_EVENT_MAX];

	(void)snprintf(text, sizeof(text), EXHAUSTED,
		       by_session ? "the processes of the sandbox have" : "the process has",
		       by_session ? "session_output_max" : "e2b_output_limit",
		       (unsigned long long)max);
	rpc_stream_end(&f->stream, RPC_RESOURCE_EXHAUSTED,
		       by_disk ? "the server's disk is full: output of the process was lost"
			       : text);
}

/* Everything was sent: the log need not be kept for this stream. */
static void stop_following(struct process_feed *f)
{
	execution_unfollow(&f->follower);
	if (f->fd >= 0)
		fd_close(f->fd);
	f->fd = -1;
}

/* Send a line of ours behind the output of the process. E2B's clients show stderr, and have no
 * other place for it. A terminal shows only what its programs write. "": nothing is sent. */
static void send_line(struct process_feed *f, const char *text)
{
	static char message[PROCESS_EVENT_DATA_MAX];
	size_t n = strlen(text);

	if (n == 0 || execution_row(f->x)->tty)
		return;
	n = process_event_data(message, OUTPUT_STDERR, false, (const uint8_t *)text, n);
	rpc_stream_send(&f->stream, message, n);
}

/* Name the limits that the process hit. It may have ignored a failed write, or the death of a
 * child, so the line comes also if it ended with 0. */
static void send_limits(struct process_feed *f)
{
	const struct store_execution *row = execution_row(f->x);
	char text[2 * sizeof(row->limits_hit) + 80] = "cordon: limit reached: ";
	size_t n = strlen(text);

	if (!core_config(f->stream.paced.r->core)->e2b_limits || row->limits_hit[0] == '\0')
		return;
	for (const char *at = row->limits_hit; *at != '\0'; at++) {
		text[n++] = *at;
		if (*at == ',')
			text[n++] = ' ';
	}
	(void)snprintf(text + n, sizeof(text) - n, "%s\n",
		       json_view_exit_code(row) == 0 ? ", although the command ended with 0" : "");
	send_line(f, text);
}

/* A closed network looks like many faults. */
static void send_refusals(struct process_feed *f)
{
	const struct store_execution *row = execution_row(f->x);
	struct core *c = f->stream.paced.r->core;
	char text[NET_REFUSALS_LINE];

	if (!core_config(c)->e2b_refusals || json_view_exit_code(row) == 0)
		return;
	net_refusals_line(c, row, text);
	send_line(f, text);
}

/* row is the execution's, which is still followed here. */
static void send_end(struct process_feed *f)
{
	const struct store_execution *row = execution_row(f->x);
	char text[PROCESS_EVENT_MAX];
	struct json j;

	if (row->timed_out && f->own) {
		rpc_stream_end(&f->stream, RPC_DEADLINE_EXCEEDED,
			       "context deadline exceeded: the process reached its timeout and "
			       "was killed");
		return;
	}
	send_limits(f);
	send_refusals(f);
	json_init(&j, text, sizeof(text));
	process_event_end(&j, row);
	process_feed_send(f, &j);
	rpc_stream_end(&f->stream, RPC_OK, NULL);
	stop_following(f);
}

/* ---- output
 *
 * process_feed_pump() repeats the steps until the client is slow or nothing is left. */

/* The log is opened at the first read. */
static enum process_piece read_piece(struct process_feed *f, uint8_t *bytes, size_t cap,
				     enum output_stream *ret_stream, size_t *ret_n)
{
	struct err e;

	if (f->fd < 0 && execution_log(f->stream.paced.r->core, f->stream.paced.r->session_id,
				       f->id, &f->fd, &e) < 0)
		return PROCESS_PIECE_FAILED;
	return process_piece_read(f->fd, &f->cursor, bytes, cap, ret_stream, ret_n,
				  &f->stream.paced.spent);
}

/* False: nothing to send yet, or nothing more. True: try again, if the stream is ready. */
static bool send_output(struct process_feed *f)
{
	static uint8_t bytes[PROCESS_EVENT_PIECE];
	static char message[PROCESS_EVENT_DATA_MAX];
	bool pty = execution_row(f->x)->tty;
	enum output_stream stream = OUTPUT_STDOUT;
	size_t n = 0;

	switch (read_piece(f, bytes, pty ? PROCESS_EVENT_PTY_PIECE : PROCESS_EVENT_PIECE, &stream,
			   &n)) {
	case PROCESS_PIECE_DATA:
		n = process_event_data(message, stream, pty, bytes, n);
		rpc_stream_send(&f->stream, message, n);
		return true;
	case PROCESS_PIECE_PASSED:
		return true;
	case PROCESS_PIECE_CUT:
		end_exhausted(f);
		break;
	case PROCESS_PIECE_FAILED:
		rpc_stream_end(&f->stream, RPC_INTERNAL, "the output cannot be read");
		break;
	case PROCESS_PIECE_NONE:
		break;
	}
	return false;
}

/* After a signal the output of other processes is not waited for. */
static bool is_over(struct process_feed *f)
{
	const struct store_execution *row = execution_row(f->x);

	return execution_ended(f->x) && (execution_signalled(f->x) || row->timed_out) &&
	       f->cursor >= output_cursor_at(row->log_bytes);
}

static void process_feed_pump(struct request *r)
{
	struct process_feed *f = r->state;

	while (rpc_stream_ready(&f->stream)) {
		bool complete;

		if (session_find(r->core, r->session_id) == NULL || process_feed_live(f) == NULL) {
			rpc_stream_drop(&f->stream);
			return;
		}
		if (!f->started) {
			if (!send_start(f))
				return;
			continue;
		}
		complete = execution_complete(f->x);
		if (!is_over(f) && send_output(f))
			continue;
		if (f->stream.paced.ended)
			return;
		if (execution_row(f->x)->truncated)
			end_exhausted(f); /* it was cut before this stream began */
		else if (complete || is_over(f))
			send_end(f);
		return;
	}
}

static void on_more(struct execution_follower *fo)
{
	process_feed_pump(fo->arg);
}

/* The execution or its session has ended, perhaps without a call to followers. */
static void on_over(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct process_feed *f = r->state;

	rpc_stream_wake(&f->stream);
}

static void on_deadline(struct request *r)
{
	struct process_feed *f = r->state;

	rpc_stream_end(&f->stream, RPC_DEADLINE_EXCEEDED, "context deadline exceeded");
}

void process_feed_begin(struct process_feed *f, struct request *r, struct session *s,
			struct execution *x, bool own)
{
	f->x = x;
	f->fd = -1;
	f->own = own;
	f->cursor = own ? 0 : output_cursor_at(execution_row(x)->log_bytes);
	str_copy(f->id, execution_row(x)->id);
	f->follower.on_progress = on_more;
	f->follower.arg = r;
	execution_follow(x, &f->follower);
	request_hold(r, s);
	/* The timeout of a process is enforced by PID 1 of its cell. */
	rpc_stream_begin(&f->stream, r, PROCESS_EVENT_KEEPALIVE, process_feed_pump,
			 own ? NULL : on_deadline);
	r->wait.on_done = on_over;
	if (!execution_ended(x))
		execution_wait(x, &r->wait);
	process_feed_pump(r);
}

void process_feed_release(struct process_feed *f)
{
	if (!f->stream.paced.begun)
		return;
	rpc_stream_release(&f->stream);
	stop_following(f);
}
