/* key_quota.c - see key_quota.h. Keys that were revoked or have expired do not count; the DEAD_MAX
 * youngest of them stay in the store, so that revoking a key twice gives the same answer. */
#include "key_quota.h"

#include "clock.h"
#include "core.h"
#include "core_private.h"

#define BURST 200
#define PER_SECOND 10
#define DEAD_MAX 1000

/* Takes one key from a bucket of thousandths of a key. */
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

int key_quota_take(struct core *c, struct tenant *t, struct err *e)
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
