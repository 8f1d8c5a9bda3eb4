/* cache_peer.c - theory of operation
 *
 * A link is read only while all its answers are sent, so what waits for it is bounded by one turn's
 * packets. Files that it stores are its `puts`: nputs counts them from STORE until on_put_end(),
 * also those that were aborted while the disk writes. A link that ends leaves such files behind as
 * orphans, which cache_put.c frees; they are bounded over all links. */
#include "cache_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "cache_put.h"
#include "clock.h"
#include "io.h"
#include "list.h"
#include "log.h"
#include "untrusted_fd.h"

#define PACKETS_PER_TURN 32
#define ORPHANS_MAX 512 /* files of links that are gone, which the disk still writes */

struct answer {
	struct answer *next;
	int fd; /* owned; -1: none */
	size_t len;
	uint8_t bytes[];
};

struct cache_peer {
	struct cache_peer *next, **link;
	struct cache *cache;
	unsigned slot;
	int sock; /* owned */
	struct loop_fd watch;
	struct answer *first, **end; /* waiting to be sent */
	struct cache_put *puts;
	unsigned nputs;
};

/* ---- answers */

static void drop_first(struct cache_peer *p)
{
	struct answer *a = p->first;

	p->first = a->next;
	if (p->first == NULL)
		p->end = &p->first;
	if (a->fd >= 0)
		fd_close(a->fd);
	free(a);
}

/* Reads requests only while all answers are sent, and the folder is known. */
static void arm(struct cache_peer *p)
{
	uint32_t events = p->first != NULL ? (uint32_t)EPOLLOUT : 0;

	if (p->first == NULL && p->cache->loaded)
		events = EPOLLIN;
	loop_modify(p->cache->loop, &p->watch, events);
}

static bool send_first(struct cache_peer *p)
{
	struct answer *a = p->first;
	struct err e;

	return io_send(p->sock, a->bytes, a->len, &a->fd, a->fd >= 0 ? 1 : 0, &e) == 0;
}

static void flush(struct cache_peer *p)
{
	while (p->first != NULL && send_first(p))
		drop_first(p);
	arm(p);
}

/* fd is taken over. An answer that cannot be kept is lost: the request ends by its deadline. */
static void put_answer(struct cache_peer *p, const struct cache_msg *m, int fd)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	int n = cache_msg_write(m, packet, sizeof(packet));
	struct answer *a = n < 0 ? NULL : malloc(sizeof(*a) + (size_t)n);

	if (a == NULL) {
		if (fd >= 0)
			fd_close(fd);
		return;
	}
	*a = (struct answer){ .fd = fd, .len = (size_t)n };
	memcpy(a->bytes, packet, (size_t)n);
	*p->end = a;
	p->end = &a->next;
	flush(p);
}

static void put_failed(struct cache_peer *p, uint32_t id, const struct err *e)
{
	char text[CACHE_TEXT_MAX];
	const struct cache_msg m = {
		.type = CACHE_FAILED, .id = id, .code = e->code, .text = text
	};
	size_t n = strnlen(e->msg, sizeof(text) - 1);

	memcpy(text, e->msg, n);
	text[n] = '\0';
	put_answer(p, &m, -1);
}

/* ---- requests */

/* The object of a view, opened. -1: there is none; what cannot be read is removed. */
static int open_view(struct cache *c, const struct cache_key *key, uint8_t bytes[VIEW_FILE_MAX],
		     struct view *ret)
{
	uint8_t name[32];
	struct cache_view *v;
	int fd;

	view_name(key, name);
	v = cache_index_view(&c->index, name);
	if (v == NULL)
		return -1;
	fd = cache_disk_get_view(&c->disk, name, bytes, ret) &&
			     memcmp(ret->sha256, v->object->sha256, sizeof(ret->sha256)) == 0
		     ? cache_disk_object(&c->disk, ret->sha256)
		     : -1;
	if (fd < 0 && errno != EMFILE && errno != ENFILE)
		cache_room_remove_view(c, v);
	else if (fd >= 0)
		cache_room_use(c, v->object);
	return fd;
}

