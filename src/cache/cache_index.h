/* cache_index.h - what cordon-cache knows of its folder, in memory: objects by hash, views by name,
 * and the order in which objects were used. Touches no file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_BUCKETS 65536U
#define CACHE_OBJECT_VIEWS 256U /* of one object: it is removed with all of them in one turn */

struct cache_object {
	struct cache_object *chain;
	struct cache_object *newer, *older; /* by use */
	struct cache_view *views;	    /* never NULL, but while the folder is read */
	unsigned nviews;		    /* at most CACHE_OBJECT_VIEWS */
	uint8_t sha256[32];
	uint64_t size;
	uint64_t used_ms;   /* wall clock, rounded to the hour: as on disk */
	uint64_t handed_ns; /* when its descriptor was given out last. 0: not by this process */
};

struct cache_view {
	struct cache_view *chain;
	struct cache_view *next, **link; /* of the same object */
	struct cache_object *object;
	uint8_t name[32];
};

struct cache_index {
	struct cache_object **objects; /* CACHE_BUCKETS */
	struct cache_view **views;
	struct cache_object *newest, *oldest;
	uint64_t seed; /* of the buckets, so that names cannot be chosen for one */
	uint64_t bytes, nobjects, nviews;
};

/* False: out of memory. */
bool cache_index_init(struct cache_index *x);
void cache_index_release(struct cache_index *x);

struct cache_object *cache_index_object(const struct cache_index *x, const uint8_t sha256[32]);
/* The view that an object has had for longest, if it has as many as it may. Else NULL. */
struct cache_view *cache_index_surplus(const struct cache_object *o);
struct cache_view *cache_index_view(const struct cache_index *x, const uint8_t name[32]);

/* The object, made as the newest if it is not there. NULL: out of memory. */
struct cache_object *cache_index_add(struct cache_index *x, const uint8_t sha256[32],
				     uint64_t size);
/* The view names that object from now on. The object it named before is returned if no view names
 * it any more: the caller removes it. *ret_ok: false if out of memory. */
struct cache_object *cache_index_set(struct cache_index *x, const uint8_t name[32],
				     struct cache_object *o, bool *ret_ok);
/* Both free it. A view's object stays, also without views. An object must have none. */
void cache_index_drop_view(struct cache_index *x, struct cache_view *v);
void cache_index_drop_object(struct cache_index *x, struct cache_object *o);

/* It was used now: it is the newest. */
void cache_index_use(struct cache_index *x, struct cache_object *o);
/* Order all objects by used_ms. False: out of memory. */
bool cache_index_sort(struct cache_index *x);
