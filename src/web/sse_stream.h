/* sse_stream.h - an answer of server-sent events, at the client's pace.
 *
 * The caller checks sse_stream_ready() before it makes the next event: so what waits for a slow
 * client is the connection's bounded buffer and one event. A comment every 15 seconds keeps proxies
 * from closing the connection and detects dead clients. */
#pragma once

#include "request.h"

struct sse_stream {
	struct request *r;
	struct loop_timer keepalive;
	struct loop_task turn;		    /* continues in a later turn of the loop */
	size_t spent;			    /* bytes in this turn */
	void (*on_room)(struct request *r); /* there is room: make events */
	char *pending;			    /* owned: the rest of an event */
	size_t len, sent;
	bool ended;
};

/* The last id that a reconnecting client has seen (Last-Event-ID). False: it sent none. */
bool sse_stream_last_id(struct request *r, uint64_t *ret);
/* Starts the answer. A HEAD request is answered at once; false then. */
bool sse_stream_begin(struct sse_stream *f, struct request *r, void (*on_room)(struct request *r));
/* Can it take an event now? If not, on_room is called when it can. */
bool sse_stream_ready(struct sse_stream *f);
/* Sends an event; sse_stream_ready() was true. id may be NULL. data: JSON, len bytes. */
void sse_stream_event(struct sse_stream *f, const char *event, const char *id, const char *data,
		      size_t len);
/* No more events; what is pending is still sent. */
void sse_stream_end(struct sse_stream *f);
/* In the request's release function. Safe if it was never begun. */
void sse_stream_release(struct sse_stream *f);
