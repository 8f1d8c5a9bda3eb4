/* store_secret.h - secrets: the purpose of each, and its value in a box that the store cannot open.
 * See store.h for what holds for all rows. */
#pragma once

#include "daemon/store/store.h"

struct store_secret {
	char id[STORE_ID_MAX]; /* "sec_..." */
	char tenant[STORE_ID_MAX];
	char name[STORE_NAME_MAX]; /* unique for the tenant */
	uint64_t version;	   /* of the value: 1, 2, ... */
	uint64_t created_ms, updated_ms, expires_ms;
	uint32_t ways;	      /* bits. The store does not know them */
	const char *metadata; /* opaque */
	/* Lines. "": none were given. */
	const char *hosts, *methods, *paths, *places;
	const void *box;
	size_t box_len;

	void *owned; /* the texts of a row from store_secret_get() */
};

typedef int store_secret_fn(const struct store_secret *row, void *cookie);

/* ERR_CONFLICT: the name is taken. */
int store_secret_insert(struct store *s, const struct store_secret *row, struct err *e) MUST_USE;
/* Everything but id, tenant, name and created_ms. */
int store_secret_update(struct store *s, const struct store_secret *row, struct err *e) MUST_USE;
/* Another box for the same value. ERR_NOT_FOUND if it is not of that version any more. */
int store_secret_reseal(struct store *s, const struct store_secret *row, struct err *e) MUST_USE;

/* The caller releases the row. */
int store_secret_get(struct store *s, const char *id, struct store_secret *ret,
		     struct err *e) MUST_USE;
int store_secret_get_by_name(struct store *s, const char *tenant, const char *name,
			     struct store_secret *ret, struct err *e) MUST_USE;
void store_secret_release(struct store_secret *row);

int store_secret_delete(struct store *s, const char *id, struct err *e) MUST_USE;

/* Secrets of a tenant in the order of names, those after `after` ("" or NULL: all). `limit` at most
 * (0: no limit). */
int store_secret_list(struct store *s, const char *tenant, const char *after, unsigned limit,
		      store_secret_fn *fn, void *cookie, struct err *e) MUST_USE;
/* Secrets of all tenants in the order of ids, those after after_id. */
int store_secret_each(struct store *s, const char *after_id, unsigned limit, store_secret_fn *fn,
		      void *cookie, struct err *e) MUST_USE;
/* Secrets that expire after (after_ms, after_id) and until until_ms, in the order of (expires_ms,
 * id): several may expire at the same time. */
int store_secret_expiring(struct store *s, uint64_t after_ms, const char *after_id,
			  uint64_t until_ms, unsigned limit, store_secret_fn *fn, void *cookie,
			  struct err *e) MUST_USE;
int store_secret_count(struct store *s, const char *tenant, uint64_t *ret, struct err *e) MUST_USE;
