/* forward_headers.h - what of a head is passed on: that of a request to the server in a cell, and
 * headers of its answer back. Called by forward.c and forward.c. Pure, fuzzed.
 *
 * Never passed on are headers of one connection (hop.h), and those by which a client could claim
 * to be another (Forwarded, X-Forwarded-*, X-Real-Ip). The framing is written again, from the
 * parser's findings, so that both ends see the same. */
#pragma once

#include "lib/base/buf.h"
#include "lib/http/http1.h"

struct forward_headers_options {
	const char *host;   /* the value of Host. NULL: that of the request */
	const char *target; /* path and query. NULL: those of the request */
	const char *scheme; /* for X-Forwarded-Proto. NULL: it is left out */
	const char *peer;   /* "127.0.0.1:80", "[::1]:80". Others are left out */
	const char *const
		*drop; /* more names not passed on, lower-case. NULL at the end, or NULL */
};

/* Does it ask for another protocol in a way that can be passed on: without a body? */
bool forward_headers_wants_upgrade(const struct http1_request *r);

/* Put the whole head into ret. ERR_INVALID: an option is not valid. ERR_LIMIT: too long for ret.
 */
int forward_headers_request(const struct http1_request *r, const struct forward_headers_options *o,
			    struct buf *ret, struct err *e) MUST_USE;

/* Is this header of an answer passed on? Those that net writes itself (Content-Length) are not.
 * Upgrade is, with status 101. */
bool forward_headers_in_answer(const struct http1_response *r, const struct http1_header *h);

/* The length of an answer or, if it is one to HEAD, that it would have. UINT64_MAX: unknown. */
uint64_t forward_headers_length(const struct http1_response *r);
