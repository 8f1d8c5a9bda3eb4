/* guest_owner.h - which program of a virtual machine made a connection. The shim answers that for
 * cordon-egress, and knows it from OPEN; so it is asked before OPEN, of the process that answers it
 * in cells (owner_finder.h). A connection waits for the answer, but not long. Called by
 * guest_egress.c. */
#pragma once

#include <poll.h>
#include <stdint.h>

#include "mux.h"

/* Takes fd over: an accepted connection, and the OPEN for it. When the mark is known, or cannot be
 * known in time, guest_egress_begin() is called with both. */
void guest_owner_find(struct mux *m, int fd, const struct mux_open *open);

/* One entry for poll(2). */
struct pollfd guest_owner_poll_fd(void);
/* After each poll(2): answers, and those that did not come. */
void guest_owner_on_ready(struct mux *m, short revents, uint64_t now_ns);
/* When to call it at the latest; 0: nothing waits. */
uint64_t guest_owner_wake_ns(void);
