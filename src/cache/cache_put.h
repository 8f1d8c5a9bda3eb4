/* cache_put.h - a file being stored for a link. Called by cache_peer.c.
 *
 * The sender may be taken over: it can send any bytes, none, too many, or stop. The bytes are
 * written to a file in tmp and hashed on the way. Only when as many came as COMMIT says, the hash
 * is the expected one, if one was given, and the disk has them, they become an object, and then the
 * view that names it is written. Everything else leaves nothing. */
#pragma once

#include "cache/cache.h"
#include "lib/base/sha256.h"

struct cache_put {
	struct cache_put *next, **link; /* of its peer */
	struct cache *cache;
	/* The peer's: called once, from the loop, unless the peer leaves first. e is NULL if it is
	 * stored, or was aborted. The put is freed after it. */
	void (*on_end)(struct cache_put *p, const struct err *e);
	void *arg;
	uint32_t id;
	uint8_t sha256[32]; /* of the result */
	uint64_t bytes;	    /* so far */
	/* Private to cache_put.c. */
	int sock, file; /* owned. -1 */
	struct loop_fd watch;
	struct loop_timer idle;
	char tmp[CACHE_DISK_NAME_MAX];
	char *text; /* owned: the strings of view, one after the other */
	struct view view;
	bool aborted;
	bool has_expected, committed, ended, syncing, orphan;
	uint64_t size; /* of COMMIT */
	struct sha256 hash;
	struct cache_job sync;
};

/* Take the socket over. NULL with *e: refused. */
struct cache_put *cache_put_new(struct cache *c, const struct cache_msg *m, int sock,
				struct err *e) MUST_USE;
void cache_put_commit(struct cache_put *p, uint64_t size);
/* Nothing is kept. on_end is called at once, or when the worker gives its descriptor back: until
 * then it counts among those of its peer. */
void cache_put_abort(struct cache_put *p);
/* Its peer ends: nothing is kept, on_end is not called, and p is gone for the caller. */
void cache_put_leave(struct cache_put *p);
