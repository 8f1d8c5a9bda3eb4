/* resolver.h - finds the addresses of names for cordon-egress and cordon-pull: hosts and
 * resolv.conf of the node, UDP with TCP behind it, A and AAAA at once, CNAMEs followed, cached by
 * TTL. Called by outbound.c. Cells never reach it (they see dns.h). Addresses from name servers are
 * not trusted: outbound.c judges each before it connects. */
#pragma once

#include "lib/loop/loop.h"
#include "lib/outbound/resolver_lookup.h"

struct resolver;

/* Texts of /etc/resolv.conf and /etc/hosts as read before the process was confined. Copied. */
struct resolver *resolver_new(struct loop *l, const char *resolv_conf, const char *hosts,
			      struct err *e) MUST_USE;
/* So many processes ask the same name servers: each may ask for its part of the open names at a
 * time. One process otherwise. */
void resolver_divide(struct resolver *r, unsigned processes);
/* Take new texts, and empty the cache. */
void resolver_renew(struct resolver *r, const char *resolv_conf, const char *hosts);
void resolver_free(struct resolver *r);

/* host in its normal form. l->on_done is called later, never from inside, unless resolver_cancel()
 * is called first. If too many names are open, in all, of this session or of its tenant, it is
 * queued, without a deadline of its own: the caller has one. */
void resolver_lookup(struct resolver *r, const char *host, struct lookup *l);
void resolver_cancel(struct lookup *l);
/* The owner is being freed, and has no lookups any more. Its queries may continue for others. */
void resolver_owner_gone(struct resolver *r, struct resolver_owner *o);
