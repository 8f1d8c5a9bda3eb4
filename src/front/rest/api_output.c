/* api_output.c - theory of operation
 *
 * The output of an execution, by range: raw bytes of one stream, or of standard output and error in
 * the order in which they were written. The log is read from its start, at the client's pace and at
 * most a few hundred KiB in one turn of the loop. Later output is not part of the answer. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "daemon/egressctl/net_log.h"
#include "front/rest/api_handlers.h"
#include "front/web/auth.h"
#include "front/web/json_view.h"
#include "front/web/log_reader.h"
#include "front/web/reply.h"
#include "front/web/spec_exec.h"
#include "front/web/sse_out.h"
#include "lib/base/base64.h"
#include "lib/base/buf.h"
#include "lib/http/ws.h"
#include "lib/json/json.h"

/* ---- attached clients
 *
 * A WebSocket on one execution. Output is read from the log at the client's pace: a frame without
 * room is read again later. Input goes to the execution. When its pipe is full, the rest waits here
 * and nothing more is read from the client. Several clients of one execution are independent of
 * each other.
 *
 * attach_pump() moves output to the client, attach_feed() input to the execution. Each continues
 * from its own event: on_writable and new output for the one, on_room for the other. */

#define MESSAGE_MAX (1U << 20)
#define CONTROL_MAX (4U << 10) /* of a text, parsed at once. Input is binary */
#define TURN_FRAMES 64	       /* sent in one turn of the loop */
#define TEXT_MAX (4U << 20)

/* The state of one attached client. turn continues the output in the next turn. r NULL: nothing was
 * started. */
struct output_attach {
	struct log_reader reader;
	struct request *r;
	struct loop_task turn;
	struct buf input; /* received, not yet taken by the execution */
	bool eof;	  /* after it */
	bool closed;
};

static void attach_release(struct request *r, bool answered)
{
	struct output_attach *a = r->state;

	if (a->r != NULL)
		loop_task_cancel(core_loop(r->core), &a->turn);
	log_reader_close(&a->reader);
	buf_release(&a->input);
}

/* ---- out
 *
 * Frames go out in attach_pump(), which four events call: the first turn, new output, room in the
 * client's buffer, and the next turn after TURN_FRAMES frames. */

/* A binary frame: the stream's number, then the bytes. False: no room, send it later. */
static bool send_bytes(struct output_attach *a, const struct log_reader_item *item)
{
	uint8_t frame[1 + sizeof(item->bytes)];

	frame[0] = (uint8_t)item->stream;
	memcpy(frame + 1, item->bytes, item->n);
	return ws_send(a->r->x, false, frame, item->n + 1);
}

/* Every event that is not output is a text frame with a type. cursor lets the client attach again
 * after it. */
static bool send_text(struct output_attach *a, const struct log_reader_item *item)
{
	struct execution *x = log_reader_live(&a->reader);
	struct err e;
	struct json j;
	bool sent;

	json_init_heap(&j, TEXT_MAX);
	json_open(&j, NULL, '{');
	if (item->what == LOG_READER_START) {
		json_text(&j, "type", "start");
		if (x != NULL && execution_pid(x) != 0)
			json_uint(&j, "pid", execution_pid(x));
		else
			json_none(&j, "pid");
	} else if (item->what == LOG_READER_CUT) {
		json_text(&j, "type", "cut");
		json_bytes(&j, "reason", item->bytes, item->n);
	} else {
		json_text(&j, "type", "exit");
		IGNORED(json_view_reader(&j, "execution", &a->reader, net_refusals_write, &e),
			"then the event has no execution");
	}
	json_uint(&j, "cursor", item->after);
	json_close(&j, '}');
	sent = !json_ok(&j) || ws_send(a->r->x, true, j.text, j.len);
	json_release(&j);
	return sent;
}

/* The reader advances only past frames that were accepted, so none is lost or sent twice. */
static void attach_pump(struct output_attach *a)
{
	struct log_reader_item item;
	struct err e = { 0 };

	for (int i = 0; i < TURN_FRAMES && !a->closed; i++) {
		bool sent;

		log_reader_next(&a->reader, false, &item, &e);
		if (item.what == LOG_READER_NOTHING)
			return;
		if (item.what == LOG_READER_END || item.what == LOG_READER_FAILED) {
			a->closed = true;
			ws_close(a->r->x,
				 item.what == LOG_READER_END ? WS_CODE_NORMAL : WS_CODE_INTERNAL,
				 "");
			return;
		}
		sent = item.what == LOG_READER_BYTES ? send_bytes(a, &item) : send_text(a, &item);
		if (!sent)
			return; /* on_writable comes */
		log_reader_advance(&a->reader, &item);
	}
	if (!a->closed)
		loop_defer(core_loop(a->r->core), &a->turn);
}

