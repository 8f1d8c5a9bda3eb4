/* resolver_lookup.h - what a caller of the resolver fills in: one lookup, and the session or
 * tenant it is counted for. Apart from resolver.h, so that egress_session.h and resource_share.h
 * can embed it; the functions are in resolver.h. */
#pragma once

#include <stddef.h>

#include "err.h"
#include "ip.h"

#define RESOLVER_ADDRESSES_MAX 16
#define RESOLVER_OWNER_MAX 32 /* names under way at a time for one session */

struct job; /* resolver_private.h */

/* A session or a tenant, for counting. Starts zeroed but for `tenant`; the resolver owns all other
 * members. */
struct resolver_owner {
	struct resolver_owner *tenant;	    /* of a session: its tenant's owner; else NULL */
	unsigned under_way;		    /* names being asked for */
	struct job *first, **last;	    /* queued lookups; first NULL: none */
	struct resolver_owner *prev, *next; /* list of sessions with queued lookups */
};

struct lookup {
	/* n > 0: addresses in order of preference, valid during the call. n == 0: *e is
	 * ERR_NOT_FOUND (no such name, or no address) or ERR_SYSTEM (sys ETIMEDOUT: no name server
	 * answered). */
	void (*on_done)(struct lookup *l, const struct ip *ips, size_t n, const struct err *e);
	void *arg;
	struct resolver_owner *owner; /* the session; NULL: not counted */
	void *query;		      /* the resolver's; NULL: nothing under way */
};
