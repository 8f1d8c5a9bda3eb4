/* resolver.c - theory of operation
 *
 * A name is an entry: A and AAAA are asked for at once, and all lookups of the name wait for the
 * same two queries. When both are answered, or one has addresses and the other does not come within
 * GRACE_NS, the entry is known, for as long as its TTL says (within bounds). With TTL 0 it is not
 * kept: the jobs that wait get it, the next lookup asks again.
 *
 * A lookup is a job. It waits in the queue (resolver_queue.c), or for an entry, or it has its
 * result (a copy) and waits for the end of this turn. Callbacks are called
 * by the loop only, so they may start and cancel lookups. */
#include "lib/outbound/resolver.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/str.h"
#include "lib/base/text_hash.h"
#include "lib/outbound/resolver_private.h"
#include "lib/outbound/resolver_queue.h"

/* ---- jobs: a job is one lookup, from resolver_lookup() to its callback */

static void on_task(struct loop_task *t);

/* In the list of the resolver. Abort without memory, as the loop does. */
static struct resolver_job *resolver_job_new(struct resolver *r, struct lookup *l, const char *host)
{
	struct resolver_job *j = calloc(1, sizeof(*j));

	if (!j)
		abort(); /* a lookup without its callback would hang its caller */
	j->resolver = r;
	j->lookup = l;
	j->task = (struct loop_task){ .on_run = on_task, .arg = j };
	j->next = r->jobs;
	j->back = &r->jobs;
	if (r->jobs)
		r->jobs->back = &j->next;
	r->jobs = j;
	l->query = j;
	str_copy(j->host, host);
	return j;
}

/* Free a job that waits neither in the queue nor for an entry. */
static void resolver_job_free(struct resolver_job *j)
{
	loop_task_cancel(j->resolver->loop, &j->task);
	*j->back = j->next;
	if (j->next)
		j->next->back = j->back;
	j->lookup->query = NULL;
	free(j);
}

/* The job is freed first, because the callback may start the same lookup again. */
static void on_task(struct loop_task *t)
{
	struct resolver_job *j = t->arg;
	struct lookup *l = j->lookup;
	struct result result = j->result;

	resolver_job_free(j);
	l->on_done(l, result.ips, result.n, result.n > 0 ? NULL : &result.why);
}

/* Give the job its result: the callback is called at the end of this turn, after the job is freed.
 */
static void resolver_job_give(struct resolver_job *j, const struct result *result)
{
	j->entry = NULL;
	j->result = *result;
	loop_defer(j->resolver->loop, &j->task);
}

/* ---- entries: the cache, names whose addresses are known or being asked for */

#define GRACE_NS (150 * CLOCK_MS)
#define S_NS (1000 * CLOCK_MS)
#define TTL_MAX 3600U
#define TTL_NO_MIN 5U
#define TTL_NO_MAX 60U
#define TTL_HALF 5U /* if one of the two queries was not answered */

static struct resolver_entry **resolver_bucket(struct resolver *r, const char *host)
{
	return &r->buckets[text_hash(host) % RESOLVER_BUCKETS];
}

static struct resolver_entry *resolver_entry_find(struct resolver *r, const char *host)
{
	struct resolver_entry *n = *resolver_bucket(r, host);

	while (n && strcmp(n->host, host) != 0)
		n = n->next_here;
	return n;
}

/* Count the entry no longer for its owner. */
static void resolver_entry_uncount(struct resolver_entry *n)
{
	if (!n->owner)
		return;
	n->owner->under_way--;
	if (n->owner->tenant)
		n->owner->tenant->under_way--;
	n->owner = NULL;
}

static void resolver_free_families(struct resolver *r, struct resolver_entry *n)
{
	if (!n->families)
		return;
	resolver_entry_uncount(n);
	for (int i = 0; i < RESOLVER_FAMILIES; i++)
		resolver_query_free(n->families[i].query);
	free(n->families);
	n->families = NULL;
	loop_timer_cancel(r->loop, &n->grace);
	r->under_way--;
	if (r->queued)
		loop_defer(r->loop, &r->pump); /* one place more: resolver_queue.c */
}

