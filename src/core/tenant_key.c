/* tenant_key.c - the keys of tenants (tenant.h): made, found, revoked. The store has their hashes
 * only; a key that was used lately is in a small cache, by its hash. */
#include <stdio.h>
#include <string.h>

#include "access_events.h"
#include "core_private.h"
#include "grant.h"
#include "hex.h"
#include "key_expiry.h"
#include "key_quota.h"
#include "rand.h"
#include "sha256.h"
#include "tenant.h"

#define KEY_PREFIX "e2b_"
#define KEY_BYTES 20
#define CACHE 64
#define TOUCH_MS 60000 /* last use is written at most this often */

/* The keys that were used lately. Emptied by every change of keys or tenants. */
struct cached {
	bool used;
	struct store_key key;
	uint64_t touched_ms;
};
static struct cached cache[CACHE];
static const struct cached *last; /* the one that was used last */

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

/* Takes the same time wherever the bytes differ. */
static bool same(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint8_t diff = 0;

	for (size_t i = 0; i < n; i++)
		diff |= a[i] ^ b[i];
	return diff == 0;
}

static struct cached *look_up(struct core *c, const uint8_t hash[STORE_KEY_HASH], struct err *e)
{
	struct cached *slot = &cache[hash[0] % CACHE];
	struct store_key row;

	if (slot->used && same(slot->key.hash, hash, STORE_KEY_HASH))
		return slot;
	if (store_key_get_by_hash(c->store, hash, &row, e) < 0)
		return NULL;
	if (!same(row.hash, hash, STORE_KEY_HASH)) {
		(void)no_key(e);
		return NULL;
	}
	*slot = (struct cached){ .used = true, .key = row, .touched_ms = row.last_used_ms };
	return slot;
}

/* The tenant of a key, if it can be used. */
static struct tenant *take(struct core *c, const struct store_key *k, unsigned *ret_scopes,
			   struct grant *ret, struct err *e)
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
	t = k == NULL ? NULL : take(c, &k->key, ret_scopes, ret, e);
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
	return take(c, &row, ret_scopes, ret, e);
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
	(void)snprintf(ret_key, TENANT_KEY_LEN + 1, "%s", KEY_PREFIX);
	hex_encode(secret, sizeof(secret), ret_key + strlen(KEY_PREFIX));
	explicit_bzero(secret, sizeof(secret));
	rand_id("key_", row.id, sizeof(row.id));
	memcpy(row.tenant, t->row.id, sizeof(row.tenant));
	(void)snprintf(row.name, sizeof(row.name), "%s", spec->name);
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
		return err_set(e, ERR_NOT_FOUND, "no key %.40s", key_id);
	tenant_forget_keys();
	if (row.revoked_ms == 0 && revoke_key(c, &row, who, e) < 0)
		return -1;
	grant_revoke(c, t, key_id);
	return 0;
}
