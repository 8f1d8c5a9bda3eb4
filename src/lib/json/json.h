/* json.h - writes JSON into a bounded buffer. It adds commas and escapes. The caller is responsible
 * for nesting. Names must not collide with those of jansson, which some programs link, too.
 *
 * Text comes out with U+FFFD in place of each byte outside UTF-8, so that the result is always
 * JSON. When the buffer is full, the rest is dropped and json_ok() says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/own.h"

struct json {
	char *text; /* always NUL-terminated. Borrowed from the caller, or owned: json_init_heap()
		     */
	size_t cap, len;
	size_t max; /* up to which owned text may grow. 0: borrowed */
	bool comma; /* the next value needs one in front */
	bool full;
	bool secret; /* see json_keep_secret() */
};

void json_init(struct json *j, char *text, size_t cap);
/* The text grows as needed, up to max bytes with its NUL (or to what memory there is).
 * json_release() frees it. */
void json_init_heap(struct json *j, size_t max);
void json_release(struct json *j);
/* From now on memory is wiped before it is freed or reallocated. */
void json_keep_secret(struct json *j);
bool json_ok(const struct json *j);

/* name is NULL inside arrays and for the outermost value. */
void json_open(struct json *j, const char *name, char bracket);
void json_close(struct json *j, char bracket);
void json_text(struct json *j, const char *name, const char *value); /* NULL value: null */
/* As above, for bytes that may hold NULs. */
void json_bytes(struct json *j, const char *name, const void *value, size_t n);
/* As above, in parts, for a long one: begin, add any number of times, end. A character must not be
 * divided between two parts: see utf8_cut(). */
void json_begin_text(struct json *j, const char *name);
void json_add_text(struct json *j, const void *value, size_t n);
void json_end_text(struct json *j);
/* A value already in JSON. */
void json_raw(struct json *j, const char *name, const char *value);
void json_raw_bytes(struct json *j, const char *name, const char *value, size_t n);
void json_uint(struct json *j, const char *name, uint64_t value);
void json_int(struct json *j, const char *name, int64_t value);
void json_bool(struct json *j, const char *name, bool value);
void json_none(struct json *j, const char *name);
