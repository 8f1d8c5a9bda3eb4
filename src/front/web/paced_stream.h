/* paced_stream.h - an answer of unknown length at the client's pace: server-sent events (sse_out.h)
 * and messages of Connect (front/e2b/envd/rpc.h).
 *
 * The caller checks paced_stream_ready() before it makes the next piece. So a slow client costs the
 * connection's bounded buffer and one piece. One piece is one write, so one chunk, and mostly one
 * packet. After TURN_MAX bytes other clients have their turn of the loop.
 *
 * The stream must be the first member of the request's state. */
#pragma once

#include "front/web/request.h"

struct paced_stream {
	struct request *r;
	/* There is room: make pieces. Also called with each keepalive, so that a missed
	 * notification does no harm. */
	void (*on_room)(struct request *r);
	/* Send a keepalive if one is due, and return when to call again. 0: the stream was dropped.
	 */
	uint64_t (*on_keepalive)(struct paced_stream *p, uint64_t now_ns);
	/* A piece counts for the tenant as a body does while it waits. One that finds no room then
	 * drops the stream. Such a stream has one piece at a time. */
	bool counts;
	/* The rest is for paced_stream.c. Other files may read begun and ended. */
	struct loop_timer keepalive;
	struct loop_task turn; /* continues in a later turn of the loop */
	size_t spent;	       /* bytes in this turn */
	char *pending;	       /* owned: the rest of a piece */
	size_t len, sent;
	size_t counted;	  /* its bytes counted for the tenant */
	uint64_t sent_ns; /* when the last piece was sent. 0: none was */
	bool begun, ended;
};

/* Start the answer. The callbacks are set. A HEAD request is answered at once. False then. */
bool paced_stream_begin(struct paced_stream *p, struct request *r, const char *type,
			uint64_t first_keepalive_ns);
/* Can the stream take a piece now? If not, on_room is called when it can. */
bool paced_stream_ready(struct paced_stream *p);
/* Add a piece behind the bytes that wait. Take text over (malloc'ed). NULL, for out of memory:
 * the stream must not continue with a gap. False: the stream was dropped. */
bool paced_stream_put(struct paced_stream *p, char *text, size_t len);
/* Call on_room after the callbacks of this turn. */
void paced_stream_wake(struct paced_stream *p);
/* No more pieces. Waiting bytes are still sent. */
void paced_stream_end(struct paced_stream *p);
/* Close the connection without an end. */
void paced_stream_drop(struct paced_stream *p);
/* In the request's release function. Safe if it was never begun. */
void paced_stream_release(struct paced_stream *p);
