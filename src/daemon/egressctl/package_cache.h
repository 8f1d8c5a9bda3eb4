/* package_cache.h - cordond's end of the channel to cordon-cache (lib/wire/cache_msg.h): it brings
 * the two ends of a link to cordon-cache and to each cordon-egress, and asks for the operator.
 * Called by net_access.c (the channel) and by the interfaces (the calls).
 *
 * A call ends exactly once, from the loop, never inside the function that began it, or is
 * cancelled. REASON_UNAVAILABLE: cordon-cache is not there at the moment, or is off.
 * REASON_PEER_DIED: it ended during the call. One that does not answer pings is replaced through
 * the supervisor. */
#pragma once

#include "lib/channel/channel.h"
#include "lib/wire/cache_msg.h"

struct package_cache;

struct core;
struct egress_links;

struct package_cache_call {
	/* The owner's. answer is NULL if e is set, and valid during the call. LISTED: entries by
	 * cache_entry(), next page at answer->place, 0: no more. STATED: stats. DONE: count,
	 * size (bytes removed), bad. */
	void (*on_done)(struct package_cache_call *c, const struct cache_msg *answer,
			const struct err *e);
	void *arg;
	/* Private to package_cache.c. All zeros: never begun. */
	struct channel_call wait;
	const struct cache_msg *answer;
};

void package_cache_stats(struct core *c, struct package_cache_call *call);
/* place: 0, then that of the page before. A view that comes or goes between two pages may be
 * missing or be there twice. */
void package_cache_list(struct core *c, struct package_cache_call *call, uint32_t place);
/* Remove the least used objects until at most that many bytes are left. */
void package_cache_gc(struct core *c, struct package_cache_call *call, uint64_t bytes);
/* Hash all objects again and remove damaged ones: may take minutes. */
void package_cache_verify(struct core *c, struct package_cache_call *call);
/* At any time, repeatable. */
void package_cache_cancel(struct package_cache_call *call);

bool package_cache_is_up(const struct core *c);

/* ---- for net_access.c */

void package_cache_init(struct package_cache *p, struct core *c, struct egress_links *egress);
/* Open calls end without a callback. */
void package_cache_release(struct package_cache *p);
/* A new channel, taken over. */
int package_cache_attach(struct package_cache *p, int sock, struct err *e) MUST_USE;
/* Give that new cordon-egress a link. */
void package_cache_join(struct package_cache *p, unsigned slot);
