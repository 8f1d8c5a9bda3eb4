/* store_once.h - keys of requests that make something once: a client that repeats a request with
 * its key gets the object that the first one made. See store.h for what holds for all rows.
 *
 * The row of a session or an execution is written in the transaction that writes theirs. */
#pragma once

#include "daemon/store/store.h"
#include "lib/base/sha256.h"

#define STORE_ONCE_KEY_MAX 129	   /* bytes of a key, with its NUL */
#define STORE_ONCE_TENANT_MAX 4096 /* of a tenant within STORE_ONCE_MS */
#define STORE_ONCE_MS 3600000ULL   /* how long a key counts */

struct store_once {
	char tenant[STORE_ID_MAX];
	char key[STORE_ONCE_KEY_MAX];
	uint8_t digest[SHA256_SIZE]; /* of the request */
	char object[STORE_ID_MAX];   /* the id of the object it made */
	uint64_t created_ms;
};

/* Replace the key's old row, and remove some that no longer count. now_ms: created_ms. */
int store_once_insert(struct store *s, const struct store_once *row, struct err *e) MUST_USE;
/* ERR_NOT_FOUND: no such key, or it no longer counts. */
int store_once_get(struct store *s, const char *tenant, const char *key, uint64_t now_ms,
		   struct store_once *ret, struct err *e) MUST_USE;
/* How many keys of the tenant count. */
int store_once_count(struct store *s, const char *tenant, uint64_t now_ms, uint64_t *ret,
		     struct err *e) MUST_USE;
/* Not an error if it is not there. */
int store_once_delete(struct store *s, const char *tenant, const char *key, struct err *e) MUST_USE;
