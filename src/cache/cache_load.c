/* cache_load.c - theory of operation
 *
 * First the files in tmp are removed: no process writes there any more. Then the 256 folders of
 * objects are read, one a piece, then those of views. A view whose object is missing or has another
 * size, or a torn one, is removed. So are objects that no view names, at the end. Files with other
 * names than ours are removed, too. Links to cordon-egress are answered when all is read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"

#define SAMPLE 16 /* objects hashed again after the start */
/* Objects in a turn when those without a view are removed. */
#define LOOKED_MAX 8192U
#define REMOVED_MAX 128U

/* The state of the reading. Freed by load_finish(). */
struct load {
	struct cache *cache;
	struct loop_task task;
	unsigned folder; /* 0 to 255: objects. 256 to 511: views. 512, 513: the end */
	uint64_t removed;
	bool looks;		   /* for objects that no view names */
	struct cache_object *next; /* of them */
};

/* The other 31 bytes of a name, which its folder begins. */
static bool load_read_name(unsigned folder, const char *text, uint8_t ret[32])
{
	struct err e;

	ret[0] = (uint8_t)folder;
	return strlen(text) == 62 && hex_decode(text, 62, ret + 1, 31, &e) == 0;
}

/* False: the file is removed. So are objects beyond the bound. */
static bool load_take_object(struct cache *c, int dir, const char *text, const uint8_t name[32])
{
	struct cache_object *o;
	struct stat st;

	if (fstatat(dir, text, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    c->index.nobjects >= c->max_files)
		return false;
	o = cache_index_add(&c->index, name, (uint64_t)st.st_size);
	if (o == NULL)
		return false;
	o->used_ms = (uint64_t)st.st_mtim.tv_sec * 1000;
	return true;
}

/* False: the file is removed. */
static bool load_take_view(struct cache *c, const uint8_t name[32])
{
	uint8_t bytes[VIEW_FILE_MAX];
	struct cache_object *o;
	struct view v;
	bool ok = false;

	if (!cache_disk_get_view(&c->disk, name, bytes, &v))
		return false;
	o = cache_index_object(&c->index, v.sha256);
	if (o == NULL || o->size != v.size || c->index.nviews >= c->max_files ||
	    o->nviews >= CACHE_OBJECT_VIEWS)
		return false;
	(void)cache_index_set(&c->index, name, o, &ok);
	return ok;
}

/* Of views there is one of each name only: the file system says so. */
static void load_read_entry(struct load *l, int dir, const char *text)
{
	struct cache *c = l->cache;
	uint8_t name[32];
	bool good = load_read_name(l->folder % 256, text, name);

	if (good)
		good = l->folder < 256 ? load_take_object(c, dir, text, name)
				       : load_take_view(c, name);
	if (good)
		return;
	l->removed++;
	if (unlinkat(dir, text, 0) < 0 && errno == EISDIR)
		(void)unlinkat(dir, text, AT_REMOVEDIR);
}

/* on_entry may remove the entry. */
static void load_each_entry(struct load *l, const char *path,
			    void (*on_entry)(struct load *l, int dir, const char *text))
{
	int fd = openat(l->cache->disk.dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (d == NULL) {
		if (fd >= 0)
			fd_close(fd);
		return;
	}
	while ((entry = readdir(d)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			on_entry(l, fd, entry->d_name);
	(void)closedir(d);
}

static void load_remove_entry(struct load *l, int dir, const char *text)
{
	l->removed++;
	(void)unlinkat(dir, text, 0);
}

/* Remove some of the objects that no view names. True: there are more to look at. No request is
 * answered before all is loaded, so the next object stays. */
static bool load_remove_unnamed(struct load *l)
{
	unsigned looked = 0, removed = 0;

	if (!l->looks)
		l->next = l->cache->index.newest;
	l->looks = true;
	while (l->next != NULL && looked++ < LOOKED_MAX && removed < REMOVED_MAX) {
		struct cache_object *o = l->next;

		l->next = o->older;
		if (o->views != NULL)
			continue;
		cache_room_remove(l->cache, o);
		l->removed++;
		removed++;
	}
	return l->next != NULL;
}

static void load_order(struct load *l)
{
	if (!cache_index_sort(&l->cache->index))
		log_warn("no memory to order the package cache by use", "");
}

/* Links are answered from here on. */
static void load_finish(struct load *l)
{
	struct cache *c = l->cache;

	c->loaded = true;
	log_info("package cache ready", "objects=%llu views=%llu bytes=%llu removed=%llu",
		 (unsigned long long)c->index.nobjects, (unsigned long long)c->index.nviews,
		 (unsigned long long)c->index.bytes, (unsigned long long)l->removed);
	(void)cache_check_start(c, SAMPLE, NULL, NULL);
	free(l);
	c->on_loaded(c);
}

/* One folder, or a bounded part of a later step. */
static void on_piece(struct loop_task *t)
{
	struct load *l = t->arg;
	char path[CACHE_DISK_NAME_MAX];
	uint64_t bytes = 0;

	if (l->folder > 512) { /* its size may be smaller than before */
		if (cache_room_shrink(l->cache, l->cache->max_bytes, &l->removed, &bytes))
			loop_defer(l->cache->loop, t);
		else
			load_finish(l);
		return;
	}
	if (l->folder == 512) {
		if (!load_remove_unnamed(l)) {
			load_order(l);
			l->folder++;
		}
		loop_defer(l->cache->loop, t);
		return;
	}
	cache_disk_folder(l->folder < 256 ? CACHE_OBJECTS : CACHE_VIEWS, l->folder % 256, path);
	load_each_entry(l, path, load_read_entry);
	l->folder++;
	loop_defer(l->cache->loop, t);
}

void cache_load_start(struct cache *c)
{
	struct load *l = calloc(1, sizeof(*l));

	if (l == NULL)
		abort(); /* at the start of the program */
	l->cache = c;
	l->task = (struct loop_task){ .on_run = on_piece, .arg = l };
	load_each_entry(l, "tmp", load_remove_entry);
	loop_defer(c->loop, &l->task);
}

/* ---- hashing again, one object at a time in a worker
 *
 * An object whose name is not the hash of its bytes is removed. Each object is looked up again by
 * its name, so objects may come and go in between. */

/* A check in progress. names was copied, since objects may go. */
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

static void check_step(struct check *k);

static void check_finish(struct check *k)
{
	under_way = NULL;
	if (k->on_done != NULL)
		k->on_done(k->arg, &k->result);
	free(k->names);
	free(k);
}

/* The worker has read the file. The object may have gone since. */
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
	check_step(k);
}

static void on_next(struct loop_task *t)
{
	check_step(t->arg);
}

/* Starts the next object, or ends the check. */
static void check_step(struct check *k)
{
	struct cache_object *o;

	if (k->at == k->n) {
		check_finish(k);
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

/* Keep `sample` names, chosen at random. */
static void check_choose(struct check *k, size_t sample)
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
	check_choose(k, sample);
	under_way = k;
	loop_defer(c->loop, &k->next);
	return true;
}
