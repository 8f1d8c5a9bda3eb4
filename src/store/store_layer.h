/* store_layer.h - layers on disk, and what uses them. See store.h for what holds for all rows.
 *
 * A layer is a read-only directory of the storage folder. Its row is written when the directory is
 * whole and on disk; a directory without a row is garbage. What needs a layer has a use of it: the
 * row of the owner and its uses are written in one transaction, and deleted in one. A layer that
 * loses its last use becomes dying in the same transaction; a dying layer never gets a use again,
 * so its directory is removed without a lock. The row goes when the directory has gone. */
#pragma once

#include "store.h"

enum store_layer_state { STORE_LAYER_READY, STORE_LAYER_DYING };

/* The numbers are in rows: new ones come at the end. */
enum store_layer_owner {
	STORE_LAYER_OF_TEMPLATE, /* a version: store_template.id */
	STORE_LAYER_OF_SESSION,
	STORE_LAYER_OF_CACHE,
	STORE_LAYER_OF_BUILD,
	STORE_LAYER_HELD, /* a request of this run of the server; the owner is the layer itself */
	STORE_LAYER_GUEST_OF_TEMPLATE, /* a version: root image and memory images of its sessions */
	STORE_LAYER_GUEST_OF_SESSION,  /* its root image, then the memory that it was paused with */
	STORE_LAYER_GUEST_OF_SNAPSHOT, /* a version: the same of the session that it was made of */
	STORE_LAYER_OWNERS
};

#define STORE_LAYER_DIGEST_MAX 80 /* "sha256:" and 64 digits */
#define STORE_LAYER_KIND_MAX 16

struct store_layer {
	char id[STORE_ID_MAX];		 /* "lay_..." */
	char tenant[STORE_ID_MAX];	 /* "": of a public image */
	char kind[STORE_LAYER_KIND_MAX]; /* what made it: "capture", "image", ...; for display */
	uint64_t bytes, entries;
	uint64_t created_ms;
	uint32_t state;			     /* enum store_layer_state */
	char digest[STORE_LAYER_DIGEST_MAX]; /* of its content; "": not known */
	const char *origin; /* of images of guests: layer_origin.h; NULL: none. Read by
			     * store_layer_each() only */
	/* Read only: */
	uint64_t uses;
	bool is_of_old_versions; /* templates use it, none of which sessions can be made of */
};

typedef int store_layer_fn(const struct store_layer *row, void *cookie);

/* Writes a layer that is ready. The caller adds its first use in the same transaction. */
int store_layer_insert(struct store *s, const struct store_layer *row, struct err *e) MUST_USE;
/* Writes it with a use of kind STORE_LAYER_HELD, as a transaction of its own: the layer stays until
 * store_layer_unuse() of that kind with its id as owner, or the next start of the server. */
int store_layer_insert_held(struct store *s, const struct store_layer *row, struct err *e) MUST_USE;

int store_layer_get(struct store *s, const char *id, struct store_layer *ret,
		    struct err *e) MUST_USE;

/* A layer of that tenant and digest that is ready. ERR_NOT_FOUND. */
int store_layer_find(struct store *s, const char *tenant, const char *digest,
		     struct store_layer *ret, struct err *e) MUST_USE;

/* All of them; dying: only those. By time of creation. */
int store_layer_each(struct store *s, bool dying, store_layer_fn *fn, void *cookie,
		     struct err *e) MUST_USE;

/* The owner uses these layers from now on, lowest first; what it used before, and does not use any
 * more, it loses as by store_layer_unuse(). ERR_CONFLICT: one of them is dying or not there. */
int store_layer_use(struct store *s, enum store_layer_owner kind, const char *owner,
		    const char (*layers)[STORE_ID_MAX], size_t n, struct err *e) MUST_USE;

/* The owner uses no layer any more. Those that nothing uses now become dying. Not an error if it
 * used none. */
/* Before a version of that tenant's loses its uses: layers of it that then only templates of
 * another tenant use become that one's, and count for it. They lose their digest: it was found in
 * the scope of the first. */
int store_layer_hand_over(struct store *s, const char *version, const char *tenant,
			  struct err *e) MUST_USE;
int store_layer_unuse(struct store *s, enum store_layer_owner kind, const char *owner,
		      struct err *e) MUST_USE;

/* What a layer counts for its tenant, if nothing uses it. ERR_NOT_FOUND: it is used, or gone. */
int store_layer_unused_bytes(struct store *s, const char *id, uint64_t *ret,
			     struct err *e) MUST_USE;

/* Layers of an owner, lowest first. Returns how many; at most max are written. */
int store_layer_used(struct store *s, enum store_layer_owner kind, const char *owner,
		     char (*ret)[STORE_ID_MAX], size_t max, struct err *e) MUST_USE;

/* Drops uses that an earlier run of the server left: those of kind STORE_LAYER_HELD, and those of
 * sessions that have ended (both kinds). */
int store_layer_drop_stale(struct store *s, struct err *e) MUST_USE;

/* Layers that nothing uses, although no transaction should leave any: they become dying, too.
 * Returns how many. For the start and gc. */
int store_layer_sweep(struct store *s, struct err *e) MUST_USE;

/* Deletes the row of a dying layer whose directory is gone. ERR_NOT_FOUND: none, or not dying. */
int store_layer_delete(struct store *s, const char *id, struct err *e) MUST_USE;

/* What the layers of a tenant take, dying ones included: their bytes are still there. */
int store_layer_sum(struct store *s, const char *tenant, uint64_t *ret_bytes, uint64_t *ret_layers,
		    struct err *e) MUST_USE;
/* Bytes of layers of public images (tenant "") that templates of the tenant use. */
int store_layer_shared(struct store *s, const char *tenant, uint64_t *ret_bytes,
		       struct err *e) MUST_USE;