static void attach_on_turn(struct loop_task *t)
{
	attach_pump(t->arg);
}

static void attach_on_more(struct execution_follower *f)
{
	struct request *r = f->arg;

	attach_pump(r->state);
}

static void attach_on_writable(struct exchange *x)
{
	attach_pump(request_of(x)->state);
}

/* ---- in
 *
 * A message is either input (binary) or an order (text). Input waits in a->input while the
 * execution's pipe is full, and the client is not read then. */

/* A refused message does not end the connection. */
static void send_error(struct output_attach *a, const struct err *e)
{
	char text[2048];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_text(&j, "type", "error");
	reply_error_member(&j, e);
	json_close(&j, '}');
	(void)ws_send(a->r->x, true, j.text, j.len); /* dropped if the buffer is full */
}

/* Write the waiting input. After all of it, read the client again. */
static void attach_feed(struct output_attach *a)
{
	struct execution *x = log_reader_live(&a->reader);
	struct err e = { 0 };

	while (a->input.len > 0 && x != NULL) {
		ssize_t n = execution_input(x, a->input.data, a->input.len, &a->r->wait, &e);

		if (n == 0)
			break;
		if (n < 0)
			send_error(a, &e);
		buf_consume(&a->input, n < 0 ? a->input.len : (size_t)n);
	}
	if (x == NULL)
		buf_clear(&a->input);
	ws_pause(a->r->x, a->input.len > 0);
	if (a->input.len > 0)
		return;
	buf_release(&a->input);
	if (a->eof && x != NULL)
		execution_close_input(x);
	a->eof = false;
}

/* The execution took input, or its input has closed (e). Waiting bytes are dropped then. */
static void on_room(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct output_attach *a = r->state;

	if (a->closed)
		return;
	if (e != NULL)
		buf_clear(&a->input);
	attach_feed(a);
}

/* A text message: a signal, a size or the end of input. The end of input waits for the input before
 * it. */
static void take_control(struct output_attach *a, const uint8_t *data, size_t len)
{
	struct spec_exec_message m;
	struct err e = { 0 };
	int done = len > CONTROL_MAX ? err_set(&e, ERR_INVALID,
					       "a text message has more than %u bytes", CONTROL_MAX)
				     : spec_exec_message(data, len, &m, &e);

	if (done == 0 && m.order == SPEC_EXEC_RESIZE)
		done = execution_resize(a->reader.x, m.rows, m.cols, &e);
	else if (done == 0 && m.order == SPEC_EXEC_SIGNAL)
		done = execution_signal(a->reader.x, m.signal, &e);
	else if (done == 0)
		a->eof = true;
	if (done < 0)
		send_error(a, &e);
	if (a->eof && a->input.len == 0)
		attach_feed(a);
}

/* The exchange calls this with whole messages up to MESSAGE_MAX. Input beyond two such messages
 * closes the connection. */
static void on_message(struct exchange *x, bool text, const uint8_t *data, size_t len)
{
	struct output_attach *a = request_of(x)->state;
	struct err e = { 0 };

	if (log_reader_live(&a->reader) == NULL || execution_ended(a->reader.x))
		return; /* the execution has ended */
	if (text) {
		take_control(a, data, len);
		return;
	}
	if (buf_add(&a->input, data, len, &e) < 0) {
		a->closed = true;
		ws_close(x, WS_CODE_TOO_BIG, "too much input is waiting");
		return;
	}
	if (!completion_is_waiting(&a->r->wait)) /* else its pipe is full: on_room() follows */
		attach_feed(a);
}

/* ---- the beginning
 *
 * All checks come before the connection becomes a WebSocket, so that a refusal is an ordinary
 * answer with a status. */

/* A browser lets any page open a WebSocket to any server, and sends the page's origin. A request
 * without an origin is allowed. Two origins are refused. */
