/* egress_listener.h - the two sockets at which connections and DNS queries of the cell's programs
 * arrive. cordon-egress, outside, accepts and answers them. Called by main.c. */
#pragma once

#include "lib/base/own.h"

#define EGRESS_LISTENER_FDS 2 /* a listening TCP socket, a UDP socket */

/* Open the sockets, if they are not open. Return 0 and *ret_fds, EGRESS_LISTENER_FDS descriptors
 * that belong to this file and stay open as long as PID 1 runs. Or an errno: EOPNOTSUPP if this
 * kernel cannot redirect connections (cell/keeper/netns.c), EADDRINUSE if a program of the cell has
 * the port. Does not block. */
int egress_listener_open(const int **ret_fds) MUST_USE;
