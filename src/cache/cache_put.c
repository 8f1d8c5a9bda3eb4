/* cache_put.c - theory of operation
 *
 * STORE opens a file in tmp. Bytes are written and hashed as they come. After COMMIT and the end of
 * the bytes a worker syncs the file, and put_keep() gives it its name. A put ends once: by
 * put_end(), or by put_release() if its link is gone. While `syncing` the worker has its
 * descriptor, and the put must not be freed. */
#include "cache/cache_put.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/own.h"
#include "lib/base/untrusted_fd.h"

#define PIECE ((size_t)256 * 1024)
#define TURN_PIECES 4
#define IDLE_MS 600000
#define PART_MAX 4 /* one file must not push everything else out: at most this part of all */
#define ROOM_STEP (1ULL << 20) /* room is made in steps of this */

/* ---- ends */

/* Gives back the room that was counted for the bytes and for two files. */
static void put_uncount(struct cache_put *p)
{
	uint64_t counted = (p->bytes + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP;

	p->cache->coming_bytes -= counted;
	p->cache->coming_files -= 2;
}

/* No more bytes come. Repeatable. */
static void put_close_parts(struct cache_put *p)
{
	loop_remove(p->cache->loop, &p->watch);
	loop_timer_cancel(p->cache->loop, &p->idle);
	untrusted_close(&p->sock, 1);
}

/* p is gone when this returns. An unfinished file is removed. */
static void put_release(struct cache_put *p)
{
	put_close_parts(p);
	if (p->file >= 0)
		fd_close(p->file);
	if (p->tmp[0] != '\0')
		cache_disk_discard(&p->cache->disk, p->tmp);
	put_uncount(p);
	LIST_REMOVE(p);
	if (p->orphan)
		p->cache->orphans--;
	free(p->text);
	free(p);
}

/* The one end of a put. e NULL: stored or aborted. */
static void put_end(struct cache_put *p, const struct err *e)
{
	if (e != NULL)
		p->cache->counts.refused++;
	if (!p->orphan)
		p->on_end(p, e);
	put_release(p);
}

static void put_fail(struct cache_put *p, enum err_code code, const char *why)
{
	struct err e;

	(void)err_set(&e, code, "%s", why);
	put_end(p, &e);
}

void cache_put_abort(struct cache_put *p)
{
	p->aborted = true;
	if (p->syncing)
		put_close_parts(p); /* the worker still has its descriptor */
	else
		put_end(p, NULL);
}

void cache_put_leave(struct cache_put *p)
{
	LIST_REMOVE(p);
	p->orphan = true;
	p->cache->orphans++;
	if (p->syncing)
		put_close_parts(p);
	else
		put_release(p);
}

static void put_warn_full(void)
{
	static struct log_limit limit = { .burst = 1, .interval_ms = 60000 };
	unsigned long long dropped;

	if (log_limit(&limit, &dropped))
		log_warn("package files are not kept: the cache or its disk is full", "more=%llu",
			 dropped);
}

static void put_no_room(struct cache_put *p)
{
	put_warn_full();
	put_fail(p, ERR_LIMIT, "the package cache is full");
}

/* ---- the end of a good one */

/* First the object gets its name, then the view: no view names a missing object. */
static int put_keep(struct cache_put *p, struct err *e)
{
	struct cache *c = p->cache;
	struct cache_object *o, *unnamed;
	struct cache_view *v, *surplus;
	uint8_t name[32];
	bool ok;

	view_name(&p->view.key, name);
	if (cache_disk_keep(&c->disk, p->tmp, CACHE_OBJECTS, p->sha256, e) < 0)
		return -1;
	p->tmp[0] = '\0';
	o = cache_index_add(&c->index, p->sha256, p->bytes);
	if (o == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	v = cache_index_view(&c->index, name);
	surplus = v != NULL && v->object == o ? NULL : cache_index_surplus(o);
	if (surplus != NULL)
		cache_room_remove_view(c, surplus);
	o->used_ms = 0; /* the file is new: its time is not ours yet */
	cache_room_use(c, o);
	if (cache_disk_put_view(&c->disk, name, &p->view, e) < 0) {
		if (o->views == NULL)
			cache_room_remove(c, o);
		return -1;
	}
	unnamed = cache_index_set(&c->index, name, o, &ok);
	if (unnamed != NULL)
		cache_room_remove(c, unnamed);
	if (!ok && o->views == NULL) {
		cache_disk_remove(&c->disk, CACHE_VIEWS, name);
		cache_room_remove(c, o);
	}
	return ok ? 0 : err_set(e, ERR_SYSTEM, "out of memory");
}

/* The worker has given the descriptor back. */
static void on_synced(struct cache_job *j)
{
	struct cache_put *p = j->arg;
	struct err e;

	p->syncing = false;
	if (p->orphan || p->aborted) {
		put_end(p, NULL);
		return;
	}
	if (j->error != 0) {
		errno = j->error;
		(void)err_sys(&e, "write the file");
		put_end(p, &e);
		return;
	}
	p->view.fetched_ms = clock_wall_ms();
	p->view.size = p->bytes;
	memcpy(p->view.sha256, p->sha256, sizeof(p->sha256));
	if (put_keep(p, &e) < 0) {
		put_end(p, &e);
		return;
	}
	p->cache->counts.stored++;
	put_end(p, NULL);
}

/* Everything has come, or nothing more will. */
static void put_finish(struct cache_put *p)
{
	uint8_t expected[32];

	put_close_parts(p);
	if (p->bytes != p->size) {
		put_fail(p, ERR_INVALID, "fewer or more bytes came than were announced");
		return;
	}
	memcpy(expected, p->sha256, sizeof(expected));
	sha256_end(&p->hash, p->sha256);
	if (p->has_expected && memcmp(expected, p->sha256, sizeof(expected)) != 0) {
		put_fail(p, ERR_INVALID, "the bytes have another SHA-256");
		return;
	}
	p->syncing = true;
	p->sync = (struct cache_job){ .on_done = on_synced, .arg = p, .fd = p->file };
	cache_worker_add(p->cache->syncs, &p->sync);
}

/* ---- bytes
 *
 * A bounded number of pieces in each turn. The sender waits at its socket. */

/* Room is counted in steps, so that limits and the disk are not asked for each piece. */
static bool put_make_room(struct cache_put *p, uint64_t more)
{
	uint64_t had = (p->bytes + ROOM_STEP - 1) / ROOM_STEP;
	uint64_t need = (p->bytes + more + ROOM_STEP - 1) / ROOM_STEP;

	if (p->bytes + more > CACHE_OBJECT_MAX || p->bytes + more > p->cache->max_bytes / PART_MAX)
		return false;
	if (need == had)
		return true;
	if (!cache_room_make(p->cache, (need - had) * ROOM_STEP, 0))
		return false;
	p->cache->coming_bytes += (need - had) * ROOM_STEP;
	return true;
}

/* 1: more may come. 0: nothing now. -1: it has ended, p may be gone. */
static int put_take_piece(struct cache_put *p)
{
	static uint8_t piece[PIECE];
	struct err e;
	size_t nfds;
	ssize_t n = untrusted_recv_fds(p->sock, piece, sizeof(piece), NULL, 0, &nfds, &e);

	if (n < 0 && e.sys == EAGAIN)
		return 0;
	if (n < 0) {
		put_fail(p, ERR_INVALID, "the bytes could not be received");
		return -1;
	}
	if (n == 0) {
		p->ended = true;
		loop_remove(p->cache->loop, &p->watch);
		if (p->committed)
			put_finish(p);
		return -1;
	}
	if (!put_make_room(p, (uint64_t)n)) {
		put_no_room(p);
		return -1;
	}
	p->bytes += (uint64_t)n;
	sha256_add(&p->hash, piece, (size_t)n);
	if (io_write_all(p->file, piece, (size_t)n, &e) < 0) {
		if (e.sys == ENOSPC || e.sys == EDQUOT)
			put_no_room(p);
		else
			put_end(p, &e);
		return -1;
	}
	return 1;
}

static void on_bytes(struct loop_fd *w, uint32_t events)
{
	struct cache_put *p = w->arg;
	struct loop *loop = p->cache->loop;
	int more = 1;

	loop_timer_set(loop, &p->idle, loop_now_ns(loop) + IDLE_MS * CLOCK_MS);
	for (unsigned i = 0; i < TURN_PIECES && more > 0; i++)
		more = put_take_piece(p);
}

/* A sender that stopped must not keep its room. */
static void on_idle(struct loop_timer *t)
{
	put_fail(t->arg, ERR_LIMIT, "no bytes came for a long time");
}

void cache_put_commit(struct cache_put *p, uint64_t size)
{
	p->committed = true;
	p->size = size;
	if (p->ended)
		put_finish(p);
}

/* ---- the beginning */

static bool put_is_stream(int sock)
{
	int family = 0, type = 0;
	socklen_t len = sizeof(int);

	return getsockopt(sock, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 && family == AF_UNIX &&
	       getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

/* Moves *at behind the copy. */
static const char *put_copy(char **at, const char *text)
{
	size_t n = strlen(text) + 1;
	char *to = *at;

	memcpy(to, text, n);
	*at += n;
	return to;
}

/* One allocation for all texts of the message. */
static bool put_copy_view(struct cache_put *p, const struct cache_msg *m)
{
	const struct cache_key *k = &m->key;
	const struct cache_meta *i = &m->meta;
	size_t n = strlen(k->scope) + strlen(k->registry) + strlen(k->path) + strlen(i->etag) +
		   strlen(i->last_modified) + strlen(i->type) + 6;
	char *at = p->text = malloc(n);

	if (at == NULL)
		return false;
	p->view.key.scope = put_copy(&at, k->scope);
	p->view.key.registry = put_copy(&at, k->registry);
	p->view.key.path = put_copy(&at, k->path);
	p->view.meta.etag = put_copy(&at, i->etag);
	p->view.meta.last_modified = put_copy(&at, i->last_modified);
	p->view.meta.type = put_copy(&at, i->type);
	return true;
}

static int put_open_parts(struct cache_put *p, struct err *e)
{
	struct loop *loop = p->cache->loop;

	if (!put_is_stream(p->sock))
		return err_set(e, ERR_INVALID, "the bytes of a file come over a stream socket");
	if (!cache_room_make(p->cache, 0, 2)) {
		put_warn_full();
		return err_set(e, ERR_LIMIT, "the package cache is full");
	}
	p->file = cache_disk_create(&p->cache->disk, p->tmp, e);
	if (p->file < 0) {
		p->tmp[0] = '\0';
		return -1;
	}
	loop_timer_set(loop, &p->idle, loop_now_ns(loop) + IDLE_MS * CLOCK_MS);
	return loop_add(loop, &p->watch, p->sock, EPOLLIN, e);
}

struct cache_put *cache_put_new(struct cache *c, const struct cache_msg *m, int sock, struct err *e)
{
	struct cache_put *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		untrusted_close(&sock, 1);
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	p->cache = c;
	p->id = m->id;
	p->sock = sock;
	p->file = -1;
	p->watch = (struct loop_fd){ .fd = -1, .on_ready = on_bytes, .arg = p };
	p->idle = (struct loop_timer){ .on_expire = on_idle, .arg = p };
	p->has_expected = m->has_expected;
	memcpy(p->sha256, m->sha256, sizeof(p->sha256));
	c->coming_files += 2;
	(void)err_set(e, ERR_SYSTEM, "out of memory");
	if (!put_copy_view(p, m) || put_open_parts(p, e) < 0) {
		c->counts.refused++;
		put_release(p);
		return NULL;
	}
	sha256_init(&p->hash);
	return p;
}
