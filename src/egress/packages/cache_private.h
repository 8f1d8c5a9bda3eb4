/* cache_private.h - what cache_link.c, cache_share.c, cache_store.c and cache_copy.c share. For
 * these only. */
#pragma once

#include "egress/packages/cache_link.h"
#include "lib/loop/loop.h"
#include "lib/net/fifo.h"
#include "lib/wire/egress_msg.h"

/* A tenant's open requests: there while it has some. */
struct cache_share {
	struct cache_share *next;
	char tenant[EGRESS_ID_MAX];
	unsigned refs;
	unsigned calls, stores; /* at cordon-cache */
	struct fair_queue_tenant queue;
	struct fair_queue_session queued; /* one for each tenant: its calls are taken in order */
};

struct cache_link {
	struct loop *loop;
	struct channel channel;	    /* not up: there is no cache */
	struct completions waiting; /* those not sent yet */
	unsigned ncalls;	    /* requests at cordon-cache */
	struct fair_queue queue;    /* of requests that wait */
	struct loop_task pump;	    /* sends those that may go */
	uint64_t turn;		    /* of the queue */
	struct cache_share *shares;
	struct cache_store *stores;
	unsigned nstores;
	bool late; /* the last awaited answer did not come in time */
};

/* Held until cache_share_drop(). NULL: out of memory. */
struct cache_share *cache_share_of(struct cache_link *l, const char *tenant);
void cache_share_drop(struct cache_link *l, struct cache_share *s);
/* May a tenant with `own` of `all` begin one more? */
bool cache_share_may(unsigned own, unsigned all, unsigned max);

/* Never NULL. */
struct cache_link *cache_link_of(struct egress *g);
int cache_link_missing(struct err *e);
/* fd is taken over. -1: none. */
int cache_link_send(struct cache_link *l, const struct cache_msg *m, int fd,
		    struct err *e) MUST_USE;
void cache_call_begin(struct cache_link *l, struct cache_call *c, uint32_t id,
		      uint64_t deadline_ms);
void cache_call_fail(struct cache_link *l, uint32_t id, const struct err *e);

/* done waits for the end of the store, from now on. */
void cache_store_expect(struct cache_store *s, struct cache_call *done);

/* cordon-cache refused or lost a store. All of them, if the link is gone. */
void cache_store_failed(struct cache_link *l, uint32_t id, const struct err *e);
void cache_stores_fail(struct cache_link *l, const struct err *e);
