#include "lib/wire/cache_msg.h"

#include <string.h>

static bool cache_is_type(unsigned type)
{
	return (type >= CACHE_FIND && type < CACHE_REQUESTS_END) ||
	       (type >= CACHE_FOUND && type < CACHE_ANSWERS_END) ||
	       (type >= CACHE_LINK && type < CACHE_ORDERS_END) ||
	       (type >= CACHE_LISTED && type < CACHE_REPORTS_END);
}

bool cache_msg_has_fd(enum cache_type type)
{
	return type == CACHE_STORE || type == CACHE_FOUND || type == CACHE_LINK;
}

static bool cache_is_seen(enum cache_type t)
{
	return t == CACHE_SEEN || t == CACHE_KNOWN;
}

static bool cache_has_key(enum cache_type t)
{
	return t == CACHE_FIND || t == CACHE_STORE || t == CACHE_TOUCH || t == CACHE_DROP ||
	       cache_is_seen(t);
}

static bool cache_has_meta(enum cache_type t)
{
	return t == CACHE_STORE || t == CACHE_TOUCH || t == CACHE_FOUND;
}

static bool cache_has_time(enum cache_type t)
{
	return t == CACHE_FOUND || t == CACHE_SEEN_AT;
}

static bool cache_has_size(enum cache_type t)
{
	return t == CACHE_COMMIT || t == CACHE_FOUND || t == CACHE_STORED || t == CACHE_GC ||
	       t == CACHE_DONE;
}

static bool cache_has_digest(enum cache_type t)
{
	return t == CACHE_STORE || t == CACHE_FOUND || t == CACHE_STORED;
}

/* ---- fields */

static void cache_key(struct codec *c, struct cache_key *k)
{
	codec_string(c, CACHE_SCOPE_MAX, &k->scope);
	codec_string(c, CACHE_REGISTRY_MAX, &k->registry);
	codec_string(c, CACHE_PATH_MAX, &k->path);
}

/* All parts of a key are there, but SEEN has no path. */
static bool cache_is_whole(const struct cache_msg *m)
{
	if (!cache_has_key(m->type))
		return true;
	return m->key.scope[0] != '\0' && m->key.registry[0] != '\0' &&
	       (m->key.path[0] != '\0') == !cache_is_seen(m->type);
}

static void cache_meta(struct codec *c, struct cache_meta *m)
{
	codec_string(c, CACHE_ETAG_MAX, &m->etag);
	codec_string(c, CACHE_DATE_MAX, &m->last_modified);
	codec_string(c, CACHE_TYPE_MAX, &m->type);
}

static void cache_stats(struct codec *c, struct cache_stats *s)
{
	uint64_t *const all[] = { &s->bytes,   &s->max_bytes, &s->objects, &s->views,
				  &s->seen,    &s->hits,      &s->misses,  &s->stored,
				  &s->refused, &s->evicted,   &s->bad,	   &s->max_files };

	for (size_t i = 0; i < COUNT(all); i++)
		codec_int(c, 8, *all[i]);
	codec_flag(c, &s->loading);
}

static bool cache_has_error(enum cache_type t)
{
	return t == CACHE_FAILED || t == CACHE_REFUSED;
}

/* ---- whole messages */

/* The layout of a message, by its type. */
static void cache_fields(struct codec *c, struct cache_msg *m)
{
	enum cache_type t = m->type;

	if (cache_has_key(t))
		cache_key(c, &m->key);
	if (cache_has_meta(t))
		cache_meta(c, &m->meta);
	if (cache_has_time(t))
		codec_int(c, 8, m->time_ms);
	if (cache_has_size(t))
		codec_int(c, 8, m->size);
	if (t == CACHE_STORE)
		codec_flag(c, &m->has_expected);
	if (cache_has_digest(t))
		codec_bytes(c, m->sha256, sizeof(m->sha256));
	if (cache_is_seen(t))
		codec_string(c, CACHE_NAME_MAX, &m->name);
	if (t == CACHE_LINK)
		codec_int(c, 4, m->slot);
	if (t == CACHE_LIST || t == CACHE_LISTED)
		codec_int(c, 4, m->place);
	if (t == CACHE_DONE) {
		codec_int(c, 8, m->count);
		codec_int(c, 8, m->bad);
	}
	if (t == CACHE_STATED)
		cache_stats(c, &m->stats);
	if (cache_has_error(t))
		codec_error(c, &m->code, CACHE_TEXT_MAX, &m->text);
	if (t == CACHE_LISTED)
		codec_rest(c, &m->entries, &m->entries_len);
}

int cache_msg_read(const uint8_t *packet, size_t len, struct cache_msg *ret, struct err *e)
{
	struct codec c = codec_reader(packet, len);
	unsigned type = (unsigned)codec_number(&c, 2, 0);

	if (len > CACHE_PACKET_MAX || !cache_is_type(type))
		return err_set(e, ERR_INVALID, "cordon-cache: unknown message type %u", type);
	*ret = (struct cache_msg){ .type = (enum cache_type)type, .name = "" };
	codec_int(&c, 4, ret->id);
	cache_fields(&c, ret);
	if (c.bad || c.n != 0 || ret->id == 0 || !cache_is_whole(ret))
		return err_set(e, ERR_INVALID, "cordon-cache: malformed message %u", type);
	return 0;
}

int cache_msg_write(const struct cache_msg *m, uint8_t *ret, size_t cap)
{
	struct codec c = codec_writer(ret, cap < CACHE_PACKET_MAX ? cap : CACHE_PACKET_MAX);
	struct cache_msg copy = *m;

	codec_int(&c, 2, copy.type);
	codec_int(&c, 4, copy.id);
	cache_fields(&c, &copy);
	return c.bad ? -1 : (int)(c.to - ret);
}

bool cache_entry(struct codec *c, struct cache_entry *entry)
{
	cache_key(c, &entry->key);
	codec_bytes(c, entry->sha256, sizeof(entry->sha256));
	codec_int(c, 8, entry->size);
	codec_int(c, 8, entry->fetched_ms);
	codec_int(c, 8, entry->used_ms);
	return !c->bad;
}
