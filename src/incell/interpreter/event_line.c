#include "incell/interpreter/event_line.h"

#include <string.h>

#include "incell/interpreter/ascii_json.h"
#include "lib/base/clock.h"

void event_line_count(struct buf *b, uint64_t count)
{
	buf_printf(b, "{\"type\":\"number_of_executions\",\"execution_count\":%llu}\n",
		   (unsigned long long)count);
}

/* stream is a constant, so it needs no escapes. */
static void begin_output(struct buf *b, const char *stream)
{
	buf_printf(b, "{\"type\":\"%s\",\"text\":", stream);
}

static void end_output(struct buf *b)
{
	char stamp[40];

	clock_stamp(stamp, sizeof(stamp));
	buf_printf(b, ",\"timestamp\":\"%s\"}\n", stamp);
}

void event_line_output(struct buf *b, const char *stream, struct json_value text)
{
	begin_output(b, stream);
	ascii_json_value(b, text);
	end_output(b);
}

/* shown must not be longer than file, since the bytes stay in place. */
size_t event_line_rename(uint8_t *bytes, size_t n, const char *file, const char *shown)
{
	size_t from_len = strlen(file), to_len = strlen(shown), at = 0, used = 0;

	while (at < n) {
		bool begins = at == 0 || bytes[at - 1] == '\n';

		if (begins && n - at >= from_len && memcmp(bytes + at, file, from_len) == 0) {
			memcpy(bytes + used, shown, to_len);
			used += to_len;
			at += from_len;
		} else {
			bytes[used++] = bytes[at++];
		}
	}
	return used;
}

void event_line_bytes(struct buf *b, const char *stream, const void *bytes, size_t n)
{
	begin_output(b, stream);
	ascii_json_bytes(b, bytes, n);
	end_output(b);
}

/* Members of a result, and which kind each must have. NONE: any. */
static const struct {
	const char *name;
	enum json_kind kind;
} members[] = {
	{ "text", JSON_READ_TEXT },	{ "html", JSON_READ_TEXT },
	{ "markdown", JSON_READ_TEXT }, { "svg", JSON_READ_TEXT },
	{ "png", JSON_READ_TEXT },	{ "jpeg", JSON_READ_TEXT },
	{ "pdf", JSON_READ_TEXT },	{ "latex", JSON_READ_TEXT },
	{ "json", JSON_READ_NONE },	{ "javascript", JSON_READ_TEXT },
	{ "data", JSON_READ_NONE },	{ "chart", JSON_READ_NONE },
	{ "extra", JSON_READ_OBJECT },
};

/* Its index in members, or -1: not one of the interface, or of the wrong kind. */
static int find_member(struct json_value name, struct json_value v)
{
	for (size_t i = 0; i < COUNT(members); i++)
		if (json_read_is(name, members[i].name))
			return v.kind == JSON_READ_NULL || (members[i].kind != JSON_READ_NONE &&
							    v.kind != members[i].kind)
				       ? -1
				       : (int)i;
	return -1;
}

/* A member that comes twice is written once. */
void event_line_result(struct buf *b, struct json_value result)
{
	bool is_main = json_read_member(result, "is_main_result").kind == JSON_READ_TRUE;
	struct json_value name, v;
	const char *at = NULL;
	unsigned seen = 0;

	buf_printf(b, "{\"type\":\"result\",\"is_main_result\":%s", is_main ? "true" : "false");
	while (json_read_next(result, &at, &name, &v)) {
		int i = find_member(name, v);

		if (i < 0 || (seen & 1U << i) != 0)
			continue;
		seen |= 1U << i;
		buf_printf(b, ",\"%s\":", members[i].name);
		if (i == 0)
			ascii_json_unquoted(b, v);
		else
			ascii_json_value(b, v);
	}
	buf_put_text(b, "}\n");
}

/* A missing member is an empty text. */
void event_line_error(struct buf *b, struct json_value error)
{
	static const char *const names[] = { "name", "value", "traceback" };

	buf_put_text(b, "{\"type\":\"error\"");
	for (size_t i = 0; i < COUNT(names); i++) {
		struct json_value v = json_read_member(error, names[i]);

		buf_printf(b, ",\"%s\":", names[i]);
		if (v.kind == JSON_READ_TEXT)
			ascii_json_value(b, v);
		else
			buf_put_text(b, "\"\"");
	}
	buf_put_text(b, "}\n");
}

/* For failures of the server itself. */
void event_line_failure(struct buf *b, const char *name, const char *value, const char *traceback)
{
	buf_put_text(b, "{\"type\":\"error\",\"name\":");
	ascii_json_text(b, name);
	buf_put_text(b, ",\"value\":");
	ascii_json_text(b, value);
	buf_put_text(b, ",\"traceback\":");
	ascii_json_text(b, traceback);
	buf_put_text(b, "}\n");
}

void event_line_keepalive(struct buf *b)
{
	buf_put_text(b, "{\"type\":\"keepalive\"}\n");
}

void event_line_end(struct buf *b)
{
	buf_put_text(b, "{\"type\":\"end_of_execution\"}\n");
}
