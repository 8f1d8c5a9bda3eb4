/* resolver_entry.h - the cache of the resolver: names whose addresses are known, or being asked
 * for. For resolver*.c only. */
#pragma once

#include "resolver_private.h"

struct entry *resolver_entry_find(struct resolver *r, const char *host);
/* Starts its queries. NULL: out of memory, or the name cannot be asked for. */
struct entry *resolver_entry_new(struct resolver *r, const char *host,
				 struct resolver_owner *owner);
/* Ends an entry that is not known yet: its jobs get the addresses that have arrived, or the error
 * that no name server answered. */
void resolver_entry_give_up(struct resolver *r, struct entry *n);
/* Counts the entry no longer for its owner. */
void resolver_entry_uncount(struct entry *n);
/* Frees an entry that no job waits for. */
void resolver_entry_free(struct resolver *r, struct entry *n);
/* Frees the oldest entry that is known. */
void resolver_entry_make_room(struct resolver *r);
void resolver_entry_forget_known(struct resolver *r);
/* Puts families in turn, IPv6 first, in the order of RFC 8305. Returns how many. */
size_t resolver_entry_interleave(const struct ip *v6, size_t n6, const struct ip *v4, size_t n4,
				 struct ip ret[RESOLVER_ADDRESSES_MAX]);
