/* http1_fields.h - what heads of requests and responses have in common. For http1_*.c only. */
#pragma once

#include "http1.h"

/* Returns -1, so that failing is one statement. */
int http1_fields_fault(struct http1_fault *f, int status, const char *words);

/* Takes the next line off *rest, and returns it without its CRLF; there must be one (asserted). */
struct http1_span http1_fields_line(struct http1_span *rest);

/* The headers of a complete head, from after its first line up to the empty line. */
int http1_fields_read(struct http1_span rest, struct http1_header headers[HTTP1_HEADERS_MAX],
		      size_t *ret_n, struct http1_fault *f) MUST_USE;

struct http1_fields_body {
	enum http1_framing framing; /* HTTP1_NO_BODY: no header defines a body */
	uint64_t length;
};
int http1_fields_framing(const struct http1_header *headers, size_t n, int minor,
			 struct http1_fields_body *ret, struct http1_fault *f) MUST_USE;

bool http1_fields_keep_alive(const struct http1_header *headers, size_t n, int minor);

/* "HTTP/1.0" or "HTTP/1.1": the minor version; -1 otherwise. */
int http1_fields_version(struct http1_span s, struct http1_fault *f) MUST_USE;
