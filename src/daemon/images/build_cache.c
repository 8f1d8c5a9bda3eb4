/* build_cache.c - results of steps that later builds use again: a layer, and the step's results
 * beside files. Of one tenant. The key covers everything that the step depends on, from the base
 * on. When all together are larger than build_cache_max or more than ROWS_MAX, those of the tenant
 * with the most bytes (or rows) go, the ones unused for the longest time first. A tenant whose
 * quota of stored bytes is used up loses its own, and a tenant can delete all that it has. */
#include <stdio.h>
#include <string.h>

#include "daemon/images/build_private.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define ROWS_MAX 10000
#define ROWS_TENANT_MAX 1000
#define ENV_MAX ((size_t)16 << 10) /* of a row in the store. With more the step runs again */
#define GIVE_UP_MAX 16		   /* rows in one go, for a request that needs room */
#define ROW_BYTES 512		   /* that a row takes beside its environment */

/* Each part is hashed with its NUL, so two lists of parts never give one text. */
void build_cache_key(struct build *b, const char *const *parts, unsigned n)
{
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, b->key, sizeof(b->key));
	for (unsigned i = 0; i < n; i++)
		sha256_add(&h, parts[i], strlen(parts[i]) + 1);
	sha256_end(&h, b->key);
}

/* The name by which a cached row uses its layer in the store. */
static void owner_of(const char *tenant, const char *key, char ret[160])
{
	(void)snprintf(ret, 160, "%s:%s", tenant, key);
}

/* The entry and its use of the layer go together. */
static int build_cache_drop(struct core *c, const char *tenant, const char *key, struct err *e)
{
	struct store *s = core_store(c);
	char owner[160];

	owner_of(tenant, key, owner);
	if (store_begin(s, e) == 0 && store_build_cache_delete(s, tenant, key, e) == 0 &&
	    store_layer_unuse(s, STORE_LAYER_OF_CACHE, owner, e) == 0 && store_commit(s, e) == 0)
		return 0;
	store_rollback(s);
	return -1;
}

/* The build uses the layer from now on, in the same moment in which it is on the stack. */
static int build_cache_hold(struct build *b, const char *layer, struct err *e)
{
	char one[1][STORE_ID_MAX];

	str_copy(one[0], layer);
	if (template_stack_push(&b->stack, (const char(*)[STORE_ID_MAX])one, 1, e) < 0)
		return -1;
	if (store_layer_use(core_store(b->core), STORE_LAYER_OF_BUILD, b->row.id,
			    (const char(*)[STORE_ID_MAX])b->stack.layers, b->stack.nlayers,
			    e) < 0) {
		b->stack.nlayers--;
		return -1;
	}
	return 0;
}

/* A taken entry becomes the one used last, so it is removed late. */
bool build_cache_take(struct build *b)
{
	struct store_build_cached row;
	char key[STORE_BUILD_DIGEST_MAX];
	struct recipe_state next;
	struct err e;
	bool taken;

	hex_encode(b->key, sizeof(b->key), key);
	if (store_build_cache_get(core_store(b->core), b->row.tenant, key, &row, &e) < 0)
		return false;
	/* The state is made before the layer is held: a step that is not taken leaves nothing. */
	recipe_state_init(&next);
	taken = recipe_state_set(&next, row.user, row.workdir, row.env, row.env_len, &e) == 0 &&
		(row.layer[0] == '\0' || build_cache_hold(b, row.layer, &e) == 0);
	if (taken) {
		recipe_state_release(&b->state);
		b->state = next;
	} else {
		recipe_state_release(&next);
	}
	store_build_cache_release(&row);
	if (taken)
		IGNORED(store_build_cache_touch(core_store(b->core), b->row.tenant, key,
						core_now_ms(), &e),
			"it only goes earlier");
	return taken;
}

/* The oldest of a tenant. idle: whose layer nothing else uses. False: there is none, or it stays.
 */
