/* untrusted_fd.h - descriptors that came over a Unix socket from somebody who is not trusted, and
 * who must not hold us up.
 *
 * Whoever can write to a Unix socket can send descriptors along. What closes them waits if they are
 * the last of a TCP connection that was told to linger: not only close(2), but also a recv(2) that
 * has no room for them, and the close of the Unix socket in which they are still waiting. Here such
 * a connection is broken off. (A file system of the sender's own can make close(2) wait, too, and
 * there is no help against that: a socket that needs no descriptors should refuse them.) */
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "err.h"

/* Closes each that is >= 0 and sets it to -1. */
void untrusted_close(int *fds, size_t n);

/* As io_recv(). */
ssize_t untrusted_recv_fds(int sock, void *data, size_t len, int *ret_fds, size_t cap,
			   size_t *ret_nfds, struct err *e) MUST_USE;

/* As recv(2) without flags; descriptors that come along are closed. Any stream socket. */
ssize_t untrusted_recv(int sock, void *data, size_t len);

/* To be called before a Unix stream socket is closed: from now on nothing can be sent to it, and
 * what waits in it is gone. */
void untrusted_drain(int sock);

/* Accepts from a listening socket that somebody who is not trusted shares: he can make it block,
 * and take the connection that poll(2) told us of. Returns a descriptor, non-blocking, that does
 * not linger and nobody else has, and *ret (*len as for accept(2)); or -1 and errno as of
 * accept4(2): EAGAIN if nobody is there; EDEADLK, after some 20 ms, if he has made it block: then
 * it is of no more use. For programs of one thread; SIGALRM is taken for it. */
int untrusted_accept(int listener, struct sockaddr_storage *ret, socklen_t *len) MUST_USE;
