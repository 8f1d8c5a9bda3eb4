/* secret.h - values that sessions may use: kept sealed, by tenant, under a name, bound to
 * hosts, methods and paths; and how they get into sessions.
 *
 * A change reaches every live session at once: egress gets a new configuration, files are written
 * anew or removed, the socket answers differently, new executions get other variables. Old values
 * stay masked in a session until it ends.
 *
 * A value is in the clear only while it is being used, and is wiped then. */
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

/* What a client asks for. NULL: of a new one nothing, of an old one as it is. */
struct secret_wish {
	const char *value; /* text, without a NUL */
	size_t value_len;
	const char *metadata;			      /* a JSON object, opaque here */
	const char *hosts, *methods, *paths, *places; /* lines; the interface has checked them */
	unsigned ways;				      /* 0: all, or as it is */
	uint64_t ttl_ms;			      /* from now; 0: for ever */
	bool ttl_given;
};

/* Each fills in the row, which the caller releases. which: a name or an id. ERR_NOT_FOUND;
 * ERR_CONFLICT: the name is taken; ERR_LIMIT. */
int secret_create(struct core *c, struct tenant *t, const char *name, const struct secret_wish *w,
		  const struct store_actor *who, struct store_secret *ret, struct err *e) MUST_USE;
int secret_update(struct core *c, struct tenant *t, const char *which, const struct secret_wish *w,
		  const struct store_actor *who, struct store_secret *ret, struct err *e) MUST_USE;
int secret_get(struct core *c, const struct tenant *t, const char *which, struct store_secret *ret,
	       struct err *e) MUST_USE;
/* Revokes it at once. */
int secret_delete(struct core *c, const struct tenant *t, const char *which,
		  const struct store_actor *who, struct err *e) MUST_USE;
/* Can it be used now? If not, why: its time is over, or no key here opens it. */
int secret_usable(struct core *c, const struct store_secret *row, struct err *e) MUST_USE;

/* At the start: values that another key sealed are sealed anew. */
int secret_start(struct core *c, struct err *e) MUST_USE;
/* Once a second: withdraws secrets whose time is over. */
void secret_chores(struct core *c);
/* Deletes one of the tenant's secrets; false: there is none, or it could not. */
bool secret_delete_one(struct core *c, const struct tenant *t);
