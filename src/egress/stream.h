/* stream.h - one side of a connection that is looked into: a socket, plain or TLS, with what has
 * arrived and what is to be sent. It decides nothing; whoever owns it moves bytes and says what to
 * wait for. */
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
	size_t grab;  /* how much is read at once: grows while all of it comes */
	bool shaken;  /* plain, or the handshake is complete */
	bool dry;     /* nothing was left to read; the loop tells when there is more */
	bool ended;   /* the peer has sent all it will, and it is in `in` */
	bool broken;  /* nothing more can be read or written */
	bool deaf;    /* nothing more can be written; what it said before can still be read */
	bool blocked; /* less went than stream_put() was given: there is more where it came from */
	bool unshut;  /* what is to be shut is not yet: see stream_shut() */
	bool shut;
	void (*ready)(struct stream *s); /* something can be done */
	void *arg;
};

/* fd is taken over, also on failure; non-blocking. Nothing is waited for yet. */
int stream_open(struct stream *s, struct loop *l, int fd, struct err *e) MUST_USE;
void stream_tell(struct stream *s, void (*ready)(struct stream *s), void *arg);
/* From now on it is TLS: a client's if host is given. */
int stream_secure(struct stream *s, struct tls *t, const char *host, struct err *e) MUST_USE;
/* 1: the handshake is complete; 0: wait; -1: it failed, *e says why. */
int stream_shake(struct stream *s, struct err *e) MUST_USE;
/* Closes it. reset: so that the peer sees that it was not the end. */
void stream_close(struct stream *s, bool reset);

/* Reads until max bytes are in `in`, or nothing waits, as far as the loop has told. True if
 * anything came, or the end. */
bool stream_fill(struct stream *s, size_t max);
/* The same, and does not wait for the loop to tell. */
bool stream_look(struct stream *s, size_t max);
/* Adds to what is to be sent, without a bound: for heads. Failing, it is broken. */
void stream_add(struct stream *s, const void *data, size_t n);
/* Takes as much as fits: perhaps nothing. What is large is sent without being copied. */
size_t stream_put(struct stream *s, const void *data, size_t n);
size_t stream_room(const struct stream *s);
/* Sends what it can. True if anything went. */
bool stream_flush(struct stream *s);
/* When all is sent, the peer is told that this was all. */
void stream_shut(struct stream *s);
/* Waits: for input only if want_in; for room to write if there is something to be written. */
void stream_arm(struct stream *s, bool want_in);
