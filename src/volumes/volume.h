/* volume.h - volumes of tenants: named directories on disk that sessions mount and that outlive
 * them. Called by both interfaces.
 *
 * A volume is made by cordon-storage after its row was written, and removed before its row is
 * deleted (store_volume.h); what a daemon that was killed left half made or half removed is removed
 * by the next one. Removal has no end that clients wait for: the volume is gone for them when its
 * row says so. */
#pragma once

#include "core.h"
#include "session_parts.h"
#include "store_actor.h"
#include "store_volume.h"
#include "tenant.h"
#include "volume_mount.h"

struct volume_spec {
	const char *name;
	uint64_t bytes;	 /* 0: the default */
	uint64_t ttl_ms; /* 0: it does not expire */
};

/* Making a volume. The owner sets done; done ends when the volume is ready, or with the reason why
 * it is not. If the owner cancels done, the volume is made all the same. */
struct volume_making {
	struct completion done;	 /* first, as the waiter is found by it */
	struct store_volume row; /* of the volume, when it is ready */
};
/* -1: refused, and done is not used. ERR_CONFLICT: the name is taken. REASON_QUOTA_VOLUMES,
 * REASON_QUOTA_STORAGE, REASON_STORAGE_FULL. */
int volume_create(struct core *c, struct tenant *t, const struct volume_spec *spec,
		  const struct store_actor *who, struct volume_making *ret, struct err *e) MUST_USE;

/* A volume that is ready, by its name or its id. ERR_NOT_FOUND. */
int volume_find(struct core *c, const struct tenant *t, const char *which, struct store_volume *ret,
		struct err *e) MUST_USE;

/* ERR_CONFLICT: a session mounts it. */
int volume_delete(struct core *c, const struct tenant *t, const char *which,
		  const struct store_actor *who, struct err *e) MUST_USE;

/* The table of functions by which the core tells it about tenants and time. */
extern const struct session_part volume_part;
