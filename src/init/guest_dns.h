/* guest_dns.h - DNS queries of a virtual machine's programs: each datagram becomes a stream
 * (MUX_DNS), and the answer a datagram from the address that was asked. Called by guest_egress.c
 * and guest_link.c.
 *
 * At most GUEST_DNS_MAX queries wait for their answer; one more ends the oldest, whose program asks
 * again. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "mux.h"

#define GUEST_DNS_MAX 128

/* Takes the datagrams that are there, a few at most. */
void guest_dns_on_queries(struct mux *m, int fd);

/* All streams are over. */
void guest_dns_drop(void);

/* Sets family, address and port of an OPEN; IPv4 also if it is mapped to IPv6. */
bool guest_dns_set_address(struct mux_open *open, const struct sockaddr *at) MUST_USE;
