/* synthetic_names.h - the addresses that stand for names in one session: the resolver of the cell
 * answers with them, and a connection to one is a connection to its name. Called by dns.c,
 * endpoint.c and session_control.c.
 *
 * They are from 198.18.0.0/15 and fd63:6f72:646f:6e00::/64. An address depends on a hash of its
 * name, so that a name nearly always has the same address after a restart of egress: programs in
 * cells remember addresses, so the hash must not change from release to release. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/ip.h"
#include "lib/policy/host.h"

/* of a session. Beyond it the one unused for longest is dropped */
#define SYNTHETIC_NAMES_MAX 4096
/* The listeners themselves: resolver (port 53) and explicit proxy. */
#define SYNTHETIC_NAMES_LISTENER_V4 "198.18.0.1"
#define SYNTHETIC_NAMES_LISTENER_V6 "fd63:6f72:646f:6e00::1"
#define SYNTHETIC_NAMES_PROXY_PORT 3128

/* Names of all sessions of a tenant, also dropped ones whose addresses are kept back. A session
 * that has SYNTHETIC_NAMES_OWN replaces its oldest when they are SYNTHETIC_NAMES_TENANT_MAX /
 * processes. */
#define SYNTHETIC_NAMES_TENANT_MAX 65536U
#define SYNTHETIC_NAMES_OWN 128U

struct synthetic_names_share {
	unsigned n, max;
};

struct synthetic_names *synthetic_names_new(void);
/* Called before the first name. share: borrowed. */
void synthetic_names_join(struct synthetic_names *n, struct synthetic_names_share *share);
void synthetic_names_free(struct synthetic_names *n);
/* The addresses of a name in its normal form. -1: out of memory. */
int synthetic_names_give(struct synthetic_names *n, const char *host, struct ip *ret_v4,
			 struct ip *ret_v6) MUST_USE;
/* The name of an address. NULL: none. Valid until the next synthetic_names_give(). */
const char *synthetic_names_find(struct synthetic_names *n, const struct ip *ip);
/* Is it in the ranges above, whether it stands for a name or not? */
bool synthetic_names_is_synthetic(const struct ip *ip);
bool synthetic_names_is_listener(const struct ip *ip);
