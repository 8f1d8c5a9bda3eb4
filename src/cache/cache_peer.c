/* cache_peer.c - theory of operation
 *
 * A link is read only while no answer waits to be sent, so one answer waits at most, and those of
 * files that the disk has written. Files that the link stores are its `puts`: nputs counts them
 * from STORE until on_put_end(), also those aborted while the disk writes. A link that ends leaves
 * such files behind as orphans, which cache_put.c frees. Orphans are bounded over all links. */
#include "cache/cache_peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache_put.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/untrusted_fd.h"
#include "lib/channel/channel.h"

#define ORPHANS_MAX 512 /* files of former links, which the disk still writes */

/* A link. slot tells which cordon-egress it belongs to. */
struct cache_peer {
	struct cache_peer *next, **link;
	struct cache *cache;
	unsigned slot;
	struct channel channel;
	struct cache_put *puts;
	unsigned nputs;
};

/* ---- answers */

/* fd is taken over. An answer that cannot be kept is lost: the request ends by its deadline. */
static void peer_answer(struct cache_peer *p, const struct cache_msg *m, int fd)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	OWN_FD mine = fd;
	int n = cache_msg_write(m, packet, sizeof(packet));
	struct err e;

	if (n >= 0)
		IGNORED(channel_send(&p->channel,
				     &(struct channel_msg){ .bytes = packet,
							    .len = (size_t)n,
							    .fds = &mine,
							    .nfds = mine >= 0 },
				     &e),
			"the answer is lost");
}

/* The message is cut to the bound of a text. */
static void peer_failed(struct cache_peer *p, uint32_t id, const struct err *e)
{
	char text[CACHE_TEXT_MAX];
	const struct cache_msg m = {
		.type = CACHE_FAILED, .id = id, .code = e->code, .text = text
	};
	size_t n = strnlen(e->msg, sizeof(text) - 1);

	memcpy(text, e->msg, n);
	text[n] = '\0';
	peer_answer(p, &m, -1);
}

/* ---- requests */

/* The object of a view, opened. -1: there is none. An unreadable one is removed. */
static int peer_open_view(struct cache *c, const struct cache_key *key,
			  uint8_t bytes[VIEW_FILE_MAX], struct view *ret)
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

/* The answer has the object's descriptor, or says that there is none. */
static void on_find(struct cache_peer *p, const struct cache_msg *m)
{
	uint8_t bytes[VIEW_FILE_MAX];
	struct view v;
	int fd;

	errno = 0;
	fd = peer_open_view(p->cache, &m->key, bytes, &v);
	if (fd < 0) {
		p->cache->counts.misses++;
		peer_answer(p, &(struct cache_msg){ .type = CACHE_NONE, .id = m->id }, -1);
		return;
	}
	p->cache->counts.hits++;
	struct cache_msg found = { .type = CACHE_FOUND,
				   .id = m->id,
				   .meta = v.meta,
				   .time_ms = v.fetched_ms,
				   .size = v.size };
	memcpy(found.sha256, v.sha256, sizeof(found.sha256));
	peer_answer(p, &found, fd);
}

/* The registry said that the file is unchanged: its headers and time are renewed. */
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

/* An aborted one needs no answer. */
static void on_put_end(struct cache_put *u, const struct err *e)
{
	struct cache_peer *p = u->arg;
	struct cache_msg m = { .type = CACHE_STORED, .id = u->id, .size = u->bytes };

	p->nputs--;
	memcpy(m.sha256, u->sha256, sizeof(m.sha256));
	if (u->aborted)
		return;
	if (e == NULL)
		peer_answer(p, &m, -1);
	else
		peer_failed(p, u->id, e);
}

/* NULL: it has ended, was aborted, or never was. */
static struct cache_put *peer_find_put(const struct cache_peer *p, uint32_t id)
{
	struct cache_put *u = p->puts;

	while (u != NULL && (u->id != id || u->aborted))
		u = u->next;
	return u;
}

/* fd is taken over. */
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
		peer_failed(p, m->id, &e);
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
	peer_answer(p, &at, -1);
}

/* fd is taken over. */
static int peer_handle(struct cache_peer *p, const struct cache_msg *m, int fd, struct err *e)
{
	struct cache_put *u =
		m->type == CACHE_COMMIT || m->type == CACHE_ABORT ? peer_find_put(p, m->id) : NULL;

	if (m->type == CACHE_STORE && (fd < 0 || peer_find_put(p, m->id) != NULL)) {
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

/* -1 closes the link. */
static int on_message(struct channel *c, const struct channel_got *got, struct err *e)
{
	struct cache_peer *p = c->arg;
	struct cache_msg m;

	if (got->fds_lost)
		return 0; /* the request ends by its deadline */
	if (cache_msg_read(got->bytes, got->len, &m, e) < 0)
		return -1;
	if (m.type != CACHE_STORE && channel_fds(c) > 0)
		return err_set(e, ERR_INVALID, "not a request");
	return peer_handle(p, &m, channel_take_fd(c), e);
}

/* p is gone when this returns. */
static void peer_remove(struct cache_peer *p)
{
	channel_release(&p->channel);
	while (p->puts != NULL)
		cache_put_leave(p->puts);
	LIST_REMOVE(p);
	free(p);
}

static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	struct cache_peer *p = c->arg;

	if (how != CHANNEL_CLOSED)
		log_warn("link of cordon-egress closed", "slot=%u error=%s", p->slot, why);
	peer_remove(p);
}

/* ---- links */

static struct cache_peer *peer_of_slot(const struct cache *c, unsigned slot)
{
	struct cache_peer *p = c->peers;

	while (p != NULL && p->slot != slot)
		p = p->next;
	return p;
}

void cache_peer_add(struct cache *c, unsigned slot, int sock)
{
	static const struct channel_rules rules = { .peer = "cordon-egress",
						    .in_max = CACHE_PACKET_MAX,
						    .fds_max = 1,
						    .untrusted = true,
						    .answers_first = true };
	struct cache_peer *p = peer_of_slot(c, slot);
	struct err e;

	if (p != NULL)
		peer_remove(p);
	p = calloc(1, sizeof(*p));
	if (p == NULL) {
		fd_close(sock);
		return;
	}
	p->cache = c;
	p->slot = slot;
	channel_init(&p->channel, c->loop, &rules);
	p->channel.arg = p;
	p->channel.on_message = on_message;
	p->channel.on_end = on_end;
	if (channel_attach(&p->channel, sock, &e) < 0) {
		free(p);
		return;
	}
	LIST_PUSH(&c->peers, p);
	channel_pause(&p->channel, !c->loaded);
}

void cache_peers_start(struct cache *c)
{
	for (struct cache_peer *p = c->peers; p != NULL; p = p->next)
		channel_pause(&p->channel, false);
}
