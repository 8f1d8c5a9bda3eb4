/* path.h - paths of requests in their normal form, and patterns of them. Pure.
 *
 * In the normal form, escapes of bytes that need none are decoded, others have upper-case digits,
 * and "." and ".." are resolved. Rules compare this form, and this form is sent on. Paths that
 * servers read differently are refused: escaped NUL, control bytes or backslashes, a backslash,
 * ".." above the root or after an empty segment or one with an escaped slash, and "." or ".." after
 * an escaped slash, a second escape or a ';'. An escaped slash stays escaped, and is not a slash
 * for a pattern. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/http/http1.h"

#define PATH_NORMAL_MAX (HTTP1_TARGET_MAX * 3 + 1)
#define PATH_PATTERN_MAX 240

/* ';' and '+' keep their spelling, since servers give the unescaped characters a meaning. Every
 * other byte of a path has one spelling. */
/* Write the normal form of a request's path (it begins with '/'). Return the length, or -1 and the
 * reason. */
int path_normal(struct http1_span raw, char *ret, size_t cap, const char **ret_why) MUST_USE;
/* Write the normal form of a query, the text behind '?'. Only escapes change. */
int path_normal_query(struct http1_span raw, char *ret, size_t cap, const char **ret_why) MUST_USE;

/* Does the pattern match? '*' matches any bytes but '/', '**' any bytes. Other bytes must be equal.
 * The time is bounded by pattern * path. A whole-segment '*' does not match an empty segment ("//",
 * or nothing at the end). A pattern longer than PATH_PATTERN_MAX matches nothing. */
bool path_fits(const char *pattern, const char *path);
/* Is the pattern valid: does it begin with '/', and is it in its normal form? */
int path_pattern_check(const char *pattern, struct err *e) MUST_USE;
