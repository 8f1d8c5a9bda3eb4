/* api_attach.c - theory of operation
 *
 * A WebSocket on one execution. Output is read from the log at the client's pace: a frame for which
 * there is no room is read again later. Input goes to the execution; when its pipe is full, the
 * rest waits here and nothing more is read from the client. Several clients of one execution are
 * independent of each other. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api_handlers.h"
#include "buf.h"
#include "json.h"
#include "log_reader.h"
#include "reply.h"
#include "json_view.h"
#include "net_refusals.h"
#include "spec_exec.h"
#include "ws.h"

#define MESSAGE_MAX (1U << 20)
#define CONTROL_MAX (4U << 10) /* of a text, which is parsed at once; input is binary */
#define TURN_FRAMES 64	       /* sent in one turn of the loop */
#define TEXT_MAX (4U << 20)

struct attach {
	struct log_reader reader;
	struct request *r;
	struct loop_task turn;
	struct buf input; /* received, not yet taken by the execution */
	bool eof;	  /* after it */
	bool closed;
};

static void release(struct request *r, bool answered)
{
	struct attach *a = r->state;

	(void)answered;
	if (a->r != NULL)
		loop_task_cancel(core_loop(r->core), &a->turn);
	log_reader_close(&a->reader);
	buf_release(&a->input);
}

/* ---- out */

static bool send_bytes(struct attach *a, const struct log_reader_item *item)
{
	uint8_t frame[1 + sizeof(item->bytes)];

	frame[0] = (uint8_t)item->stream;
	memcpy(frame + 1, item->bytes, item->n);
	return ws_send(a->r->x, false, frame, item->n + 1);
}

static bool send_text(struct attach *a, const struct log_reader_item *item)
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

static void pump(struct attach *a)
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

static void on_turn(struct loop_task *t)
{
	pump(t->arg);
}

static void on_more(struct execution_follower *f)
{
	struct request *r = f->arg;

	pump(r->state);
}

static void on_writable(struct exchange *x)
{
	pump(request_of(x)->state);
}

/* ---- in */

static void send_error(struct attach *a, const struct err *e)
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

/* Writes the waiting input; when all is written, the client is read again. */
static void feed(struct attach *a)
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

static void on_room(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;
	struct attach *a = r->state;

	if (a->closed)
		return;
	if (e != NULL)
		buf_clear(&a->input);
	feed(a);
}

static void take_control(struct attach *a, const uint8_t *data, size_t len)
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
		feed(a);
}

static void on_message(struct exchange *x, bool text, const uint8_t *data, size_t len)
{
	struct attach *a = request_of(x)->state;
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
		feed(a);
}

/* ---- the beginning */

/* A browser lets any page open a WebSocket to any server, and sends the page's origin. */
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

static void open_attach(struct request *r, struct session *live)
{
	static const struct ws_events events = { .on_message = on_message };
	struct attach *a = request_state(r, sizeof(*a), release);
	struct err e = { 0 };
	uint64_t after;

	if (a == NULL)
		return;
	a->r = r;
	a->turn.on_run = on_turn;
	a->turn.arg = a;
	buf_init(&a->input, 2 * (size_t)MESSAGE_MAX);
	if (log_reader_after(r, &after, &e) < 0 ||
	    log_reader_open(&a->reader, r, live, after, on_more, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (live != NULL && a->reader.x != NULL)
		request_hold(r, live);
	r->wait.on_done = on_room;
	exchange_accept_ws(r->x, &events, MESSAGE_MAX);
	exchange_on_writable(r->x, on_writable);
	loop_defer(core_loop(r->core), &a->turn);
}

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
