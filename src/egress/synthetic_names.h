/* synthetic_names.h - addresses that stand for names: what a cell's resolver answers, and what a
 * connection to such an address means. Of one session.
 *
 * From 198.18.0.0/15 and fd63:6f72:646f:6e00::/64. Where a name begins to look for a free place is
 * a hash of it, so a name gets the same address again after a restart of egress, nearly always. */
#pragma once

#include "err.h"
#include "host.h"
#include "ip.h"

#define SYNTHETIC_NAMES_MAX 4096 /* of a session; then the one not used for longest goes */
/* The listeners themselves: resolver (port 53) and explicit proxy. */
#define SYNTHETIC_NAMES_LISTENER_V4 "198.18.0.1"
#define SYNTHETIC_NAMES_LISTENER_V6 "fd63:6f72:646f:6e00::1"
#define SYNTHETIC_NAMES_PROXY_PORT 3128

struct synthetic_names *synthetic_names_new(void);
void synthetic_names_free(struct synthetic_names *n);
/* Addresses for a name in its normal form. -1: no memory. */
int synthetic_names_give(struct synthetic_names *n, const char *host, struct ip *ret_v4,
			 struct ip *ret_v6) MUST_USE;
/* The name of an address; NULL: it stands for none. Valid until the next synthetic_names_give(). */
const char *synthetic_names_find(struct synthetic_names *n, const struct ip *ip);
/* Is it one of ours at all, given or not? */
bool synthetic_names_is_synthetic(const struct ip *ip);
bool synthetic_names_is_listener(const struct ip *ip);
