#include "tenant.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "access_events.h"
#include "core_private.h"
#include "hex.h"
#include "io.h"
#include "key_expiry.h"
#include "key_quota.h"
#include "log.h"
#include "quota.h"
#include "rand.h"
#include "session.h"
#include "session_parts.h"
#include "sha256.h"

#define KEY_PREFIX "e2b_"
#define KEY_BYTES 20
#define CACHE 64
#define TOUCH_MS 60000 /* last use is written at most this often */

/* Keys seen lately, by their hash. Emptied by every change of keys or tenants. */
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

/* Takes the same time wherever they differ. */
static bool same(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint8_t diff = 0;

	for (size_t i = 0; i < n; i++)
		diff |= a[i] ^ b[i];
	return diff == 0;
}

static struct cached *look_up(struct core *c, const uint8_t hash[STORE_KEY_HASH])
{
	struct cached *slot = &cache[hash[0] % CACHE];
	struct store_key row;
	struct err e;

	if (slot->used && same(slot->key.hash, hash, STORE_KEY_HASH))
		return slot;
	if (store_key_get_by_hash(c->store, hash, &row, &e) < 0 ||
	    !same(row.hash, hash, STORE_KEY_HASH))
		return NULL;
	*slot = (struct cached){ .used = true, .key = row, .touched_ms = row.last_used_ms };
	return slot;
}

struct tenant *tenant_authenticate(struct core *c, const char *key, size_t len,
				   unsigned *ret_scopes, struct grant *ret)
{
	uint8_t hash[STORE_KEY_HASH];
	struct cached *k;
	struct tenant *t;
	uint64_t now = core_now_ms();
	struct err e;

	if (len != TENANT_KEY_LEN || memcmp(key, KEY_PREFIX, strlen(KEY_PREFIX)) != 0)
		return NULL;
	sha256_of(key, len, hash);
	k = look_up(c, hash);
	if (k == NULL || k->key.revoked_ms > 0 ||
	    (k->key.expires_ms > 0 && k->key.expires_ms <= now))
		return NULL;
	t = tenant_find(c, k->key.tenant);
	if (t == NULL || t->row.disabled)
		return NULL;
	if (now - k->touched_ms > TOUCH_MS) {
		k->touched_ms = now;
		IGNORED(store_key_touch(c->store, k->key.id, now, &e), "a hint for people");
	}
	last = k;
	*ret_scopes = k->key.scopes;
	ret->tenant = t;
	ret->expires_ms = k->key.expires_ms;
	memcpy(ret->key_id, k->key.id, STORE_ID_MAX);
	return t;
}

const struct store_tenant *tenant_row(const struct tenant *t)
{
	return &t->row;
}

struct byte_account *tenant_account(struct tenant *t)
{
	return &t->account;
}

struct tenant *tenant_find(struct core *c, const char *id)
{
	struct tenant *t = c->tenants;

	while (t != NULL && strcmp(t->row.id, id) != 0)
		t = t->next;
	return t;
}

static int load(const struct store_tenant *row, void *cookie)
{
	struct core *c = cookie;
	struct tenant *t = calloc(1, sizeof(*t));

	assert(t != NULL);
	t->row = *row;
	t->queue_end = &t->queue;
	t->account.work = &t->work;
	t->next = c->tenants;
	c->tenants = t;
	return 0;
}

static void add_kept(const char *tenant, uint64_t bytes, void *cookie)
{
	struct tenant *t = tenant_find(cookie, tenant);

	if (t != NULL)
		t->kept_bytes += bytes;
}

int tenant_load_all(struct core *c, struct err *e)
{
	if (store_tenant_each(c->store, load, c, e) < 0)
		return -1;
	for (struct tenant *t = c->tenants; t != NULL; t = t->next)
		if (store_tenant_get_policy(c->store, t->row.id, &t->policy, e) < 0)
			return -1;
	if (store_execution_logs_by_tenant(c->store, add_kept, c, e) < 0)
		return -1;
	return store_session_diffs_by_tenant(c->store, add_kept, c, e);
}

const char *tenant_policy(const struct tenant *t)
{
	return t->policy == NULL ? "" : t->policy;
}

static void policy_changed(struct session *s, void *arg)
{
	(void)arg;
	if (s->row.state < SESSION_STOPPING)
		session_changed(s);
}