static bool same_origin(const struct http1_request *q)
{
	struct http1_span origin;
	size_t n = http1_find(q->headers, q->headers_n, "origin", &origin);

	if (n == 0)
		return true;
	for (size_t i = 0; n == 1 && i + 3 <= origin.n; i++)
		if (memcmp(origin.p + i, "://", 3) == 0)
			return origin.n - i - 3 == q->host.n &&
			       strncasecmp(origin.p + i + 3, q->host.p, q->host.n) == 0;
	return false;
}

/* live: NULL for an ended session, whose kept log is sent. */
static void open_attach(struct request *r, struct session *live)
{
	static const struct ws_events events = { .on_message = on_message };
	struct output_attach *a = request_state(r, sizeof(*a), attach_release);
	struct err e = { 0 };
	uint64_t after;

	if (a == NULL)
		return;
	a->r = r;
	a->turn.on_run = attach_on_turn;
	a->turn.arg = a;
	buf_init(&a->input, 2 * (size_t)MESSAGE_MAX);
	if (log_reader_after(r, &after, &e) < 0 ||
	    log_reader_open(&a->reader, r, live, after, attach_on_more, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (live != NULL && a->reader.x != NULL)
		request_hold(r, live);
	r->wait.on_done = on_room;
	exchange_accept_ws(r->x, &events, MESSAGE_MAX);
	exchange_on_writable(r->x, attach_on_writable);
	loop_defer(core_loop(r->core), &a->turn);
}

/* A live execution's session is resumed. A kept log needs no cell. */
void api_attach_get(struct request *r)
{
	struct session *live = NULL;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0)
		reply_error(r, &e);
	else if (!same_origin(exchange_request(r->x)))
		reply_code(r, 403, "forbidden", "a page of another origin may not attach");
	else if (!exchange_wants_ws(r->x))
		reply_code(r, 400, "invalid", "this path is for WebSocket (version 13) only");
	else if (request_stream(r, &e) < 0)
		reply_error(r, &e);
	else if (live != NULL && execution_live(live, r->id) != NULL)
		request_use(r, open_attach);
	else
		open_attach(r, live);
}

/* ---- events
 *
 * The output of an execution as server-sent events.
 *
 * The reader is the one of attached clients. An event's id is the cursor behind it, so a browser
 * that connects again continues with Last-Event-ID. */

#define EVENT_MAX (4U << 20) /* the exit event may hold the command */

struct api_output_stream {
	struct sse_out feed; /* first, see paced_stream.h */
	struct log_reader reader;
};

static void stream_release(struct request *r, bool answered)
{
	struct api_output_stream *s = r->state;

	sse_out_release(&s->feed);
	log_reader_close(&s->reader);
}

/* Text if the bytes are whole UTF-8 characters, otherwise base64. */
static void write_bytes(struct json *j, const struct log_reader_item *item)
{
	char coded[BASE64_LENGTH(sizeof(item->bytes)) + 1];

	json_uint(j, "offset", item->offset);
	if (item->is_text) {
		json_bytes(j, "text", item->bytes, item->n);
		return;
	}
	base64_encode(item->bytes, item->n, coded);
	json_text(j, "base64", coded);
}

/* The event's name. NULL: the execution is gone from the store. */
static const char *write_item(struct api_output_stream *s, struct json *j,
			      const struct log_reader_item *item)
{
	struct execution *x = log_reader_live(&s->reader);
	const char *name = "cut";
	struct err e;

	json_open(j, NULL, '{');
	switch (item->what) {
	case LOG_READER_START:
		name = "start";
		if (x != NULL && execution_pid(x) != 0)
			json_uint(j, "pid", execution_pid(x));
		else
			json_none(j, "pid");
		break;
	case LOG_READER_BYTES:
		name = item->stream == OUTPUT_RESULT   ? "result"
		       : item->stream == OUTPUT_STDERR ? "stderr"
						       : "stdout";
		write_bytes(j, item);
		break;
	case LOG_READER_EXIT:
		name = json_view_reader(j, "execution", &s->reader, net_refusals_write, &e) < 0
			       ? NULL
			       : "exit";
		break;
	case LOG_READER_CUT:
	case LOG_READER_NOTHING:
	case LOG_READER_END:
	case LOG_READER_FAILED:
		json_none(j, "stream"); /* the bound is for both together */
		json_bytes(j, "reason", item->bytes, item->n);
		break;
	}
	json_close(j, '}');
	return name;
}

/* The reader advances when the event was queued. An event that cannot be written ends the stream,
 * since the client would miss it otherwise. */
static void stream_send(struct api_output_stream *s, const struct log_reader_item *item)
{
	const char *name;
	char id[24];
	struct json j;

	json_init_heap(&j, EVENT_MAX);
	name = write_item(s, &j, item);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)item->after);
	if (name == NULL || !json_ok(&j)) {
		paced_stream_drop(&s->feed.paced);
	} else {
		sse_out_event(&s->feed, name, id, j.text, j.len);
		log_reader_advance(&s->reader, item);
	}
	json_release(&j);
}

