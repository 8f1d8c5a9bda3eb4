#include "incell/interpreter/kernel_protocol.h"

#include <string.h>

#define DEPTH_MAX 64

/* A row for each type: its word, and the member that must be there. */
static const struct {
	const char *name;
	enum kernel_message_type type;
	const char *number; /* the member that must be a number, or NULL */
	const char *text;   /* the same for a text */
} types[] = {
	{ "ready", KERNEL_MESSAGE_READY, NULL, NULL },
	{ "count", KERNEL_MESSAGE_COUNT, "execution_count", NULL },
	{ "stdout", KERNEL_MESSAGE_STDOUT, NULL, "text" },
	{ "stderr", KERNEL_MESSAGE_STDERR, NULL, "text" },
	{ "result", KERNEL_MESSAGE_RESULT, NULL, NULL },
	{ "error", KERNEL_MESSAGE_ERROR, NULL, NULL },
	{ "done", KERNEL_MESSAGE_DONE, "id", NULL },
	{ "spawned", KERNEL_MESSAGE_SPAWNED, "pid", NULL },
	{ "failed", KERNEL_MESSAGE_FAILED, NULL, "message" },
};

/* OTHER: unknown, or without its member. */
static struct kernel_message read_body(struct json_value body)
{
	struct json_value type = json_read_member(body, "type");
	struct kernel_message m = { .type = KERNEL_MESSAGE_OTHER, .body = body };

	for (size_t i = 0; i < COUNT(types); i++) {
		if (!json_read_is(type, types[i].name))
			continue;
		if (types[i].number != NULL &&
		    !json_read_uint(json_read_member(body, types[i].number), &m.number))
			break;
		if (types[i].text != NULL &&
		    json_read_member(body, types[i].text).kind != JSON_READ_TEXT)
			break;
		m.type = types[i].type;
	}
	return m;
}

/* User code may write to the same socket: the last beginning of a message in the line is tried,
 * too. */
struct kernel_message kernel_message_read(const char *line, size_t n)
{
	static const char start[] = "{\"type\":";
	struct json_value body;
	const char *at = NULL;
	struct err e;

	if (json_read(line, n, DEPTH_MAX, &body, &e) == 0)
		return read_body(body);
	for (const char *p = line;
	     (p = memmem(p, n - (size_t)(p - line), start, sizeof(start) - 1)); p++)
		at = p;
	if (at != NULL && json_read(at, n - (size_t)(at - line), DEPTH_MAX, &body, &e) == 0)
		return read_body(body);
	return (struct kernel_message){ 0 };
}
