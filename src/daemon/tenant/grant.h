/* grant.h - an open use of a key or of a port's URL: a request, a stream, a tunnel.
 *
 * The owner fills in tenant, key_id or opening, expires_ms and on_revoked, opens the grant and
 * closes it at the end. When the key is revoked or expires, the port is closed, or the tenant is
 * removed, the grant is closed and on_revoked is called, from the loop and never from inside the
 * call that revokes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/store.h"
#include "lib/loop/loop.h"

struct core;
struct tenant;

struct grant {
	struct tenant *tenant;
	char key_id[STORE_ID_MAX]; /* "": there is no key, only the tenant counts */
	/* The port of a session whose URL let it in (session_settings.h). "": it was a key. */
	char opening[STORE_ID_MAX];
	uint64_t expires_ms; /* 0: never */
	void (*on_revoked)(struct grant *g);
	void *arg;
	/* grant.c's */
	struct core *core; /* NULL: it is not open */
	struct grant *prev, *next;
	struct loop_timer expiry;
	bool revoked; /* on_revoked is to be called */
};

void grant_open(struct core *c, struct grant *g);
/* No-op if it is not open. */
void grant_close(struct grant *g);

/* Revoke every grant of a key, or (key_id NULL) of a tenant. */
void grant_revoke(struct core *c, const struct tenant *t, const char *key_id);
/* Revoke every grant of an opening of a port. */
void grant_revoke_opening(struct core *c, const struct tenant *t, const char *opening);
