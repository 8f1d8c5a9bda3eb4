/* untrusted_fd.h - descriptors received over a Unix socket from an untrusted process, handled so
 * that the sender cannot make the receiver block.
 *
 * Any process that can write to a Unix socket can send descriptors with its bytes. Closing the last
 * descriptor of a TCP connection with SO_LINGER blocks: in close(2), but also in a recv(2) without
 * room for the descriptors, and in the close of the Unix socket that still holds them. Here such
 * connections are disconnected first. (A file of a FUSE mount of the sender can make close(2)
 * block, too, without remedy: a socket that needs no descriptors should refuse them.) */
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "lib/base/err.h"

/* Close each >= 0 and set it to -1. */
void untrusted_close(int *fds, size_t n);

/* As io_recv(), but does not wait: ERR_SYSTEM with EAGAIN if there is nothing. */
ssize_t untrusted_recv_fds(int sock, void *data, size_t len, int *ret_fds, size_t cap,
			   size_t *ret_nfds, struct err *e) MUST_USE;

/* As recv(2) without flags. Descriptors that come along are closed. Any stream socket. */
ssize_t untrusted_recv(int sock, void *data, size_t len);

/* To be called before a Unix stream socket is closed: stops further input and discards queued
 * bytes. */
void untrusted_drain(int sock);

/* Accept from a listening socket that an untrusted process shares: that process can make it
 * blocking, and accept the connection that poll(2) reported. Return a non-blocking descriptor
 * without SO_LINGER that no other process has, and *ret (*len as for accept(2)), or -1 and errno of
 * accept4(2): EAGAIN if there is no connection. EDEADLK after about 20 ms if the socket was made
 * blocking: then it must not be used any more. For programs with one thread. Use SIGALRM. */
int untrusted_accept(int listener, struct sockaddr_storage *ret, socklen_t *len) MUST_USE;
