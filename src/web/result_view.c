/* result_view.c - see result_view.h. Lines are checked and then written as they stand. */
#include "result_view.h"

#include <string.h>

#define LINE_COST 32 /* of a line, in bytes, beside its own */

void result_view_init(struct result_view *v)
{
	*v = (struct result_view){ 0 };
	buf_init(&v->lines, RESULT_VIEW_MAX);
}

void result_view_release(struct result_view *v)
{
	buf_release(&v->lines);
}

void result_view_take(struct result_view *v, const uint8_t *bytes, size_t n)
{
	size_t room = RESULT_VIEW_MAX - v->lines.len;

	v->over = v->over || n > room;
	buf_put(&v->lines, bytes, n < room ? n : room);
}

/* The line has passed. */
static void take_line(struct result_view *v, struct json *j, const char *line, size_t n)
{
	if (v->line.type == RESULT_LINE_RESULT && v->n < RESULT_VIEW_LINES) {
		json_raw_bytes(j, NULL, line, n);
		v->n++;
	} else if (v->line.type == RESULT_LINE_ERROR && v->error_len == 0) {
		v->error = v->at;
		v->error_len = n;
	} else if (v->line.type == RESULT_LINE_COUNT && v->line.has_count) {
		v->count = v->line.count;
	} else {
		v->dropped++;
	}
}

static void end(struct result_view *v, struct json *j)
{
	json_close(j, ']');
	json_uint(j, "results_dropped", v->dropped + (v->over ? 1 : 0));
	if (v->error_len > 0)
		json_raw_bytes(j, "code_error", buf_text(&v->lines) + v->error, v->error_len);
	else
		json_none(j, "code_error");
	if (v->count > 0)
		json_uint(j, "execution_count", v->count);
	else
		json_none(j, "execution_count");
}

/* The line at v->at. False: it is the last, and cut, or the program ended inside of it. */
static bool begin_line(struct result_view *v)
{
	const char *line = buf_text(&v->lines) + v->at;
	const char *newline = memchr(line, '\n', v->lines.len - v->at);

	if (newline == NULL) {
		v->dropped += !v->over;
		v->at = v->lines.len;
		return false;
	}
	v->line_len = (size_t)(newline - line);
	v->in_line = true;
	result_line_begin(&v->line, line, v->line_len);
	return true;
}

/* Up to about *left bytes of the line at v->at; takes what they cost. */
static void do_line(struct result_view *v, struct json *j, size_t *left)
{
	const char *before = v->line.p;
	int got = v->line_len == 0 ? 0 : result_line_piece(&v->line, *left);
	size_t cost = LINE_COST + (size_t)(v->line.p - before);

	*left -= cost < *left ? cost : *left;
	if (got > 0)
		return;
	if (got < 0)
		v->dropped++;
	else if (v->line_len > 0)
		take_line(v, j, buf_text(&v->lines) + v->at, v->line_len);
	v->at += v->line_len + 1;
	v->in_line = false;
}

int result_view_piece(struct result_view *v, struct json *j)
{
	size_t left = RESULT_VIEW_PIECE;

	if (!v->begun)
		json_open(j, "results", '[');
	v->begun = true;
	while (v->at < v->lines.len && left > 0)
		if (v->in_line || begin_line(v))
			do_line(v, j, &left);
	if (v->at < v->lines.len)
		return 1;
	end(v, j);
	buf_release(&v->lines);
	return 0;
}
