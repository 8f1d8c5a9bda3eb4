/* secret.h - secrets of tenants: values that sessions may use, kept sealed under a name and bound
 * to hosts, methods and paths. Called by the interfaces.
 *
 * A change reaches every live session at once: egress gets a new configuration, files are rewritten
 * or removed, the socket gives the new value, new executions get new variables (secret.h).
 * Old values stay masked in a session until it ends.
 *
 * A value is in the clear only while it is being used, and is wiped after that. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/secrets/secret_spec.h"
#include "daemon/session/session.h"
#include "daemon/store/store_actor.h"
#include "daemon/store/store_secret.h"
#include "lib/base/buf.h"

#define SECRET_VALUE_MAX 65536
#define SECRET_TENANT_MAX 1000 /* of a tenant */
#define SECRET_LIST_BYTES 8192 /* of each of a secret's lists */
#define SECRET_METADATA_BYTES 16384

/* The fields that a client sends. NULL: not sent. A new secret has none, an existing one keeps its
 * values. */
struct secret_fields {
	const char *value; /* text, without a NUL */
	size_t value_len;
	const char *metadata;			      /* a JSON object, opaque here */
	const char *hosts, *methods, *paths, *places; /* lines. The interface has checked them */
	unsigned ways;				      /* 0: not sent. For a new secret: all */
	uint64_t ttl_ms;			      /* from now. 0: forever */
	bool ttl_given;
};

/* Each fills in the row, which the caller releases. which: a name or an id. ERR_NOT_FOUND.
 * ERR_CONFLICT: the name is taken. ERR_LIMIT. */
int secret_create(struct core *c, struct tenant *t, const char *name, const struct secret_fields *w,
		  const struct store_actor *who, struct store_secret *ret, struct err *e) MUST_USE;
int secret_update(struct core *c, struct tenant *t, const char *which,
		  const struct secret_fields *w, const struct store_actor *who,
		  struct store_secret *ret, struct err *e) MUST_USE;
int secret_get(struct core *c, const struct tenant *t, const char *which, struct store_secret *ret,
	       struct err *e) MUST_USE;
/* Revoke it at once. */
int secret_delete(struct core *c, const struct tenant *t, const char *which,
		  const struct store_actor *who, struct err *e) MUST_USE;
/* Can the secret be used now? An error says why not: it has expired, or no key of this server opens
 * it. */
int secret_usable(struct core *c, const struct store_secret *row, struct err *e) MUST_USE;

/* At the start: seals values again that an older key has sealed. */
int secret_start(struct core *c, struct err *e) MUST_USE;
/* Once a second: withdraws expired secrets from sessions. */
void secret_expire(struct core *c);
/* Delete one of the tenant's secrets. false: there is none, or it failed. */
bool secret_delete_one(struct core *c, const struct tenant *t);

/* ---- a secret as the credentials of a registry: its value is "user:password".
 * Called by daemon/images/image_pull.c. The value is in the clear until the caller wipes it. */

/* host: of the registry, without its port. If the secret is bound to hosts, it must be one of them.
 * *ret is malloc'ed: user, NUL, password, NUL. The caller wipes and frees *ret_len bytes. */
int secret_registry_open(struct core *c, const struct tenant *t, const char *which,
			 const char *host, char **ret, size_t *ret_len, struct err *e) MUST_USE;

/* ---- effects of a changed or revoked secret on live sessions. secret.c calls the first two when a
 * secret changes. session_hooks.c calls the third for each marked session, some in each turn of the
 * loop. */

struct store_secret;

/* A new session begins with the memory of another: past values masked there are masked in it, too.
 * Return their bytes. */
size_t secret_change_inherit(struct session *s);
/* Replaced and revoked values of a session, in the store: written when it starts, read by the next
 * cordond, and deleted when it has ended. */
void secret_past_write(struct session *s);
void secret_past_read(struct session *s);
void secret_past_delete(const struct session *s);
/* Deliver a change to the session: its mask first, then its cell. */
void secret_change_apply(struct session *s);
