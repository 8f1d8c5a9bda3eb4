/* forward_headers.h - what of a head is passed on: a request's to the server in a cell, and which
 * headers of its answer back. Pure.
 *
 * Never passed on are the headers that belong to one connection (hop.h) and those by which a client
 * could say who it is (Forwarded, X-Forwarded-*, X-Real-Ip). Where the message ends
 * is said anew, out of what the parser found, so that both ends believe the same. */
#pragma once

#include "buf.h"
#include "http1.h"

struct forward_headers_options {
	const char *host;   /* the value of Host; NULL: as it came */
	const char *target; /* path and query; NULL: as they came */
	const char *scheme; /* of X-Forwarded-Proto; NULL: it is left out */
	const char *peer;   /* "127.0.0.1:80", "[::1]:80"; others are not told of */
	const char *const
		*drop; /* more names not to pass on, lower-case; NULL at the end; or NULL */
};

/* Is it a request to change the protocol that can be passed on: with no body in the way? */
bool forward_headers_wants_upgrade(const struct http1_request *r);

/* Puts the whole head into ret. Fails with ERR_INVALID if an option is not clean, ERR_LIMIT if it
 * is too long for ret. */
int forward_headers_request(const struct http1_request *r, const struct forward_headers_options *o,
			    struct buf *ret, struct err *e) MUST_USE;

/* Is this header of an answer passed on? Those that the server says itself (Content-Length) are
 * not; Upgrade is, with status 101. */
bool forward_headers_in_answer(const struct http1_response *r, const struct http1_header *h);

/* The length an answer has or, if it is one to HEAD, would have; UINT64_MAX if it says none. */
uint64_t forward_headers_length(const struct http1_response *r);
