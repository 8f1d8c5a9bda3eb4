#include "cache_msg.h"

#include <string.h>

static bool is_type(unsigned type)
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

static bool is_seen(enum cache_type t)
{
	return t == CACHE_SEEN || t == CACHE_KNOWN;
}

static bool has_key(enum cache_type t)
{
	return t == CACHE_FIND || t == CACHE_STORE || t == CACHE_TOUCH || t == CACHE_DROP ||
	       is_seen(t);
}

static bool has_meta(enum cache_type t)
{
	return t == CACHE_STORE || t == CACHE_TOUCH || t == CACHE_FOUND;
}

static bool has_time(enum cache_type t)
{
	return t == CACHE_FOUND || t == CACHE_SEEN_AT;
}

static bool has_size(enum cache_type t)
{
	return t == CACHE_COMMIT || t == CACHE_FOUND || t == CACHE_STORED || t == CACHE_GC ||
	       t == CACHE_DONE;
}

static bool has_digest(enum cache_type t)
{
	return t == CACHE_STORE || t == CACHE_FOUND || t == CACHE_STORED;
}

/* ---- fields */

static void get_bytes(struct codec_reader *r, uint8_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (uint8_t)codec_get(r, 1);
}

static void put_bytes(struct codec_writer *w, const uint8_t *data, size_t n)
{
	w->bad = w->bad || n > w->n;
	if (w->bad || n == 0)
		return;
	memcpy(w->p, data, n);
	w->p += n;
	w->n -= n;
}

static void get_key(struct codec_reader *r, struct cache_key *k)
{
	k->scope = codec_get_string(r, CACHE_SCOPE_MAX);
	k->registry = codec_get_string(r, CACHE_REGISTRY_MAX);
	k->path = codec_get_string(r, CACHE_PATH_MAX);
}

static void put_key(struct codec_writer *w, const struct cache_key *k)
{
	codec_put_string(w, CACHE_SCOPE_MAX, k->scope);
	codec_put_string(w, CACHE_REGISTRY_MAX, k->registry);
	codec_put_string(w, CACHE_PATH_MAX, k->path);
}

/* All parts of a key are there; but SEEN has no path. */
static bool is_whole(const struct cache_msg *m)
{
	if (!has_key(m->type))
		return true;
	return m->key.scope[0] != '\0' && m->key.registry[0] != '\0' &&
	       (m->key.path[0] != '\0') == !is_seen(m->type);
}

static void get_meta(struct codec_reader *r, struct cache_meta *m)
{
	m->etag = codec_get_string(r, CACHE_ETAG_MAX);
	m->last_modified = codec_get_string(r, CACHE_DATE_MAX);
	m->type = codec_get_string(r, CACHE_TYPE_MAX);
}

static void put_meta(struct codec_writer *w, const struct cache_meta *m)
{
	codec_put_string(w, CACHE_ETAG_MAX, m->etag);
	codec_put_string(w, CACHE_DATE_MAX, m->last_modified);
	codec_put_string(w, CACHE_TYPE_MAX, m->type);
}

static uint64_t *stat_at(struct cache_stats *s, unsigned i)
{
	uint64_t *all[] = { &s->bytes,	 &s->max_bytes, &s->objects, &s->views,
			    &s->seen,	 &s->hits,	&s->misses,  &s->stored,
			    &s->refused, &s->evicted,	&s->bad,     &s->max_files };

	return i < sizeof(all) / sizeof(all[0]) ? all[i] : NULL;
}

static void get_stats(struct codec_reader *r, struct cache_stats *s)
{
	uint64_t loading;

	for (unsigned i = 0; stat_at(s, i) != NULL; i++)
		*stat_at(s, i) = codec_get(r, 8);
	loading = codec_get(r, 1);
	r->bad = r->bad || loading > 1;
	s->loading = loading == 1;
}

static void put_stats(struct codec_writer *w, const struct cache_stats *s)
{
	struct cache_stats copy = *s;

	for (unsigned i = 0; stat_at(&copy, i) != NULL; i++)
		codec_put(w, 8, *stat_at(&copy, i));
	codec_put(w, 1, s->loading ? 1 : 0);
}

static void get_error(struct codec_reader *r, struct cache_msg *m)
{
	uint64_t code = codec_get(r, 1);

	r->bad = r->bad || code == ERR_NONE || code >= ERR_CODES;
	m->code = r->bad ? ERR_SYSTEM : (enum err_code)code;
	m->text = codec_get_string(r, CACHE_TEXT_MAX);
}

static bool has_error(enum cache_type t)
{
	return t == CACHE_FAILED || t == CACHE_REFUSED;
}

/* ---- whole messages */

