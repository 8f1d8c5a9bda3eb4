/* cache_room.c - theory of operation
 *
 * Objects are removed in the order of their last use, with all views that name them. One given out
 * a moment ago stays: its reader has a descriptor and would not notice, but the next session of the
 * same install would fetch it again. If only such objects are left there is no room, and the file
 * is not stored.
 *
 * Views go from the disk before their object: a crash in between leaves an object without a view,
 * which the next start removes. */
#include <string.h>

#include "cache/cache.h"
#include "lib/base/clock.h"

#define JUST_HANDED_NS (60000 * CLOCK_MS)
#define PER_CALL 4096U /* files removed at once, to make room for another */
#define PER_TURN 256U  /* by a removal that continues in the next turn */

void cache_room_remove_view(struct cache *c, struct cache_view *v)
{
	struct cache_object *o = v->object;

	cache_disk_remove(&c->disk, CACHE_VIEWS, v->name);
	cache_index_drop_view(&c->index, v);
	if (o->views == NULL)
		cache_room_remove(c, o);
}

void cache_room_remove(struct cache *c, struct cache_object *o)
{
	while (o->views != NULL) {
		struct cache_view *v = o->views;

		cache_disk_remove(&c->disk, CACHE_VIEWS, v->name);
		cache_index_drop_view(&c->index, v);
	}
	cache_disk_remove(&c->disk, CACHE_OBJECTS, o->sha256);
	cache_index_drop_object(&c->index, o);
}

void cache_room_use(struct cache *c, struct cache_object *o)
{
	uint64_t hour = clock_wall_ms() / CACHE_HOUR_MS * CACHE_HOUR_MS;

	cache_index_use(&c->index, o);
	o->handed_ns = clock_now_ns();
	if (o->used_ms == hour)
		return;
	o->used_ms = hour;
	cache_disk_use(&c->disk, o->sha256, hour);
}

/* Three bounds: the cache's bytes, its files, and the disk's reserve. */
static bool room_fits(const struct cache *c, uint64_t bytes, uint64_t files)
{
	const struct cache_index *x = &c->index;

	return x->bytes + c->coming_bytes + bytes <= c->max_bytes &&
	       x->nobjects + x->nviews + c->coming_files + files <= c->max_files &&
	       cache_disk_missing(&c->disk, bytes) == 0;
}

/* The least used one not just given out. */
static struct cache_object *room_least_used(const struct cache *c)
{
	struct cache_object *o = c->index.oldest;
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; o != NULL && i < PER_CALL; i++, o = o->newer)
		if (o->handed_ns == 0 || now - o->handed_ns > JUST_HANDED_NS)
			return o;
	return NULL;
}

bool cache_room_make(struct cache *c, uint64_t bytes, uint64_t files)
{
	struct cache_object *o;

	if (bytes > c->max_bytes)
		return false;
	if (cache_disk_missing(&c->disk, bytes) > c->index.bytes)
		return false; /* others have filled the disk: removing everything would not help */
	for (unsigned gone = 0; gone < PER_CALL;) {
		if (room_fits(c, bytes, files))
			return true;
		o = room_least_used(c);
		if (o == NULL)
			return false;
		gone += 1 + o->nviews;
		cache_room_remove(c, o);
		c->counts.evicted++;
	}
	return false;
}

bool cache_room_shrink(struct cache *c, uint64_t bytes, uint64_t *count, uint64_t *removed)
{
	struct cache_object *o;
	unsigned files = 0;

	while (c->index.bytes > bytes && (o = c->index.oldest) != NULL) {
		if (files >= PER_TURN)
			return true;
		files += 1 + o->nviews;
		*count += 1;
		*removed += o->size;
		cache_room_remove(c, o);
	}
	return false;
}
