/* cache_link.h - this process's link to cordon-cache (lib/wire/cache_msg.h): views of registries,
 * and the objects they name. Called by the package gate (package_*.c) and gateway_tap.c.
 * control_channel.c brings the link.
 *
 * There is one link at most, and often none: before the first one comes, after cordon-cache ended,
 * and in a cordon run. Without a link everything fails at once with ERR_NOT_FOUND ("the package
 * cache is not running"), which means: fetch it, and keep nothing. The link may change at any time.
 * Open calls then fail.
 *
 * A call ends exactly once, from the loop, never inside the function that began it, or is cancelled
 * and does not end. Each belongs to a tenant with a share of the requests that cordon-cache works
 * on. More of them wait, and have a deadline from when they are sent. cordon-cache parses nothing
 * and is trusted with its objects: whether an object is the one named by a pin or the registry's
 * index is for the caller to compare (sha256 of the answer). */
#pragma once

#include <stdint.h>

#include "egress/control/fair_queue.h"
#include "lib/channel/channel.h"
#include "lib/wire/cache_msg.h"

struct egress;
struct cache_link;

#define CACHE_SCOPE_PUBLIC "public"

/* An answer. Valid during on_done. */
struct cache_found {
	char etag[CACHE_ETAG_MAX], last_modified[CACHE_DATE_MAX], type[CACHE_TYPE_MAX];
	uint64_t fetched_ms; /* wall clock: fetched or confirmed last */
	uint64_t size;
	uint8_t sha256[32];
	int fd; /* FIND: the object, read-only. To be taken with TAKE_FD, else it is closed */
	uint64_t seen_ms; /* SEEN only */
};

struct cache_call {
	/* The owner's. found is NULL if there is no such view, or with an error. */
	void (*on_done)(struct cache_call *c, struct cache_found *found, const struct err *e);
	void *arg;
	/* Private to cache_link.c. All zeros: never begun. */
	struct channel_call wait;
	struct cache_link *link;
	struct cache_share *share; /* of a request. NULL: it waits for a store */
	struct fair_queue_item item;
	uint8_t *packet; /* owned: not sent yet */
	size_t len;
	bool is_found;
	struct cache_found found;
};

/* Strings need be valid during the call only. tenant: whose share it counts for. */
void cache_find(struct egress *g, const char *tenant, struct cache_call *c,
		const struct cache_key *key);
/* When was that version of a package seen first, on this node, in that scope? It is remembered from
 * now on. key has no path. name: "left-pad@1.3.0". */
void cache_seen(struct egress *g, const char *tenant, struct cache_call *c,
		const struct cache_key *key, const char *name);
/* As above, but it is not remembered. 0: it was not seen so far. */
void cache_known(struct egress *g, const char *tenant, struct cache_call *c,
		 const struct cache_key *key, const char *name);
/* It is remembered from now on. There is no answer. */
void cache_note(struct egress *g, const struct cache_key *key, const char *name);
/* At any time, repeatable. Also on all zeros. */
void cache_call_cancel(struct cache_call *c);
bool cache_call_is_waiting(const struct cache_call *c);

/* The view was asked for again with its validators, and the server said that it has not changed.
 * No answer. meta: the headers that the server sent with it. */
void cache_touch(struct egress *g, const struct cache_key *key, const struct cache_meta *meta);
/* The view is to be forgotten. No answer. */
void cache_drop(struct egress *g, const struct cache_key *key);

/* ---- storing */

struct cache_store;

/* Begin to store bytes as the object of a view. sha256: the digest they must have, or NULL. NULL
 * if there is no cache, or the tenant stores too much at the moment: then nothing is stored, and
 * nothing else changes. on_room is called from the loop when cache_store_write() took less than
 * all, and takes more now, or has given up. */
struct cache_store *cache_store_begin(struct egress *g, const char *tenant,
				      const struct cache_key *key, const struct cache_meta *meta,
				      const uint8_t *sha256, void (*on_room)(void *arg), void *arg);
/* Return how many bytes were taken. The rest is to be offered again. A failed store (the cache is
 * slow, full or gone) takes all and drops it. */
size_t cache_store_write(struct cache_store *s, const void *data, size_t n);
/* How many bytes are taken at once now. 0 while the cache catches up. */
size_t cache_store_room(const struct cache_store *s);
bool cache_store_has_failed(const struct cache_store *s);
/* All bytes were written: now the view is there, once the disk has it. s is consumed. done may be
 * NULL. Its on_done gets sha256 and size, no descriptor. */
void cache_store_commit(struct cache_store *s, struct cache_call *done);
/* Nothing is kept. s is consumed. NULL is allowed. */
void cache_store_abort(struct cache_store *s);

/* Store a whole file of `size` bytes, in pieces from the loop. fd is taken over: a memfd. done may
 * be NULL. */
void cache_store_file(struct egress *g, const char *tenant, const struct cache_key *key,
		      const struct cache_meta *meta, int fd, uint64_t size,
		      struct cache_call *done);

/* ---- for control_channel.c and main.c */

/* Take the link, in place of an earlier one. */
void cache_link_open(struct egress *g, int sock);
bool cache_link_is_open(const struct egress *g);
