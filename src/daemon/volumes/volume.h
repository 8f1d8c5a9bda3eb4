/* volume.h - volumes of tenants: named directories on disk that sessions mount. Volumes outlive
 * sessions. Called by both interfaces.
 *
 * A volume is made by cordon-storage after its row was written, and removed before its row is
 * deleted (store_volume.h). The next daemon removes volumes that a killed one left half made or
 * half removed. Removal has no end that clients wait for: the volume is gone for them when its row
 * says so. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_volume.h"
#include "daemon/store/store_actor.h"
#include "daemon/store/store_volume.h"
#include "daemon/tenant/tenant.h"

struct volume_spec {
	const char *name;
	uint64_t bytes;	 /* 0: the default */
	uint64_t ttl_ms; /* 0: it does not expire */
};

/* Making a volume. The owner sets done. It ends when the volume is ready, or with the reason why
 * not. If the owner cancels done, the volume is made all the same. */
struct volume_making {
	struct completion done;	 /* first, as the waiter is found by it */
	struct store_volume row; /* of the volume, when it is ready */
};
/* -1: refused, and done is not used. ERR_CONFLICT: the name is taken. REASON_QUOTA_VOLUMES,
 * REASON_QUOTA_STORAGE, REASON_STORAGE_FULL. */
int volume_create(struct core *c, struct tenant *t, const struct volume_spec *spec,
		  const struct store_actor *who, struct volume_making *ret, struct err *e) MUST_USE;

/* A ready volume, by its name or its id. ERR_NOT_FOUND. */
int volume_find(struct core *c, const struct tenant *t, const char *which, struct store_volume *ret,
		struct err *e) MUST_USE;

/* ERR_CONFLICT: a session mounts it. */
int volume_delete(struct core *c, const struct tenant *t, const char *which,
		  const struct store_actor *who, struct err *e) MUST_USE;

/* The table of functions by which the core tells it about tenants and time. */
extern const struct session_part volume_part;