/* Free an entry that no job waits for. */
static void resolver_entry_free(struct resolver *r, struct resolver_entry *n)
{
	struct resolver_entry **p = resolver_bucket(r, n->host);

	assert(!n->jobs);
	while (*p != n)
		p = &(*p)->next_here;
	*p = n->next_here;
	LIST_GONE(n);
	*(n->older ? &n->older->newer : &r->oldest) = n->newer;
	*(n->newer ? &n->newer->older : &r->newest) = n->older;
	r->nentries--;
	resolver_free_families(r, n);
	free(n);
}

/* Free the oldest known entry. */
static void resolver_entry_make_room(struct resolver *r)
{
	struct resolver_entry *n = r->oldest;

	while (n && !n->known)
		n = n->newer;
	if (n)
		resolver_entry_free(r, n);
}

static void resolver_entry_forget_known(struct resolver *r)
{
	/* alone: a known entry has no job to tell */
	LIST_WALK_ENDING_BY(struct resolver_entry, n, r->oldest, newer) {
		if (n->known)
			resolver_entry_free(r, n);
	}
}

/* Put families in turn, IPv6 first, in the order of RFC 8305. Return how many. */
static size_t resolver_entry_interleave(const struct ip *v6, size_t n6, const struct ip *v4,
					size_t n4, struct ip ret[RESOLVER_ADDRESSES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; (i < n6 || i < n4) && n < RESOLVER_ADDRESSES_MAX; i++) {
		if (i < n6)
			ret[n++] = v6[i];
		if (i < n4 && n < RESOLVER_ADDRESSES_MAX)
			ret[n++] = v4[i];
	}
	return n;
}

/* ---- an entry becomes known */

static uint32_t resolver_clamp(uint32_t value, uint32_t low, uint32_t high)
{
	return value < low ? low : value > high ? high : value;
}

static void resolver_describe_failure(struct resolver_entry *n, int sys)
{
	struct err *e = &n->result.why;

	if (sys == 0) {
		(void)err_set(e, ERR_NOT_FOUND, "%s: no such name, or it has no address", n->host);
		return;
	}
	if (sys == ETIMEDOUT) {
		(void)err_set(e, ERR_SYSTEM, "%s: no name server answered", n->host);
	} else {
		errno = sys;
		(void)err_sys(e, "%s: name servers failed", n->host);
	}
	e->sys = sys;
}

/* Fill the result. Return how long it may be kept, in seconds. */
static uint32_t resolver_sum_up(struct resolver_entry *n)
{
	const struct family_query *v6 = &n->families[RESOLVER_V6], *v4 = &n->families[RESOLVER_V4];
	bool whole = !v6->query && !v4->query && v6->sys == 0 && v4->sys == 0;
	uint32_t ttl = TTL_MAX;

	n->result.n = resolver_entry_interleave(v6->ips, v6->n, v4->ips, v4->n, n->result.ips);
	if (n->result.n == 0) {
		resolver_describe_failure(n, v4->sys ? v4->sys : v6->sys);
		return whole ? resolver_clamp(v6->ttl < v4->ttl ? v6->ttl : v4->ttl, TTL_NO_MIN,
					      TTL_NO_MAX)
			     : 0;
	}
	for (int i = 0; i < RESOLVER_FAMILIES; i++) {
		if (n->families[i].n > 0 && n->families[i].ttl < ttl)
			ttl = n->families[i].ttl;
	}
	return whole || ttl < TTL_HALF ? ttl : TTL_HALF;
}

/* Jobs get copies, so the entry may go before their callbacks are called. */
static void resolver_become_known(struct resolver *r, struct resolver_entry *n)
{
	uint32_t ttl = resolver_sum_up(n);

	resolver_free_families(r, n);
	n->known = true;
	n->until_ns = clock_now_ns() + ttl * S_NS;
	while (n->jobs) {
		struct resolver_job *j = n->jobs;

		n->jobs = j->next_there;
		resolver_job_give(j, &n->result);
	}
	if (ttl == 0)
		resolver_entry_free(r, n);
}

