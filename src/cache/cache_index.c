#include "cache/cache_index.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/list.h"
#include "lib/base/rand.h"

bool cache_index_init(struct cache_index *x)
{
	*x = (struct cache_index){ 0 };
	x->objects = calloc(CACHE_BUCKETS, sizeof(struct cache_object *));
	x->views = calloc(CACHE_BUCKETS, sizeof(struct cache_view *));
	rand_bytes(&x->seed, sizeof(x->seed));
	x->seed |= 1;
	return x->objects != NULL && x->views != NULL;
}

void cache_index_release(struct cache_index *x)
{
	while (x->newest != NULL) {
		struct cache_object *o = x->newest;

		while (o->views != NULL)
			cache_index_drop_view(x, o->views);
		cache_index_drop_object(x, o);
	}
	free(x->objects);
	free(x->views);
	*x = (struct cache_index){ 0 };
}

/* The top 16 bits of a product with the seed. */
static size_t index_bucket(const struct cache_index *x, const uint8_t name[32])
{
	uint64_t a, b;

	memcpy(&a, name, sizeof(a));
	memcpy(&b, name + sizeof(a), sizeof(b));
	return (size_t)(((a ^ (b >> 7)) * x->seed) >> 48);
}

struct cache_object *cache_index_object(const struct cache_index *x, const uint8_t sha256[32])
{
	struct cache_object *o = x->objects[index_bucket(x, sha256)];

	while (o != NULL && memcmp(o->sha256, sha256, sizeof(o->sha256)) != 0)
		o = o->chain;
	return o;
}

struct cache_view *cache_index_view(const struct cache_index *x, const uint8_t name[32])
{
	struct cache_view *v = x->views[index_bucket(x, name)];

	while (v != NULL && memcmp(v->name, name, sizeof(v->name)) != 0)
		v = v->chain;
	return v;
}

/* New views are put in front, so the last one is the oldest. */
struct cache_view *cache_index_surplus(const struct cache_object *o)
{
	struct cache_view *v = o->views;

	if (o->nviews < CACHE_OBJECT_VIEWS)
		return NULL;
	while (v->next != NULL)
		v = v->next;
	return v;
}

/* ---- the order of use
 *
 * A list through all objects, newest first. Removal takes from its other end. */

/* The object stays in its bucket. */
static void index_unlink_object(struct cache_index *x, struct cache_object *o)
{
	*(o->newer != NULL ? &o->newer->older : &x->newest) = o->older;
	*(o->older != NULL ? &o->older->newer : &x->oldest) = o->newer;
	o->newer = o->older = NULL;
}

static void index_link_newest(struct cache_index *x, struct cache_object *o)
{
	o->newer = NULL;
	o->older = x->newest;
	*(x->newest != NULL ? &x->newest->newer : &x->oldest) = o;
	x->newest = o;
}

void cache_index_use(struct cache_index *x, struct cache_object *o)
{
	index_unlink_object(x, o);
	index_link_newest(x, o);
}

static int index_by_use(const void *a, const void *b)
{
	const struct cache_object *const *l = a, *const *r = b;

	return ((*l)->used_ms > (*r)->used_ms) - ((*l)->used_ms < (*r)->used_ms);
}

/* On failure the order stays as it was. */
bool cache_index_sort(struct cache_index *x)
{
	struct cache_object **all = malloc((x->nobjects + 1) * sizeof(struct cache_object *));
	size_t n = 0;

	if (all == NULL)
		return false;
	for (struct cache_object *o = x->newest; o != NULL; o = o->older)
		all[n++] = o;
	qsort(all, n, sizeof(struct cache_object *), index_by_use);
	x->newest = x->oldest = NULL;
	for (size_t i = 0; i < n; i++)
		index_link_newest(x, all[i]);
	free(all);
	return true;
}

/* ---- changes
 *
 * The sums of the index are kept up with each change. */

struct cache_object *cache_index_add(struct cache_index *x, const uint8_t sha256[32], uint64_t size)
{
	struct cache_object *o = cache_index_object(x, sha256), **at;

	if (o != NULL)
		return o;
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return NULL;
	memcpy(o->sha256, sha256, sizeof(o->sha256));
	o->size = size;
	at = &x->objects[index_bucket(x, sha256)];
	o->chain = *at;
	*at = o;
	index_link_newest(x, o);
	x->nobjects++;
	x->bytes += size;
	return o;
}

/* Without an object, which the caller gives it. */
static struct cache_view *index_new_view(struct cache_index *x, const uint8_t name[32])
{
	struct cache_view **at = &x->views[index_bucket(x, name)], *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return NULL;
	memcpy(v->name, name, sizeof(v->name));
	v->chain = *at;
	*at = v;
	x->nviews++;
	return v;
}

struct cache_object *cache_index_set(struct cache_index *x, const uint8_t name[32],
				     struct cache_object *o, bool *ret_ok)
{
	struct cache_view *v = cache_index_view(x, name);
	struct cache_object *before;

	if (v == NULL)
		v = index_new_view(x, name);
	*ret_ok = v != NULL;
	if (v == NULL || v->object == o)
		return NULL;
	before = v->object;
	if (before != NULL)
		before->nviews--;
	LIST_REMOVE(v);
	v->object = o;
	LIST_PUSH(&o->views, v);
	o->nviews++;
	return before != NULL && before->views == NULL ? before : NULL;
}

void cache_index_drop_view(struct cache_index *x, struct cache_view *v)
{
	struct cache_view **at = &x->views[index_bucket(x, v->name)];

	while (*at != v)
		at = &(*at)->chain;
	*at = v->chain;
	LIST_REMOVE(v);
	if (v->object != NULL)
		v->object->nviews--;
	x->nviews--;
	free(v);
}

void cache_index_drop_object(struct cache_index *x, struct cache_object *o)
{
	struct cache_object **at = &x->objects[index_bucket(x, o->sha256)];

	while (*at != o)
		at = &(*at)->chain;
	*at = o->chain;
	index_unlink_object(x, o);
	x->nobjects--;
	x->bytes -= o->size;
	free(o);
}
