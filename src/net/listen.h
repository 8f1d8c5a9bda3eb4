/* listen.h - accepts connections on the loop, and copes with running out of descriptors. Used by
 * server.c. */
#pragma once

#include "addr.h"
#include "loop.h"

struct listen {
	struct loop *loop;
	struct loop_fd watch;
	struct loop_timer pause;
	int fd;	      /* owned */
	int spare_fd; /* closed to accept and then close one connection when there is no other */
	/* Takes over the descriptor: connected, non-blocking, close-on-exec. */
	void (*on_accept)(struct listen *l, int fd, const struct addr *peer);
	void *arg; /* the caller's */
};

/* accepted and arg are set before; fd is taken over, also on failure: a listening, non-blocking
 * stream socket. Connections inherit TCP_NODELAY, keep-alive probes, and (if the kernel can) that
 * they accept no descriptors. */
int listen_start(struct listen *l, struct loop *loop, int fd, struct err *e) MUST_USE;
/* Closes the descriptors. No effect if it was not started or is stopped (l->loop is NULL). */
void listen_stop(struct listen *l);
