/* egress_open.h - connections of programs in the guest to the outside: OPEN from the guest's agent.
 * Called by streams.c.
 *
 * The shim connects in the cell's network, where the keeper's rules lead every connection to
 * cordon-egress, which decides about it: nothing else can be reached from here. The cell's own
 * loopback is refused: on it are the egress listener and ends of DIAL, and a guest has a loopback
 * of its own. Names are asked at the resolver's address: one query for each stream, with a length
 * before query and answer as in DNS over TCP. */
#pragma once

#include <stdbool.h>

#include "lib/wire/mux.h"

#define EGRESS_OPEN_MAX 1024U /* connections and queries at a time */

/* The guest asks for a connection. Answered with CREDIT or RESET. */
void egress_open_begin(uint16_t number, const struct mux_open *open);

/* EOF or RESET of the guest for a stream without a `struct stream` yet: its connection may not be
 * established. */
void egress_open_on_early(uint16_t number, bool is_reset);

/* The guest's stream has ended: gives up connections in progress. */
void egress_open_drop_all(void);

/* The mark of the program behind the connection with this local port. 0: unknown. */
uint64_t egress_open_mark(uint16_t local_port);

/* Take the socket fd, in place of an earlier one. -1: none came. */
void egress_open_answer_owners(int fd);
