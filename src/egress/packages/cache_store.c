/* cache_store.c - theory of operation
 *
 * The bytes of a store go over a stream socket of their own, so that a cache whose disk is slow
 * delays no other request. Bytes that the socket does not take at once wait here, BACKLOG_MAX at
 * most: then the writer is told to wait. A cache that takes nothing for STALL_MS is given up for
 * this store: from then on all bytes are dropped, and the writer never waits again.
 *
 * After the last byte COMMIT is sent. Then the store is only the call that waits for its end, if
 * there is one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/control/egress_session.h"
#include "egress/packages/cache_private.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"

#define BACKLOG_MAX ((size_t)64 * 1024)
#define STALL_MS 3000
#define COMMIT_MS 60000 /* until the disk has it */

struct cache_store {
	struct cache_store *next, **link;
	struct cache_link *owner;
	struct cache_share *share; /* held */
	uint32_t id;
	int fd; /* owned. -1: failed, or all was sent */
	struct loop_fd watch;
	struct loop_timer stall;
	struct fifo backlog;
	uint64_t total;
	bool failed, committed;
	void (*on_room)(void *arg);
	void *arg;
};

/* Repeatable. The store stays in its list. */
static void cache_store_stop(struct cache_store *s)
{
	struct loop *loop = s->owner->loop;

	loop_remove(loop, &s->watch);
	loop_timer_cancel(loop, &s->stall);
	if (s->fd >= 0)
		fd_close(s->fd);
	s->fd = -1;
	fifo_release(&s->backlog);
}

static void cache_store_release(struct cache_store *s)
{
	cache_store_stop(s);
	LIST_REMOVE(s);
	s->owner->nstores--;
	s->share->stores--;
	cache_share_drop(s->owner, s->share);
	free(s);
}

static void tell_abort(struct cache_store *s)
{
	const struct cache_msg m = { .type = CACHE_ABORT, .id = s->id };
	struct err e;

	if (channel_is_up(&s->owner->channel) && !s->failed)
		IGNORED(cache_link_send(s->owner, &m, -1, &e), "its socket has ended, too");
}

/* Nothing of it will be kept. If it is not held any more, it is freed. The call that waits for it
 * is told last: its callback lets requests continue, which end others and their stores. */
static void cache_store_fail(struct cache_store *s, const struct err *e)
{
	struct cache_link *l = s->owner;
	uint32_t id = s->id;

	if (s->failed)
		return;
	s->failed = true;
	cache_store_stop(s);
	if (s->committed)
		cache_store_release(s);
	else if (s->on_room != NULL)
		s->on_room(s->arg);
	cache_call_fail(l, id, e);
}

void cache_store_failed(struct cache_link *l, uint32_t id, const struct err *e)
{
	struct cache_store *s = l->stores;

	while (s != NULL && s->id != id)
		s = s->next;
	if (s != NULL)
		cache_store_fail(s, e);
}

/* NULL: all have failed. */
static struct cache_store *first_whole(const struct cache_link *l)
{
	struct cache_store *s = l->stores;

	while (s != NULL && s->failed)
		s = s->next;
	return s;
}

void cache_stores_fail(struct cache_link *l, const struct err *e)
{
	struct cache_store *s;

	while ((s = first_whole(l)) != NULL)
		cache_store_fail(s, e);
}

static void give_up(struct cache_store *s, const char *why)
{
	struct err e;

	tell_abort(s);
	(void)err_set(&e, ERR_LIMIT, "%s", why);
	cache_store_fail(s, &e);
}

static void on_stall(struct loop_timer *t)
{
	give_up(t->arg, "the package cache is too slow");
}

/* ---- sending */

/* All bytes are out. The socket ends with the store, and the cache compares the size. */
static void cache_store_finish(struct cache_store *s)
{
	const struct cache_msg m = { .type = CACHE_COMMIT, .id = s->id, .size = s->total };
	struct err e;

	if (cache_link_send(s->owner, &m, -1, &e) < 0)
		cache_store_fail(s, &e);
	else
		cache_store_release(s);
}

/* The timer starts again with each byte that went, so only a cache that takes nothing is too slow.
 */
static void wait_for_room(struct cache_store *s)
{
	struct loop *loop = s->owner->loop;

	loop_modify(loop, &s->watch, s->backlog.len > 0 ? (uint32_t)EPOLLOUT : 0);
	if (s->backlog.len > 0)
		loop_timer_set(loop, &s->stall, loop_now_ns(loop) + STALL_MS * CLOCK_MS);
	else
		loop_timer_cancel(loop, &s->stall);
}

