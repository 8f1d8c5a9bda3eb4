/* resolver.h - finds the addresses of names for egress itself: hosts and resolv.conf of the node,
 * UDP with TCP behind it, A and AAAA at once, CNAMEs followed, cached by TTL. What it finds is not
 * trusted with anything but being an address: whoever connects checks it (outbound.h). */
#pragma once

#include "err.h"
#include "ip.h"
#include "loop.h"

#define RESOLVER_ADDRESSES_MAX 16
#define RESOLVER_OWNER_MAX 32 /* names that are asked for at a time, for one session */

struct resolver;

/* Texts of /etc/resolv.conf and /etc/hosts as read before egress was confined; copied. */
struct resolver *resolver_new(struct loop *l, const char *resolv_conf, const char *hosts,
			      struct err *e) MUST_USE;
/* New texts: the cache is emptied. */
void resolver_renew(struct resolver *r, const char *resolv_conf, const char *hosts);
void resolver_free(struct resolver *r);

struct job;

/* For whom names are asked for: a session, or its tenant. Zeroed at first, but for tenant; all else
 * is the resolver's. */
struct resolver_owner {
	struct resolver_owner *tenant;	    /* of a session: its tenant's, or NULL */
	unsigned under_way;		    /* names */
	struct job *first, **last;	    /* lookups that wait for their turn; NULL: none */
	struct resolver_owner *prev, *next; /* of sessions that have some */
};

struct lookup {
	/* n > 0 addresses, in order of preference, valid during the call; or 0 and why:
	 * ERR_NOT_FOUND no such name or no address; ERR_SYSTEM (sys ETIMEDOUT: nobody answered). */
	void (*done)(struct lookup *l, const struct ip *ips, size_t n, const struct err *e);
	void *arg;
	struct resolver_owner *owner; /* a session; NULL: nobody */
	void *query;		      /* the resolver's; NULL: nothing under way */
};

/* host in its normal form. done comes later, never from inside, unless resolver_cancel() is first.
 * If there are too many under way, in all, of this session or of its tenant, it waits for its turn,
 * without a bound of its own: whoever asks has one. */
void resolver_lookup(struct resolver *r, const char *host, struct lookup *l);
void resolver_cancel(struct lookup *l);
/* It is gone, and has no lookups any more; what it asked for may go on for others. */
void resolver_owner_gone(struct resolver *r, struct resolver_owner *o);
