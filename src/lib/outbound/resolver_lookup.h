/* resolver_lookup.h - the structures that a caller of the resolver fills in: one lookup, and the
 * session or tenant it is counted for. Apart from resolver.h, so that egress_session.h and
 * resource_share.h can embed it. The functions are in resolver.h. */
#pragma once

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/ip.h"

#define RESOLVER_ADDRESSES_MAX 16
#define RESOLVER_OWNER_MAX 32 /* open names at a time for one session */

struct resolver_job; /* resolver_private.h */

/* A session or a tenant, for counting. Starts zeroed but for `tenant`. The resolver owns all other
 * members. */
struct resolver_owner {
	struct resolver_owner *tenant;	    /* of a session: its tenant's owner. Else NULL */
	unsigned under_way;		    /* names being asked for */
	struct resolver_job *first, **last; /* queued lookups. First NULL: none */
	struct resolver_owner *prev, *next; /* list of sessions with queued lookups */
};

struct lookup {
	/* n > 0: addresses in order of preference, valid during the call. n == 0: *e is
	 * ERR_NOT_FOUND (no such name, or no address) or ERR_SYSTEM (sys ETIMEDOUT: no name server
	 * answered). */
	void (*on_done)(struct lookup *l, const struct ip *ips, size_t n, const struct err *e);
	void *arg;
	struct resolver_owner *owner; /* the session. NULL: not counted */
	void *query;		      /* the resolver's. NULL: nothing in progress */
};
