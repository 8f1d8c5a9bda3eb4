/* cache_link.c - theory of operation
 *
 * Requests are packets. A request with an answer is sent when its tenant's share has room. Until
 * then the request waits, tenants in turn, and a task of the loop sends it. A packet that the
 * socket does not take waits in the channel. That queue is bounded by the number of calls and
 * stores, and requests without an answer are dropped when it is long. An answer that no call waits
 * for is dropped with its descriptor.
 *
 * A cache that did not answer in time, because it hangs or reads a large folder, is not asked until
 * its next answer comes, which that of the late request is at the latest: packages must not wait
 * for it one after the other.
 *
 * A link that breaks the protocol is closed like one that ended: cordond notices a cordon-cache
 * that hangs, and brings a new link after it was replaced. */
#include "egress/packages/cache_link.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "egress/control/egress_session.h"
#include "egress/packages/cache_private.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"

#define CALL_MS 5000
#define QUEUED_MAX ((size_t)8 << 20) /* bytes that wait for the socket */
#define PACKETS_PER_TURN 64

int cache_link_missing(struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "the package cache is not running");
}

/* ---- sending */

/* fd is closed in each case: the channel has a copy, or the sending has failed. */
static int link_send_packet(struct cache_link *l, const uint8_t *packet, size_t len, int fd,
			    struct err *e)
{
	OWN_FD mine = fd;

	return channel_send(&l->channel,
			    &(struct channel_msg){
				    .bytes = packet, .len = len, .fds = &mine, .nfds = mine >= 0 },
			    e);
}

/* Return its length. */
static int write_packet(const struct cache_msg *m, uint8_t packet[CACHE_PACKET_MAX], struct err *e)
{
	int n = cache_msg_write(m, packet, CACHE_PACKET_MAX);

	return n > 0 ? n : err_set(e, ERR_INVALID, "a name or path is too long for the cache");
}

int cache_link_send(struct cache_link *l, const struct cache_msg *m, int fd, struct err *e)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	int n = write_packet(m, packet, e);

	if (n > 0)
		return link_send_packet(l, packet, (size_t)n, fd, e);
	if (fd >= 0)
		fd_close(fd);
	return -1;
}

/* ---- calls */

/* Give back its part of its tenant's share. */
static void leave_share(struct cache_call *c)
{
	struct cache_link *l = c->link;
	struct cache_share *s = c->share;

	c->link = NULL;
	c->share = NULL;
	if (s == NULL)
		return;
	if (c->packet != NULL) {
		fair_queue_drop(&l->queue, &c->item);
		free(c->packet);
		c->packet = NULL;
	} else {
		s->calls--;
		l->ncalls--;
		loop_defer(l->loop, &l->pump);
	}
	cache_share_drop(l, s);
}

/* found is copied, because the callback may begin the call again. */
static void on_ended(struct completion *w, const struct err *e)
{
	struct cache_call *c = w->arg;
	struct cache_found found = c->found;
	struct err missing;

	if (e != NULL && e->sys == ETIMEDOUT)
		c->link->late = true;
	if (e != NULL && e->reason == REASON_PEER_DIED) {
		(void)cache_link_missing(&missing);
		e = &missing;
	}
	leave_share(c);
	c->found.fd = -1;
	c->on_done(c, e == NULL && c->is_found ? &found : NULL, e);
	/* c may be gone */
	if (found.fd >= 0)
		fd_close(found.fd);
}

/* For calls outside of a share: they wait for a store. */
void cache_call_begin(struct cache_link *l, struct cache_call *c, uint32_t id, uint64_t deadline_ms)
{
	cache_call_cancel(c);
	c->wait.done.on_done = on_ended;
	c->wait.done.arg = c;
	c->is_found = false;
	c->found = (struct cache_found){ .fd = -1 };
	c->link = l;
	c->share = NULL;
	channel_call_begin(&l->channel, &c->wait, id, deadline_ms);
}

void cache_call_cancel(struct cache_call *c)
{
	if (c->link == NULL)
		return;
	completion_cancel(&c->wait.done);
	leave_share(c);
	if (c->found.fd >= 0)
		fd_close(c->found.fd);
	c->found.fd = -1;
}

bool cache_call_is_waiting(const struct cache_call *c)
{
	return c->link != NULL;
}

/* NULL: no call waits for that number. */
static struct cache_call *cache_call_find(const struct cache_link *l, uint32_t id)
{
	struct channel_call *c = channel_call_find(&l->channel, id);

	return c == NULL ? NULL : c->done.arg;
}

