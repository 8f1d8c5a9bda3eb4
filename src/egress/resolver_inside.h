/* resolver_inside.h - what the resolver is made of. For resolver.c and resolver_entry.c. */
#pragma once

#include "host.h"
#include "resolver.h"
#include "resolver_query.h"

#define RESOLVER_BUCKETS 1024U

enum { RESOLVER_V6, RESOLVER_V4, RESOLVER_FAMILIES };

struct result {
	struct ip ips[RESOLVER_ADDRESSES_MAX];
	size_t n;
	struct err why; /* without addresses */
};

struct job {
	struct job *next, **back; /* of all */
	struct resolver *resolver;
	struct lookup *lookup;
	char host[HOST_MAX];
	bool queued;		 /* waits for its turn: */
	struct job *next_queued; /* of its owner */
	struct entry *entry;	 /* waits there; NULL: has its result, or is queued */
	struct job *next_there;	 /* of the entry */
	struct result result;
	struct loop_task task;
};

struct half {
	struct resolver *resolver;
	struct entry *entry;
	struct resolver_query *query; /* owned; NULL: answered, or not even asked */
	struct ip ips[DNS_MSG_ADDRESSES];
	size_t n;
	int sys; /* 0: there was an answer */
	uint32_t ttl;
};

struct entry {
	struct entry *next_here; /* of the bucket */
	struct entry *older, *newer;
	char host[HOST_MAX];
	struct resolver_owner *owner; /* for whom it was asked for first, counted; or NULL */
	uint64_t began_ns;
	bool known;
	uint64_t until_ns; /* known so long */
	struct result result;
	struct half *halves; /* owned, RESOLVER_FAMILIES of them; NULL once it is known */
	struct job *jobs;
	struct loop_timer grace;
};

struct resolver {
	struct loop *loop;
	struct resolver_servers servers;
	struct resolver_hosts *hosts; /* owned */
	struct entry *buckets[RESOLVER_BUCKETS];
	struct entry *oldest, *newest;
	size_t nentries, under_way;
	struct job *jobs;
	struct resolver_owner *queued; /* sessions that have lookups that wait */
	struct loop_task pump;
	struct loop_timer patience;
	uint32_t seed;
};

struct entry *resolver_entry_find(struct resolver *r, const char *host);
/* Begins to ask. NULL: no memory, or no name to ask for. */
struct entry *resolver_entry_new(struct resolver *r, const char *host,
				 struct resolver_owner *owner);
/* Not known yet: whoever waits for it gets what is there, or that nobody answered. */
void resolver_entry_give_up(struct resolver *r, struct entry *n);
/* It is not counted for its owner any more. */
void resolver_entry_uncount(struct entry *n);
/* Nobody may wait for it. */
void resolver_entry_free(struct resolver *r, struct entry *n);
/* One place less in use: the oldest that is known goes. */
void resolver_entry_make_room(struct resolver *r);
void resolver_entry_forget_known(struct resolver *r);
/* Families in turn, IPv6 first, as RFC 8305 wants them tried. Returns how many. */
size_t resolver_entry_interleave(const struct ip *v6, size_t n6, const struct ip *v4, size_t n4,
				 struct ip ret[RESOLVER_ADDRESSES_MAX]);

/* resolver.c: a job has its result. */
void resolver_give(struct job *j, const struct result *result);

/* resolver_queue.c: may a name be asked for, for this owner? */
bool resolver_queue_may(const struct resolver *r, const struct resolver_owner *o);
void resolver_queue_init(struct resolver *r);
void resolver_queue_release(struct resolver *r);
void resolver_queue_add(struct job *j);
void resolver_queue_remove(struct job *j);
/* One place more. */
void resolver_queue_room(struct resolver *r);
/* resolver.c: it is its turn. */
void resolver_begin(struct job *j);
