/* result_view.c - see result_view.h. Lines are checked and then written as they stand. */
#include "result_view.h"

#include <string.h>

#include "json_read.h"

#define DEPTH_MAX 64

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

/* The value of an escape \uXXXX; 0: it is none. */
static unsigned escaped(const char *p, const char *end)
{
	unsigned value = 0;

	if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
		return 0;
	for (int i = 2; i < 6; i++) /* digits: the text was checked */
		value = value * 16 +
			(unsigned)(p[i] <= '9' ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
	return value;
}

/* JSON may have escapes of half a character, which not every client accepts. */
static bool has_half_characters(const char *p, size_t n)
{
	const char *end = p + n;

	for (; p < end; p++) {
		unsigned value = escaped(p, end);

		if (*p != '\\')
			continue;
		if (value >= 0xd800 && value < 0xdc00) {
			unsigned low = escaped(p + 6, end);

			if (low < 0xdc00 || low > 0xdfff)
				return true;
			p += 6;
		} else if (value >= 0xdc00 && value <= 0xdfff) {
			return true;
		}
		p++;
	}
	return false;
}

static void take_line(struct result_view *v, struct json *j, const char *line, size_t n)
{
	struct json_value value, type;
	struct err e;

	if (n == 0)
		return;
	if (json_read(line, n, DEPTH_MAX, &value, &e) < 0 || value.kind != JSON_READ_OBJECT ||
	    has_half_characters(line, n)) {
		v->dropped++;
		return;
	}
	type = json_read_member(value, "type");
	if (json_read_is(type, "result") && v->n < RESULT_VIEW_LINES) {
		json_raw_bytes(j, NULL, value.p, value.n);
		v->n++;
	} else if (json_read_is(type, "error") && v->error_len == 0) {
		v->error = (size_t)(value.p - buf_text(&v->lines));
		v->error_len = value.n;
	} else if (!json_read_is(type, "number_of_executions") ||
		   !json_read_uint(json_read_member(value, "execution_count"), &v->count)) {
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

int result_view_piece(struct result_view *v, struct json *j)
{
	size_t end_at = v->at + RESULT_VIEW_PIECE;
	const char *text = buf_text(&v->lines);

	if (!v->begun)
		json_open(j, "results", '[');
	v->begun = true;
	while (v->at < v->lines.len && v->at < end_at) {
		const char *line = text + v->at;
		const char *newline = memchr(line, '\n', v->lines.len - v->at);

		if (newline == NULL) { /* cut, or the program ended in the middle of it */
			v->dropped += !v->over;
			v->at = v->lines.len;
			break;
		}
		take_line(v, j, line, (size_t)(newline - line));
		v->at += (size_t)(newline - line) + 1;
	}
	if (v->at < v->lines.len)
		return 1;
	end(v, j);
	return 0;
}
