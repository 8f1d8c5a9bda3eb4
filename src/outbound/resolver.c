/* resolver.c - theory of operation
 *
 * A name is an entry: A and AAAA are asked for at once, and all lookups of the name wait for the
 * same two queries. When both are answered, or one has addresses and the other does not come within
 * GRACE_NS, the entry is known, for as long as its TTL says (within bounds). With TTL 0 it is not
 * kept: the jobs that wait get it, the next lookup asks again.
 *
 * A lookup is a job. It waits in the queue (resolver_queue.c), or for an entry (resolver_ask.c), or
 * has its result (a copy) and waits for the end of this turn (resolver_job.c). Callbacks are called
 * by the loop only, so they may start and cancel lookups. */
#include "resolver.h"

#include <stdlib.h>
#include <string.h>

#include "rand.h"
#include "resolver_ask.h"
#include "resolver_entry.h"
#include "resolver_job.h"
#include "resolver_queue.h"

/* ---- lookups */

/* Names that need no name server. */
static bool find_local(struct resolver *r, const char *host, struct result *ret)
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
	struct job *j = resolver_job_new(r, l, host);
	struct result near;

	if (find_local(r, host, &near))
		resolver_job_give(j, &near);
	else if (resolver_ask_find(r, host) || resolver_queue_may(r, l->owner))
		resolver_ask(j);
	else
		resolver_queue_add(j);
}

void resolver_cancel(struct lookup *l)
{
	struct job *j = l->query, **p;
	struct entry *n = j ? j->entry : NULL;

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
	for (struct entry *n = r->oldest; n; n = n->newer)
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
	rand_bytes(&r->seed, sizeof(r->seed));
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