static void get_fields(struct codec_reader *r, struct cache_msg *m)
{
	enum cache_type t = m->type;
	uint64_t flag = 0;

	if (has_key(t))
		get_key(r, &m->key);
	if (has_meta(t))
		get_meta(r, &m->meta);
	if (has_time(t))
		m->time_ms = codec_get(r, 8);
	if (has_size(t))
		m->size = codec_get(r, 8);
	if (t == CACHE_STORE)
		flag = codec_get(r, 1);
	m->has_expected = flag == 1;
	if (has_digest(t))
		get_bytes(r, m->sha256, sizeof(m->sha256));
	m->name = is_seen(t) ? codec_get_string(r, CACHE_NAME_MAX) : "";
	if (t == CACHE_LINK)
		m->slot = (uint32_t)codec_get(r, 4);
	if (t == CACHE_LIST || t == CACHE_LISTED)
		m->place = (uint32_t)codec_get(r, 4);
	if (t == CACHE_DONE) {
		m->count = codec_get(r, 8);
		m->bad = codec_get(r, 8);
	}
	if (t == CACHE_STATED)
		get_stats(r, &m->stats);
	if (has_error(t))
		get_error(r, m);
	r->bad = r->bad || flag > 1;
	if (t == CACHE_LISTED && !r->bad) {
		m->entries = r->p;
		m->entries_len = r->n;
		r->n = 0;
	}
}

static void put_fields(struct codec_writer *w, const struct cache_msg *m)
{
	enum cache_type t = m->type;

	if (has_key(t))
		put_key(w, &m->key);
	if (has_meta(t))
		put_meta(w, &m->meta);
	if (has_time(t))
		codec_put(w, 8, m->time_ms);
	if (has_size(t))
		codec_put(w, 8, m->size);
	if (t == CACHE_STORE)
		codec_put(w, 1, m->has_expected ? 1 : 0);
	if (has_digest(t))
		put_bytes(w, m->sha256, sizeof(m->sha256));
	if (is_seen(t))
		codec_put_string(w, CACHE_NAME_MAX, m->name);
	if (t == CACHE_LINK)
		codec_put(w, 4, m->slot);
	if (t == CACHE_LIST || t == CACHE_LISTED)
		codec_put(w, 4, m->place);
	if (t == CACHE_DONE) {
		codec_put(w, 8, m->count);
		codec_put(w, 8, m->bad);
	}
	if (t == CACHE_STATED)
		put_stats(w, &m->stats);
	if (has_error(t)) {
		codec_put(w, 1, m->code);
		codec_put_string(w, CACHE_TEXT_MAX, m->text);
	}
	if (t == CACHE_LISTED)
		put_bytes(w, m->entries, m->entries_len);
}

int cache_msg_read(const uint8_t *packet, size_t len, struct cache_msg *ret, struct err *e)
{
	struct codec_reader r = { .p = packet, .n = len };
	unsigned type = (unsigned)codec_get(&r, 2);

	if (len > CACHE_PACKET_MAX || !is_type(type))
		return err_set(e, ERR_INVALID, "cordon-cache: unknown message type %u", type);
	*ret = (struct cache_msg){ .type = (enum cache_type)type };
	ret->id = (uint32_t)codec_get(&r, 4);
	get_fields(&r, ret);
	if (r.bad || r.n != 0 || ret->id == 0 || !is_whole(ret))
		return err_set(e, ERR_INVALID, "cordon-cache: malformed message %u", type);
	return 0;
}

int cache_msg_write(const struct cache_msg *m, uint8_t *ret, size_t cap)
{
	struct codec_writer w = { .p = ret, .n = cap < CACHE_PACKET_MAX ? cap : CACHE_PACKET_MAX };

	codec_put(&w, 2, m->type);
	codec_put(&w, 4, m->id);
	put_fields(&w, m);
	return w.bad ? -1 : (int)(w.p - ret);
}

bool cache_entry_get(struct codec_reader *r, struct cache_entry *ret)
{
	if (r->n == 0 || r->bad)
		return false;
	get_key(r, &ret->key);
	get_bytes(r, ret->sha256, sizeof(ret->sha256));
	ret->size = codec_get(r, 8);
	ret->fetched_ms = codec_get(r, 8);
	ret->used_ms = codec_get(r, 8);
	return !r->bad;
}

void cache_entry_put(struct codec_writer *w, const struct cache_entry *entry)
{
	put_key(w, &entry->key);
	put_bytes(w, entry->sha256, sizeof(entry->sha256));
	codec_put(w, 8, entry->size);
	codec_put(w, 8, entry->fetched_ms);
	codec_put(w, 8, entry->used_ms);
}
