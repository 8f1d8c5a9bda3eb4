/* resolver_query.h - one question, asked of one server after the other until one has an answer. */
#pragma once

#include "dns_msg.h"
#include "loop.h"
#include "resolver_conf.h"

struct resolver_query;

struct resolver_servers {
	struct resolver_conf conf;
	/* Those that were silent lately are asked last. */
	uint64_t silent_until_ns[RESOLVER_CONF_SERVERS];
	unsigned turn; /* for "rotate" */
};

/* reply: valid during the call, rcode OK or NXDOMAIN, not truncated; NULL: none of use came, and
 * sys says why (ETIMEDOUT: nobody answered). The query is freed by its owner, also in done(). */
typedef void resolver_query_fn(void *arg, const struct dns_msg_reply *reply, int sys);

/* NULL: no memory, or no name to ask for. done comes later, never from inside. servers must outlive
 * the query, and may change meanwhile. */
struct resolver_query *resolver_query_new(struct loop *l, struct resolver_servers *servers,
					  const char *host, uint16_t type, resolver_query_fn *done,
					  void *arg);
void resolver_query_free(struct resolver_query *q);
