/* deny_page.h - the answer a program in a cell gets when a request of its own goes nowhere: what
 * and why, in words that a person or an agent can act on. */
#pragma once

#include "buf.h"
#include "http1.h"

struct deny_page {
	int status;
	bool denied;	    /* by the policy; else it failed */
	const char *reason; /* any bytes: what is not printable is replaced */
	const char *rule;   /* its name; NULL: none */
	bool json, bodiless, close;
};

#define DENY_PAGE_MAX 4096
/* Does who sent these want JSON? */
bool deny_page_wants_json(const struct http1_header *headers, size_t n);
/* Head and body. */
void deny_page_write(struct buf *b, const struct deny_page *r);
