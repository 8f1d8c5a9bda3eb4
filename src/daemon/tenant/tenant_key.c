/* tenant_key.c - makes, finds and revokes the keys of tenants (tenant.h), and records their expiry.
 * The store has only their hashes. A small cache holds lately used keys by their hashes. */
#include "daemon/tenant/tenant_key.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/store/store.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/grant.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/err_missing.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

#define META "keys_expired"
#define PIECE 32

/* "milliseconds id". A store of an earlier version has none: keys that expired before are not
 * reported. */
static int tenant_key_load(struct core *c, struct key_expiry *k, struct err *e)
{
	char text[24 + STORE_ID_MAX] = "", *id;

	k->after_ms = core_now_ms();
	k->after_id[0] = '\0';
	if (store_meta_get(c->store, META, text, sizeof(text), e) < 0) {
		if (e->code != ERR_NOT_FOUND)
			return -1;
	} else {
		k->after_ms = strtoull(text, &id, 10);
		str_copy(k->after_id, *id == ' ' ? id + 1 : id);
	}
	k->loaded = true;
	return 0;
}

static int tenant_key_save(struct core *c, const struct key_expiry *k, struct err *e)
{
	char text[24 + STORE_ID_MAX];

	(void)snprintf(text, sizeof(text), "%" PRIu64 " %s", k->after_ms, k->after_id);
	return store_meta_set(c->store, META, text, e);
}

struct expired {
	struct core *core;
	struct key_expiry *at;
	uint64_t now;
	unsigned n;
	bool failed;
	struct err *e;
};

/* Report one expired key. The first key that expires later ends the walk, and sets the next look.
 */
static int on_row(const struct store_key *row, void *cookie)
{
	struct expired *x = cookie;

	if (row->expires_ms > x->now) {
		x->at->next_ms = row->expires_ms;
		return 1;
	}
	if (access_events_key(x->core, NULL, "key.expired", row, x->e) < 0) {
		x->failed = true;
		return 1;
	}
	x->at->after_ms = row->expires_ms;
	memcpy(x->at->after_id, row->id, sizeof(x->at->after_id));
	x->n++;
	return 0;
}

/* Move *k only if all of it is written. */
static int tenant_key_report(struct core *c, struct key_expiry *k, unsigned *ret_n, struct err *e)
{
	struct key_expiry at = *k;
	struct expired x = { .core = c, .at = &at, .now = core_now_ms(), .e = e };

	at.next_ms = UINT64_MAX;
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_key_expiring(c->store, k->after_ms, k->after_id, PIECE, on_row, &x, e) < 0 ||
	    x.failed || tenant_key_save(c, &at, e) < 0 || store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	*k = at;
	*ret_n = x.n;
	return 0;
}

void key_expiry_add(struct core *c, uint64_t expires_ms)
{
	if (expires_ms > 0 && expires_ms < c->key_expiry.next_ms)
		c->key_expiry.next_ms = expires_ms;
}

bool key_expiry_piece(struct core *c)
{
	static struct log_limit limit = { .burst = 1, .interval_ms = 60000 };
	struct key_expiry *k = &c->key_expiry;
	unsigned long long dropped;
	unsigned n = 0;
	struct err e;

	if (k->loaded && core_now_ms() < k->next_ms)
		return false;
	if ((!k->loaded && tenant_key_load(c, k, &e) < 0) || tenant_key_report(c, k, &n, &e) < 0) {
		if (log_limit(&limit, &dropped))
			log_warn("expired keys not reported, tried again in a second",
				 "error=%s dropped=%llu", e.msg, dropped);
		return false;
	}
	return n == PIECE;
}

#define BURST 200
#define PER_SECOND 10
#define DEAD_MAX 1000

/* Take one key from a bucket of thousandths of a key. */
static bool take_token(struct tenant *t)
{
	uint64_t now = clock_now_ns(), ms = (now - t->keys_at_ns) / CLOCK_MS;
	uint64_t full = (uint64_t)BURST * 1000;

	if (t->keys_at_ns == 0 || ms > full)
		t->keys_milli = full;
	else
		t->keys_milli += ms * PER_SECOND;
	t->keys_at_ns = now;
	if (t->keys_milli > full)
		t->keys_milli = full;
	if (t->keys_milli < 1000)
		return false;
	t->keys_milli -= 1000;
	return true;
}

/* May the tenant make one more key? If so, it is counted. */
static int key_quota_take(struct core *c, struct tenant *t, struct err *e)
{
	uint64_t now = core_now_ms(), n = 0, max = c->o.config->tenant_max_keys;

	if (!take_token(t))
		return err_set_reason(e, REASON_QUOTA_RATE,
				      "a tenant makes at most %d keys a second", PER_SECOND);
	if (store_key_prune(c->store, t->row.id, now, DEAD_MAX, e) < 0 ||
	    store_key_count(c->store, t->row.id, now, &n, e) < 0)
		return -1;
	if (n >= max)
		return err_set_reason(e, REASON_QUOTA_KEYS, "a tenant has at most %llu keys",
				      (unsigned long long)max);
	return 0;
}

#define KEY_PREFIX "e2b_"
#define KEY_BYTES 20
#define CACHE 64
#define TOUCH_MS 60000 /* last use is written at most this often */

/* The lately used keys. Emptied by every change of keys or tenants. */
struct cached {
	bool used;
	struct store_key key;
	uint64_t touched_ms;
};
static struct cached cache[CACHE];
static const struct cached *last; /* the last used one */

void tenant_forget_keys(void)
{
	memset(cache, 0, sizeof(cache));
	last = NULL;
}

bool tenant_key_at_hand(const char *key_id, struct store_allow *ret)
{
	if (last == NULL || strcmp(last->key.id, key_id) != 0)
		return false;
	*ret = last->key.allow;
	return true;
}

