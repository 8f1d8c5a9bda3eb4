/* store_layer.h - layers on disk, and what uses them. See store.h for what holds for all rows.
 *
 * A layer is a read-only directory of the storage folder. Its row is written when the directory is
 * whole and on disk. A directory without a row is garbage. Each owner that needs a layer has a use
 * of it: the row of the owner and its uses are written in one transaction, and deleted in one. A
 * layer that loses its last use becomes dying in the same transaction. A dying layer never gets a
 * use again, so its directory is removed without a lock. The row goes when the directory has
 * gone. */
#pragma once

#include "daemon/store/store.h"

enum store_layer_state { STORE_LAYER_READY, STORE_LAYER_DYING };

/* The numbers are in rows: new ones come at the end. */
enum store_layer_owner {
	STORE_LAYER_OF_TEMPLATE, /* a version: store_template.id */
	STORE_LAYER_OF_SESSION,
	STORE_LAYER_OF_CACHE,
	STORE_LAYER_OF_BUILD,
	STORE_LAYER_HELD, /* a request of this run of the server. The owner is the layer itself */
	STORE_LAYER_GUEST_OF_TEMPLATE, /* a version: root image and memory images of its sessions */
	STORE_LAYER_GUEST_OF_SESSION,  /* its root image, then the memory that it was paused with */
	STORE_LAYER_GUEST_OF_SNAPSHOT, /* a version: the amount of its source session */
	STORE_LAYER_OWNERS
};

#define STORE_LAYER_DIGEST_MAX 80 /* "sha256:" and 64 digits */
#define STORE_LAYER_KIND_MAX 16

struct store_layer {
	char id[STORE_ID_MAX];		 /* "lay_..." */
	char tenant[STORE_ID_MAX];	 /* "": of a public image */
	char kind[STORE_LAYER_KIND_MAX]; /* what made it: "capture", "image", .... For display */
	uint64_t bytes, entries;
	uint64_t created_ms;
	uint32_t state;			     /* enum store_layer_state */
	char digest[STORE_LAYER_DIGEST_MAX]; /* of its content. "": not known */
	const char *origin; /* of images of guests: layer_origin.h. NULL: none. Read by
			     * store_layer_list() only */
	/* Read only: */
	uint64_t uses;
	bool is_of_old_versions; /* only templates use it that no session can be made from */
};

typedef int store_layer_fn(const struct store_layer *row, void *cookie);

/* Write a ready layer. The caller adds its first use in the same transaction. */
int store_layer_insert(struct store *s, const struct store_layer *row, struct err *e) MUST_USE;
/* Write it with a use of kind STORE_LAYER_HELD, as a transaction of its own: the layer stays until
 * store_layer_unuse() of that kind with its id as owner, or the next start of the server. */
int store_layer_insert_held(struct store *s, const struct store_layer *row, struct err *e) MUST_USE;

int store_layer_get(struct store *s, const char *id, struct store_layer *ret,
		    struct err *e) MUST_USE;

/* A ready layer with that tenant and digest. ERR_NOT_FOUND. */
int store_layer_find(struct store *s, const char *tenant, const char *digest,
		     struct store_layer *ret, struct err *e) MUST_USE;

/* By time of creation, behind that time and id ("": from the first). limit 0: none. */
int store_layer_list(struct store *s, uint64_t after_ms, const char *after_id, unsigned limit,
		     store_layer_fn *fn, void *cookie, struct err *e) MUST_USE;

/* At most max dying ones, by tenant, from this one on ("": the first). Only id, tenant and bytes
 * are filled in. */
int store_layer_next_dying(struct store *s, const char *from_tenant, size_t max, store_layer_fn *fn,
			   void *cookie, struct err *e) MUST_USE;

/* The owner uses these layers from now on, lowest first. It loses layers no longer used as by
 * store_layer_unuse(). ERR_CONFLICT: one of them is dying or not there. */
int store_layer_use(struct store *s, enum store_layer_owner kind, const char *owner,
		    const char (*layers)[STORE_ID_MAX], size_t n, struct err *e) MUST_USE;

/* Before a version loses its uses: layers of it that then only templates and sessions of other
 * tenants use become the oldest one's, and count for it. They lose their digest: it was found in
 * the scope of the first. */
int store_layer_hand_over(struct store *s, const char *version, struct err *e) MUST_USE;
/* A version counts for this tenant from now on ("": its own), as do its layers that nothing else
 * of their tenant uses. */