static bool drop_oldest(struct core *c, const char *tenant, bool idle, char ret_layer[STORE_ID_MAX])
{
	struct store_build_cached row;
	struct err e;
	int rc;

	if (store_build_cache_oldest(core_store(c), tenant, idle, &row, &e) < 0)
		return false;
	rc = build_cache_drop(c, row.tenant, row.key, &e);
	if (rc < 0)
		log_warn("a cached step could not be removed", "error=%s", e.msg);
	else
		memcpy(ret_layer, row.layer, STORE_ID_MAX);
	store_build_cache_release(&row);
	return rc == 0;
}

/* Room for a new entry: each kept one pushes out one or two. */
static void make_room(struct core *c, const char *tenant)
{
	struct store_build_share own, most;
	char layer[STORE_ID_MAX];
	uint64_t bytes = 0, rows = 0;
	struct err e;

	/* A database of an older server, or a lowered setting, may have many too many: each kept
	 * step takes some of them. */
	for (unsigned n = 0;
	     n < GIVE_UP_MAX && store_build_cache_sum(core_store(c), &bytes, &rows, &e) == 0; n++) {
		bool full = bytes > core_config(c)->build_cache_max;

		if (store_build_cache_share(core_store(c), tenant, &own, &e) < 0)
			return;
		if (own.rows <= ROWS_TENANT_MAX && !full && rows <= ROWS_MAX)
			return;
		most = own;
		if (own.rows <= ROWS_TENANT_MAX &&
		    store_build_cache_most(core_store(c), full, &most, &e) < 0)
			return;
		if (!drop_oldest(c, most.tenant, false, layer))
			return;
	}
}

/* Only entries whose layer nothing else uses free any bytes. */
uint64_t build_cache_give_up(struct core *c, const char *tenant, uint64_t bytes)
{
	char layer[STORE_ID_MAX] = "";
	uint64_t freed = 0, one;
	struct err e;

	for (unsigned n = 0;
	     freed < bytes && n < GIVE_UP_MAX && drop_oldest(c, tenant, true, layer); n++)
		if (store_layer_unused_bytes(core_store(c), layer, &one, &e) == 0)
			freed += one;
	return freed;
}

/* A failure is logged only: the step is run again next time. */
void build_cache_keep(struct build *b)
{
	struct store *s = core_store(b->core);
	struct store_build_cached row = { .bytes = b->captured.bytes + b->state.env.len + ROW_BYTES,
					  .used_ms = core_now_ms(),
					  .user = b->state.user,
					  .workdir = b->state.workdir,
					  .env = b->state.env.len > 0 ? b->state.env.data
								      : (const uint8_t *)"",
					  .env_len = b->state.env.len };
	char owner[160];
	struct err e;
	size_t n = b->captured.id[0] != '\0';

	if (core_config(b->core)->build_cache_max == 0 || b->state.env.len > ENV_MAX)
		return;
	memcpy(row.tenant, b->row.tenant, sizeof(row.tenant));
	memcpy(row.layer, b->captured.id, sizeof(row.layer));
	hex_encode(b->key, sizeof(b->key), row.key);
	owner_of(row.tenant, row.key, owner);
	if (store_begin(s, &e) == 0 && store_build_cache_put(s, &row, &e) == 0 &&
	    store_layer_use(s, STORE_LAYER_OF_CACHE, owner,
			    (const char(*)[STORE_ID_MAX])b->captured.id, n, &e) == 0 &&
	    store_commit(s, &e) == 0) {
		make_room(b->core, row.tenant);
		return;
	}
	store_rollback(s);
	log_warn("a step of a build could not be cached", "build=%s error=%s", b->row.id, e.msg);
}

bool build_cache_delete_one(struct core *c, const char *tenant)
{
	char layer[STORE_ID_MAX];

	return drop_oldest(c, tenant, false, layer);
}

/* Layers that builds or templates still use stay. */
int build_cache_clear(struct core *c, const struct tenant *t, struct err *e)
{
	if (store_build_cache_clear(core_store(c), tenant_row(t)->id, e) < 0)
		return -1;
	layers_collect(core_layers(c), false, NULL);
	return 0;
}
