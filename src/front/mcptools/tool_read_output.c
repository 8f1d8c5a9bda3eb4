/* tool_read_output.c - the tool `read_output`: the output of an execution, from any byte on. The
 * log is read in pieces. Without new output the call waits, if asked to. */
#include "front/mcptools/tools.h"

#include <string.h>

#include "daemon/execution/execution.h"
#include "daemon/output/output.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/shown_text.h"
#include "lib/base/utf8.h"
#include "lib/mcp/server/json_text.h"

#define BYTES 16384 /* by default */
#define BYTES_MAX 65536
#define PIECE_RECORDS 1024

enum output_choice { WHICH_BOTH, WHICH_STDOUT, WHICH_STDERR };

/* The state of a call. c NULL: release has nothing to do. */
struct output_reading {
	struct tool_call *c;
	struct execution_follower follower; /* of a live one */
	struct job job;
	struct loop_timer limit; /* until when it waits */
	bool waits;
	int fd; /* of the log, owned. -1: none so far */
	uint64_t cursor;
	enum output_choice which;
	uint64_t from, max;
	uint64_t at; /* log offset of the next wanted byte */
	struct buf bytes;
};

static void read_output_release(struct tool_call *c)
{
	struct output_reading *g = c->own;

	if (g->c == NULL)
		return;
	core_job_cancel(c->r->core, &g->job);
	loop_timer_cancel(core_loop(c->r->core), &g->limit);
	execution_unfollow(&g->follower);
	if (g->fd >= 0)
		fd_close(g->fd);
	buf_release(&g->bytes);
}

/* NULL: the execution or its session has ended. */
static struct execution *read_output_live(const struct output_reading *g)
{
	return g->follower.link == NULL ? NULL : g->follower.execution;
}

/* ---- the answer
 *
 * The text and its place: `next` continues without a gap. */

/* An incomplete character at the end stays for the next call, unless it stands alone.
 */
static size_t read_output_whole(const struct output_reading *g)
{
	size_t n = g->bytes.len < g->max ? g->bytes.len : (size_t)g->max;

	if (n < g->bytes.len)
		n = utf8_cut(g->bytes.data, n, g->bytes.len);
	return n;
}

/* Shows how much there is of each stream. */
static void write_state(struct tool_call *c, const struct store_execution *row)
{
	bool ended = row->ended_ms != 0;

	json_bool(&c->out, "running", !ended);
	if (ended)
		json_int(&c->out, "exit_code", json_view_exit_code(row));
	json_uint(&c->out, "stdout_bytes", row->out_bytes);
	json_uint(&c->out, "stderr_bytes", row->err_bytes);
	json_bool(&c->out, "truncated", row->truncated);
}

/* A live execution's row is newer than the store's. */
static void read_output_answer(struct output_reading *g)
{
	struct tool_call *c = g->c;
	struct buf text = BUF_INIT(SHOWN_TEXT_GROWTH * BYTES_MAX + 1);
	struct store_execution row = { 0 };
	struct execution *x = read_output_live(g);
	size_t n = read_output_whole(g);
	struct err e = { 0 };

	if (x == NULL && execution_get(c->r->core, c->r->session_id, c->r->id, &row, &e) < 0) {
		reply_error(c->r, &e);
		return;
	}
	tool_open(c);
	shown_text(&text, g->bytes.data, n);
	json_bytes(&c->out, "text", buf_text(&text), text.len);
	json_uint(&c->out, "next", g->from + n);
	write_state(c, x != NULL ? execution_row(x) : &row);
	store_execution_release(&row);
	tool_text(c, buf_text(&text), text.len);
	buf_release(&text);
	tool_done(c);
}

/* ---- reading
 *
 * The log is read from its start, and wanted bytes before `from` are skipped. */

static bool is_wanted(const struct output_reading *g, enum output_stream s)
{
	if (s == OUTPUT_STDOUT)
		return g->which != WHICH_STDERR;
	return s == OUTPUT_STDERR && g->which != WHICH_STDOUT;
}

/* 1, or 0 if there is no more now, or -1. */
static int next_chunk(struct output_reading *g, struct err *e)
{
	static uint8_t bytes[32768];
	struct output_chunk chunk;
	int got = output_look(g->fd, &g->cursor, &chunk, e);
	size_t skip;

	if (got <= 0)
		return got;
	if (!is_wanted(g, chunk.stream) || g->at + chunk.len <= g->from) {
		g->at += is_wanted(g, chunk.stream) ? chunk.len : 0;
		output_skip(&g->cursor, &chunk);
		return 1;
	}
	got = output_read(g->fd, &g->cursor, &chunk, bytes, sizeof(bytes), e);
	if (got <= 0)
		return got;
	skip = g->at < g->from ? (size_t)(g->from - g->at) : 0;
	g->at += chunk.len;
	if (skip < chunk.len)
		buf_put(&g->bytes, bytes + skip, chunk.len - skip);
	return 1;
}