/* Called when the client has room and when output has come. Sends until one is missing. */
static void stream_pump(struct request *r)
{
	struct api_output_stream *s = r->state;
	struct log_reader_item item;
	struct err e = { 0 };

	while (sse_out_ready(&s->feed)) {
		log_reader_next(&s->reader, true, &item, &e);
		if (item.what == LOG_READER_NOTHING)
			return;
		if (item.what == LOG_READER_END) {
			sse_out_end(&s->feed);
			return;
		}
		if (item.what == LOG_READER_FAILED) {
			paced_stream_drop(&s->feed.paced);
			return;
		}
		stream_send(s, &item);
	}
}

static void on_more(struct execution_follower *f)
{
	stream_pump(f->arg);
}

static void open_stream(struct request *r, struct session *live)
{
	struct api_output_stream *s = request_state(r, sizeof(*s), stream_release);
	struct err e = { 0 };
	uint64_t after;

	if (s == NULL)
		return;
	if (log_reader_after(r, &after, &e) < 0 ||
	    log_reader_open(&s->reader, r, live, after, on_more, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (live != NULL && s->reader.x != NULL)
		request_hold(r, live);
	if (sse_out_begin(&s->feed, r, stream_pump))
		stream_pump(r);
}

/* A key of scope read resumes no session. It gets the output so far and waits. */
void api_stream_get(struct request *r)
{
	struct session *live = NULL;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || request_stream(r, &e) < 0)
		reply_error(r, &e);
	else if (live != NULL && execution_live(live, r->id) != NULL && !auth_only_reads(r))
		request_use(r, open_stream); /* a paused session is resumed for a follower */
	else
		open_stream(r, live);
}

/* ---- ranges
 *
 * The log has the records of all streams, mixed. Offsets count bytes of the wanted stream, so
 * output_fill() reads from the log's start and skips the bytes before the range. */

#define PIECE 65536
#define TURN_MAX (1U << 20)

/* In the order of enum output_stream. BOTH is without results. */
enum output_which { WHICH_BOTH, WHICH_STDOUT, WHICH_STDERR, WHICH_RESULT };

/* The state of a range's request. bytes[sent..have) is left to be written. r NULL: nothing was
 * started. */
struct range {
	struct request *r;
	struct loop_task turn;
	int fd; /* owned */
	uint64_t cursor;
	unsigned which;
	uint64_t offset, length; /* of the request */
	uint64_t at;		 /* offset of the next byte in the wanted stream */
	uint64_t total;		 /* length of that stream when the request came */
	size_t have, sent;	 /* of bytes */
	uint8_t bytes[PIECE];
};

static void output_release(struct request *r, bool answered)
{
	struct range *g = r->state;

	if (g->r == NULL)
		return;
	loop_task_cancel(core_loop(r->core), &g->turn);
	if (g->fd >= 0)
		fd_close(g->fd);
}

/* Results and the mark for cut output are in the same log, but no output. */
static bool is_wanted(const struct range *g, enum output_stream stream)
{
	if (stream == OUTPUT_CUT || stream == OUTPUT_RESULT)
		return stream == OUTPUT_RESULT && g->which == WHICH_RESULT;
	return g->which == WHICH_BOTH || (unsigned)stream == g->which;
}

/* Put the next wanted bytes into the buffer: 1. 0: at the end. -1: error. Add the bytes read to
 * *spent. 1 with an empty buffer: the turn's work is spent. */
static int output_fill(struct range *g, size_t *spent, struct err *e)
{
	struct output_chunk chunk;
	uint64_t end = g->length > UINT64_MAX - g->offset ? UINT64_MAX : g->offset + g->length;
	int got;

	end = end < g->total ? end : g->total;
	while (*spent < TURN_MAX) {
		if (g->at >= end)
			return 0;
		got = output_read(g->fd, &g->cursor, &chunk, g->bytes, sizeof(g->bytes), e);
		if (got <= 0)
			return got;
		*spent += chunk.len + OUTPUT_READ_COST;
		if (!is_wanted(g, chunk.stream))
			continue;
		g->sent = g->at < g->offset ? (size_t)(g->offset - g->at) : 0;
		g->have = g->at + chunk.len > end ? (size_t)(end - g->at) : chunk.len;
		g->at += chunk.len;
		if (g->sent < g->have)
			return 1;
		g->sent = g->have = 0;
	}
	return 1;
}

/* Writes until the client is slow, the range has ended or the turn is spent. An error cuts the
 * answer. */
static void output_pump(struct range *g)
{
	struct err e = { 0 };
	size_t spent = 0;

	for (;;) {
		int got;

		g->sent += exchange_write(g->r->x, g->bytes + g->sent, g->have - g->sent);
		if (g->sent < g->have)
			return; /* on_writable comes */
		if (spent >= TURN_MAX)
			break;
		g->sent = g->have = 0;
		got = output_fill(g, &spent, &e);
		if (got == 0) {
			exchange_end(g->r->x);
			return;
		}
		if (got < 0) {
			exchange_abort(g->r->x);
			return;
		}
	}
	loop_defer(core_loop(g->r->core), &g->turn);
}

static void on_turn(struct loop_task *t)
{
	output_pump(t->arg);
}

static void on_writable(struct exchange *x)
{
	output_pump(request_of(x)->state);
}

/* Headers for the output up to now, and whether all of it was kept. total fixes the end: later
 * output is not sent. */
static void output_begin(struct range *g, const struct store_execution *row)
{
	bool cut = row->truncated || (g->fd < 0 && execution_log_lost(row));
	struct exchange *x = g->r->x;
	char text[24];

	g->total = g->which == WHICH_STDOUT   ? row->out_bytes
		   : g->which == WHICH_STDERR ? row->err_bytes
		   : g->which == WHICH_RESULT ? row->result_bytes
					      : row->out_bytes + row->err_bytes;
	(void)snprintf(text, sizeof(text), "%llu",
		       (unsigned long long)(g->offset < g->total ? g->offset : g->total));
	exchange_header(x, "X-Cordon-Offset", text);
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)g->total);
	exchange_header(x, "X-Cordon-Total", text);
	exchange_header(x, "X-Cordon-Truncated", cut ? "true" : "false");
	exchange_begin(x, 200, "application/octet-stream", EXCHANGE_CHUNKED);
	exchange_on_writable(x, on_writable);
}

