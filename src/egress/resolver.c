/* resolver.c - names to addresses, for many who ask.
 *
 * A name is an entry: A and AAAA are asked for at once, and everybody who wants that name waits
 * for the same two queries. When both are answered, or one has addresses and the other does not
 * come within GRACE_NS, the entry is known, for as long as its TTL says (within bounds). TTL 0 is
 * not kept at all: who waited gets it, the next one asks again.
 *
 * A lookup is a job. It waits for its turn (resolver_queue.c), or at an entry, or has its result (a
 * copy) and waits for its turn in the loop: results are never given from inside of anything, so
 * whoever is told may start and cancel what he likes. */
#include "resolver_inside.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "rand.h"

#define ENTRIES_MAX 4096

/* ---- results */

static void run_job(struct loop_task *t);

static struct job *new_job(struct resolver *r, struct lookup *l)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		abort(); /* as the loop does: a lookup that is never answered helps nobody */
	j->resolver = r;
	j->lookup = l;
	j->task = (struct loop_task){ .run = run_job, .arg = j };
	j->next = r->jobs;
	j->back = &r->jobs;
	if (r->jobs)
		r->jobs->back = &j->next;
	r->jobs = j;
	l->query = j;
	return j;
}

static void free_job(struct job *j)
{
	loop_task_cancel(j->resolver->loop, &j->task);
	*j->back = j->next;
	if (j->next)
		j->next->back = j->back;
	j->lookup->query = NULL;
	free(j);
}

static void run_job(struct loop_task *t)
{
	struct job *j = t->arg;
	struct lookup *l = j->lookup;
	struct result result = j->result;

	free_job(j);
	l->done(l, result.ips, result.n, result.n > 0 ? NULL : &result.why);
}

void resolver_give(struct job *j, const struct result *result)
{
	j->entry = NULL;
	j->result = *result;
	loop_defer(j->resolver->loop, &j->task);
}

static void fail(struct job *j, enum err_code code, const char *what)
{
	struct result result = { .n = 0 };

	(void)err_set(&result.why, code, "%s", what);
	resolver_give(j, &result);
}

/* ---- lookups */

/* Names that need no server. */
static bool find_near(struct resolver *r, const char *host, struct result *ret)
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

/* Asks, or joins those who wait for the same name. */
static void ask(struct job *j)
{
	struct resolver *r = j->resolver;
	struct entry *n = resolver_entry_find(r, j->host);

	if (!n && r->nentries >= ENTRIES_MAX)
		resolver_entry_make_room(r);
	if (!n)
		n = resolver_entry_new(r, j->host, j->lookup->owner);
	if (!n) {
		fail(j, ERR_NOT_FOUND, "not a name that can be looked up");
		return;
	}
	j->entry = n;
	j->next_there = n->jobs;
	n->jobs = j;
}

/* The entry of its name, if that is known, or being asked for. */
static struct entry *find(struct resolver *r, const char *host)
{
	struct entry *n = resolver_entry_find(r, host);

	if (n && n->known && n->until_ns <= clock_now_ns()) {
		resolver_entry_free(r, n);
		n = NULL;
	}
	return n;
}

void resolver_begin(struct job *j)
{
	struct entry *n = find(j->resolver, j->host);

	if (n && n->known)
		resolver_give(j, &n->result);
	else
		ask(j);
}

void resolver_lookup(struct resolver *r, const char *host, struct lookup *l)
{
	struct job *j = new_job(r, l);
	struct result near;

	(void)snprintf(j->host, sizeof(j->host), "%s", host);
	if (find_near(r, host, &near))
		resolver_give(j, &near);
	else if (find(r, host) || resolver_queue_may(r, l->owner))
		resolver_begin(j);
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
			resolver_entry_free(j->resolver, n); /* nobody waits any more */
	}
	free_job(j);
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
		(void)err_sys(e, "cannot make a resolver");
		return NULL;
	}
	r->loop = l;
	resolver_queue_init(r);
	rand_bytes(&r->seed, sizeof(r->seed));
	resolver_conf_read(resolv_conf, &r->servers.conf);
	return r;
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
