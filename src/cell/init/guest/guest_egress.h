/* guest_egress.h - connections and DNS queries of a virtual machine's programs. The machine has no
 * network device: its rules lead every connection to the listener of egress_listener.h, PID 1
 * accepts it and asks the shim for a stream to the address that the program wanted. The shim
 * connects from the cell, where the same rules lead to cordon-egress. Called by guest_link.c. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/wire/mux.h"

#define GUEST_EGRESS_FDS 3 /* entries of guest_egress_poll_fds(), always */

/* Begin to accept. Repeatable. Return 0 or an errno. */
int guest_egress_open(void) MUST_USE;

nfds_t guest_egress_poll_fds(struct pollfd *ret_fds, bool accepting);
void guest_egress_on_ready(struct mux *m, const struct pollfd *fds);

/* Take fd over: an accepted connection, for which a stream is opened. */
void guest_egress_begin(struct mux *m, int fd, const struct mux_open *open);

/* When to call it at the latest. 0: nothing waits. */
uint64_t guest_egress_owner_wake_ns(void);
