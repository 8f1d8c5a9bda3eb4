/* cache_copy.c - stores a whole file that egress has in memory, in pieces from the loop. */
#include <stdlib.h>
#include <unistd.h>

#include "egress/control/egress_session.h"
#include "egress/packages/cache_private.h"

#define PIECE_MAX ((size_t)64 * 1024)

/* One file on its way. It ends by cache_copy_end(), and holds no part of the request that began it.
 */
struct copy {
	struct loop *loop;
	struct cache_store *store;
	int fd; /* owned */
	uint64_t at, size;
	struct loop_task more;
};

/* The store takes bytes again. The piece is sent from the loop, never from inside of the store. */
static void on_room(void *arg)
{
	struct copy *c = arg;

	loop_defer(c->loop, &c->more);
}

/* The store is consumed, and answers its waiting call later. */
static void cache_copy_end(struct copy *c, bool whole)
{
	if (whole)
		cache_store_commit(c->store, NULL);
	else
		cache_store_abort(c->store);
	fd_close(c->fd);
	free(c);
}

/* One piece for each turn of the loop. A file shorter than announced is not kept. */
static void on_more(struct loop_task *t)
{
	static uint8_t piece[PIECE_MAX];
	struct copy *c = t->arg;
	uint64_t left = c->size - c->at;
	size_t room = cache_store_room(c->store),
	       most = left < PIECE_MAX ? (size_t)left : PIECE_MAX;
	ssize_t n;

	if (left == 0 || cache_store_has_failed(c->store)) {
		cache_copy_end(c, left == 0);
		return;
	}
	n = room == 0 ? 0 : pread(c->fd, piece, most < room ? most : room, (off_t)c->at);
	if (room > 0 && n <= 0) {
		cache_copy_end(c, false);
		return;
	}
	c->at += cache_store_write(c->store, piece, (size_t)n);
	if (cache_store_room(c->store) > 0)
		loop_defer(c->loop, t);
}

/* The call ends from the loop, as cache_link.h promises. */
static void fail_soon(struct egress *g, struct cache_call *done)
{
	struct cache_link *l = cache_link_of(g);
	struct err e;

	if (done == NULL)
		return;
	cache_call_begin(l, done, 0, 1);
	(void)cache_link_missing(&e);
	completion_end(&done->wait.done, &e);
}

void cache_store_file(struct egress *g, const char *tenant, const struct cache_key *key,
		      const struct cache_meta *meta, int fd, uint64_t size, struct cache_call *done)
{
	struct copy *c = calloc(1, sizeof(*c));

	if (c != NULL)
		c->store = cache_store_begin(g, tenant, key, meta, NULL, on_room, c);
	if (c == NULL || c->store == NULL) {
		free(c);
		fd_close(fd);
		fail_soon(g, done);
		return;
	}
	c->loop = g->loop;
	c->fd = fd;
	c->size = size;
	c->more = (struct loop_task){ .on_run = on_more, .arg = c };
	if (done != NULL)
		cache_store_expect(c->store, done);
	loop_defer(c->loop, &c->more);
}
