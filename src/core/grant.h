/* grant.h - something that is open because a key or the URL of a port allowed it: a request, a
 * stream, a tunnel.
 *
 * The owner fills in tenant, key_id or opening, expires_ms and on_revoked, opens the grant and
 * closes it at the end. When the key is revoked or expires, the port is closed, or the tenant is
 * removed, the grant is closed and on_revoked is called, from the loop and never from inside the
 * call that revokes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop.h"
#include "store.h"

struct core;
struct tenant;

struct grant {
	struct tenant *tenant;
	char key_id[STORE_ID_MAX]; /* "": there is no key, only the tenant counts */
	/* Of the port of a session whose URL let it in (session_ports.h); "": it was a key. */
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

/* Revokes every grant of a key, or (key_id NULL) of a tenant. */
void grant_revoke(struct core *c, const struct tenant *t, const char *key_id);
/* Revokes every grant of an opening of a port. */
void grant_revoke_opening(struct core *c, const struct tenant *t, const char *opening);
