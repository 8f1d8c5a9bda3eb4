/* store_volume.h - volumes: directories with a name that sessions of a tenant mount. See store.h
 * for what holds for all rows.
 *
 * The row is written before anything is made on disk and deleted after everything is removed, so a
 * volume without a row has no files. A row not ready belongs to a volume being made or removed. It
 * counts for quotas, and only the name of a volume being removed is free. */
#pragma once

#include "daemon/store/store.h"

enum store_volume_state { STORE_VOLUME_MAKING, STORE_VOLUME_READY, STORE_VOLUME_DYING };

struct store_volume {
	char id[STORE_ID_MAX]; /* a UUID */
	char tenant[STORE_ID_MAX];
	char name[STORE_NAME_MAX];
	uint32_t kind;	/* what it is on disk. The core gives it a meaning */
	uint32_t state; /* enum store_volume_state */
	uint64_t bytes; /* that it may have. 0: no limit of its own */
	uint64_t created_ms, expires_ms;
	uint64_t generation; /* of the tokens for its content */
};

typedef int store_volume_fn(const struct store_volume *row, void *cookie);

/* ERR_CONFLICT: the name is taken. */
int store_volume_insert(struct store *s, const struct store_volume *row, struct err *e) MUST_USE;
/* A new volume is ready. */
int store_volume_set_ready(struct store *s, const char *id, struct err *e) MUST_USE;
/* The actual form on disk of a new volume. */
int store_volume_set_kind(struct store *s, const char *id, uint32_t kind, struct err *e) MUST_USE;
/* From now on it is being removed. ERR_NOT_FOUND if it is being removed already, or a session
 * mounts it and does not end: store_volume_uses() tells the two apart. */
int store_volume_set_dying(struct store *s, const char *id, struct err *e) MUST_USE;
/* Delete the row of a removed volume. */
int store_volume_delete(struct store *s, const char *id, struct err *e) MUST_USE;

/* A volume in any state, by its id. */
int store_volume_get(struct store *s, const char *id, struct store_volume *ret,
		     struct err *e) MUST_USE;
/* A ready volume, by its name. */
int store_volume_get_by_name(struct store *s, const char *tenant, const char *name,
			     struct store_volume *ret, struct err *e) MUST_USE;

/* A tenant's ready volumes, in the order of names, after `after` ("": all). */
int store_volume_list(struct store *s, const char *tenant, const char *after, unsigned limit,
		      store_volume_fn *fn, void *cookie, struct err *e) MUST_USE;
/* All tenants' volumes neither ready nor mounted any more, in the order of ids: a volume being
 * removed may still be mounted by ending sessions. */
int store_volume_each_unready(struct store *s, const char *after_id, unsigned limit,
			      store_volume_fn *fn, void *cookie, struct err *e) MUST_USE;
/* Ready ones, expired before until_ms, and mounted by no live session. */
int store_volume_expired(struct store *s, uint64_t until_ms, unsigned limit, store_volume_fn *fn,
			 void *cookie, struct err *e) MUST_USE;

/* How many volumes a tenant has, in any state, and the sum of their bytes. */
int store_volume_sum(struct store *s, const char *tenant, uint64_t *ret_count, uint64_t *ret_bytes,
		     struct err *e) MUST_USE;

/* The session mounts the volume, until the session's row has ended. Part of the transaction that
 * inserts the session. ERR_NOT_FOUND: the volume is not ready. */
int store_volume_add_use(struct store *s, const char *volume, const char *session,
			 struct err *e) MUST_USE;
/* How many sessions mount it, without ending ones. */
int store_volume_uses(struct store *s, const char *id, uint64_t *ret, struct err *e) MUST_USE;
