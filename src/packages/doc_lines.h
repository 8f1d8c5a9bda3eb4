/* doc_lines.h - lines of a document that arrives in pieces. Of a long line the beginning is kept.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define DOC_LINE_MAX 1024

struct doc_lines {
	char line[DOC_LINE_MAX]; /* NUL-terminated at the callback; without '\n' and '\r' before it
				  */
	size_t n;
	bool cut, odd; /* it was longer; it has a NUL */
};

/* Calls on_line for each line that ends in these bytes. */
void doc_lines_feed(struct doc_lines *l, const char *bytes, size_t n,
		    void (*on_line)(struct doc_lines *l, void *arg), void *arg);
/* And for the last one, if it has no '\n'. */
void doc_lines_end(struct doc_lines *l, void (*on_line)(struct doc_lines *l, void *arg), void *arg);