/* How many bytes the socket took. -1: it is gone. */
static ssize_t cache_store_push(struct cache_store *s, const void *data, size_t n)
{
	ssize_t went = send(s->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (went >= 0)
		return went;
	return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void on_ready(struct loop_fd *w, uint32_t events)
{
	struct cache_store *s = w->arg;
	ssize_t went = s->backlog.len > 0
			       ? cache_store_push(s, fifo_bytes(&s->backlog), s->backlog.len)
			       : 0;

	if (went < 0 || (s->backlog.len == 0 && (events & (EPOLLHUP | EPOLLERR)) != 0)) {
		give_up(s, "the package cache refused the file");
		return;
	}
	fifo_consume(&s->backlog, (size_t)went);
	if (went > 0 || s->backlog.len == 0)
		wait_for_room(s);
	if (s->backlog.len > 0)
		return;
	fifo_release(&s->backlog);
	if (s->committed)
		cache_store_finish(s);
	else if (s->on_room != NULL)
		s->on_room(s->arg);
}

size_t cache_store_room(const struct cache_store *s)
{
	if (s->failed)
		return SIZE_MAX;
	return s->backlog.len > 0 ? 0 : BACKLOG_MAX;
}

size_t cache_store_write(struct cache_store *s, const void *data, size_t n)
{
	size_t room = cache_store_room(s);
	ssize_t went;

	if (s->failed)
		return n;
	if (n > room)
		n = room;
	went = n > 0 ? cache_store_push(s, data, n) : 0;
	if (went >= 0 && (size_t)went < n &&
	    fifo_add(&s->backlog, (const uint8_t *)data + went, n - (size_t)went) < 0)
		went = -1;
	if (went < 0) {
		s->on_room = NULL; /* the writer learns it from the returned value */
		give_up(s, "the package cache refused the file");
		return n;
	}
	s->total += n;
	if (s->backlog.len > 0)
		wait_for_room(s);
	return n;
}

/* ---- begin and end */

static int open_socket(struct cache_store *s, const struct cache_key *key,
		       const struct cache_meta *meta, const uint8_t *sha256, struct err *e)
{
	struct cache_msg m = { .type = CACHE_STORE,
			       .id = s->id,
			       .key = *key,
			       .meta = *meta,
			       .has_expected = sha256 != NULL };
	int ends[2];

	if (sha256 != NULL)
		memcpy(m.sha256, sha256, sizeof(m.sha256));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_sys(e, "socket of a file for the cache");
	s->fd = ends[0];
	(void)shutdown(s->fd, SHUT_RD);
	if (loop_add(s->owner->loop, &s->watch, s->fd, 0, e) < 0) {
		fd_close(ends[1]);
		return -1;
	}
	return cache_link_send(s->owner, &m, ends[1], e);
}

/* NULL: the tenant stores too much, or memory is out. */
static struct cache_store *store_new(struct cache_link *l, const char *tenant)
{
	struct cache_share *share = cache_share_of(l, tenant);
	struct cache_store *s =
		share != NULL && cache_share_may(share->stores, l->nstores, CACHE_STORES_MAX)
			? calloc(1, sizeof(*s))
			: NULL;

	if (s == NULL && share != NULL)
		cache_share_drop(l, share);
	if (s == NULL)
		return NULL;
	share->stores++;
	s->share = share;
	return s;
}

struct cache_store *cache_store_begin(struct egress *g, const char *tenant,
				      const struct cache_key *key, const struct cache_meta *meta,
				      const uint8_t *sha256, void (*on_room)(void *arg), void *arg)
{
	struct cache_link *l = cache_link_of(g);
	struct cache_store *s =
		!channel_is_up(&l->channel) || l->late ? NULL : store_new(l, tenant);
	struct err e;

	if (s == NULL)
		return NULL;
	*s = (struct cache_store){ .owner = l,
				   .share = s->share,
				   .id = channel_next_id(&l->channel),
				   .fd = -1,
				   .watch = { .fd = -1, .on_ready = on_ready, .arg = s },
				   .stall = { .on_expire = on_stall, .arg = s },
				   .on_room = on_room,
				   .arg = arg };
	l->nstores++;
	LIST_PUSH(&l->stores, s);
	if (open_socket(s, key, meta, sha256, &e) < 0) {
		cache_store_release(s);
		return NULL;
	}
	return s;
}

void cache_store_expect(struct cache_store *s, struct cache_call *done)
{
	struct err e;

	cache_call_begin(s->owner, done, s->id, COMMIT_MS);
	if (!s->failed)
		return;
	(void)err_set(&e, ERR_LIMIT, "the package cache did not take the file");
	completion_end(&done->wait.done, &e);
}

void cache_store_commit(struct cache_store *s, struct cache_call *done)
{
	if (done != NULL)
		cache_store_expect(s, done);
	if (s->failed) {
		cache_store_release(s);
		return;
	}
	s->committed = true;
	if (s->backlog.len == 0)
		cache_store_finish(s);
}

bool cache_store_has_failed(const struct cache_store *s)
{
	return s->failed;
}

/* A committed store is not held any more, and never comes here. */
void cache_store_abort(struct cache_store *s)
{
	if (s == NULL)
		return;
	tell_abort(s);
	cache_store_release(s);
}
