/* http1_write.h - writes heads of requests and answers into a bounded buffer.
 *
 * If a part does not fit, or could not be read back as one header (a CR, a LF, a name other than a
 * token), the whole head is bad. http1_write_end() returns that, and nothing of it may be sent. */
#pragma once

#include "lib/http/http1.h"

struct http1_write {
	char *text; /* borrowed. Not NUL-terminated */
	size_t cap, len;
	bool bad;
};

void http1_write_status(struct http1_write *w, char *text, size_t cap, int status);
/* host: the value of Host. */
void http1_write_request(struct http1_write *w, char *text, size_t cap, const char *method,
			 const char *target, const char *host);
void http1_write_header(struct http1_write *w, const char *name, const char *value);
void http1_write_number(struct http1_write *w, const char *name, uint64_t value);
/* Write the empty line. Return the length of the head, or -1 if it is bad. */
int http1_write_end(struct http1_write *w) MUST_USE;
