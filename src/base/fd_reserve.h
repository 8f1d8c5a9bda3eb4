/* fd_reserve.h - descriptors that are kept open for nothing, so that a control channel can receive
 * when the process has no others left.
 *
 * A message whose descriptors find no room is delivered without them (MSG_CTRUNC), and they are
 * lost. So before a receive that may bring descriptors, as many of the reserve are closed; after it
 * the reserve is filled again as far as the kernel allows. What was received beyond that is paid
 * for later, when others are closed:
 *
 *	static struct fd_reserve reserve = FD_RESERVE_INIT;
 *
 *	fd_reserve_fill(&reserve);			at the start, before clients are served
 *	...
 *	fd_reserve_lend(&reserve, 2);
 *	n = io_recv(sock, ..., fds, 2, &nfds, &e);	ERR_LIMIT: no room all the same
 *	fd_reserve_fill(&reserve);
 *
 * One thread, and nothing else may open descriptors between lend and receive. The reserve must be
 * filled while other users of descriptors are bounded to leave it some, or it is empty when the
 * process has been out of descriptors for long: fd_reserve_left() says how much there is. */
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

/* Opens what is missing; stops quietly when the process may have no more. Needs pipe2(2) and
 * fcntl(2). */
void fd_reserve_fill(struct fd_reserve *r);
/* Closes up to n of them. */
void fd_reserve_lend(struct fd_reserve *r, size_t n);
size_t fd_reserve_left(const struct fd_reserve *r);
/* Closes all. */
void fd_reserve_release(struct fd_reserve *r);
