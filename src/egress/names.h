/* names.h - addresses that stand for names: what a cell's resolver answers, and what a connection
 * to such an address means. Of one guest.
 *
 * From 198.18.0.0/15 and fd63:6f72:646f:6e00::/64. Where a name begins to look for a free place is
 * a hash of it, so a name gets the same address again after a restart of egress, nearly always. */
#pragma once

#include "guest.h"
#include "host.h"

#define NAMES_MAX 4096 /* of a guest; then the one not used for longest goes */
/* The door itself: resolver (53) and explicit proxy (NAMES_PROXY_PORT). */
#define NAMES_DOOR_V4 "198.18.0.1"
#define NAMES_DOOR_V6 "fd63:6f72:646f:6e00::1"
#define NAMES_PROXY_PORT 3128

struct names *names_new(void);
void names_free(struct names *n);
/* Addresses for a name in its normal form. -1: no memory. */
int names_give(struct names *n, const char *host, struct ip *ret_v4, struct ip *ret_v6) MUST_USE;
/* The name of an address; NULL: it stands for none. Valid until the next names_give(). */
const char *names_find(struct names *n, const struct ip *ip);
/* Is it one of ours at all, given or not? */
bool names_is_synthetic(const struct ip *ip);
bool names_is_door(const struct ip *ip);
