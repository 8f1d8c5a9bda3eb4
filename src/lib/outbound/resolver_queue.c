/* resolver_queue.c - theory of operation
 *
 * Name servers, sockets and memory bound how many names are asked for at a time (places), and a
 * name without an answer keeps its place for long. So:
 *
 * - a session has at most RESOLVER_OWNER_MAX places, a tenant at most as many as are still free:
 *   the first tenant gets half, and some are always left for the next;
 * - a tenant without one gets one even then, and so does a session as long as its tenant has not
 *   many more than others: RESERVE places are for that;
 * - other lookups wait. Next is the one of the tenant with the fewest places, then of its session
 *   with the fewest; of one session, the oldest lookup;
 * - while lookups wait, a name without an answer for PATIENCE_NS is given up.
 *
 * Each of several processes of a node has its part of all places.
 *
 * The caller of a lookup has a deadline of its own (outbound.c), so nothing waits forever. */
#include "lib/outbound/resolver_queue.h"

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/outbound/resolver.h"

#define UNDER_WAY_MAX 256U
#define RESERVE 64U /* resource_share.c reserves descriptors for both */
#define BEGIN_PER_TURN 32U
#define PATIENCE_NS (3000 * CLOCK_MS)

bool resolver_queue_may(const struct resolver *r, const struct resolver_owner *o)
{
	unsigned under_way = (unsigned)r->under_way;
	unsigned left = under_way < r->places ? r->places - under_way : 0;
	const struct resolver_owner *tenant = o ? o->tenant : NULL;

	if (!o)
		return left > 0;
	if (o->under_way >= RESOLVER_OWNER_MAX || under_way >= r->places + r->reserve)
		return false;
	if (!tenant)
		return left > 0 || o->under_way == 0;
	return tenant->under_way < left || tenant->under_way == 0 ||
	       (o->under_way == 0 && tenant->under_way < r->places / 2 + r->reserve / 4);
}

/* ---- the queue */

static void queue_owner_in(struct resolver *r, struct resolver_owner *o)
{
	o->last = &o->first;
	o->prev = NULL;
	o->next = r->queued;
	if (o->next)
		o->next->prev = o;
	r->queued = o;
}

static void queue_owner_out(struct resolver *r, struct resolver_owner *o)
{
	*(o->prev ? &o->prev->next : &r->queued) = o->next;
	if (o->next)
		o->next->prev = o->prev;
	o->prev = o->next = NULL;
}

/* Lookups without an owner share one place in the queue. */
static struct resolver_owner *queue_owner_of(const struct resolver_job *j)
{
	static struct resolver_owner none;

	return j->lookup->owner ? j->lookup->owner : &none;
}

void resolver_queue_add(struct resolver_job *j)
{
	struct resolver *r = j->resolver;
	struct resolver_owner *o = queue_owner_of(j);

	if (!o->first)
		queue_owner_in(r, o);
	j->queued = true;
	j->next_queued = NULL;
	*o->last = j;
	o->last = &j->next_queued;
	if (r->patience.place == 0)
		loop_timer_set(r->loop, &r->patience, clock_now_ns());
}

void resolver_queue_remove(struct resolver_job *j)
{
	struct resolver_owner *o = queue_owner_of(j);
	struct resolver_job **p = &o->first;

	while (*p != j)
		p = &(*p)->next_queued;
	*p = j->next_queued;
	if (!*p)
		o->last = p;
	j->queued = false;
	if (!o->first)
		queue_owner_out(j->resolver, o);
}

/* ---- the next one */

static unsigned queue_tenant_has(const struct resolver_owner *o)
{
	return o->tenant ? o->tenant->under_way : o->under_way;
}

static bool queue_is_before(const struct resolver_owner *a, const struct resolver_owner *b)
{
	if (queue_tenant_has(a) != queue_tenant_has(b))
		return queue_tenant_has(a) < queue_tenant_has(b);
	return a->under_way <= b->under_way; /* of equals the older one, later in the list */
}

static struct resolver_owner *queue_next_owner(const struct resolver *r)
{
	struct resolver_owner *best = NULL;

	for (struct resolver_owner *o = r->queued; o; o = o->next)
		if (resolver_queue_may(r, o) && (!best || queue_is_before(o, best)))
			best = o;
	return best;
}

static void on_pump(struct loop_task *t)
{
	struct resolver *r = t->arg;
	struct resolver_owner *o;

	for (unsigned i = 0; (o = queue_next_owner(r)) != NULL; i++) {
		struct resolver_job *j = o->first;

		if (i == BEGIN_PER_TURN) {
			loop_defer(r->loop, t);
			return;
		}
		resolver_queue_remove(j);
		resolver_ask(j);
	}
}

/* Give up names that take long, while lookups wait. */
static void on_patience(struct loop_timer *t)
{
	struct resolver *r = t->arg;
	uint64_t now = clock_now_ns(), next = now + PATIENCE_NS;

	if (!r->queued)
		return;
	/* alone: the loop tells the jobs of an entry later */
	LIST_WALK_ENDING_BY(struct resolver_entry, n, r->oldest, newer) {
		if (n->known)
			continue;
		if (n->began_ns + PATIENCE_NS > now) { /* the rest of the list is younger */
			next = n->began_ns + PATIENCE_NS;
			break;
		}
		resolver_entry_give_up(r, n);
	}
	loop_timer_set(r->loop, t, next);
}

void resolver_queue_divide(struct resolver *r, unsigned processes)
{
	r->places = UNDER_WAY_MAX / processes;
	r->reserve = RESERVE / processes;
}

void resolver_queue_init(struct resolver *r)
{
	resolver_queue_divide(r, 1);
	r->pump = (struct loop_task){ .on_run = on_pump, .arg = r };
	r->patience = (struct loop_timer){ .on_expire = on_patience, .arg = r };
}

void resolver_queue_release(struct resolver *r)
{
	loop_task_cancel(r->loop, &r->pump);
	loop_timer_cancel(r->loop, &r->patience);
}
