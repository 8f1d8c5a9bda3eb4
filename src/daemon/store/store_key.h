/* store_key.h - API keys: only their hashes. See store.h for what holds for all rows. */
#pragma once

#include "daemon/store/store_allow.h"

#define STORE_KEY_HASH 32  /* SHA-256, made by the caller */
#define STORE_KEY_PREFIX 9 /* eight shown digits, and a NUL */

struct store_key {
	char id[STORE_ID_MAX]; /* "key_..." */
	char tenant[STORE_ID_MAX];
	char name[STORE_NAME_MAX];
	uint8_t hash[STORE_KEY_HASH];
	char prefix[STORE_KEY_PREFIX];
	uint32_t scopes; /* bits. The store does not know them */
	uint64_t created_ms, expires_ms, last_used_ms, revoked_ms;
	struct store_allow allow; /* which sessions can be made with it */
};

typedef int store_key_fn(const struct store_key *row, void *cookie);

/* ERR_NOT_FOUND: no such tenant. */
int store_key_insert(struct store *s, const struct store_key *row, struct err *e) MUST_USE;

int store_key_get(struct store *s, const char *id, struct store_key *ret, struct err *e) MUST_USE;

/* Also finds revoked and expired keys: the caller checks that, and compares the hash again in
 * constant time. */
int store_key_get_by_hash(struct store *s, const uint8_t hash[STORE_KEY_HASH],
			  struct store_key *ret, struct err *e) MUST_USE;

int store_key_touch(struct store *s, const char *id, uint64_t used_ms, struct err *e) MUST_USE;

/* A key revoked again keeps the time of its first revocation. */
int store_key_revoke(struct store *s, const char *id, uint64_t revoked_ms, struct err *e) MUST_USE;

struct store_key_filter {
	const char *tenant;
	uint64_t after_ms;    /* of the last row looked at */
	const char *after_id; /* "" or NULL: from the start */
	unsigned limit;	      /* looks at so many rows at most. 0: no limit */
};
/* Keys of one tenant, oldest first. ret may be NULL. */
int store_key_list(struct store *s, const struct store_key_filter *f, store_key_fn *fn,
		   void *cookie, struct store_looked *ret, struct err *e) MUST_USE;

/* Keys of all tenants that expire and were not revoked, in the order of their expiry, after
 * (after_ms, after_id). fn returns 1 to stop. */
int store_key_expiring(struct store *s, uint64_t after_ms, const char *after_id, unsigned limit,
		       store_key_fn *fn, void *cookie, struct err *e) MUST_USE;

/* How many keys of a tenant can be used at that time. */
int store_key_count(struct store *s, const char *tenant, uint64_t now_ms, uint64_t *ret,
		    struct err *e) MUST_USE;
/* Revoke all keys of a tenant. */
int store_key_revoke_all(struct store *s, const char *tenant, uint64_t revoked_ms,
			 struct err *e) MUST_USE;
/* Among the tenant's unusable keys, keep the `keep` newest and delete the others. */
int store_key_prune(struct store *s, const char *tenant, uint64_t now_ms, uint64_t keep,
		    struct err *e) MUST_USE;
