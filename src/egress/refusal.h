/* refusal.h - the answer a program in a cell gets when a request of its own goes nowhere: what and
 * why, in words that a person or an agent can act on. */
#pragma once

#include "buf.h"
#include "http1.h"

struct refusal {
	int status;
	bool denied;	    /* by the policy; else it failed */
	const char *reason; /* any bytes: what is not printable is replaced */
	const char *rule;   /* its name; NULL: none */
	bool json, bodiless, close;
};

#define REFUSAL_MAX 4096
/* Does who sent these want JSON? */
bool refusal_wants_json(const struct http1_header *headers, size_t n);
/* Head and body. */
void refusal_write(struct buf *b, const struct refusal *r);
