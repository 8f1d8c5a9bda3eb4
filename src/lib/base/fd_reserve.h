/* fd_reserve.h - spare descriptors, so that a control channel can receive descriptors when the
 * process has reached its limit.
 *
 * A message whose descriptors find no room is delivered without them (MSG_CTRUNC), and they are
 * lost. So before a receive that may bring descriptors, as many of the reserve are closed. After it
 * the reserve is filled again as far as the kernel allows. It stays smaller until other descriptors
 * are closed:
 *
 *	static struct fd_reserve reserve = FD_RESERVE_INIT;
 *
 *	fd_reserve_fill(&reserve);			at the start, before clients are served
 *	...
 *	fd_reserve_lend(&reserve, 2);
 *	n = io_recv(sock, ..., fds, 2, &nfds, &e);	ERR_LIMIT: still no room
 *	fd_reserve_fill(&reserve);
 *
 * One thread, and nothing else may open descriptors between lend and receive. Other users of
 * descriptors must be bounded so that the reserve can be filled again. Otherwise it is empty once
 * the process has been at its limit for long. fd_reserve_left() returns its size. */
#pragma once

#include <stddef.h>

#define FD_RESERVE_MAX 64

struct fd_reserve {
	size_t n; /* the first n are open */
	int fds[FD_RESERVE_MAX];
};

#define FD_RESERVE_INIT \
	{               \
		.n = 0  \
	}

/* Open missing descriptors. Stop without an error at the process's limit. Needs pipe2(2) and
 * fcntl(2). */
void fd_reserve_fill(struct fd_reserve *r);
/* Close up to n of them. */
void fd_reserve_lend(struct fd_reserve *r, size_t n);
size_t fd_reserve_left(const struct fd_reserve *r);
/* Close all. */
void fd_reserve_release(struct fd_reserve *r);
