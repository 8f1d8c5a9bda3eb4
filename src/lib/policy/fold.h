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

#include "lib/http/http1.h"

/* Fold the decoded name of a parameter in place. */
void fold_parameter(char *name);
/* Compare header names without case, and with '_' equal to '-'. */
bool fold_same_header(struct http1_span name, const char *wanted);
/* May a header with this name be a list of values? False for names that the standards define as a
 * single value. */
bool fold_is_list(struct http1_span name);
/* Write a normal path in the form that a lenient server may read: slashes merged, escaped slashes
 * decoded, parameters after ';' and dots and spaces at the end of segments removed, lower case. ret
 * has room for as many bytes as path and its NUL. Return the length. */
size_t fold_path(const char *path, char *ret);
/* Write a pattern in the form for comparison with fold_path(): lower case. ret as above. */
void fold_pattern(const char *pattern, char *ret);
