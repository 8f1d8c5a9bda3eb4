/* foreign.h - descriptors that came over a Unix socket from somebody who is not trusted, and who
 * must not hold us up.
 *
 * Whoever can write to a Unix socket can send descriptors along. What closes them waits if they are
 * the last of a TCP connection that was told to linger: not only close(2), but also a recv(2) that
 * has no room for them, and the close of the Unix socket in which they are still waiting. Here such
 * a connection is broken off. (A file system of the sender's own can make close(2) wait, too, and
 * there is no help against that: a socket that needs no descriptors should refuse them.) */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "err.h"

/* Closes each that is >= 0 and sets it to -1. */
void foreign_close(int *fds, size_t n);

/* As io_recv(). */
ssize_t foreign_recv_fds(int sock, void *data, size_t len, int *ret_fds, size_t cap,
			 size_t *ret_nfds, struct err *e) MUST_USE;

/* As recv(2) without flags; descriptors that come along are closed. Any stream socket. */
ssize_t foreign_recv(int sock, void *data, size_t len);

/* To be called before a Unix stream socket is closed: from now on nothing can be sent to it, and
 * what waits in it is gone. */
void foreign_drain(int sock);
