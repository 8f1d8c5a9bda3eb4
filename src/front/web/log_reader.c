/* log_reader.c - theory of operation
 *
 * The log is the only source: live output is read from it like old output, so a client that
 * reconnects with its last cursor misses nothing and gets nothing twice. The check for the
 * execution's end precedes the read of the log. If the log then has no more, everything was
 * delivered.
 *
 * A cursor is always that of the first byte not yet delivered. To keep a character whole its first
 * bytes are left for the next piece by reading again with a smaller bound. Only a character that
 * lies across two records needs both of them in one piece. */
#include "front/web/log_reader.h"

#include <string.h>

#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/base/utf8.h"

/* A live execution is followed, so that it stays in memory. */
int log_reader_open(struct log_reader *rd, struct request *r, struct session *live, uint64_t after,
		    void (*on_more)(struct execution_follower *f), struct err *e)
{
	struct store_execution row = { 0 };

	rd->core = r->core;
	rd->fd = -1;
	rd->cursor = after;
	rd->started = after != 0;
	str_copy(rd->session_id, r->session_id);
	str_copy(rd->id, r->id);
	if (live != NULL)
		rd->x = execution_live(live, r->id);
	if (rd->x == NULL) {
		if (execution_get(r->core, r->session_id, r->id, &row, e) < 0)
			return -1;
		rd->lost = execution_log_lost(&row);
		rd->unlogged = row.kind == EXECUTION_CALL && row.output_limit == 0;
		store_execution_release(&row);
		return 0;
	}
	rd->follower.on_progress = on_more;
	rd->follower.arg = r;
	execution_follow(rd->x, &rd->follower);
	return 0;
}

/* Safe if it was never opened. */
void log_reader_close(struct log_reader *rd)
{
	if (rd->core == NULL)
		return;
	execution_unfollow(&rd->follower);
	rd->x = NULL;
	if (rd->fd >= 0)
		fd_close(rd->fd);
	rd->fd = -1;
}

/* NULL: the execution or its session has ended. */
struct execution *log_reader_live(struct log_reader *rd)
{
	if (rd->follower.link == NULL)
		rd->x = NULL;
	return rd->x;
}

int log_reader_after(struct request *r, uint64_t *ret, struct err *e)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span last;
	char text[24];

	*ret = 0;
	if (request_text(r, "after", text, sizeof(text), e) < 0)
		return -1;
	if (text[0] == '\0' && http1_find(q->headers, q->headers_n, "last-event-id", &last) == 1 &&
	    last.n < sizeof(text)) {
		memcpy(text, last.p, last.n);
		text[last.n] = '\0';
	}
	if (text[0] == '\0')
		return 0;
	if (units_count(text, 0, UINT64_MAX, ret, e) < 0)
		return err_wrap(e, "parameter after");
	return 0;
}

/* How many bytes at the end could be the start of a character of which the rest is missing. */
static size_t log_reader_unfinished(const uint8_t *p, size_t n)
{
	for (size_t k = 1; k <= 3 && k <= n; k++) {
		uint8_t c = p[n - k];

		if (c < 0x80)
			return 0;
		if (c >= 0xc2 && c <= 0xf4) {
			size_t need = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

			return k < need ? k : 0;
		}
	}
	return 0;
}

/* Whole characters of UTF-8 only. */
static bool is_text(const uint8_t *p, size_t n)
{
	while (n > 0) {
		size_t len = utf8_length(p, n);

		if (len == 0)
			return false;
		p += len;
		n -= len;
	}
	return true;
}

/* Bytes at the cursor, at most cap: 1, 0, -1 as output_read(). */
static int log_reader_piece(struct log_reader *rd, uint64_t at, size_t cap,
			    struct log_reader_item *ret, size_t have, struct err *e)
{
	struct output_chunk chunk;
	uint64_t cursor = at;
	int got = output_read(rd->fd, &cursor, &chunk, ret->bytes + have, cap, e);

	if (got <= 0)
		return got;
	if (have > 0 && chunk.stream != ret->stream)
		return 0;
	if (have == 0) {
		ret->stream = chunk.stream;
		ret->offset = chunk.offset;
	}
	ret->n = have + chunk.len;
	ret->after = cursor;
	return 1;
}

