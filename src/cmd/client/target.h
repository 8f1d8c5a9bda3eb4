/* target.h - the target of a request, each part escaped, and SESSION:PATH as people type it. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Is the word SESSION:PATH? Then the id, as typed, is copied, and *ret_path points after the
 * colon. "." (the home directory) for an empty path. A word with a slash before the colon is a
 * local name. */
bool session_path_split(const char *word, char *ret_id, size_t cap, const char **ret_path);

/* The last part of a path, without slashes at its end. False if that cannot be a name, as in "/",
 * ".", ".." and "". */
bool session_path_name(const char *path, char *ret, size_t cap);

struct target {
	char text[16384]; /* a path of 4096 bytes, all of them escaped, and room for the rest */
	size_t n;
	bool full, query;
};

/* "/v1/sessions" and so on, as it is. */
void target_init(struct target *t, const char *base);
/* Add "/part". */
void target_part(struct target *t, const char *part);
/* Add "?name=value" or "&name=value". NULL values add nothing. */
void target_query(struct target *t, const char *name, const char *value);
void target_query_number(struct target *t, const char *name, uint64_t value);

/* The whole, or NULL with e set if it did not fit. */
const char *target_text(const struct target *t, struct err *e) MUST_USE;
