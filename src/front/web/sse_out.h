/* sse_out.h - an answer of server-sent events, at the client's pace (paced_stream.h). An event
 * that waits for a slow client is counted for the tenant. A comment every 15 seconds keeps proxies
 * from closing the connection and detects dead clients. */
#pragma once

#include "front/web/paced_stream.h"

/* The first member of the request's state. */
struct sse_out {
	struct paced_stream paced;
};

/* The last id that a reconnecting client has seen (Last-Event-ID). False: it sent none. */
bool sse_out_last_id(struct request *r, uint64_t *ret);
/* Start the answer. A HEAD request is answered at once. False then. */
bool sse_out_begin(struct sse_out *f, struct request *r, void (*on_room)(struct request *r));
/* Can it take an event now? If not, on_room is called when it can. */
bool sse_out_ready(struct sse_out *f);
/* Send an event. sse_out_ready() was true. id may be NULL. data: JSON, len bytes. */
void sse_out_event(struct sse_out *f, const char *event, const char *id, const char *data,
		   size_t len);
/* No more events. Waiting bytes are still sent. */
void sse_out_end(struct sse_out *f);
/* In the request's release function. Safe if it was never begun. */
void sse_out_release(struct sse_out *f);
