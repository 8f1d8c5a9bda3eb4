/* secret.h - secrets of tenants: values that sessions may use, kept sealed under a name and bound
 * to hosts, methods and paths. Called by the interfaces.
 *
 * A change reaches every live session at once: egress gets a new configuration, files are rewritten
 * or removed, the socket gives the new value, new executions get new variables (secret_change.h).
 * Old values stay masked in a session until it ends.
 *
 * A value is in the clear only while it is being used, and is wiped after that. */
#pragma once

#include "buf.h"
#include "core.h"
#include "secret_spec.h"
#include "store_actor.h"
#include "store_secret.h"

#define SECRET_VALUE_MAX 65536
#define SECRET_TENANT_MAX 1000 /* of a tenant */
#define SECRET_LIST_BYTES 8192 /* of each of a secret's lists */
#define SECRET_METADATA_BYTES 16384

/* The fields that a client sends. NULL: not sent; a new secret has none, an existing one keeps what
 * it has. */
struct secret_fields {
	const char *value; /* text, without a NUL */
	size_t value_len;
	const char *metadata;			      /* a JSON object, opaque here */
	const char *hosts, *methods, *paths, *places; /* lines; the interface has checked them */
	unsigned ways;				      /* 0: not sent; of a new secret: all */
	uint64_t ttl_ms;			      /* from now; 0: for ever */
	bool ttl_given;
};

/* Each fills in the row, which the caller releases. which: a name or an id. ERR_NOT_FOUND;
 * ERR_CONFLICT: the name is taken; ERR_LIMIT. */
int secret_create(struct core *c, struct tenant *t, const char *name, const struct secret_fields *w,
		  const struct store_actor *who, struct store_secret *ret, struct err *e) MUST_USE;
int secret_update(struct core *c, struct tenant *t, const char *which,
		  const struct secret_fields *w, const struct store_actor *who,
		  struct store_secret *ret, struct err *e) MUST_USE;
int secret_get(struct core *c, const struct tenant *t, const char *which, struct store_secret *ret,
	       struct err *e) MUST_USE;
/* Revokes it at once. */
int secret_delete(struct core *c, const struct tenant *t, const char *which,
		  const struct store_actor *who, struct err *e) MUST_USE;
/* Can the secret be used now? An error says why not: it has expired, or no key of this server opens
 * it. */
int secret_usable(struct core *c, const struct store_secret *row, struct err *e) MUST_USE;

/* At the start: seals values again that an older key has sealed. */
int secret_start(struct core *c, struct err *e) MUST_USE;
/* Once a second: withdraws expired secrets from sessions. */
void secret_expire(struct core *c);
/* Deletes one of the tenant's secrets; false: there is none, or it failed. */
bool secret_delete_one(struct core *c, const struct tenant *t);
