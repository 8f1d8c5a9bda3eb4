/* egress_listener.h - the cell's way out: what programs connect to, and the names they ask for,
 * arrive at two sockets that cordon-egress reads outside. */
#pragma once

#include "own.h"

#define EGRESS_LISTENER_FDS 2 /* a TCP socket that listens, a UDP socket */

/* Opens the listener, or finds it open. Returns 0 and *ret_fds, EGRESS_LISTENER_FDS descriptors
 * that stay open for as long as PID 1 is there and belong to this file; or an errno: EOPNOTSUPP if
 * the keeper found that this kernel cannot do it, EADDRINUSE if a program of the cell sits in the
 * way. Nothing blocks. */
int egress_listener_open(const int **ret_fds) MUST_USE;
