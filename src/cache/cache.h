/* cache.h - cordon-cache: keeps package files for all sessions of a node. It has one folder, no
 * network, and parses nothing of what it keeps.
 *
 *   main.c           start; confine_cache.c: Landlock and syscalls.def
 *   cache_control.c  the channel to cordond: links, questions of the operator
 *   cache_peer.c     a link to a cordon-egress: requests and answers
 *   cache_put.c      a file that is being stored
 *   cache_room.c     makes room: limits, eviction, removal
 *   cache_load.c     reads the folder at the start
 *   cache_check.c    hashes objects again
 *   cache_index.c    what is known, in memory; cache_disk.c, view_file.c: on disk
 *   seen_table.c     when versions of packages were seen first
 *   cache_worker.c   threads that wait for the disk
 *
 * One thread has the loop and everything in this structure; the workers only touch descriptors that
 * were given to them. */
#pragma once

#include "cache_disk.h"
#include "cache_index.h"
#include "cache_worker.h"
#include "seen_table.h"

struct cache_peer;

struct cache {
	struct loop *loop;
	struct cache_disk disk;
	struct cache_index index;
	struct seen_table seen;
	struct cache_worker *syncs, *hashes;
	uint64_t max_bytes, max_files;
	uint64_t coming_bytes, coming_files; /* of files that are being stored */
	unsigned orphans;	   /* files whose link is gone, and which a worker still has */
	struct cache_stats counts; /* hits and the like; the rest is filled in when asked */
	struct cache_peer *peers;
	bool loaded;
	void (*on_loaded)(struct cache *c);
};

/* cache_room.c */
/* Makes room for more bytes and files, by removing what was used least. False: there is none. */
bool cache_room_make(struct cache *c, uint64_t bytes, uint64_t files);
/* Removes what was used least, until at most that many bytes are left, as far as one turn of the
 * loop allows, and counts objects and bytes that went. True: there is more to remove. */
bool cache_room_shrink(struct cache *c, uint64_t bytes, uint64_t *count, uint64_t *removed);
/* Removes an object with its views; a view, and its object if it was its last. */
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

/* cache_check.c: hashes every object (or `sample` of them, at random) again, one after the other,
 * and removes those that are wrong. on_done may be NULL. False: one is under way already. */
bool cache_check_start(struct cache *c, size_t sample, cache_checked_fn *on_done, void *arg);
