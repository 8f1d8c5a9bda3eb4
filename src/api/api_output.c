/* api_output.c - theory of operation
 *
 * The output of an execution, by range: raw bytes of one stream, or of standard output and error in
 * the order in which they were written. The log is read from its start, at the client's pace and at
 * most a few hundred KiB in one turn of the loop. Output that is written after the request arrived
 * is not part of the answer. */
#include <stdio.h>

#include "api_handlers.h"
#include "log_reader.h"
#include "reply.h"

#define PIECE 65536
#define TURN_MAX (1U << 20)

/* As enum output_stream has them; BOTH is without results. */
enum which { WHICH_BOTH, WHICH_STDOUT, WHICH_STDERR, WHICH_RESULT };

struct range {
	struct request *r;
	struct loop_task turn;
	int fd; /* owned */
	uint64_t cursor;
	unsigned which;
	uint64_t offset, length; /* of the request */
	uint64_t at;		 /* offset in the wanted stream of what comes next */
	uint64_t total;		 /* length of that stream when the request came */
	size_t have, sent;	 /* of bytes */
	uint8_t bytes[PIECE];
};

static void release(struct request *r, bool answered)
{
	struct range *g = r->state;

	(void)answered;
	if (g->r == NULL)
		return;
	loop_task_cancel(core_loop(r->core), &g->turn);
	if (g->fd >= 0)
		fd_close(g->fd);
}

static bool is_wanted(const struct range *g, enum output_stream stream)
{
	if (stream == OUTPUT_CUT || stream == OUTPUT_RESULT)
		return stream == OUTPUT_RESULT && g->which == WHICH_RESULT;
	return g->which == WHICH_BOTH || (unsigned)stream == g->which;
}

/* Puts the next wanted bytes into the buffer: 1; 0 at the end; -1. Adds what it read to *spent. */
static int fill(struct range *g, size_t *spent, struct err *e)
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

static void pump(struct range *g)
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
		got = fill(g, &spent, &e);
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
	pump(t->arg);
}

static void on_writable(struct exchange *x)
{
	pump(request_of(x)->state);
}

/* Headers for the output up to now, and whether all of it was kept. */
static void begin(struct range *g, const struct store_execution *row)
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
	begin(g, x != NULL ? execution_row(x) : &row);
	store_execution_release(&row);
	return 0;
}

void api_output_get(struct request *r)
{
	struct range *g = request_state(r, sizeof(*g), release);
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
		pump(g);
}