void cache_call_fail(struct cache_link *l, uint32_t id, const struct err *e)
{
	struct cache_call *c = cache_call_find(l, id);

	if (c != NULL)
		completion_end(&c->wait.done, e);
}

static struct cache_call *call_of(struct fair_queue_item *i)
{
	return (struct cache_call *)((char *)i - offsetof(struct cache_call, item));
}

/* Asked by the queue for each request that is next in its turn. */
static bool may_take(struct fair_queue_item *i)
{
	const struct cache_call *c = call_of(i);

	return cache_share_may(c->share->calls, c->link->ncalls, CACHE_REQUESTS_MAX);
}

/* Send a request that waited. */
static void cache_link_begin(struct cache_link *l, struct cache_call *c)
{
	uint8_t *packet = c->packet;
	struct err e;
	int sent = link_send_packet(l, packet, c->len, -1, &e);

	c->packet = NULL;
	free(packet);
	l->ncalls++;
	c->share->calls++;
	channel_call_begin(&l->channel, &c->wait, c->wait.id, CALL_MS);
	if (sent < 0)
		completion_end(&c->wait.done, &e);
}

/* Without a link, or with a late cache, all that wait are told at once. */
static void cache_link_pump(struct loop_task *t)
{
	struct cache_link *l = t->arg;
	struct fair_queue_item *i;
	struct err e;

	if (!channel_is_up(&l->channel) || l->late) {
		(void)err_set(&e, ERR_LIMIT, "the package cache does not answer");
		completions_end_all(&l->waiting, &e);
		return;
	}
	while ((i = fair_queue_take(&l->queue, ++l->turn, 1)) != NULL)
		cache_link_begin(l, call_of(i));
}

/* -1: it cannot wait. */
static int cache_link_enter(struct cache_link *l, const char *tenant, struct cache_call *c,
			    const struct cache_msg *m, struct err *e)
{
	static uint8_t packet[CACHE_PACKET_MAX];
	int n;

	if (!channel_is_up(&l->channel))
		return cache_link_missing(e);
	if (l->late)
		return err_set(e, ERR_LIMIT, "the package cache does not answer");
	n = write_packet(m, packet, e);
	if (n < 0)
		return -1;
	c->packet = malloc((size_t)n);
	c->share = c->packet == NULL ? NULL : cache_share_of(l, tenant);
	if (c->share == NULL) {
		free(c->packet);
		c->packet = NULL;
		return err_set(e, ERR_SYSTEM, "out of memory");
	}
	memcpy(c->packet, packet, (size_t)n);
	c->len = (size_t)n;
	fair_queue_add(&l->queue, &c->share->queue, &c->share->queued, &c->item);
	return 0;
}

/* Send a request, in its turn, and wait for its answer. From here on the call ends once: by an
 * answer, its deadline, the end of the link, or cancelled. */
static void cache_link_ask(struct egress *g, const char *tenant, struct cache_call *c,
			   struct cache_msg *m)
{
	struct cache_link *l = cache_link_of(g);
	struct err e;

	m->id = channel_next_id(&l->channel);
	cache_call_cancel(c);
	c->wait.done.on_done = on_ended;
	c->wait.done.arg = c;
	c->wait.id = m->id;
	c->is_found = false;
	c->found = (struct cache_found){ .fd = -1 };
	c->link = l;
	completion_begin(&c->wait.done, l->loop, &l->waiting);
	if (cache_link_enter(l, tenant, c, m, &e) < 0)
		completion_end(&c->wait.done, &e);
	else
		cache_link_pump(&l->pump);
}

void cache_find(struct egress *g, const char *tenant, struct cache_call *c,
		const struct cache_key *key)
{
	cache_link_ask(g, tenant, c, &(struct cache_msg){ .type = CACHE_FIND, .key = *key });
}

void cache_seen(struct egress *g, const char *tenant, struct cache_call *c,
		const struct cache_key *key, const char *name)
{
	struct cache_msg m = { .type = CACHE_SEEN,
			       .key = { key->scope, key->registry, "" },
			       .name = name };

	cache_link_ask(g, tenant, c, &m);
}

void cache_known(struct egress *g, const char *tenant, struct cache_call *c,
		 const struct cache_key *key, const char *name)
{
	struct cache_msg m = { .type = CACHE_KNOWN,
			       .key = { key->scope, key->registry, "" },
			       .name = name };

	cache_link_ask(g, tenant, c, &m);
}