static void on_find(struct cache_peer *p, const struct cache_msg *m)
{
	uint8_t bytes[VIEW_FILE_MAX];
	struct view v;
	int fd;

	errno = 0;
	fd = open_view(p->cache, &m->key, bytes, &v);
	if (fd < 0) {
		p->cache->counts.misses++;
		put_answer(p, &(struct cache_msg){ .type = CACHE_NONE, .id = m->id }, -1);
		return;
	}
	p->cache->counts.hits++;
	struct cache_msg found = { .type = CACHE_FOUND,
				   .id = m->id,
				   .meta = v.meta,
				   .time_ms = v.fetched_ms,
				   .size = v.size };
	memcpy(found.sha256, v.sha256, sizeof(found.sha256));
	put_answer(p, &found, fd);
}

static void on_touch(struct cache_peer *p, const struct cache_msg *m)
{
	struct cache *c = p->cache;
	uint8_t bytes[VIEW_FILE_MAX], name[32];
	struct cache_view *v;
	struct err e;
	struct view w;

	view_name(&m->key, name);
	v = cache_index_view(&c->index, name);
	if (v == NULL || !cache_disk_get_view(&c->disk, name, bytes, &w) ||
	    memcmp(w.sha256, v->object->sha256, sizeof(w.sha256)) != 0)
		return;
	if (m->meta.etag[0] != '\0')
		w.meta.etag = m->meta.etag;
	if (m->meta.last_modified[0] != '\0')
		w.meta.last_modified = m->meta.last_modified;
	w.fetched_ms = clock_wall_ms();
	IGNORED(cache_disk_put_view(&c->disk, name, &w, &e), "it is only asked for again earlier");
}

static void on_drop(struct cache_peer *p, const struct cache_msg *m)
{
	struct cache_view *v;
	uint8_t name[32];

	view_name(&m->key, name);
	v = cache_index_view(&p->cache->index, name);
	if (v != NULL)
		cache_room_remove_view(p->cache, v);
}

static void on_put_end(struct cache_put *u, const struct err *e)
{
	struct cache_peer *p = u->arg;
	struct cache_msg m = { .type = CACHE_STORED, .id = u->id, .size = u->bytes };

	p->nputs--;
	memcpy(m.sha256, u->sha256, sizeof(m.sha256));
	if (u->aborted)
		return;
	if (e == NULL)
		put_answer(p, &m, -1);
	else
		put_failed(p, u->id, e);
}

static struct cache_put *find_put(const struct cache_peer *p, uint32_t id)
{
	struct cache_put *u = p->puts;

	while (u != NULL && (u->id != id || u->aborted))
		u = u->next;
	return u;
}

static void on_store(struct cache_peer *p, const struct cache_msg *m, int fd)
{
	struct cache_put *u = NULL;
	struct err e;

	if (p->nputs >= CACHE_STORES_MAX || p->cache->orphans >= ORPHANS_MAX) {
		untrusted_close(&fd, 1);
		(void)err_set(&e, ERR_LIMIT, "too many files are stored at the moment");
	} else {
		u = cache_put_new(p->cache, m, fd, &e);
	}
	if (u == NULL) {
		put_failed(p, m->id, &e);
		return;
	}
	u->on_end = on_put_end;
	u->arg = p;
	p->nputs++;
	LIST_PUSH(&p->puts, u);
}

static void on_seen(struct cache_peer *p, const struct cache_msg *m)
{
	struct cache_msg at = { .type = CACHE_SEEN_AT, .id = m->id };

	at.time_ms = m->type == CACHE_SEEN
			     ? seen_table_first(&p->cache->seen, &m->key, m->name, clock_wall_ms())
			     : seen_table_find(&p->cache->seen, &m->key, m->name);
	put_answer(p, &at, -1);
}

