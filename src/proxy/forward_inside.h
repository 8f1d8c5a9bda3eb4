/* forward_inside.h - what forward.c (life, request, time) and forward_answer.c (the answer) share.
 */
#pragma once

#include "chunk.h"
#include "fifo.h"
#include "forward.h"

enum forward_state {
	FORWARD_HEAD, /* nothing answered yet */
	FORWARD_BODY,
	FORWARD_TUNNEL,
	FORWARD_OVER /* nothing more is read or written here; the exchange may go on without us */
};

struct forward {
	struct loop *loop;
	struct exchange *x;
	struct forward_options options;
	int fd;
	struct loop_fd watch; /* removed once `hung` */
	struct loop_timer timer;
	enum forward_state state;
	uint64_t moved_ns; /* when something last went either way */
	uint64_t sent_ns;  /* when something of the request last did */

	/* the request */
	struct fifo up;
	bool chunked;	 /* its body is */
	bool wanted_up;	 /* it asks for an upgrade */
	bool held;	 /* the client is: `up` is full */
	bool up_ended;	 /* all of it is in `up`, or was */
	bool up_broken;	 /* the server takes no more; its answer may still come */
	bool up_is_shut; /* tunnels */
	bool reset;	 /* by an error that reading will not tell again */

	/* the answer */
	struct fifo down;
	size_t scanned;	   /* of its head */
	unsigned interims; /* answers that were not the final one */
	enum http1_framing framing;
	uint64_t left;
	struct chunk chunk;
	bool full;	 /* the client takes no more now: on_writable comes */
	bool hung;	 /* the server closed both sides: nothing but what is here will come */
	bool down_ended; /* and all of it was read */
};

/* Ends our part: for ever deaf. The exchange must have been ended or aborted, or be the caller's.
 */
void forward_inside_over(struct forward *f);
/* Before the answer has begun: tells the caller. */
void forward_inside_fail(struct forward *f, int status, const char *why);
/* Sends what waits for the server. */
void forward_inside_send(struct forward *f);
/* The request's body, or a tunnel's input. */
size_t forward_inside_take(struct exchange *x, const uint8_t *data, size_t len);
void forward_inside_ended(struct exchange *x, bool ok);

/* Reads from the server and gives to the client until one of them must wait. */
void forward_answer_pump(struct forward *f);
/* Does it want to read more from the server? */
bool forward_answer_wants_input(const struct forward *f);
