/* cache_load.c - theory of operation
 *
 * First what is in tmp is removed: no process writes there any more. Then the 256 folders of
 * objects are read, one a piece, then those of views. A view whose object is missing or has another
 * size, or that is torn, is removed; so are objects that no view names, at the end. Files with
 * other names than ours are removed, too. Links to cordon-egress are answered when all is read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "hex.h"
#include "log.h"

#define SAMPLE 16 /* objects hashed again after the start */
/* Objects in a turn when those without a view are removed. */
#define LOOKED_MAX 8192U
#define REMOVED_MAX 128U

struct load {
	struct cache *cache;
	struct loop_task task;
	unsigned folder; /* 0 to 255: objects; 256 to 511: views; 512, 513: the end */
	uint64_t removed;
	bool looks;		   /* for objects that no view names */
	struct cache_object *next; /* of them */
};

/* The other 31 bytes of a name, which its folder begins. */
static bool read_name(unsigned folder, const char *text, uint8_t ret[32])
{
	struct err e;

	ret[0] = (uint8_t)folder;
	return strlen(text) == 62 && hex_decode(text, 62, ret + 1, 31, &e) == 0;
}

static bool take_object(struct cache *c, int dir, const char *text, const uint8_t name[32])
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

static bool take_view(struct cache *c, const uint8_t name[32])
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
static void read_entry(struct load *l, int dir, const char *text)
{
	struct cache *c = l->cache;
	uint8_t name[32];
	bool good = read_name(l->folder % 256, text, name);

	if (good)
		good = l->folder < 256 ? take_object(c, dir, text, name) : take_view(c, name);
	if (good)
		return;
	l->removed++;
	if (unlinkat(dir, text, 0) < 0 && errno == EISDIR)
		(void)unlinkat(dir, text, AT_REMOVEDIR);
}

static void each_entry(struct load *l, const char *path,
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

static void remove_entry(struct load *l, int dir, const char *text)
{
	l->removed++;
	(void)unlinkat(dir, text, 0);
}

/* Removes some of the objects that no view names. True: there are more to look at. No request is
 * answered before all is loaded, so the object that is next stays. */
static bool remove_unnamed(struct load *l)
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

static void order(struct load *l)
{
	if (!cache_index_sort(&l->cache->index))
		log_warn("no memory to order the package cache by use", "");
}

static void finish(struct load *l)
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

static void on_piece(struct loop_task *t)
{
	struct load *l = t->arg;
	char path[CACHE_DISK_NAME_MAX];
	uint64_t bytes = 0;

	if (l->folder > 512) { /* its size may be smaller than before */
		if (cache_room_shrink(l->cache, l->cache->max_bytes, &l->removed, &bytes))
			loop_defer(l->cache->loop, t);
		else
			finish(l);
		return;
	}
	if (l->folder == 512) {
		if (!remove_unnamed(l)) {
			order(l);
			l->folder++;
		}
		loop_defer(l->cache->loop, t);
		return;
	}
	cache_disk_folder(l->folder < 256 ? CACHE_OBJECTS : CACHE_VIEWS, l->folder % 256, path);
	each_entry(l, path, read_entry);
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
	each_entry(l, "tmp", remove_entry);
	loop_defer(c->loop, &l->task);
}