/* Leave the start of a character to the next piece, or, if it stands alone in this one, add its
 * rest. 0: the rest of it is still to come. */
static int whole_characters(struct log_reader *rd, bool last, struct log_reader_item *ret,
			    struct err *e)
{
	size_t rest = log_reader_unfinished(ret->bytes, ret->n), n = ret->n;
	uint64_t first_end = ret->after;
	int got;

	if (rest == 0)
		return 1;
	if (rest < n)
		return log_reader_piece(rd, rd->cursor, n - rest, ret, 0, e);
	got = log_reader_piece(rd, first_end, LOG_READER_PIECE, ret, n, e);
	if (got < 0)
		return -1;
	if (got == 0) {
		struct output_chunk next;
		uint64_t cursor = first_end;
		uint8_t byte;

		/* No data, or data of the other stream, with which it cannot be joined. */
		ret->n = n;
		ret->after = first_end;
		got = output_read(rd->fd, &cursor, &next, &byte, 1, e);
		return got == 0 && !last ? 0 : got < 0 ? -1 : 1;
	}
	rest = log_reader_unfinished(ret->bytes, ret->n);
	if (rest > 0 && rest < ret->n - n)
		return log_reader_piece(rd, first_end, ret->n - n - rest, ret, n, e);
	return 1;
}

/* The log is opened at the first read. */
static int read_log(struct log_reader *rd, bool text, bool last, struct log_reader_item *ret,
		    struct err *e)
{
	int got;

	if (rd->fd < 0 && execution_log(rd->core, rd->session_id, rd->id, &rd->fd, e) < 0)
		return -1;
	got = log_reader_piece(rd, rd->cursor, LOG_READER_PIECE, ret, 0, e);
	if (got <= 0)
		return got;
	if (ret->stream == OUTPUT_CUT) {
		ret->what = LOG_READER_CUT;
		return 1;
	}
	ret->what = LOG_READER_BYTES;
	if (text)
		got = whole_characters(rd, last, ret, e);
	ret->is_text = text && got == 1 && is_text(ret->bytes, ret->n);
	return got;
}

/* The log was removed or could never be opened, so it cannot record the cut itself. */
static bool find_lost(struct log_reader *rd, struct execution *x, struct log_reader_item *ret)
{
	const char *why = x == NULL ? "" : execution_cut(x);

	if (rd->fd >= 0 || rd->cut ||
	    !(x == NULL ? rd->lost : execution_log_lost(execution_row(x))))
		return false;
	if (*why == '\0')
		why = rd->unlogged ? OUTPUT_NOT_KEPT : OUTPUT_BY_SESSION;
	ret->what = LOG_READER_CUT;
	ret->n = strlen(why);
	memcpy(ret->bytes, why, ret->n);
	return true;
}

/* Nothing is consumed: the caller calls log_reader_advance() when it has sent the item. */
void log_reader_next(struct log_reader *rd, bool text, struct log_reader_item *ret, struct err *e)
{
	struct execution *x = log_reader_live(rd);
	bool ended = x == NULL || execution_ended(x);
	bool complete = x == NULL || execution_complete(x);
	int got;

	ret->what = LOG_READER_NOTHING;
	ret->after = rd->cursor;
	if (!rd->started) {
		if (ended || execution_pid(x) != 0 || execution_row(x)->kind == EXECUTION_CALL)
			ret->what = LOG_READER_START;
		return;
	}
	got = read_log(rd, text, complete, ret, e);
	if (got > 0)
		return;
	ret->what = LOG_READER_NOTHING;
	ret->after = rd->cursor;
	if (got == 0 && find_lost(rd, x, ret))
		return;
	if (got < 0)
		ret->what = LOG_READER_FAILED;
	else if (ended && !rd->exited)
		ret->what = LOG_READER_EXIT;
	else if (complete && rd->exited)
		ret->what = LOG_READER_END;
}

void log_reader_advance(struct log_reader *rd, const struct log_reader_item *item)
{
	rd->cursor = item->after;
	if (item->what == LOG_READER_START)
		rd->started = true;
	if (item->what == LOG_READER_CUT)
		rd->cut = true;
	if (item->what == LOG_READER_EXIT)
		rd->exited = true;
}
