/* path.h - paths of requests in their normal form, and patterns of them. Pure.
 *
 * Normal: escapes of what needs none are undone, the others have capital digits, "." and ".." are
 * resolved; what is left is what the rules see and what is sent on. Refused is what servers read
 * differently: escaped NUL, control bytes or backslashes, a backslash, ".." beyond the root
 * or behind an empty segment or one with an escaped slash, and "." or ".." that hide behind an
 * escaped slash, a second escape or a ';'. An escaped slash stays as it is, and is not a slash to a
 * pattern. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "http1.h"

#define PATH_NORMAL_MAX (HTTP1_TARGET_MAX * 3 + 1)
#define PATH_PATTERN_MAX 240

/* ';' and '+' keep the spelling they came in, since servers give the bare ones a meaning of their
 * own; of the other bytes a path may hold, all have one spelling. */
/* Path of a request (begins with '/'). Returns the length, or -1 and why not. */
int path_normal(struct http1_span raw, char *ret, size_t cap, const char **ret_why) MUST_USE;
/* The same for what follows '?': escapes only. */
int path_normal_query(struct http1_span raw, char *ret, size_t cap, const char **ret_why) MUST_USE;

/* '*': any bytes but '/'; '**': any bytes. The rest must be equal. Time is bounded by
 * pattern * path. A '*' that is a whole segment fits no empty one ("//", or nothing at the end).
 * A pattern beyond PATH_PATTERN_MAX fits nothing. */
bool path_fits(const char *pattern, const char *path);
/* Can it be a pattern at all: begins with '/', and is in its normal form. */
int path_pattern_check(const char *pattern, struct err *e) MUST_USE;
