/* idle_conns.h - connections of one session to servers that wait for their next request. Never
 * shared with another session: what one has sent on a connection must not be what another is
 * answered. */
#pragma once

#include "host.h"
#include "ip.h"
#include "loop.h"
#include "share.h"
#include "stream.h"

#define IDLE_CONNS_MAX 64 /* that wait; then the one that waits longest goes */
#define IDLE_CONNS_IDLE_MS 30000

struct idle_conns;

/* Whom a connection was made to. Two are the same only if everything is. */
struct upstream_key {
	bool tls;
	bool by_ip; /* connected to this address as the cell asked for it, not to a name */
	struct ip ip;
	uint16_t port;
	char host[HOST_MAX]; /* the name, also the one its certificate was verified for; "": none */
};

struct upstream {
	struct upstream_key key;
	struct stream stream;
	struct ip at;		 /* where it is connected to */
	unsigned served;	 /* requests so far: above 0 its end may be the server's habit */
	uint64_t idle_ns;	 /* since when it waits */
	struct idle_conns *pool; /* private, both: while it waits */
	struct upstream *prev, *next;
};

/* share: of the session, borrowed; each connection kept is counted there. NULL: memory is short. */
struct idle_conns *idle_conns_new(struct loop *l, struct share *share);
void idle_conns_free(struct idle_conns *u);
/* One that waits, the last used first, or NULL. It is the caller's then; its stream reports to
 * nobody until stream_tell(). young_ns: not if it waits for longer than that (0: however long). */
struct upstream *idle_conns_take(struct idle_conns *u, const struct upstream_key *key,
				 uint64_t young_ns);
/* Taken over: kept, or closed if anything is left to be read or written. */
void idle_conns_keep(struct idle_conns *u, struct upstream *up);
/* All that wait are closed: the policy has changed, and with it perhaps who may be reached. */
void idle_conns_empty(struct idle_conns *u);

/* A connection just made, descriptor taken over in any case. NULL without memory. */
struct upstream *upstream_new(struct loop *l, const struct upstream_key *key, int fd,
			      const struct ip *at, struct err *e) MUST_USE;
void upstream_free(struct upstream *up);
