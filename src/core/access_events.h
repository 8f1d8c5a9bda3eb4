/* access_events.h - events about tenants and keys: key.created, key.revoked, key.expired,
 * tenant.created, tenant.changed, tenant.network and tenant.removed. Called by tenant.c,
 * tenant_remove.c and key_expiry.c inside the transaction of the change.
 *
 * An event belongs to the tenant that was changed. If a key of another tenant caused it (the
 * operator's), that tenant gets the same event, so that the operator reads its own changes also
 * after a tenant was removed. */
#pragma once

#include "core.h"
#include "store_actor.h"
#include "store_key.h"
#include "store_tenant.h"

/* Has id, name and scopes of the key; never its text. */
int access_events_key(struct core *c, const struct store_actor *who, const char *type,
		      const struct store_key *k, struct err *e) MUST_USE;

int access_events_tenant(struct core *c, const struct store_actor *who, const char *type,
			 const struct store_tenant *t, struct err *e) MUST_USE;

/* tenant.changed, with the names of the members that differ. Nothing is written if none does. */
int access_events_changed(struct core *c, const struct store_actor *who,
			  const struct store_tenant *before, const struct store_tenant *after,
			  struct err *e) MUST_USE;
