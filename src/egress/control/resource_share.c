#include "egress/control/resource_share.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/fd_reserve.h"
#include "lib/base/str.h"

#define FIXED_FDS 256U	/* log, channels, resolver files, the loop, metadata of packages */
#define LOOKUP_FDS 640U /* two queries for each of UNDER_WAY_MAX + RESERVE (resolver_queue.c) */
#define KEPT_FDS 384U	/* reserve for sessions that hold none */
#define LEAST_FDS 96U	/* even if the limit is lower */

void resource_share_init(struct resource_shares *all, struct loop *l, uint64_t fds_limit,
			 unsigned processes)
{
	uint64_t taken = FIXED_FDS + LOOKUP_FDS + FD_RESERVE_MAX + KEPT_FDS;
	uint64_t most = fds_limit < UINT32_MAX ? fds_limit : UINT32_MAX;

	*all = (struct resource_shares){ .loop = l,
					 .tenant_memory = RESOURCE_SHARE_TENANT_MEMORY / processes,
					 .tenant_names = SYNTHETIC_NAMES_TENANT_MAX / processes };
	all->fds_max = most < taken + LEAST_FDS ? LEAST_FDS : (unsigned)(most - taken);
}

int resource_share_join(struct resource_shares *all, struct resource_share *s, const char *tenant)
{
	struct resource_share_tenant *t = all->tenants;

	while (t != NULL && strcmp(t->name, tenant) != 0)
		t = t->next;
	if (t == NULL) {
		t = calloc(1, sizeof(*t));
		if (t == NULL)
			return -1;
		str_copy(t->name, tenant);
		t->names.max = all->tenant_names;
		t->next = all->tenants;
		all->tenants = t;
	}
	t->sessions++;
	all->sessions++;
	*s = (struct resource_share){ .all = all, .tenant = t };
	return 0;
}

void resource_share_leave(struct resource_share *s)
{
	struct resource_share_tenant **at, *t = s->tenant;

	if (t == NULL)
		return;
	s->all->sessions--;
	s->tenant = NULL;
	if (--t->sessions > 0)
		return;
	at = &s->all->tenants;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	free(t);
}

/* ---- descriptors */

bool resource_share_take_fds(struct resource_share *s, unsigned n)
{
	struct resource_shares *all = s->all;
	unsigned listeners = 2 * all->sessions;
	unsigned used = all->fds + listeners, left = used < all->fds_max ? all->fds_max - used : 0;
	bool fits = n <= left && s->tenant->fds + n <= left;

	/* Beyond that: one connection for a session without any, out of the reserve. */
	if (!fits && (s->fds > 0 || used + n > all->fds_max + KEPT_FDS))
		return false;
	all->fds += n;
	s->tenant->fds += n;
	s->fds += n;
	return true;
}

void resource_share_give_fds(struct resource_share *s, unsigned n)
{
	s->all->fds -= n;
	s->tenant->fds -= n;
	s->fds -= n;
}

bool resource_share_memory(struct resource_share *s, size_t before, size_t now)
{
	s->memory += now - before;
	s->tenant->memory += now - before;
	return now <= before || (s->memory <= RESOURCE_SHARE_MEMORY_MAX &&
				 s->tenant->memory <= s->all->tenant_memory);
}

bool resource_share_documents(struct resource_share *s, size_t before, size_t now)
{
	s->documents += now - before;
	s->tenant->documents += now - before;
	return now <= before || (s->documents <= RESOURCE_SHARE_DOCUMENTS_MAX &&
				 s->tenant->documents <= RESOURCE_SHARE_TENANT_DOCUMENTS);
}

/* ---- turns */

/* The current turn's counts: an earlier turn's are reset. */
static struct resource_share_turn *resource_share_current(struct resource_share_turn *t,
							  const struct resource_share *s)
{
	uint64_t at = loop_now_ns(s->all->loop);

	if (t->at_ns != at)
		*t = (struct resource_share_turn){ .at_ns = at };
	return t;
}

static uint64_t resource_share_under(uint64_t n, uint64_t max)
{
	return n < max ? max - n : 0;
}

uint64_t resource_share_turn_left(struct resource_share *s)
{
	uint64_t own = resource_share_under(resource_share_current(&s->turn, s)->bytes,
					    RESOURCE_SHARE_TURN_BYTES);
	uint64_t all = resource_share_under(resource_share_current(&s->tenant->turn, s)->bytes,
					    RESOURCE_SHARE_TENANT_BYTES);

	return own < all ? own : all;
}

void resource_share_turn_moved(struct resource_share *s, uint64_t n)
{
	resource_share_current(&s->turn, s)->bytes += n;
	resource_share_current(&s->tenant->turn, s)->bytes += n;
}

uint64_t resource_share_cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

void resource_share_turn_worked(struct resource_share *s, uint64_t since_ns)
{
	uint64_t ns = resource_share_cpu_ns() - since_ns;

	resource_share_turn_moved(s, ns * RESOURCE_SHARE_TURN_BYTES / RESOURCE_SHARE_TURN_NS);
}

bool resource_share_turn_accept(struct resource_share *s)
{
	struct resource_share_turn *own = resource_share_current(&s->turn, s),
				   *all = resource_share_current(&s->tenant->turn, s);

	if (own->accepts >= RESOURCE_SHARE_TURN_ACCEPTS ||
	    all->accepts >= RESOURCE_SHARE_TENANT_ACCEPTS)
		return false;
	own->accepts++;
	all->accepts++;
	return true;
}

bool resource_share_turn_handshake(struct resource_share *s)
{
	struct resource_share_turn *own = resource_share_current(&s->turn, s),
				   *all = resource_share_current(&s->tenant->turn, s);

	if (own->handshakes >= RESOURCE_SHARE_TURN_HANDSHAKES ||
	    all->handshakes >= RESOURCE_SHARE_TENANT_HANDSHAKES)
		return false;
	own->handshakes++;
	all->handshakes++;
	return true;
}