void resolver_entry_give_up(struct resolver *r, struct resolver_entry *n)
{
	for (int i = 0; i < RESOLVER_FAMILIES; i++) {
		struct family_query *h = &n->families[i];

		if (!h->query)
			continue;
		resolver_query_free(h->query);
		h->query = NULL;
		h->sys = ETIMEDOUT;
	}
	resolver_become_known(r, n);
}

static void on_grace(struct loop_timer *t)
{
	struct family_query *h = t->arg;

	resolver_become_known(h->resolver, h->entry);
}

/* The first family with addresses gives the other one GRACE_NS. One without addresses waits for the
 * other as long as its query lasts. */
static void on_reply(void *arg, const struct dns_msg_reply *reply, int sys)
{
	struct family_query *h = arg;
	struct resolver_entry *n = h->entry;

	resolver_query_free(h->query);
	h->query = NULL;
	h->sys = sys;
	if (reply) {
		h->n = reply->n;
		memcpy(h->ips, reply->ips, reply->n * sizeof(*reply->ips));
		h->ttl = reply->ttl;
	}
	if (!n->families[RESOLVER_V6].query && !n->families[RESOLVER_V4].query)
		resolver_become_known(h->resolver, n);
	else if (h->n > 0)
		loop_timer_set(h->resolver->loop, &n->grace, clock_now_ns() + GRACE_NS);
}

/* Start its queries. NULL: out of memory, or the name cannot be asked for. */
static struct resolver_entry *resolver_entry_new(struct resolver *r, const char *host,
						 struct resolver_owner *owner)
{
	static const uint16_t types[RESOLVER_FAMILIES] = {
		[RESOLVER_V6] = DNS_MSG_AAAA, [RESOLVER_V4] = DNS_MSG_A
	};
	struct resolver_entry *n = calloc(1, sizeof(*n)), **here = resolver_bucket(r, host);

	if (!n)
		return NULL;
	n->families = calloc(RESOLVER_FAMILIES, sizeof(*n->families));
	if (!n->families) {
		free(n);
		return NULL;
	}
	str_copy(n->host, host);
	n->owner = owner;
	if (owner)
		owner->under_way++;
	if (owner && owner->tenant)
		owner->tenant->under_way++;
	n->began_ns = clock_now_ns();
	n->grace = (struct loop_timer){ .on_expire = on_grace, .arg = &n->families[0] };
	n->next_here = *here;
	*here = n;
	n->older = r->newest;
	*(r->newest ? &r->newest->newer : &r->oldest) = n;
	r->newest = n;
	r->nentries++;
	r->under_way++;
	for (int i = 0; i < RESOLVER_FAMILIES; i++) {
		struct family_query *h = &n->families[i];

		*h = (struct family_query){ .resolver = r, .entry = n };
		h->query = resolver_query_new(r->loop, &r->servers, host, types[i], on_reply, h);
		if (!h->query) {
			resolver_entry_free(r, n);
			return NULL;
		}
	}
	return n;
}

/* ---- answers for jobs */

#define ENTRIES_MAX 4096

/* The callback comes later, as for any other result. */
static void resolver_fail(struct resolver_job *j, enum err_code code, const char *what)
{
	struct result result = { .n = 0 };

	(void)err_set(&result.why, code, "%s", what);
	resolver_job_give(j, &result);
}

/* Create an entry for the name of the job, or let the job wait for the existing entry. */
static void resolver_ask_server(struct resolver_job *j)
{
	struct resolver *r = j->resolver;
	struct resolver_entry *n = resolver_entry_find(r, j->host);

	if (!n && r->nentries >= ENTRIES_MAX)
		resolver_entry_make_room(r);
	if (!n)
		n = resolver_entry_new(r, j->host, j->lookup->owner);
	if (!n) {
		resolver_fail(j, ERR_NOT_FOUND, "not a name that can be looked up");
		return;
	}
	j->entry = n;
	j->next_there = n->jobs;
	n->jobs = j;
}

/* The entry of a name known or being asked for. An expired one is freed. */
static struct resolver_entry *resolver_ask_find(struct resolver *r, const char *host)
{
	struct resolver_entry *n = resolver_entry_find(r, host);

