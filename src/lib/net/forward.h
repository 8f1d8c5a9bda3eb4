/* forward.h - the HTTP and WebSocket reverse proxy, one exchange at a time: sends a request to a
 * server behind a socket, and returns its answer. Used by front/e2b for ports of cells.
 *
 * Bodies go both ways at once and as they come, with at most FORWARD_WAITING bytes waiting here for
 * the slower side. The server is not trusted: its answer is read strictly, and written again. A
 * truncated answer is aborted, so that the client sees that it is incomplete. If it is malformed or
 * never comes, the caller answers (on_failure). An upgrade that the server accepts becomes a
 * tunnel.
 *
 *	on a request:     f = forward_new(loop, x, fd, &options, e);
 *	in its on_done:   forward_free(f); then close fd */
#pragma once

#include "lib/loop/loop.h"
#include "lib/net/server.h"

#define FORWARD_WAITING ((size_t)64 * 1024)
#define FORWARD_HEAD_MAX ((size_t)32 * 1024) /* bytes of an answer's head */

struct forward;

/* A filter reads or changes the bytes that pass. Every function gets filter_arg. None may end the
 * exchange, but all may abort it. */
struct forward_filter {
	/* The next bytes of the request's body, about to be sent. n 0: the body was sent in chunks,
	 * and its end is. False: they must not be. on_refused follows, and answers, or, if the
	 * answer of the server has begun, on_cut. */
	bool (*on_request)(void *arg, const uint8_t *data, size_t n);
	void (*on_refused)(void *arg);
	void (*on_head)(void *arg, int status);
	/* May a header of the answer with this text pass? */
	bool (*may_pass)(void *arg, struct http1_span text);
	/* Take up to n bytes of the answer's body, to write them or others to the exchange, and
	 * return how many. Fewer: forward_resume() follows, or on_writable of the exchange. */
	size_t (*write)(void *arg, const uint8_t *data, size_t n);
	/* There is room: writes what waits. True: nothing waits any more. */
	bool (*flush)(void *arg);
	/* The answer is complete. True: all of it is written. Else it is called again after
	 * flush(). */
	bool (*end)(void *arg);
	/* The server did not complete its answer, or must not. The exchange is aborted. */
	void (*on_cut)(void *arg);
};

struct forward_options {
	const char *host;   /* sent as Host. NULL: that of the request */
	const char *target; /* sent as path and query. NULL: those of the request */
	/* names of request headers not passed on, lower-case, NULL-terminated, or NULL */
	const char *const *drop;
	const char *scheme; /* "http" or "https", for X-Forwarded-Proto. NULL: none is sent */
	/* for the head of the answer, after the last byte of the request was sent. 0: no bound */
	uint64_t answer_ms;
	uint64_t idle_ms;		     /* without a byte either way. 0: no bound */
	const struct forward_filter *filter; /* NULL: bytes pass as they are. Not for upgrades */
	void *filter_arg;
	/* There was no answer, and the caller must give one, now or later: 502 or 504, and why.
	 * Never called from inside forward_new(), nor after the client has gone. */
	void (*on_failure)(struct exchange *x, int status, const char *why);
};

/* Send the request on, and take over the exchange's body, answer and carrier. on_done, arg and
 * headers set before (sent with the answer, too) stay the caller's. fd is borrowed: a connected (or
 * connecting) non-blocking stream socket, which the caller closes after forward_free(). Options are
 * copied. Their texts are not needed after the call. NULL with e set: nothing was sent, and the
 * exchange is as before. */
struct forward *forward_new(struct loop *l, struct exchange *x, int fd,
			    const struct forward_options *o, struct err *e) MUST_USE;
/* The filter takes bytes again. */
void forward_resume(struct forward *f);
/* In the on_done of the exchange, not before. f may be NULL. */
void forward_free(struct forward *f);
