/* url.h - paths and queries of a request: escapes, parameters, matching. Pure. Results are copied
 * into buffers of the caller.
 *
 * Decoded text never contains a NUL, and always ends with one. An encoded slash is a byte of its
 * segment and separates nothing: split first, then decode. */
#pragma once

#include "lib/http/http1.h"

#define URL_PARAMS_MAX 8

/* Each returns the length of its output, or -1: a malformed escape, a NUL, or no room. */
int url_decode(struct http1_span raw, char *ret, size_t cap) MUST_USE;
int url_decode_form(struct http1_span raw, char *ret, size_t cap) MUST_USE; /* '+' is a space */
/* Escape all but letters, digits and "-._~". Fits any part of a path or a query. */
int url_encode(const char *text, size_t n, char *ret, size_t cap) MUST_USE;

/* Walk over "a=1&b&c=", also of a form: *rest begins as the whole. False at the end. Both are
 * still encoded. value.p is NULL without '='. Empty items are skipped. */
bool url_query_next(struct http1_span *rest, struct http1_span *ret_name,
		    struct http1_span *ret_value);
/* 1 and the decoded value. 0: there is none (ret is then ""). -1: the value is malformed or too
 * long, a name is malformed, or the name occurs twice, as readers could differ then. */
int url_query_get(struct http1_span query, const char *name, char *ret, size_t cap) MUST_USE;

struct url_params {
	struct http1_span raw[URL_PARAMS_MAX]; /* in the order of the pattern: url_decode() */
	size_t n;
};

/* Does the raw path match "/v1/sessions/{id}/files"? A "{...}" matches one segment, not empty and
 * not "." or ".." in any encoding. "{*}" at the end matches the whole rest, with slashes and dots,
 * perhaps nothing. Other bytes must be equal. At most URL_PARAMS_MAX (asserted). */
bool url_match(const char *pattern, struct http1_span path, struct url_params *ret);
