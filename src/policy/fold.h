/* fold.h - folds spellings that lenient servers treat as the same. Pure. Called by
 * policy_request.c and by the readers of rules.
 *
 * Servers differ in how they read names of parameters and headers, and paths: some ignore case,
 * PHP cuts a parameter's name at '[' and reads '.' and ' ' as '_', CGI cannot tell '_' from '-' in
 * a header's name, Windows ignores dots and spaces at the end of a name. Rules compare folded
 * forms where a difference would be to the advantage of a request: a fold may be made wider, never
 * narrower. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "http1.h"

/* The name of a parameter, decoded; in place. */
void fold_parameter(char *name);
/* Compares header names: without case, and '_' as '-'. */
bool fold_same_header(struct http1_span name, const char *wanted);
/* May a header of this name be a list of values? False for names that the standards define as one
 * value. */
bool fold_is_list(struct http1_span name);
/* A normal path as a lenient server may read it: slashes merged, escaped slashes decoded,
 * parameters after ';' and dots and spaces at the end of segments removed, lower case. ret has room
 * for as many bytes as path and its NUL. Returns the length. */
size_t fold_path(const char *path, char *ret);
/* A pattern to be compared with what fold_path() returns: lower case. ret as above. */
void fold_pattern(const char *pattern, char *ret);