static int read_range(struct request *r, struct range *g, struct err *e)
{
	static const char *const words[] = { "both", "stdout", "stderr", "result" };

	g->length = UINT64_MAX;
	if (request_choice(r, "stream", words, COUNT(words), &g->which, e) < 0 ||
	    request_number(r, "offset", 0, INT64_MAX, &g->offset, e) < 0)
		return -1;
	return request_number(r, "length", 0, INT64_MAX, &g->length, e);
}

/* -1: nothing was sent. After 0 the answer has begun. */
static int open_log(struct request *r, struct range *g, struct err *e)
{
	struct session *live = NULL;
	struct execution *x = NULL;
	struct store_execution row = { 0 };

	if (request_owns(r, &live, e) < 0 || read_range(r, g, e) < 0)
		return -1;
	if (live != NULL)
		x = execution_live(live, r->id);
	if (x == NULL && execution_get(r->core, r->session_id, r->id, &row, e) < 0)
		return -1;
	if (execution_log(r->core, r->session_id, r->id, &g->fd, e) < 0) {
		store_execution_release(&row);
		return -1;
	}
	output_begin(g, x != NULL ? execution_row(x) : &row);
	store_execution_release(&row);
	return 0;
}

void api_output_get(struct request *r)
{
	struct range *g = request_state(r, sizeof(*g), output_release);
	struct err e = { 0 };

	if (g == NULL)
		return;
	g->r = r;
	g->fd = -1;
	g->turn.on_run = on_turn;
	g->turn.arg = g;
	if (open_log(r, g, &e) < 0)
		reply_error(r, &e);
	else
		output_pump(g);
}
