/* cache_control.c - theory of operation
 *
 * Orders are answered in the order in which they come, but for those that take long: GC
 * goes through the index in pieces, VERIFY through the hashing thread; one of them is under way at
 * a time, and another one is refused. cordond is trusted, but a packet that is no order
 * still ends the program: the two were not built together. */
#include "cache_control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "cache_peer.h"
#include "io.h"
#include "log.h"

static struct {
	struct cache *cache;
	int sock; /* owned */
	struct loop_fd watch;
	/* The long order under way. */
	uint32_t busy; /* its id; 0: none */
	struct loop_task more;
	uint64_t to_bytes;
	uint64_t count, bytes;
} control;

/* cordond reads what it asked for: a full socket is an error of the channel. */
static void answer(const struct cache_msg *m)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	int n = cache_msg_write(m, packet, sizeof(packet));
	struct err e;

	if (n < 0 || io_send(control.sock, packet, (size_t)n, NULL, 0, &e) < 0) {
		log_error("answer to cordond lost", "type=%u", m->type);
		loop_stop(control.cache->loop);
	}
}

static void refuse(uint32_t id, enum err_code code, const char *why)
{
	answer(&(struct cache_msg){ .type = CACHE_REFUSED, .id = id, .code = code, .text = why });
}

/* ---- orders that take long */

static void done(uint64_t bad)
{
	const struct cache_msg m = { .type = CACHE_DONE,
				     .id = control.busy,
				     .count = control.count,
				     .size = control.bytes,
				     .bad = bad };

	control.busy = 0;
	answer(&m);
}

static void collect_some(void)
{
	if (cache_room_shrink(control.cache, control.to_bytes, &control.count, &control.bytes))
		loop_defer(control.cache->loop, &control.more);
	else
		done(0);
}

static void on_more(struct loop_task *t)
{
	(void)t;
	collect_some();
}

static void on_checked(void *arg, const struct cache_checked *result)
{
	(void)arg;
	control.count = result->objects;
	control.bytes = result->bytes;
	done(result->bad);
}

static void begin(const struct cache_msg *m)
{
	if (control.busy != 0 || !control.cache->loaded) {
		refuse(m->id, ERR_CONFLICT, "the package cache is busy: try again in a moment");
		return;
	}
	control.busy = m->id;
	control.count = control.bytes = 0;
	control.to_bytes = m->size;
	if (m->type != CACHE_VERIFY) {
		loop_defer(control.cache->loop, &control.more);
	} else if (!cache_check_start(control.cache, SIZE_MAX, on_checked, NULL)) {
		control.busy = 0;
		refuse(m->id, ERR_CONFLICT, "objects are being checked: try again in a moment");
	}
}

/* ---- others */

static void on_stats(uint32_t id)
{
	const struct cache *c = control.cache;
	struct cache_msg m = { .type = CACHE_STATED, .id = id, .stats = c->counts };

	m.stats.bytes = c->index.bytes;
	m.stats.max_bytes = c->max_bytes;
	m.stats.max_files = c->max_files;
	m.stats.objects = c->index.nobjects;
	m.stats.views = c->index.nviews;
	m.stats.seen = c->seen.n;
	m.stats.loading = !c->loaded;
	answer(&m);
}

/* False: it does not fit any more. */
static bool put_entry(struct codec_writer *w, const struct cache_view *v)
{
	uint8_t bytes[VIEW_FILE_MAX];
	struct codec_writer before = *w;
	struct cache_entry entry;
	struct view s;

	if (!cache_disk_get_view(&control.cache->disk, v->name, bytes, &s))
		return true;
	entry = (struct cache_entry){ .key = s.key,
				      .size = s.size,
				      .fetched_ms = s.fetched_ms,
				      .used_ms = v->object->used_ms };
	memcpy(entry.sha256, s.sha256, sizeof(entry.sha256));
	cache_entry_put(w, &entry);
	if (!w->bad)
		return true;
	*w = before;
	return false;
}

/* A place is a bucket and how many of its views were listed; from 1. */
static void on_list(uint32_t id, uint32_t place)
{
	static uint8_t entries[CACHE_PACKET_MAX - 64];
	struct codec_writer w = { .p = entries, .n = sizeof(entries) };
	struct cache_msg m = { .type = CACHE_LISTED, .id = id, .entries = entries };
	uint32_t bucket = place >> 8, skip = place & 255, at = 0, looked = 0;

	for (; bucket < CACHE_BUCKETS && control.cache->loaded && looked < 512;
	     bucket++, skip = 0) {
		struct cache_view *v = control.cache->index.views[bucket];

		for (at = 0; v != NULL && at < 255; v = v->chain, at++) {
			if (at < skip)
				continue;
			looked++;
			if (put_entry(&w, v))
				continue;
			m.place = bucket << 8 | at;
			m.entries_len = (size_t)(w.p - entries);
			answer(&m);
			return;
		}
	}
	m.place = bucket < CACHE_BUCKETS && control.cache->loaded ? bucket << 8 : 0;
	m.entries_len = (size_t)(w.p - entries);
	answer(&m);
}

static int handle(const struct cache_msg *m, int fd, struct err *e)
{
	if ((m->type == CACHE_LINK) != (fd >= 0))
		return err_set(e, ERR_INVALID, "a descriptor is missing, or one too many came");
	if (m->type == CACHE_LINK)
		cache_peer_add(control.cache, m->slot, fd);
	else if (m->type == CACHE_LIST)
		on_list(m->id, m->place);
	else if (m->type == CACHE_STATS)
		on_stats(m->id);
	else if (m->type == CACHE_GC || m->type == CACHE_VERIFY)
		begin(m);
	else
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	return 0;
}

static void on_sock(struct loop_fd *f, uint32_t events)
{
	static uint8_t packet[CACHE_PACKET_MAX + 1];
	struct cache_msg m;
	struct err e = { 0 };
	size_t nfds = 0;
	int fd = -1;
	ssize_t n = io_recv(f->fd, packet, sizeof(packet), &fd, 1, &nfds, &e);

	(void)events;
	if (n < 0 && e.sys == EAGAIN)
		return;
	if (n > 0 && cache_msg_read(packet, (size_t)n, &m, &e) == 0 &&
	    handle(&m, nfds == 1 ? fd : -1, &e) == 0)
		return;
	if (n != 0)
		log_error("channel to cordond failed", "error=%s", e.msg);
	loop_stop(control.cache->loop);
}

int cache_control_open(struct cache *c, int sock, struct err *e)
{
	control.cache = c;
	control.sock = sock;
	control.watch = (struct loop_fd){ .fd = -1, .on_ready = on_sock };
	control.more = (struct loop_task){ .on_run = on_more };
	if (fcntl(sock, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "channel to cordond");
	return loop_add(c->loop, &control.watch, sock, EPOLLIN, e);
}
