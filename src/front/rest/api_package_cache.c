/* api_package_cache.c - the package cache, for the operator: its size, its entries, removal of the
 * least used, and hashing everything again. Each request is one call of cordon-cache
 * (package_cache.h), cancelled if the client leaves. */
#include "daemon/egressctl/package_cache.h"
#include "front/rest/api_handlers.h"
#include "front/web/auth.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/hex.h"
#include "lib/json/json.h"

#define LIST_JSON_MAX (256U << 10) /* a page of cordon-cache is one packet */
/* Numbers only. */
#define SMALL_JSON_MAX 2048

/* on_done is not called any more. */
static void api_package_cache_release(struct request *r, bool answered)
{
	package_cache_cancel(r->state);
}

/* The call of this request. NULL: it was answered. Only the operator: the entries name packages of
 * all tenants. */
static struct package_cache_call *package_cache_begin(
	struct request *r, void (*on_done)(struct package_cache_call *c,
					   const struct cache_msg *answer, const struct err *e))
{
	struct package_cache_call *c;
	struct err e = { 0 };

	if (auth_check_operator(r, &e) < 0) {
		reply_error(r, &e);
		return NULL;
	}
	c = request_state(r, sizeof(*c), api_package_cache_release);
	if (c != NULL)
		*c = (struct package_cache_call){ .on_done = on_done, .arg = r };
	return c;
}

/* ---- how full it is
 *
 * cordon-cache counts and limits. cordond only shows the numbers. */

static void on_stats(struct package_cache_call *c, const struct cache_msg *answer,
		     const struct err *e)
{
	struct request *r = c->arg;
	struct json j;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	json_init_heap(&j, SMALL_JSON_MAX);
	json_open(&j, NULL, '{');
	json_uint(&j, "bytes", answer->stats.bytes);
	json_uint(&j, "max_bytes", answer->stats.max_bytes);
	json_uint(&j, "objects", answer->stats.objects);
	json_uint(&j, "views", answer->stats.views);
	json_uint(&j, "max_files", answer->stats.max_files);
	json_uint(&j, "hits", answer->stats.hits);
	json_uint(&j, "misses", answer->stats.misses);
	json_uint(&j, "stored", answer->stats.stored);
	json_uint(&j, "refused", answer->stats.refused);
	json_uint(&j, "evicted", answer->stats.evicted);
	json_uint(&j, "bad", answer->stats.bad);
	json_bool(&j, "loading", answer->stats.loading);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

void api_package_cache_get(struct request *r)
{
	struct package_cache_call *c = package_cache_begin(r, on_stats);

	if (c != NULL)
		package_cache_stats(r->core, c);
}

/* ---- its entries */

/* The texts of the entry are cordon-cache's, and are escaped as any text. */
static void write_entry(struct json *j, const struct cache_entry *entry)
{
	char hash[2 * sizeof(entry->sha256) + 1];

	hex_encode(entry->sha256, sizeof(entry->sha256), hash);
	json_open(j, NULL, '{');
	json_text(j, "scope", entry->key.scope);
	json_text(j, "registry", entry->key.registry);
	json_text(j, "path", entry->key.path);
	json_text(j, "sha256", hash);
	json_uint(j, "size", entry->size);
	json_view_time(j, "fetched_at", entry->fetched_ms);
	json_view_time(j, "used_at", entry->used_ms);
	json_close(j, '}');
}

/* A malformed entry ends the list. */
static void on_list(struct package_cache_call *c, const struct cache_msg *answer,
		    const struct err *e)
{
	struct request *r = c->arg;
	struct cache_entry entry;
	struct codec entries;
	struct json j;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	entries = codec_reader(answer->entries, answer->entries_len);
	json_init_heap(&j, LIST_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "entries", '[');
	while (entries.n > 0 && cache_entry(&entries, &entry))
		write_entry(&j, &entry);
	json_close(&j, ']');
	json_view_next(&j, answer->place != 0, answer->place);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* after is the place at which the page before ended. */
void api_package_cache_list(struct request *r)
{
	struct package_cache_call *c;
	uint64_t after = 0;
	struct err e = { 0 };

	if (auth_check_operator(r, &e) < 0 ||
	    request_number(r, "after", 0, UINT32_MAX, &after, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	c = package_cache_begin(r, on_list);
	if (c != NULL)
		package_cache_list(r->core, c, (uint32_t)after);
}

/* ---- operations on it
 *
 * Both take as long as cordon-cache needs. The request waits. */

/* count and bad are the names that the members have for this operation. bad NULL: it finds no
 * damage. */
static void write_done(struct request *r, const char *count, const char *bad,
		       const struct cache_msg *answer)
{
	struct json j;

	json_init_heap(&j, SMALL_JSON_MAX);
	json_open(&j, NULL, '{');
	json_uint(&j, count, answer->count);
	json_uint(&j, "bytes", answer->size);
	if (bad != NULL)
		json_uint(&j, bad, answer->bad);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

static void on_collected(struct package_cache_call *c, const struct cache_msg *answer,
			 const struct err *e)
{
	if (e != NULL)
		reply_error(c->arg, e);
	else
		write_done(c->arg, "removed", NULL, answer);
}

/* cordon-cache removes the least used until so many bytes are left. Without the parameter: until
 * none is. */
void api_package_cache_collect(struct request *r)
{
	struct package_cache_call *c;
	uint64_t bytes = 0;
	struct err e = { 0 };

	if (auth_check_operator(r, &e) < 0 ||
	    request_number(r, "bytes", 0, INT64_MAX, &bytes, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	c = package_cache_begin(r, on_collected);
	if (c != NULL)
		package_cache_gc(r->core, c, bytes);
}

static void on_verified(struct package_cache_call *c, const struct cache_msg *answer,
			const struct err *e)
{
	if (e != NULL)
		reply_error(c->arg, e);
	else
		write_done(c->arg, "objects", "damaged", answer);
}

/* Each object is read and hashed again. */
void api_package_cache_verify(struct request *r)
{
	struct package_cache_call *c = package_cache_begin(r, on_verified);

	if (c != NULL)
		package_cache_verify(r->core, c);
}
