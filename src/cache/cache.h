/* cache.h - cordon-cache: keeps package files for all sessions of a node. It has one folder, no
 * network, and parses none of its files.
 *
 *   main.c           the start, the channel to cordond: links, questions of the operator
 *   cache_peer.c     a link to a cordon-egress: requests and answers
 *   cache_put.c      a file being stored
 *   cache_room.c     makes room: limits, eviction, removal
 *   cache_load.c     reads the folder at the start, hashes objects again
 *   cache_index.c    the index, in memory; cache_disk.c, view_file.c: on disk
 *   seen_table.c     when versions of packages were seen first
 *   cache_worker.c   threads that wait for the disk
 *
 * One thread has the loop and everything in this structure. The workers only touch descriptors
 * given to them. */
#pragma once

#include "cache/cache_disk.h"
#include "cache/cache_index.h"
#include "cache/cache_worker.h"
#include "cache/seen_table.h"

struct cache_peer;

struct cache {
	struct loop *loop;
	struct cache_disk disk;
	struct cache_index index;
	struct seen_table seen;
	struct cache_worker *syncs, *hashes;
	uint64_t max_bytes, max_files;
	uint64_t coming_bytes, coming_files; /* of files being stored */
	unsigned orphans;	   /* files whose link is gone, and which a worker still has */
	struct cache_stats counts; /* hits and the like. The rest is filled in when asked */
	struct cache_peer *peers;
	bool loaded;
	void (*on_loaded)(struct cache *c);
};

/* cache_room.c */
/* Make room for more bytes and files, by removing the least used ones. False: there is none. */
bool cache_room_make(struct cache *c, uint64_t bytes, uint64_t files);
/* Remove the least used objects, until at most that many bytes are left, as far as one turn of the
 * loop allows, and count objects and bytes that went. True: there is more to remove. */
bool cache_room_shrink(struct cache *c, uint64_t bytes, uint64_t *count, uint64_t *removed);
/* Remove an object with its views. A view, and its object if it was its last. */
void cache_room_remove(struct cache *c, struct cache_object *o);
void cache_room_remove_view(struct cache *c, struct cache_view *v);
/* It is used now. */
void cache_room_use(struct cache *c, struct cache_object *o);

/* cache_load.c: reads the folder in pieces, then calls c->on_loaded. */
void cache_load_start(struct cache *c);

struct cache_checked {
	uint64_t objects, bytes, bad;
};
typedef void cache_checked_fn(void *arg, const struct cache_checked *result);

/* Hash every object (or `sample` of them, at random) again, one after the other, and remove wrong
 * ones. on_done may be NULL. False: one is in progress already. */
bool cache_check_start(struct cache *c, size_t sample, cache_checked_fn *on_done, void *arg);
