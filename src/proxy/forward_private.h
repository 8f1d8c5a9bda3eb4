/* forward_private.h - the structure that forward.c (life, request, deadlines) and forward_answer.c
 * (the answer) share. */
#pragma once

#include "chunk.h"
#include "fifo.h"
#include "forward.h"

enum forward_state {
	FORWARD_HEAD, /* no answer yet */
	FORWARD_BODY,
	FORWARD_ENDING, /* all of it is read, and the filter has more to write */
	FORWARD_TUNNEL,
	FORWARD_OVER /* nothing more is read or written here; the exchange may go on by itself */
};

struct forward {
	struct loop *loop;
	struct exchange *x;
	struct forward_options options;
	int fd;
	struct loop_fd watch; /* removed once `server_closed` */
	struct loop_timer timer;
	enum forward_state state;
	uint64_t moved_ns; /* when the last byte went either way */
	uint64_t sent_ns;  /* when the last byte of the request was sent */

	/* The request. */
	struct fifo up;
	bool chunked;	 /* its body is sent in chunks */
	bool wanted_up;	 /* it asks for an upgrade */
	bool held;	 /* the client is held back: `up` is full */
	bool up_ended;	 /* all of it was put into `up` */
	bool up_broken;	 /* the server takes no more; its answer may still come */
	bool up_is_shut; /* tunnels: the sending side is closed */
	bool reset;	 /* by an error that reading will not report again */

	/* The answer. */
	struct fifo down;
	size_t scanned;	   /* bytes of its head searched */
	unsigned interims; /* interim answers so far */
	enum http1_framing framing;
	uint64_t left;
	struct chunk chunk;
	bool full;	    /* the client takes no more now: on_writable follows */
	bool server_closed; /* the server closed both sides: no more bytes will come */
	bool down_ended;    /* and all were read */
};

/* Ends this part: nothing more is read or written. The exchange must have been ended or aborted, or
 * belong to the caller. */
void forward_stop(struct forward *f);
/* Before the answer has begun: calls options.on_failure(). */
void forward_fail(struct forward *f, int status, const char *why);
/* Sends what is queued for the server. */
void forward_send(struct forward *f);
/* on_data of the exchange: the body of the request, or the input of a tunnel. */
size_t forward_on_data(struct exchange *x, const uint8_t *data, size_t len);
void forward_on_end(struct exchange *x, bool ok);

/* Reads from the server and gives to the client until one of them must wait. */
void forward_answer_pump(struct forward *f);
/* Does it want to read more from the server? */
bool forward_answer_wants_input(const struct forward *f);
