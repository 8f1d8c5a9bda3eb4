#include "resolver_entry.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "resolver_job.h"

#define GRACE_NS (150 * CLOCK_MS)
#define S_NS (1000 * CLOCK_MS)
#define TTL_MAX 3600U
#define TTL_NO_MIN 5U
#define TTL_NO_MAX 60U
#define TTL_HALF 5U /* if one of the two queries was not answered */

static struct entry **bucket(struct resolver *r, const char *host)
{
	uint32_t h = r->seed;

	for (; *host != '\0'; host++)
		h = (h ^ (uint8_t)*host) * 16777619U;
	return &r->buckets[(h ^ h >> 15) % RESOLVER_BUCKETS];
}

struct entry *resolver_entry_find(struct resolver *r, const char *host)
{
	struct entry *n = *bucket(r, host);

	while (n && strcmp(n->host, host) != 0)
		n = n->next_here;
	return n;
}

void resolver_entry_uncount(struct entry *n)
{
	if (!n->owner)
		return;
	n->owner->under_way--;
	if (n->owner->tenant)
		n->owner->tenant->under_way--;
	n->owner = NULL;
}

static void free_families(struct resolver *r, struct entry *n)
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

void resolver_entry_free(struct resolver *r, struct entry *n)
{
	struct entry **p = bucket(r, n->host);

	assert(!n->jobs);
	while (*p != n)
		p = &(*p)->next_here;
	*p = n->next_here;
	*(n->older ? &n->older->newer : &r->oldest) = n->newer;
	*(n->newer ? &n->newer->older : &r->newest) = n->older;
	r->nentries--;
	free_families(r, n);
	free(n);
}

void resolver_entry_make_room(struct resolver *r)
{
	struct entry *n = r->oldest;

	while (n && !n->known)
		n = n->newer;
	if (n)
		resolver_entry_free(r, n);
}

void resolver_entry_forget_known(struct resolver *r)
{
	for (struct entry *n = r->oldest, *newer; n; n = newer) {
		newer = n->newer;
		if (n->known)
			resolver_entry_free(r, n);
	}
}

size_t resolver_entry_interleave(const struct ip *v6, size_t n6, const struct ip *v4, size_t n4,
				 struct ip ret[RESOLVER_ADDRESSES_MAX])
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

static uint32_t clamp(uint32_t value, uint32_t low, uint32_t high)
{
	return value < low ? low : value > high ? high : value;
}

static void describe_failure(struct entry *n, int sys)
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

/* Fills the result. Returns how long it may be kept, in seconds. */
static uint32_t sum_up(struct entry *n)
{
	const struct family_query *v6 = &n->families[RESOLVER_V6], *v4 = &n->families[RESOLVER_V4];
	bool whole = !v6->query && !v4->query && v6->sys == 0 && v4->sys == 0;
	uint32_t ttl = TTL_MAX;

	n->result.n = resolver_entry_interleave(v6->ips, v6->n, v4->ips, v4->n, n->result.ips);
	if (n->result.n == 0) {
		describe_failure(n, v4->sys ? v4->sys : v6->sys);
		return whole ? clamp(v6->ttl < v4->ttl ? v6->ttl : v4->ttl, TTL_NO_MIN, TTL_NO_MAX)
			     : 0;
	}
	for (int i = 0; i < RESOLVER_FAMILIES; i++) {
		if (n->families[i].n > 0 && n->families[i].ttl < ttl)
			ttl = n->families[i].ttl;
	}
	return whole || ttl < TTL_HALF ? ttl : TTL_HALF;
}

static void become_known(struct resolver *r, struct entry *n)
{
	uint32_t ttl = sum_up(n);

	free_families(r, n);
	n->known = true;
	n->until_ns = clock_now_ns() + ttl * S_NS;
	while (n->jobs) {
		struct job *j = n->jobs;

		n->jobs = j->next_there;
		resolver_job_give(j, &n->result);
	}
	if (ttl == 0)
		resolver_entry_free(r, n);
}

void resolver_entry_give_up(struct resolver *r, struct entry *n)
{
	for (int i = 0; i < RESOLVER_FAMILIES; i++) {
		struct family_query *h = &n->families[i];

		if (!h->query)
			continue;
		resolver_query_free(h->query);
		h->query = NULL;
		h->sys = ETIMEDOUT;
	}
	become_known(r, n);
}

static void on_grace(struct loop_timer *t)
{
	struct family_query *h = t->arg;

	become_known(h->resolver, h->entry);
}

static void on_reply(void *arg, const struct dns_msg_reply *reply, int sys)
{
	struct family_query *h = arg;
	struct entry *n = h->entry;

	resolver_query_free(h->query);
	h->query = NULL;
	h->sys = sys;
	if (reply) {
		h->n = reply->n;
		memcpy(h->ips, reply->ips, reply->n * sizeof(*reply->ips));
		h->ttl = reply->ttl;
	}
	if (!n->families[RESOLVER_V6].query && !n->families[RESOLVER_V4].query)
		become_known(h->resolver, n);
	else if (h->n > 0)
		loop_timer_set(h->resolver->loop, &n->grace, clock_now_ns() + GRACE_NS);
}

struct entry *resolver_entry_new(struct resolver *r, const char *host, struct resolver_owner *owner)
{
	static const uint16_t types[RESOLVER_FAMILIES] = {
		[RESOLVER_V6] = DNS_MSG_AAAA, [RESOLVER_V4] = DNS_MSG_A
	};
	struct entry *n = calloc(1, sizeof(*n)), **here = bucket(r, host);

	if (!n)
		return NULL;
	n->families = calloc(RESOLVER_FAMILIES, sizeof(*n->families));
	if (!n->families) {
		free(n);
		return NULL;
	}
	(void)snprintf(n->host, sizeof(n->host), "%s", host);
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
