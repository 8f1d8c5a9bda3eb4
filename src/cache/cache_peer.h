/* cache_peer.h - a link to a cordon-egress (lib/wire/cache_msg.h). Called by main.c.
 *
 * cordon-egress may be taken over. A packet other than a request closes the link with all files it
 * stores. Requests are bounded: a peer that does not read its answers is not read either. */
#pragma once

#include "cache/cache.h"

/* Take the socket over, in place of an earlier link of that slot. */
void cache_peer_add(struct cache *c, unsigned slot, int sock);
/* The folder was read: links that wait are answered from now on. */
void cache_peers_start(struct cache *c);