/* 0 as well when enough bytes are there. */
static int read_piece(struct output_reading *g, struct err *e)
{
	struct request *r = g->c->r;

	if (g->fd < 0 && execution_log(r->core, r->session_id, r->id, &g->fd, e) < 0)
		return -1;
	for (unsigned i = 0; i < PIECE_RECORDS; i++) {
		int got = next_chunk(g, e);

		if (got <= 0)
			return got;
		if (g->bytes.len >= g->max + 4)
			return 0;
	}
	return 1;
}

/* Answers when there are bytes, when none can come, or when the wait has ended. */
static bool on_piece(struct job *job)
{
	struct output_reading *g = job->arg;
	struct err e = { 0 };
	int got = read_piece(g, &e);

	if (got > 0)
		return true;
	if (got < 0)
		reply_error(g->c->r, &e);
	else if (g->bytes.len > 0 || read_output_live(g) == NULL ||
		 execution_ended(read_output_live(g)) || !g->waits)
		read_output_answer(g);
	return false; /* or on_progress() follows */
}

/* New output, or the end of the execution. */
static void on_progress(struct execution_follower *f)
{
	struct output_reading *g = f->arg;

	if (!g->c->done)
		core_job_add(g->c->r->core, g->c->r->tenant, &g->job);
}

/* The next piece answers in any case. */
static void on_limit(struct loop_timer *t)
{
	struct output_reading *g = t->arg;

	g->waits = false;
	on_progress(&g->follower);
}

/* The server stops: the bytes so far are the answer. */
static void read_output_drain(struct tool_call *c)
{
	struct output_reading *g = c->own;

	read_output_answer(g);
}

/* s NULL: the session has ended, and only the kept log is there. */
static void read_output_begin(struct output_reading *g, struct session *s)
{
	struct loop *l = core_loop(g->c->r->core);
	uint64_t wait_s = tool_arg_number(g->c, "wait_s", 0);
	struct execution *x = s == NULL ? NULL : execution_live(s, g->c->r->id);

	g->waits = x != NULL && wait_s > 0;
	g->follower.on_progress = on_progress;
	g->follower.arg = g;
	g->limit.on_expire = on_limit;
	g->limit.arg = g;
	g->job.on_piece = on_piece;
	g->job.arg = g;
	if (x != NULL)
		execution_follow(x, &g->follower);
	if (g->waits)
		loop_timer_set(l, &g->limit, loop_now_ns(l) + wait_s * 1000 * CLOCK_MS);
	if (on_piece(&g->job))
		core_job_add(g->c->r->core, g->c->r->tenant, &g->job);
}

static void read_output(struct tool_call *c)
{
	struct output_reading *g = c->own;
	struct json_span stream = json_tree_get_text(c->q.arguments, "stream");
	struct session *s = NULL;
	struct err e = { 0 };

	g->c = c;
	g->fd = -1;
	g->which = json_span_is(stream, "stdout")   ? WHICH_STDOUT
		   : json_span_is(stream, "stderr") ? WHICH_STDERR
						    : WHICH_BOTH;
	g->from = tool_arg_number(c, "from", 0);
	g->max = tool_arg_number(c, "max_bytes", BYTES);
	buf_init(&g->bytes, BYTES_MAX + 65536);
	if (!tool_take_execution(c))
		return;
	if (request_owns(c->r, &s, &e) < 0)
		reply_error(c->r, &e);
	else
		read_output_begin(g, s);
}

/* clang-format off */
const struct tool tool_read_output = {
	.shown = {
		.name = "read_output",
		.title = "Read output of a command",
		.description =
			"Reads what a command wrote, from byte `from` on (0 by default; `next` of the last answer "
			"continues), at most max_bytes (16384 by default, 65536 at most). With wait_s (60 at most) "
			"it waits for new output or the end. Output is kept while the session exists and some time "
			"after.",
		.input_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"execution_id": {"type": "string"},
				"stream": {"type": "string", "enum": ["both", "stdout", "stderr"]},
				"from": {"type": "integer", "minimum": 0},
				"max_bytes": {"type": "integer", "minimum": 16, "maximum": 65536},
				"wait_s": {"type": "integer", "minimum": 0, "maximum": 60}
			},
			"required": ["execution_id"], "additionalProperties": false
		}),
		.output_schema = JSON_TEXT({
			"type": "object",
			"properties": {
				"text": {"type": "string"}, "next": {"type": "integer"},
				"running": {"type": "boolean"},
				"exit_code": {"type": "integer"},
				"stdout_bytes": {"type": "integer"},
				"stderr_bytes": {"type": "integer"},
				"truncated": {"type": "boolean"}
			},
			"required": ["text", "next", "running"]
		}),
		.read_only = true,
	},
	.scope = TENANT_READ,
	.own_size = sizeof(struct output_reading),
	.start = read_output,
	.drain = read_output_drain,
	.release = read_output_release,
};
/* clang-format on */
