/* resolver_private.h - the structures of the resolver, for resolver*.c only: a job is one lookup,
 * an entry is one name known or being asked for. */
#pragma once

#include "lib/outbound/resolver_lookup.h"
#include "lib/outbound/resolver_query.h"
#include "lib/policy/host.h"

#define RESOLVER_BUCKETS 1024U

enum { RESOLVER_V6, RESOLVER_V4, RESOLVER_FAMILIES };

struct result {
	struct ip ips[RESOLVER_ADDRESSES_MAX];
	size_t n;
	struct err why; /* if n is 0 */
};

struct resolver_job {
	struct resolver_job *next, **back; /* list of all jobs */
	struct resolver *resolver;
	struct lookup *lookup;
	char host[HOST_MAX];
	bool queued;			  /* waits in resolver_queue.c */
	struct resolver_job *next_queued; /* list of its owner */
	struct resolver_entry *entry;	 /* that it waits for. NULL: has its result, or is queued */
	struct resolver_job *next_there; /* list of the entry */
	struct result result;
	struct loop_task task;
};

struct family_query {
	struct resolver *resolver;
	struct resolver_entry *entry;
	struct resolver_query *query; /* owned. NULL: answered, or failed to start */
	struct ip ips[DNS_MSG_ADDRESSES];
	size_t n;
	int sys; /* 0: answered. Else errno */
	uint32_t ttl;
};

struct resolver_entry {
	struct resolver_entry *next_here; /* list of the bucket */
	struct resolver_entry *older, *newer;
	char host[HOST_MAX];
	struct resolver_owner *owner; /* the first that asked, for which it is counted, or NULL */
	uint64_t began_ns;
	bool known;
	uint64_t until_ns; /* known until then */
	struct result result;
	struct family_query *families; /* owned, RESOLVER_FAMILIES of them. NULL when known */
	struct resolver_job *jobs;
	struct loop_timer grace;
};

struct resolver {
	struct loop *loop;
	struct resolver_servers servers;
	struct resolver_hosts *hosts; /* owned */
	struct resolver_entry *buckets[RESOLVER_BUCKETS];
	struct resolver_entry *oldest, *newest;
	size_t nentries, under_way;
	unsigned places, reserve; /* how many may be open, see resolver_queue.c */
	struct resolver_job *jobs;
	struct resolver_owner *queued; /* sessions with queued lookups */
	struct loop_task pump;
	struct loop_timer patience;
};

/* ---- resolver.c, called by resolver_queue.c */

/* Give the job its result, or let it wait for the entry of its name. */
void resolver_ask(struct resolver_job *j);
/* End an entry not known yet: its jobs get the addresses received, or the error that no name server
 * answered. */
void resolver_entry_give_up(struct resolver *r, struct resolver_entry *n);
