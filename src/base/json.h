/* json.h - writes JSON into a bounded buffer. Commas and escapes are its work, nesting the
 * caller's.
 *
 * Text that is not valid UTF-8 comes out with U+FFFD in place of each bad byte, so that the
 * result is always JSON. When the buffer is full, the rest is dropped and json_ok() says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "own.h"

struct json {
	char *text; /* borrowed from the caller; always NUL-terminated */
	size_t cap, len;
	bool comma; /* the next value needs one in front */
	bool full;
};

void json_init(struct json *j, char *text, size_t cap);
bool json_ok(const struct json *j);

/* name is NULL inside arrays and for the outermost value. */
void json_open(struct json *j, const char *name, char bracket);
void json_close(struct json *j, char bracket);
void json_string(struct json *j, const char *name, const char *value); /* NULL value: null */
void json_uint(struct json *j, const char *name, uint64_t value);
void json_bool(struct json *j, const char *name, bool value);
void json_null(struct json *j, const char *name);