	if (n && n->known && n->until_ns <= clock_now_ns()) {
		resolver_entry_free(r, n);
		n = NULL;
	}
	return n;
}

void resolver_ask(struct resolver_job *j)
{
	struct resolver_entry *n = resolver_ask_find(j->resolver, j->host);

	if (n && n->known)
		resolver_job_give(j, &n->result);
	else
		resolver_ask_server(j);
}

/* ---- lookups */

/* Names that need no name server. */
static bool resolver_find_local(struct resolver *r, const char *host, struct result *ret)
{
	static const struct ip loopback[] = {
		{ { [15] = 1 } }, { { [10] = 0xFF, [11] = 0xFF, [12] = 127, [15] = 1 } }
	};
	struct ip all[RESOLVER_ADDRESSES_MAX],
		of[RESOLVER_FAMILIES][RESOLVER_ADDRESSES_MAX] = { 0 };
	size_t n = resolver_conf_hosts_find(r->hosts, host, all, COUNT(all)),
	       have[RESOLVER_FAMILIES] = { 0 };

	if (n == 0 && host_is_localhost(host)) {
		memcpy(all, loopback, sizeof(loopback));
		n = COUNT(loopback);
	}
	for (size_t i = 0; i < n; i++) {
		int family = ip_is_v4(&all[i]) ? RESOLVER_V4 : RESOLVER_V6;

		of[family][have[family]++] = all[i];
	}
	ret->n = resolver_entry_interleave(of[RESOLVER_V6], have[RESOLVER_V6], of[RESOLVER_V4],
					   have[RESOLVER_V4], ret->ips);
	return n > 0;
}

void resolver_lookup(struct resolver *r, const char *host, struct lookup *l)
{
	struct resolver_job *j = resolver_job_new(r, l, host);
	struct result near;

	if (resolver_find_local(r, host, &near))
		resolver_job_give(j, &near);
	else if (resolver_ask_find(r, host) || resolver_queue_may(r, l->owner))
		resolver_ask(j);
	else
		resolver_queue_add(j);
}

void resolver_cancel(struct lookup *l)
{
	struct resolver_job *j = l->query, **p;
	struct resolver_entry *n = j ? j->entry : NULL;

	if (!j)
		return;
	if (j->queued)
		resolver_queue_remove(j);
	if (n) {
		for (p = &n->jobs; *p != j; p = &(*p)->next_there)
			;
		*p = j->next_there;
		if (!n->jobs)
			resolver_entry_free(j->resolver, n); /* no job waits for it */
	}
	resolver_job_free(j);
}

void resolver_owner_gone(struct resolver *r, struct resolver_owner *o)
{
	if (o->under_way == 0)
		return;
	for (struct resolver_entry *n = r->oldest; n; n = n->newer)
		if (n->owner == o)
			resolver_entry_uncount(n);
}

/* ---- the resolver */

struct resolver *resolver_new(struct loop *l, const char *resolv_conf, const char *hosts,
			      struct err *e)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (r)
		r->hosts = resolver_conf_hosts(hosts);
	if (!r || !r->hosts) {
		free(r);
		(void)err_sys(e, "cannot create the resolver");
		return NULL;
	}
	r->loop = l;
	resolver_queue_init(r);
	resolver_conf_read(resolv_conf, &r->servers.conf);
	return r;
}

void resolver_divide(struct resolver *r, unsigned processes)
{
	resolver_queue_divide(r, processes);
}

void resolver_renew(struct resolver *r, const char *resolv_conf, const char *hosts)
{
	struct resolver_hosts *known = resolver_conf_hosts(hosts);

	if (known) {
		resolver_conf_hosts_free(r->hosts);
		r->hosts = known;
	}
	r->servers = (struct resolver_servers){ .turn = r->servers.turn };
	resolver_conf_read(resolv_conf, &r->servers.conf);
	resolver_entry_forget_known(r);
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	while (r->jobs)
		resolver_cancel(r->jobs->lookup);
	while (r->oldest)
		resolver_entry_free(r, r->oldest);
	resolver_queue_release(r);
	resolver_conf_hosts_free(r->hosts);
	free(r);
}
