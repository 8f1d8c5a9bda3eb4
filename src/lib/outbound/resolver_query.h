/* resolver_query.h - one DNS question, asked of one name server after the other until one answers.
 * Called by resolver.c. */
#pragma once

#include "lib/loop/loop.h"
#include "lib/outbound/dns_msg.h"
#include "lib/outbound/resolver_conf.h"

struct resolver_query;

struct resolver_servers {
	struct resolver_conf conf;
	/* Servers that did not answer lately are asked last. */
	uint64_t silent_until_ns[RESOLVER_CONF_SERVERS];
	unsigned turn; /* for "rotate" */
};

/* reply: valid during the call, rcode OK or NXDOMAIN, not truncated. NULL: no usable reply, and sys
 * is the errno (ETIMEDOUT: no server answered). The query is freed by its owner, in on_done() or
 * later. */
typedef void resolver_query_fn(void *arg, const struct dns_msg_reply *reply, int sys);

/* NULL: out of memory, or not a name that can be asked for. on_done is called later, never from
 * inside. servers must outlive the query, and may change during it. */
struct resolver_query *resolver_query_new(struct loop *l, struct resolver_servers *servers,
					  const char *host, uint16_t type,
					  resolver_query_fn *on_done, void *arg);
void resolver_query_free(struct resolver_query *q);