int store_layer_pay(struct store *s, const char *version, const char *payer,
		    struct err *e) MUST_USE;
/* As above, for all layers of a tenant, after some of its uses went. */
int store_layer_hand_over_all(struct store *s, const char *tenant, struct err *e) MUST_USE;
/* The owner uses no layer any more. Those that nothing uses now become dying, and those that only
 * templates and sessions of other tenants use become the oldest one's. Not an error if it used
 * none. */
int store_layer_unuse(struct store *s, enum store_layer_owner kind, const char *owner,
		      struct err *e) MUST_USE;

/* A layer's size for its tenant, if nothing uses it. ERR_NOT_FOUND: it is used, or gone. */
int store_layer_unused_bytes(struct store *s, const char *id, uint64_t *ret,
			     struct err *e) MUST_USE;

/* Layers of an owner, lowest first. Return how many. At most max are written. */
int store_layer_used(struct store *s, enum store_layer_owner kind, const char *owner,
		     char (*ret)[STORE_ID_MAX], size_t max, struct err *e) MUST_USE;

/* Drop uses left by an earlier run of the server: the kind STORE_LAYER_HELD, and both kinds of
 * ended sessions. */
int store_layer_drop_stale(struct store *s, struct err *e) MUST_USE;

/* Layers that nothing uses, although no transaction should leave any: they become dying, too.
 * Return how many. For the start and gc. */
int store_layer_sweep(struct store *s, struct err *e) MUST_USE;

/* Delete the row of a dying layer whose directory is gone. ERR_NOT_FOUND: none, or not dying. */
int store_layer_delete(struct store *s, const char *id, struct err *e) MUST_USE;

/* The size of a tenant's layers, dying ones included: their bytes are still there. */
int store_layer_sum(struct store *s, const char *tenant, uint64_t *ret_bytes, uint64_t *ret_layers,
		    struct err *e) MUST_USE;
/* Bytes of public image layers (tenant "") used by the tenant's templates. */
int store_layer_shared(struct store *s, const char *tenant, uint64_t *ret_bytes,
		       struct err *e) MUST_USE;

/* ---- values: secrets of the layer's session, in boxes that the store cannot open. Sessions with
 * the layer mask these values. They go with the row of the layer. A live session has values under
 * its own id, too: those replaced or deleted while it ran. */

struct store_layer_value {
	uint64_t seq;
	char tenant[STORE_ID_MAX];
	const char *about, *name, *hosts; /* opaque */
	const void *box;
	size_t box_len;
};

typedef int store_layer_value_fn(const struct store_layer_value *row, void *cookie);

/* Its seq is the store's. bytes: its size for its tenant. */
int store_layer_value_add(struct store *s, const char *layer, const struct store_layer_value *row,
			  uint64_t bytes, struct err *e) MUST_USE;
/* Give one layer the values of the other, each once. */
int store_layer_value_copy(struct store *s, const char *from, const char *to,
			   struct err *e) MUST_USE;
/* Those of a layer, in the order in which they were added. */
int store_layer_value_of(struct store *s, const char *layer, store_layer_value_fn *fn, void *cookie,
			 struct err *e) MUST_USE;
/* Those of all layers after after_seq, in the order of seq. */
int store_layer_value_each(struct store *s, uint64_t after_seq, unsigned limit,
			   store_layer_value_fn *fn, void *cookie, struct err *e) MUST_USE;
/* Another box for the same value. */
int store_layer_value_reseal(struct store *s, uint64_t seq, const void *box, size_t len,
			     struct err *e) MUST_USE;
int store_layer_value_sum(struct store *s, const char *tenant, uint64_t *ret,
			  struct err *e) MUST_USE;
/* A live session's. They count for no tenant: their number is bounded here, and their bytes by the
 * tenant's bound for its sessions. Beyond `keep` the session's oldest is deleted. */
int store_layer_value_add_past(struct store *s, const char *session,
			       const struct store_layer_value *row, unsigned keep,
			       struct err *e) MUST_USE;
/* The session has ended. */
int store_layer_value_delete(struct store *s, const char *session, struct err *e) MUST_USE;
/* At the start: delete those of unwritten layers and ended sessions. */
int store_layer_value_sweep(struct store *s, struct err *e) MUST_USE;