static int no_key(struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "the key is not valid, or has ended");
}

/* Take the same time wherever the bytes differ. */
static bool tenant_key_same(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint8_t diff = 0;

	for (size_t i = 0; i < n; i++)
		diff |= a[i] ^ b[i];
	return diff == 0;
}

/* The slot follows from the hash, so two keys may push each other out. */
static struct cached *look_up(struct core *c, const uint8_t hash[STORE_KEY_HASH], struct err *e)
{
	struct cached *slot = &cache[hash[0] % CACHE];
	struct store_key row;

	if (slot->used && tenant_key_same(slot->key.hash, hash, STORE_KEY_HASH))
		return slot;
	if (store_key_get_by_hash(c->store, hash, &row, e) < 0)
		return NULL;
	if (!tenant_key_same(row.hash, hash, STORE_KEY_HASH)) {
		(void)no_key(e);
		return NULL;
	}
	*slot = (struct cached){ .used = true, .key = row, .touched_ms = row.last_used_ms };
	return slot;
}

/* The tenant of a key, if it can be used. */
static struct tenant *tenant_key_take(struct core *c, const struct store_key *k,
				      unsigned *ret_scopes, struct grant *ret, struct err *e)
{
	struct tenant *t;

	(void)no_key(e);
	if (k->revoked_ms > 0)
		return NULL;
	if (k->expires_ms > 0 && k->expires_ms <= core_now_ms()) {
		ret->expires_ms = k->expires_ms; /* for the error message */
		return NULL;
	}
	t = tenant_find(c, k->tenant);
	if (t == NULL || t->row.disabled)
		return NULL;
	*ret_scopes = k->scopes;
	ret->tenant = t;
	ret->expires_ms = k->expires_ms;
	memcpy(ret->key_id, k->id, STORE_ID_MAX);
	return t;
}

struct tenant *tenant_authenticate(struct core *c, const char *key, size_t len,
				   unsigned *ret_scopes, struct grant *ret, struct err *e)
{
	uint8_t hash[STORE_KEY_HASH];
	struct cached *k;
	struct tenant *t;
	uint64_t now = core_now_ms();
	struct err ignored;

	(void)no_key(e);
	if (len != TENANT_KEY_LEN || memcmp(key, KEY_PREFIX, strlen(KEY_PREFIX)) != 0)
		return NULL;
	sha256_of(key, len, hash);
	k = look_up(c, hash, e);
	t = k == NULL ? NULL : tenant_key_take(c, &k->key, ret_scopes, ret, e);
	if (t == NULL)
		return NULL;
	if (now - k->touched_ms > TOUCH_MS) {
		k->touched_ms = now;
		IGNORED(store_key_touch(c->store, k->key.id, now, &ignored), "a hint for people");
	}
	last = k;
	return t;
}

struct tenant *tenant_of_key(struct core *c, const char *key_id, unsigned *ret_scopes,
			     struct grant *ret, struct err *e)
{
	struct store_key row;

	if (store_key_get(c->store, key_id, &row, e) < 0)
		return NULL;
	return tenant_key_take(c, &row, ret_scopes, ret, e);
}

static int insert_key(struct core *c, const struct store_key *row, const struct store_actor *who,
		      struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_key_insert(c->store, row, e) < 0 ||
	    access_events_key(c, who, "key.created", row, e) < 0 || store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	key_expiry_add(c, row->expires_ms);
	return 0;
}

int tenant_key_create(struct core *c, struct tenant *t, const struct tenant_key_spec *spec,
		      const struct store_actor *who, struct store_key *ret,
		      char ret_key[TENANT_KEY_LEN + 1], struct err *e)
{
	uint8_t secret[KEY_BYTES];
	struct store_key row = { .scopes = spec->scopes,
				 .created_ms = core_now_ms(),
				 .expires_ms = spec->expires_ms,
				 .allow = spec->allow };

	if (key_quota_take(c, t, e) < 0)
		return -1;
	rand_bytes(secret, sizeof(secret));
	str_copy_to(ret_key, TENANT_KEY_LEN + 1, KEY_PREFIX);
	hex_encode(secret, sizeof(secret), ret_key + strlen(KEY_PREFIX));
	explicit_bzero(secret, sizeof(secret));
	rand_id("key_", row.id, sizeof(row.id));
	memcpy(row.tenant, t->row.id, sizeof(row.tenant));
	str_copy(row.name, spec->name);
	memcpy(row.prefix, ret_key + strlen(KEY_PREFIX), STORE_KEY_PREFIX - 1);
	sha256_of(ret_key, TENANT_KEY_LEN, row.hash);
	if (insert_key(c, &row, who, e) < 0) {
		explicit_bzero(ret_key, TENANT_KEY_LEN);
		return err_wrap(e, "record key");
	}
	*ret = row;
	return 0;
}

static int revoke_key(struct core *c, const struct store_key *row, const struct store_actor *who,
		      struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_key_revoke(c->store, row->id, core_now_ms(), e) < 0 ||
	    access_events_key(c, who, "key.revoked", row, e) < 0 || store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	return 0;
}

int tenant_key_revoke(struct core *c, const struct tenant *t, const char *key_id,
		      const struct store_actor *who, struct err *e)
{
	struct store_key row;

	if (store_key_get(c->store, key_id, &row, e) < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	if (e->code == ERR_NOT_FOUND || strcmp(row.tenant, t->row.id) != 0)
		return err_missing(e, "key", key_id);
	tenant_forget_keys();
	if (row.revoked_ms == 0 && revoke_key(c, &row, who, e) < 0)
		return -1;
	grant_revoke(c, t, key_id);
	return 0;
}