/* fd is taken over. */
static int handle(struct cache_peer *p, const struct cache_msg *m, int fd, struct err *e)
{
	struct cache_put *u =
		m->type == CACHE_COMMIT || m->type == CACHE_ABORT ? find_put(p, m->id) : NULL;

	if (m->type == CACHE_STORE && (fd < 0 || find_put(p, m->id) != NULL)) {
		untrusted_close(&fd, 1);
		return err_set(e, ERR_INVALID, "a file without its bytes, or a number used twice");
	}
	if (m->type == CACHE_STORE)
		on_store(p, m, fd);
	else if (m->type == CACHE_FIND)
		on_find(p, m);
	else if (m->type == CACHE_COMMIT && u != NULL && !u->committed)
		cache_put_commit(u, m->size);
	else if (m->type == CACHE_ABORT && u != NULL)
		cache_put_abort(u);
	else if (m->type == CACHE_TOUCH)
		on_touch(p, m);
	else if (m->type == CACHE_DROP)
		on_drop(p, m);
	else if (m->type == CACHE_SEEN || m->type == CACHE_KNOWN)
		on_seen(p, m);
	else if (m->type >= CACHE_REQUESTS_END)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	return 0; /* COMMIT and ABORT may come after it has failed */
}

/* 1: a packet was handled; 0: there is none. */
static int receive(struct cache_peer *p, struct err *e)
{
	static uint8_t packet[CACHE_PACKET_MAX + 1];
	struct cache_msg m;
	size_t nfds = 0;
	int fd = -1;
	ssize_t n = untrusted_recv_fds(p->sock, packet, sizeof(packet), &fd, 1, &nfds, e);

	if (n < 0 && e->sys == EAGAIN)
		return 0;
	if (n < 0 && e->code == ERR_LIMIT)
		return 1; /* no descriptor is free: the request ends by its deadline */
	if (n == 0)
		return err_set(e, ERR_NOT_FOUND, "closed");
	if (n < 0)
		return -1;
	if (nfds == 0)
		fd = -1;
	if (cache_msg_read(packet, (size_t)n, &m, e) < 0 || (m.type != CACHE_STORE && fd >= 0)) {
		untrusted_close(&fd, 1);
		return err_set(e, ERR_INVALID, "not a request");
	}
	return handle(p, &m, fd, e) < 0 ? -1 : 1;
}

static void remove_peer(struct cache_peer *p)
{
	loop_remove(p->cache->loop, &p->watch);
	fd_close(p->sock);
	while (p->first != NULL)
		drop_first(p);
	while (p->puts != NULL)
		cache_put_leave(p->puts);
	LIST_REMOVE(p);
	free(p);
}

static void on_ready(struct loop_fd *w, uint32_t events)
{
	struct cache_peer *p = w->arg;
	struct err e = { 0 };
	int got = 1;

	if ((events & EPOLLOUT) != 0)
		flush(p);
	for (unsigned i = 0;
	     i < PACKETS_PER_TURN && got > 0 && p->first == NULL && p->cache->loaded; i++)
		got = receive(p, &e);
	if (got > 0 && (events & EPOLLHUP) != 0 && (p->first != NULL || !p->cache->loaded))
		got = err_set(&e, ERR_NOT_FOUND, "closed"); /* the answers are not read */
	if (got >= 0)
		return;
	if (e.code != ERR_NOT_FOUND)
		log_warn("link of cordon-egress closed", "slot=%u error=%s", p->slot, e.msg);
	remove_peer(p);
}

/* ---- links */

static struct cache_peer *of_slot(const struct cache *c, unsigned slot)
{
	struct cache_peer *p = c->peers;

	while (p != NULL && p->slot != slot)
		p = p->next;
	return p;
}

void cache_peer_add(struct cache *c, unsigned slot, int sock)
{
	struct cache_peer *p = of_slot(c, slot);
	struct err e;

	if (p != NULL)
		remove_peer(p);
	p = calloc(1, sizeof(*p));
	if (p == NULL || fcntl(sock, F_SETFL, O_NONBLOCK) < 0) {
		fd_close(sock);
		free(p);
		return;
	}
	*p = (struct cache_peer){ .cache = c, .slot = slot, .sock = sock };
	p->end = &p->first;
	p->watch = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = p };
	if (loop_add(c->loop, &p->watch, sock, 0, &e) < 0) {
		fd_close(sock);
		free(p);
		return;
	}
	LIST_PUSH(&c->peers, p);
	arm(p);
}

void cache_peers_start(struct cache *c)
{
	for (struct cache_peer *p = c->peers; p != NULL; p = p->next)
		arm(p);
}