/* Dropped while the queue is half full, so that requests with an answer have room. */
static void cache_link_tell(struct egress *g, struct cache_msg *m)
{
	struct cache_link *l = cache_link_of(g);
	struct err e;

	m->id = channel_next_id(&l->channel);
	if (channel_is_up(&l->channel) && l->channel.queued < QUEUED_MAX / 2)
		IGNORED(cache_link_send(l, m, -1, &e), "it costs a request to the registry");
}

void cache_note(struct egress *g, const struct cache_key *key, const char *name)
{
	cache_link_tell(g, &(struct cache_msg){ .type = CACHE_SEEN,
						.key = { key->scope, key->registry, "" },
						.name = name });
}

void cache_touch(struct egress *g, const struct cache_key *key, const struct cache_meta *meta)
{
	cache_link_tell(g, &(struct cache_msg){ .type = CACHE_TOUCH, .key = *key, .meta = *meta });
}

void cache_drop(struct egress *g, const struct cache_key *key)
{
	cache_link_tell(g, &(struct cache_msg){ .type = CACHE_DROP, .key = *key });
}

/* ---- answers */

static void cache_link_copy(char *ret, size_t cap, const char *text)
{
	size_t n = strnlen(text, cap - 1);

	memcpy(ret, text, n);
	ret[n] = '\0';
}

static void cache_link_fill(struct cache_call *c, const struct cache_msg *m, int fd)
{
	struct cache_found *f = &c->found;

	if (m->type == CACHE_FOUND) {
		cache_link_copy(f->etag, sizeof(f->etag), m->meta.etag);
		cache_link_copy(f->last_modified, sizeof(f->last_modified), m->meta.last_modified);
		cache_link_copy(f->type, sizeof(f->type), m->meta.type);
	}
	f->fetched_ms = f->seen_ms = m->time_ms;
	f->size = m->size;
	memcpy(f->sha256, m->sha256, sizeof(f->sha256));
	f->fd = fd;
	c->is_found = m->type != CACHE_NONE;
}

/* -1 closes the link: the peer broke the protocol. */
static int on_message(struct channel *channel, const struct channel_got *got, struct err *e)
{
	struct cache_link *l = channel->arg;
	struct cache_call *c;
	struct cache_msg m;
	struct err failed;

	if (got->fds_lost)
		return 0; /* no descriptor is free: the call ends by its deadline */
	l->late = false;
	if (cache_msg_read(got->bytes, got->len, &m, e) < 0)
		return -1;
	if (m.type < CACHE_FOUND || m.type >= CACHE_ANSWERS_END)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	if (cache_msg_has_fd(m.type) != (channel_fds(channel) == 1))
		return err_set(e, ERR_INVALID, "a descriptor is missing, or one too many came");
	if (m.type == CACHE_FAILED) {
		(void)err_set(&failed, m.code, "%s", m.text);
		err_sanitize(&failed);
		cache_store_failed(l, m.id, &failed);
		cache_call_fail(l, m.id, &failed);
		return 0;
	}
	c = cache_call_find(l, m.id);
	if (c == NULL)
		return 0; /* no call waits for it any more */
	cache_link_fill(c, &m, channel_take_fd(channel));
	completion_end(&c->wait.done, NULL);
	return 0;
}

/* The channel itself ends the calls that were sent. */
static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	struct cache_link *l = c->arg;
	struct err e;

	if (how >= CHANNEL_LOST)
		log_warn("link to cordon-cache closed", "error=%s", why);
	l->late = false;
	(void)cache_link_missing(&e);
	cache_stores_fail(l, &e);
	completions_end_all(&l->waiting, &e);
}

/* ---- the link */

struct cache_link *cache_link_of(struct egress *g)
{
	static const struct channel_rules rules = { .peer = "package cache",
						    .in_max = CACHE_PACKET_MAX,
						    .out_max = QUEUED_MAX,
						    .fds_max = 1,
						    .turn_messages = PACKETS_PER_TURN };
	static struct cache_link only;

	if (g->cache == NULL) {
		only = (struct cache_link){ .loop = g->loop,
					    .queue = { .may_take = may_take },
					    .pump = { .on_run = cache_link_pump, .arg = &only } };
		channel_init(&only.channel, g->loop, &rules);
		only.channel.arg = &only;
		only.channel.on_message = on_message;
		only.channel.on_end = on_end;
		g->cache = &only;
	}
	return g->cache;
}

void cache_link_open(struct egress *g, int sock)
{
	struct err e;

	if (channel_attach(&cache_link_of(g)->channel, sock, &e) < 0)
		log_error("link to cordon-cache not opened", "error=%s", e.msg);
}

bool cache_link_is_open(const struct egress *g)
{
	return g->cache != NULL && channel_is_up(&g->cache->channel);
}
