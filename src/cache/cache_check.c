/* cache_check.c - hashes objects again, one at a time in a worker, and removes those whose bytes
 * are not what their name says. Objects that come or go meanwhile do no harm: each is looked up
 * again by its name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "log.h"
#include "rand.h"

struct check {
	struct cache *cache;
	struct cache_job job;
	struct loop_task next;
	uint8_t (*names)[32]; /* owned */
	size_t n, at;
	struct cache_checked result;
	cache_checked_fn *on_done;
	void *arg;
};

static struct check *under_way;

static void step(struct check *k);

static void finish(struct check *k)
{
	under_way = NULL;
	if (k->on_done != NULL)
		k->on_done(k->arg, &k->result);
	free(k->names);
	free(k);
}

static void on_hashed(struct cache_job *j)
{
	struct check *k = j->arg;
	const uint8_t *name = k->names[k->at - 1];
	struct cache_object *o = cache_index_object(&k->cache->index, name);

	fd_close(j->fd);
	k->result.objects++;
	k->result.bytes += j->size;
	if (o != NULL &&
	    (j->error != 0 || j->size != o->size || memcmp(j->sha256, name, 32) != 0)) {
		k->result.bad++;
		k->cache->counts.bad++;
		log_error("an object of the package cache was damaged and is removed",
			  "bytes=%llu error=%d", (unsigned long long)o->size, j->error);
		cache_room_remove(k->cache, o);
	}
	step(k);
}

static void on_next(struct loop_task *t)
{
	step(t->arg);
}

static void step(struct check *k)
{
	struct cache_object *o;

	if (k->at == k->n) {
		finish(k);
		return;
	}
	o = cache_index_object(&k->cache->index, k->names[k->at++]);
	k->job = (struct cache_job){ .on_done = on_hashed, .arg = k, .is_hash = true };
	k->job.fd = o == NULL ? -1 : cache_disk_object(&k->cache->disk, o->sha256);
	if (k->job.fd >= 0) {
		cache_worker_add(k->cache->hashes, &k->job);
		return;
	}
	if (o != NULL) { /* its file is gone */
		k->result.bad++;
		cache_room_remove(k->cache, o);
	}
	loop_defer(k->cache->loop, &k->next);
}

/* Keeps `sample` names, chosen at random. */
static void choose(struct check *k, size_t sample)
{
	for (size_t i = 0; i < sample && i < k->n; i++) {
		size_t other = i + rand_below((uint32_t)(k->n - i));
		uint8_t t[32];

		memcpy(t, k->names[i], sizeof(t));
		memcpy(k->names[i], k->names[other], sizeof(t));
		memcpy(k->names[other], t, sizeof(t));
	}
	if (sample < k->n)
		k->n = sample;
}

bool cache_check_start(struct cache *c, size_t sample, cache_checked_fn *on_done, void *arg)
{
	struct check *k = under_way == NULL ? calloc(1, sizeof(*k)) : NULL;

	if (k == NULL)
		return false;
	*k = (struct check){ .cache = c, .on_done = on_done, .arg = arg };
	k->names = malloc((c->index.nobjects + 1) * sizeof(k->names[0]));
	if (k->names == NULL) {
		free(k);
		return false;
	}
	k->next = (struct loop_task){ .on_run = on_next, .arg = k };
	for (struct cache_object *o = c->index.newest; o != NULL; o = o->older)
		memcpy(k->names[k->n++], o->sha256, 32);
	choose(k, sample);
	under_way = k;
	loop_defer(c->loop, &k->next);
	return true;
}
