/* guest_dns.h - DNS queries of a virtual machine's programs: each datagram becomes a stream
 * (MUX_DNS), and the answer a datagram from the asked address. Called by guest_egress.c and
 * guest_link.c.
 *
 * At most GUEST_DNS_MAX queries wait for their answer. One more ends the oldest, whose program asks
 * again. Copies of refused datagrams, which the packet rules of egress_listener.h send to the same
 * socket, become streams, too: for the record. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "lib/wire/mux.h"

#define GUEST_DNS_MAX 128

/* Take waiting datagrams, a few at most. */
void guest_dns_on_queries(struct mux *m, int fd);

/* All streams have ended. */
void guest_dns_drop(void);

/* Set family, address and port of an OPEN. IPv4 also if it is mapped to IPv6. */
bool guest_dns_set_address(struct mux_open *open, const struct sockaddr *at) MUST_USE;
