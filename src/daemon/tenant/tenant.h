/* tenant.h - tenants and their keys. tenant.c has the table and each tenant's counts, tenant_key.c
 * its keys, tenant_admin.c its creation, changes and removal.
 */
#pragma once

#include "daemon/node/core.h"
#include "daemon/store/store_actor.h"
#include "daemon/store/store_key.h"
#include "daemon/store/store_tenant.h"
#include "daemon/tenant/grant.h"
#include "lib/base/byte_account.h"

enum {
	TENANT_ADMIN = 1 << 0,
	TENANT_SESSIONS = 1 << 1,
	TENANT_READ = 1 << 2,
	TENANT_AUDIT = 1 << 3,
	TENANT_SCOPES = (1 << 4) - 1,
	/* With several of them in a route: one is enough, and the handler says which. */
	TENANT_EITHER = 1 << 4,
};

#define TENANT_KEY_LEN 44 /* "e2b_" and 40 hex digits */

/* The tenant that a key belongs to, in constant time in the key's bytes. NULL: ERR_NOT_FOUND if
 * there is no such key, it has expired or was revoked, or its tenant is disabled. Any other error
 * comes from the store, and says nothing about the key. Fill in tenant, key_id and expires_ms of
 * the grant. */
struct tenant *tenant_authenticate(struct core *c, const char *key, size_t len,
				   unsigned *ret_scopes, struct grant *ret, struct err *e);

/* Find the tenant of a key by its id, for a token or URL given for the key. */
struct tenant *tenant_of_key(struct core *c, const char *key_id, unsigned *ret_scopes,
			     struct grant *ret, struct err *e);

/* The limits of a lately used key. False: not in memory. */
bool tenant_key_at_hand(const char *key_id, struct store_allow *ret);

const struct store_tenant *tenant_row(const struct tenant *t);
/* The bytes in memory for its requests, counted by src/lib/net. */
struct byte_account *tenant_account(struct tenant *t);
/* Count n more bytes in memory as those of bodies (tenant_bodies_max). False: no room. */
bool tenant_hold(struct core *c, struct tenant *t, size_t n) MUST_USE;
void tenant_let_go(struct core *c, struct tenant *t, size_t n);
struct tenant *tenant_find(struct core *c, const char *id);
/* The operator's own tenant. It always exists. */
const struct tenant *tenant_operator(const struct core *c);

/* Count a request of the tenant, or to one of its sandboxes, until tenant_leave(). ERR_LIMIT, and
 * it is not counted: few connections are left, and the tenant has its share of them. */
int tenant_enter(struct core *c, struct tenant *t, struct err *e) MUST_USE;
void tenant_leave(struct core *c, struct tenant *t);

/* Count an open stream of the tenant (a request that lasts as long as its client wants, or a
 * polled watcher) until tenant_stream_close(). REASON_QUOTA_STREAMS: too many. */
int tenant_stream_open(struct core *c, struct tenant *t, struct err *e) MUST_USE;
void tenant_stream_close(struct tenant *t);

/* Make a tenant from a row whose id is empty: fills id and time. ERR_CONFLICT: name taken. */
int tenant_create(struct core *c, struct store_tenant *row, const struct store_actor *who,
		  struct err *e) MUST_USE;
int tenant_update(struct core *c, struct tenant *t, const struct store_tenant *row,
		  const struct store_actor *who, struct err *e) MUST_USE;
/* Set the tenant's layer of the policy of all its sessions, as policy_select_read() wrote it. "":
 * none. The change reaches its live sessions. */
int tenant_set_policy(struct core *c, struct tenant *t, const char *document,
		      const struct store_actor *who, struct err *e) MUST_USE;
const char *tenant_policy(const struct tenant *t);
/* How often it was set since the start. */
uint64_t tenant_policy_changes(const struct tenant *t);

/* Disable the tenant, revoke its keys, end its sessions. The operator's tenant cannot be
 * removed. */
int tenant_remove(struct core *c, struct tenant *t, const struct store_actor *who,
		  struct err *e) MUST_USE;
/* ERR_DENIED if the tenant was removed, perhaps during one of its requests. */
int tenant_check(const struct tenant *t, struct err *e) MUST_USE;

struct tenant_key_spec {
	const char *name;
	unsigned scopes;
	uint64_t expires_ms; /* 0: never */
	struct store_allow allow;
};
/* Make a new key. Its text is returned here once and is stored nowhere. The caller has checked
 * that its own key may grant all of it. */
int tenant_key_create(struct core *c, struct tenant *t, const struct tenant_key_spec *spec,
		      const struct store_actor *who, struct store_key *ret,
		      char ret_key[TENANT_KEY_LEN + 1], struct err *e) MUST_USE;
/* Revoking a key again is no error and writes no event. */
int tenant_key_revoke(struct core *c, const struct tenant *t, const char *key_id,
		      const struct store_actor *who, struct err *e) MUST_USE;

/* At the first start: makes the operator's tenant, and a key for it in the file first.key (mode
 * 0600) of the state folder. Repeatable. */
int tenant_first(struct core *c, struct err *e) MUST_USE;

/* ---- for the core's own files */

/* Read all tenants from the store, or add a just written one. */
int tenant_load_all(struct core *c, struct err *e) MUST_USE;
void tenant_add(struct core *c, const struct store_tenant *row);
/* Empty the cache of keys. */
void tenant_forget_keys(void);
/* tenant_admin.c: continue removals that an earlier daemon began. */
void tenant_remove_rest(struct core *c);
