/* stream.h - one side of a connection that the gateway reads: a socket, plain or TLS, with buffers
 * for what has arrived and what is to be sent. It decides nothing: its owner moves bytes and says
 * what to wait for. */
#pragma once

#include <sys/types.h>

#include "fifo.h"
#include "loop.h"
#include "tls.h"

#define STREAM_IN_MAX ((size_t)128 * 1024)
#define STREAM_OUT_MAX ((size_t)64 * 1024)

struct stream {
	struct loop *loop;
	struct loop_fd watch;
	int fd;		      /* owned; -1: closed */
	struct tls_conn *tls; /* owned; NULL: plain */
	struct fifo in, out;
	size_t grab;  /* bytes read at once: grows while all of them come */
	bool shaken;  /* plain, or the handshake is complete */
	bool dry;     /* there was nothing left to read; the loop reports more */
	bool ended;   /* the peer has ended its side, and all it sent is in `in` */
	bool broken;  /* nothing more can be read or written */
	bool deaf;    /* nothing more can be written; what the peer sent can still be read */
	bool blocked; /* stream_put() took less than it was given */
	bool unshut;  /* to be shut when all is sent: see stream_shut() */
	bool shut;
	void (*ready)(struct stream *s); /* called on events */
	void *arg;
};

/* fd, non-blocking, is taken over, also on failure. No event is waited for yet. */
int stream_open(struct stream *s, struct loop *l, int fd, struct err *e) MUST_USE;
void stream_tell(struct stream *s, void (*ready)(struct stream *s), void *arg);
/* Starts TLS: as a client if host is given, else as a server. */
int stream_secure(struct stream *s, struct tls *t, const char *host, struct err *e) MUST_USE;
/* 1: the handshake is complete; 0: wait; -1: it failed, *e says why. */
int stream_shake(struct stream *s, struct err *e) MUST_USE;
/* Closes it. reset: the peer sees a reset, not an end. */
void stream_close(struct stream *s, bool reset);

/* Reads until max bytes are in `in`, or the socket has no more, as far as the loop has reported.
 * True if bytes came, or the end. */
bool stream_fill(struct stream *s, size_t max);
/* The same, without waiting for a report of the loop. */
bool stream_look(struct stream *s, size_t max);
/* Queues bytes without a bound: for heads. Without memory the stream is broken. */
void stream_add(struct stream *s, const void *data, size_t n);
/* Takes as many bytes as fit: perhaps none. Large pieces are sent without a copy. */
size_t stream_put(struct stream *s, const void *data, size_t n);
size_t stream_room(const struct stream *s);
/* Sends what it can. True if bytes were sent. */
bool stream_flush(struct stream *s);
/* Ends the sending side when all is sent. */
void stream_shut(struct stream *s);
/* Waits for events: for input only if want_in; for room to write if there are bytes to be sent. */
void stream_arm(struct stream *s, bool want_in);
