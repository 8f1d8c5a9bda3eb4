/* cache_private.h - what cache_link.c and cache_store.c share. For these two only. */
#pragma once

#include "cache_link.h"
#include "fifo.h"
#include "loop.h"

struct cache_out;

struct cache_link {
	struct loop *loop;
	int sock; /* owned; -1: there is no cache */
	struct loop_fd watch;
	struct cache_out *first, **end; /* waiting to be sent */
	unsigned queued;
	struct completions calls; /* arg of each is its struct cache_call */
	unsigned ncalls;
	struct cache_store *stores;
	unsigned nstores;
	uint32_t last_id;
	bool late; /* the last answer that was waited for did not come in time */
};

/* Never NULL. */
struct cache_link *cache_link_of(struct egress *g);
int cache_link_missing(struct err *e);
uint32_t cache_link_number(struct cache_link *l);
/* fd is taken over; -1: none. */
int cache_link_send(struct cache_link *l, const struct cache_msg *m, int fd,
		    struct err *e) MUST_USE;
void cache_call_begin(struct cache_link *l, struct cache_call *c, uint32_t id,
		      uint64_t deadline_ms);
/* NULL: no call waits for that number. */
struct cache_call *cache_call_find(const struct cache_link *l, uint32_t id);
void cache_call_fail(struct cache_link *l, uint32_t id, const struct err *e);

/* done waits for the end of the store, from now on. */
void cache_store_expect(struct cache_store *s, struct cache_call *done);

/* cordon-cache refused or lost a store; all of them, if the link is gone. */
void cache_store_failed(struct cache_link *l, uint32_t id, const struct err *e);
void cache_stores_fail(struct cache_link *l, const struct err *e);
