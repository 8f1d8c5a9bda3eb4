/* conn_account.h - the addresses that connections come from, and how many each has. Only for
 * src/lib/net.
 *
 * An entry lives as long as it has connections. IPv6 addresses count by their first 64 bits, since
 * one machine has all of those. All clients of Unix sockets count as one address. */
#pragma once

#include <stdint.h>

#include "lib/base/addr.h"
#include "lib/base/byte_account.h"

struct conn_peer {
	struct conn_peer *next;
	uint8_t key[16];
	bool local;	  /* an address of this machine */
	unsigned conns;	  /* all of its connections */
	unsigned unkeyed; /* those without a shown key */
	struct byte_account account;
};

#define PEERS_BUCKETS 1024

struct peers {
	uint64_t seed; /* random, so that addresses cannot be chosen to share a bucket */
	struct conn_peer *buckets[PEERS_BUCKETS];
};

void peers_init(struct peers *p);
/* The entry of an address, made if there is none, with one more connection. NULL: out of memory.
 */
struct conn_peer *peers_enter(struct peers *p, const struct addr *a);
/* Subtract one connection of the address. The last one frees the entry. */
void peers_leave(struct peers *p, struct conn_peer *one);
