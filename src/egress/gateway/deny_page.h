/* deny_page.h - the HTTP answer that a program in a cell gets from egress itself when its request
 * is refused or fails: what happened and why, in words that a person or an agent can act on. Pure.
 * Called by gateway_end.c and flow_sniff.c. The reason comes from the policy or from a server,
 * so it may hold any bytes. */
#pragma once

#include "lib/base/buf.h"
#include "lib/http/http1.h"

struct deny_page {
	int status;
	bool denied;	    /* refused by the policy. Else it failed */
	const char *reason; /* any bytes: unprintable ones are replaced */
	const char *rule;   /* its name. NULL: none */
	bool json, bodiless, close;
	/* For a package: clients of packages print the reason phrase of the status line, so the
	 * reason is there, too. The body is the reason alone, as text or as {"error": reason}. */
	bool package;
};

#define DENY_PAGE_MAX 4096
/* Do the request's headers ask for JSON? */
bool deny_page_wants_json(const struct http1_header *headers, size_t n);
/* Write head and body. */
void deny_page_write(struct buf *b, const struct deny_page *r);