int tenant_set_policy(struct core *c, struct tenant *t, const char *document,
		      const struct store_actor *who, struct err *e)
{
	char *copy = strdup(document);

	if (copy == NULL)
		return err_sys(e, "allocate");
	if (store_begin(c->store, e) < 0 ||
	    store_tenant_set_policy(c->store, t->row.id, document, e) < 0 ||
	    access_events_tenant(c, who, "tenant.network", &t->row, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		free(copy);
		return -1;
	}
	free(t->policy);
	t->policy = copy;
	session_each(c, t, policy_changed, NULL);
	return 0;
}

int tenant_create(struct core *c, struct store_tenant *row, const struct store_actor *who,
		  struct err *e)
{
	rand_id("ten_", row->id, sizeof(row->id));
	row->created_ms = core_now_ms();
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_tenant_insert(c->store, row, e) < 0 ||
	    access_events_tenant(c, who, "tenant.created", row, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	return load(row, c);
}

int tenant_update(struct core *c, struct tenant *t, const struct store_tenant *row,
		  const struct store_actor *who, struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_tenant_update(c->store, row, e) < 0 ||
	    access_events_changed(c, who, &t->row, row, e) < 0 || store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	t->row = *row;
	tenant_forget_keys();
	quota_serve_queues(c);
	return 0;
}

int tenant_check(const struct tenant *t, struct err *e)
{
	return t->row.disabled ? err_set(e, ERR_DENIED, "the tenant was removed") : 0;
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

	if (key_quota_check(c, t, e) < 0)
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

/* Whole or not at all: a key of which only half is in the file would be lost. */
static int write_first_key(struct core *c, const char *key, struct err *e)
{
	OWN_FD fd = openat(c->o.state_fd, "first.key.new",
			   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(e, "make first.key");
	if (io_write_all(fd, key, TENANT_KEY_LEN, e) < 0 || io_write_all(fd, "\n", 1, e) < 0)
		return -1;
	if (fsync(fd) < 0 ||
	    renameat(c->o.state_fd, "first.key.new", c->o.state_fd, "first.key") < 0)
		return err_sys(e, "write first.key");
	return 0;
}

/* Open requests (streams, servers in cells that do not answer) hold connections. The
 * last quarter of them is for those who have few. */
int tenant_enter(struct core *c, struct tenant *t, struct err *e)
{
	uint64_t max = core_config(c)->connections_max;

	if (tenant_check(t, e) < 0)
		return -1;
	if (c->requests >= max - max / 4 && t->requests > max / 8)
		return err_set_reason(e, REASON_QUOTA_CONNECTIONS,
				      "%u requests are under way already", t->requests);
	c->requests++;
	t->requests++;
	return 0;
}

void tenant_leave(struct core *c, struct tenant *t)
{
	c->requests--;
	t->requests--;
}

int tenant_stream_open(struct core *c, struct tenant *t, struct err *e)
{
	uint64_t max = core_config(c)->tenant_max_streams;

	if (max > 0 && t->streams >= max)
		return err_set_reason(e, REASON_QUOTA_STREAMS,
				      "the tenant's open streams are %llu already; close some",
				      (unsigned long long)max);
	t->streams++;
	return 0;
}

void tenant_stream_close(struct tenant *t)
{
	t->streams--;
}

const struct tenant *tenant_operator(const struct core *c)
{
	const struct tenant *t = c->tenants;

	while (t != NULL && !t->row.is_operator)
		t = t->next;
	assert(t != NULL);
	return t;
}

int tenant_first(struct core *c, struct err *e)
{
	const struct tenant_key_spec spec = { .name = "first", .scopes = TENANT_SCOPES };
	struct store_tenant row = { .name = "default", .is_operator = true };
	struct tenant *t = c->tenants;
	char key[TENANT_KEY_LEN + 1], done[8];
	struct store_key k;

	while (t != NULL && !t->row.is_operator)
		t = t->next;
	if (t == NULL) {
		if (tenant_create(c, &row, NULL, e) < 0)
			return -1;
		t = tenant_find(c, row.id);
		assert(t != NULL);
	}
	if (store_meta_get(c->store, "first_key", done, sizeof(done), e) == 0)
		return 0;
	if (e->code != ERR_NOT_FOUND)
		return -1;
	*e = (struct err){ 0 };
	/* Killed in between, the next start makes another: the file always has the last. */
	if (tenant_key_create(c, t, &spec, NULL, &k, key, e) < 0 ||
	    write_first_key(c, key, e) < 0 || store_meta_set(c->store, "first_key", "yes", e) < 0)
		return -1;
	explicit_bzero(key, sizeof(key));
	log_info("first key written", "file=%s", "first.key");
	return 0;
}
