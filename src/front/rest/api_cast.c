/* api_cast.c - the recording of an execution: its log from the beginning to the last byte kept now,
 * in asciicast v2 (cast.h).
 *
 * The log is read in pieces, in the tenant's share of the loop (jobs.h) and only while the client
 * takes them: a log may have a record for each byte. */
#include <string.h>

#include "front/rest/api_handlers.h"
#include "front/rest/cast.h"
#include "front/web/log_reader.h"
#include "front/web/paced_stream.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/clock.h"
#include "lib/base/own.h"
#include "lib/base/utf8.h"

#define PIECE_BYTES 4096      /* of the log */
#define PIECE_RECORDS 64      /* of the log */
#define PIECE_JSON (1U << 20) /* a byte takes six at most, and each record a line */
#define IDLE_NS (3600ULL * 1000 * CLOCK_MS)

/* The state of a recording's request. cursor is the place in the log behind the last record
 * written. */
struct cast_recording {
	struct paced_stream stream; /* first */
	struct job job;
	struct cast cast;
	int fd; /* owned. -1: there is no log */
	uint64_t cursor;
	bool lost; /* it has output, and none is kept */
	bool headed, begun;
	char title[256];
	uint8_t bytes[4096];
};

static void cast_release(struct request *r, bool answered)
{
	struct cast_recording *g = r->state;

	paced_stream_release(&g->stream);
	core_job_cancel(r->core, &g->job);
	fd_close(g->fd);
}

/* The first record of a terminal is its size. */
static int write_head(struct cast_recording *g, struct json *j, struct err *e)
{
	struct output_chunk chunk;
	uint64_t cursor = g->cursor;
	char size[32] = "";
	int got = output_read_all(g->fd, &cursor, &chunk, g->bytes, sizeof(size) - 1, e);

	if (got < 0)
		return -1;
	if (got > 0 && chunk.stream == OUTPUT_SIZE) {
		memcpy(size, g->bytes, chunk.len);
		g->cursor = cursor;
	}
	cast_head(j, g->cast.start_ms, size, g->title);
	if (g->lost && g->fd < 0)
		cast_mark(&g->cast, j, g->cast.start_ms, "the output is not kept");
	g->headed = true;
	return 0;
}

/* 1: there is more. 0: the end. -1. The bounds on bytes and records keep one piece of work short.
 */
static int write_piece(struct cast_recording *g, struct json *j, struct err *e)
{
	size_t bytes = 0;

	if (!g->headed && write_head(g, j, e) < 0)
		return -1;
	for (unsigned i = 0; i < PIECE_RECORDS && bytes < PIECE_BYTES; i++) {
		struct output_chunk chunk;
		int got = output_read_all(g->fd, &g->cursor, &chunk, g->bytes, sizeof(g->bytes), e);

		if (got < 0)
			return -1;
		if (got == 0) {
			cast_end(&g->cast, j);
			return 0;
		}
		cast_chunk(&g->cast, j, chunk.stream, chunk.time_ms, g->bytes, chunk.len);
		bytes += chunk.len;
	}
	return 1;
}

/* Writes one piece and gives its memory to the stream. Asks for the next piece if the client has
 * room, else on_room() does. An error in the log cuts the answer, since its head was sent. */
static bool on_piece(struct job *job)
{
	struct request *r = job->arg;
	struct cast_recording *g = r->state;
	struct err e = { 0 };
	struct json j;
	int got;

	json_init_heap(&j, PIECE_JSON);
	got = write_piece(g, &j, &e);
	if (got < 0 || !json_ok(&j)) {
		json_release(&j);
		paced_stream_drop(&g->stream);
		return false;
	}
	if (j.len > 0 && !paced_stream_put(&g->stream, j.text, j.len))
		return false;
	if (j.len == 0)
		json_release(&j);
	if (got == 0)
		paced_stream_end(&g->stream);
	else if (paced_stream_ready(&g->stream))
		core_job_add(r->core, r->tenant, job);
	return false;
}

/* The client has taken enough. Also starts the first piece. */
static void on_room(struct request *r)
{
	struct cast_recording *g = r->state;

	if (paced_stream_ready(&g->stream))
		core_job_add(r->core, r->tenant, &g->job);
}

/* Nothing is sent in between: a recording is made as fast as its client reads. */
static uint64_t on_keepalive(struct paced_stream *p, uint64_t now_ns)
{
	return now_ns + IDLE_NS;
}

/* Fill in the head's members from the execution's row. The title is the command, cut between two
 * characters. g->fd stays -1 if no log was kept. */
static int open_recording(struct request *r, struct cast_recording *g, struct err *e)
{
	struct store_execution row = { 0 };
	struct session *live;
	size_t n;

	if (request_owns(r, &live, e) < 0 ||
	    execution_get(r->core, r->session_id, r->id, &row, e) < 0)
		return -1;
	g->cast.tty = row.tty;
	g->cast.start_ms = row.started_ms != 0 ? row.started_ms : row.created_ms;
	g->lost = execution_log_lost(&row);
	n = strlen(row.command);
	if (n >= sizeof(g->title))
		n = utf8_cut((const uint8_t *)row.command, sizeof(g->title) - 1, n);
	memcpy(g->title, row.command, n);
	store_execution_release(&row);
	if (live != NULL && execution_live(live, r->id) != NULL)
		g->lost = false;
	return execution_log(r->core, r->session_id, r->id, &g->fd, e);
}

/* A recording is made up to the log's end at that time, and counts as a stream of the tenant. */
void api_cast_get(struct request *r)
{
	struct cast_recording *g = request_state(r, sizeof(*g), cast_release);
	struct err e = { 0 };

	if (g == NULL)
		return;
	g->fd = -1;
	g->job = (struct job){ .on_piece = on_piece, .arg = r };
	if (open_recording(r, g, &e) < 0 || request_stream(r, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	g->stream.on_room = on_room;
	g->stream.on_keepalive = on_keepalive;
	g->stream.counts = true;
	if (paced_stream_begin(&g->stream, r, "application/x-asciicast", IDLE_NS))
		on_room(r);
}
