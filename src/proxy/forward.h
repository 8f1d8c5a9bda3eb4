/* forward.h - gives a request to a server behind a socket, and its answer back: the HTTP and
 * WebSocket reverse proxy, one exchange at a time.
 *
 * Bodies go both ways at once and as they come, with at most FORWARD_WAITING bytes waiting here for
 * whoever is slow. What the server sends is not trusted: its answer is read strictly, and composed
 * anew. An answer that breaks off is aborted, so that the client sees that it is not whole. One
 * that is malformed or never comes is the caller's to answer (failed). An upgrade that the server
 * accepts becomes a tunnel.
 *
 *	on a request:     f = forward_new(loop, x, fd, &options, e);
 *	in its on_done:   forward_free(f); then close fd */
#pragma once

#include "loop.h"
#include "server.h"

#define FORWARD_WAITING ((size_t)64 * 1024)
#define FORWARD_HEAD_MAX ((size_t)32 * 1024) /* of an answer */

struct forward;

struct forward_options {
	const char *host;	 /* sent as Host; NULL: as it came */
	const char *target;	 /* sent as path and query; NULL: as they came */
	const char *const *drop; /* names of request headers not passed on, lower-case,
				    NULL-terminated; or NULL */
	const char *scheme;	 /* "http" or "https", for X-Forwarded-Proto; NULL: none is sent */
	uint64_t answer_ms; /* for the head of the answer, since the last byte of the request went;
			       0: for ever */
	uint64_t idle_ms;   /* nothing moves either way; 0: for ever */
	/* Nothing was answered, and nothing will be but by the caller, now or later: 502 or 504,
	 * and why. Never called from inside forward_new(), nor after the client has gone. */
	void (*failed)(struct exchange *x, int status, const char *why);
};

/* Sends the request on, and takes over the exchange's body, answer and carrier; on_done, arg and
 * headers set before (they go with the answer, too) stay the caller's. fd is borrowed: a connected
 * (or connecting) non-blocking stream socket, to be closed by the caller after forward_free().
 * Options are copied; their texts are not needed after the call. NULL with e set: nothing was sent,
 * the exchange is as it was. */
struct forward *forward_new(struct loop *l, struct exchange *x, int fd,
			    const struct forward_options *o, struct err *e) MUST_USE;
/* In the exchange's on_done, not before. NULL is fine. */
void forward_free(struct forward *f);
