/* gateway_stream.h - one side of a connection that the gateway reads: a socket, plain or TLS, with
 * buffers for the bytes received and the bytes to be sent. Used by gateway*.c and idle_conns.c. It
 * decides nothing: its owner moves bytes and says what to wait for, and bounds the bytes queued by
 * gateway_stream_add(). */
#pragma once

#include <sys/types.h>

#include "lib/loop/loop.h"
#include "lib/net/fifo.h"
#include "lib/net/tls.h"

#define GATEWAY_STREAM_IN_MAX ((size_t)128 * 1024)
#define GATEWAY_STREAM_OUT_MAX ((size_t)64 * 1024)

struct gateway_stream {
	struct loop *loop;
	struct loop_fd watch;
	int fd;		      /* owned. -1: closed */
	struct tls_conn *tls; /* owned. NULL: plain */
	struct fifo in, out;
	size_t grab;	     /* bytes read at once: grows while all of them come */
	bool handshake_done; /* plain, or the handshake is complete */
	bool dry;	     /* there was nothing left to read. The loop reports more */
	bool ended;	     /* the peer has ended its side, and all it sent is in `in` */
	bool broken;	     /* nothing more can be read or written */
	bool write_broken;   /* nothing more can be written. Bytes sent by the peer can still be
			      * read */
	bool blocked;	     /* gateway_stream_put() took less than it was given */
	bool shut_pending;   /* to be shut when all is sent: see gateway_stream_shut() */
	bool shut;
	void (*on_ready)(struct gateway_stream *s); /* called on events */
	void *arg;
};

/* Begin a plain stream. fd, non-blocking, is taken over, also on failure. No event is waited for
 * yet. */
int gateway_stream_open(struct gateway_stream *s, struct loop *l, int fd, struct err *e) MUST_USE;
void gateway_stream_watch(struct gateway_stream *s, void (*on_ready)(struct gateway_stream *s),
			  void *arg);
/* Start TLS: as a client if host is given, else as a server. */
int gateway_stream_secure(struct gateway_stream *s, struct tls *t, const char *host,
			  struct err *e) MUST_USE;
/* 1: the handshake is complete. 0: wait. -1: it failed, *e says why. */
int gateway_stream_handshake(struct gateway_stream *s, struct err *e) MUST_USE;
/* Close it. reset: the peer sees a reset, not an end. */
void gateway_stream_close(struct gateway_stream *s, bool reset);

/* Read until max bytes are in `in`, or the socket has no more, as far as the loop has reported.
 * True if bytes came, or the end. */
bool gateway_stream_fill(struct gateway_stream *s, size_t max);
/* As gateway_stream_fill(), but reads even if the loop has reported nothing. */
bool gateway_stream_look(struct gateway_stream *s, size_t max);
/* Queue bytes without a bound: for heads. Without memory the stream is broken. */
void gateway_stream_add(struct gateway_stream *s, const void *data, size_t n);
/* Take as many bytes as fit: perhaps none. Large pieces are sent without a copy. */
size_t gateway_stream_put(struct gateway_stream *s, const void *data, size_t n);
size_t gateway_stream_room(const struct gateway_stream *s);
/* Send as many bytes as possible. True if bytes were sent. */
bool gateway_stream_flush(struct gateway_stream *s);
/* End the sending side when all is sent. */
void gateway_stream_shut(struct gateway_stream *s);
/* Wait for events: for input only if want_in. For room to write if there are bytes to be sent. */
void gateway_stream_arm(struct gateway_stream *s, bool want_in);
