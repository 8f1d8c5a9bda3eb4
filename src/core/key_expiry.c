#include "key_expiry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access_events.h"
#include "core.h"
#include "core_private.h"
#include "log.h"

#define META "keys_expired"
#define PIECE 32

/* "milliseconds id". A store of an earlier version has none: keys that expired before are not
 * reported. */
static int load(struct core *c, struct key_expiry *k, struct err *e)
{
	char text[24 + STORE_ID_MAX] = "", *id;

	k->after_ms = core_now_ms();
	k->after_id[0] = '\0';
	if (store_meta_get(c->store, META, text, sizeof(text), e) < 0) {
		if (e->code != ERR_NOT_FOUND)
			return -1;
	} else {
		k->after_ms = strtoull(text, &id, 10);
		(void)snprintf(k->after_id, sizeof(k->after_id), "%s", *id == ' ' ? id + 1 : id);
	}
	k->loaded = true;
	return 0;
}

static int save(struct core *c, const struct key_expiry *k, struct err *e)
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

/* Moves *k only if all of it is written. */
static int report(struct core *c, struct key_expiry *k, unsigned *ret_n, struct err *e)
{
	struct key_expiry at = *k;
	struct expired x = { .core = c, .at = &at, .now = core_now_ms(), .e = e };

	at.next_ms = UINT64_MAX;
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_key_expiring(c->store, k->after_ms, k->after_id, PIECE, on_row, &x, e) < 0 ||
	    x.failed || save(c, &at, e) < 0 || store_commit(c->store, e) < 0) {
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
	if ((!k->loaded && load(c, k, &e) < 0) || report(c, k, &n, &e) < 0) {
		if (log_limit(&limit, &dropped))
			log_warn("expired keys not reported, tried again in a second",
				 "error=%s dropped=%llu", e.msg, dropped);
		return false;
	}
	return n == PIECE;
}
