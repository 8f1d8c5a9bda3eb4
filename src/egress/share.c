#include "share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fd_reserve.h"
#include "egress_session.h"

#define FIXED_FDS 128U	     /* log, channels, names, the loop */
#define LOOKUP_FDS 640U	     /* two queries for each of as many as there may be (resolver.c) */
#define KEPT_FDS (64U * 6U)  /* for sessions that hold none */
#define LEAST_FDS (16U * 6U) /* whatever the limit is */

unsigned share_fds_of(uint64_t limit)
{
	uint64_t taken = FIXED_FDS + LOOKUP_FDS + FD_RESERVE_MAX + KEPT_FDS;
	uint64_t most = limit < UINT32_MAX ? limit : UINT32_MAX;

	return most < taken + LEAST_FDS ? LEAST_FDS : (unsigned)(most - taken);
}

struct share *share_join(struct egress *e, const char *tenant)
{
	struct share *s = e->shares;

	while (s != NULL && strcmp(s->tenant, tenant) != 0)
		s = s->next;
	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			return NULL;
		(void)snprintf(s->tenant, sizeof(s->tenant), "%s", tenant);
		s->next = e->shares;
		e->shares = s;
	}
	s->sessions++;
	return s;
}

void share_leave(struct egress *e, struct share *s)
{
	struct share **at = &e->shares;

	if (s == NULL || --s->sessions > 0)
		return;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
}

/* ---- descriptors */

bool share_take_fds(struct egress_session *g, unsigned n)
{
	struct egress *e = g->egress;
	unsigned doors = 2 * e->nsessions;
	unsigned used = e->fds + doors, left = used < e->fds_max ? e->fds_max - used : 0;
	bool fits = n <= left && g->share->fds + n <= left;

	/* One connection of a session that has none; there are as many kept as that takes, and no
	 * more. */
	if (!fits && (g->fds > 0 || e->fds + doors + n > e->fds_max + KEPT_FDS))
		return false;
	e->fds += n;
	g->share->fds += n;
	g->fds += n;
	return true;
}

void share_give_fds(struct egress_session *g, unsigned n)
{
	g->egress->fds -= n;
	g->share->fds -= n;
	g->fds -= n;
}

bool share_memory(struct egress_session *g, size_t before, size_t now)
{
	g->memory += now - before;
	g->share->memory += now - before;
	return now <= before ||
	       (g->memory <= SHARE_MEMORY_MAX && g->share->memory <= SHARE_TENANT_MEMORY);
}

/* ---- turns */

static struct share_turn *now(struct share_turn *t, const struct egress_session *g)
{
	uint64_t at = loop_now_ns(g->egress->loop);

	if (t->at_ns != at)
		*t = (struct share_turn){ .at_ns = at };
	return t;
}

static uint64_t under(uint64_t n, uint64_t max)
{
	return n < max ? max - n : 0;
}

uint64_t share_turn_left(struct egress_session *g)
{
	uint64_t own = under(now(&g->turn, g)->bytes, SHARE_TURN_BYTES);
	uint64_t all = under(now(&g->share->turn, g)->bytes, SHARE_TENANT_BYTES);

	return own < all ? own : all;
}

void share_turn_moved(struct egress_session *g, uint64_t n)
{
	now(&g->turn, g)->bytes += n;
	now(&g->share->turn, g)->bytes += n;
}

bool share_turn_accept(struct egress_session *g)
{
	struct share_turn *own = now(&g->turn, g), *all = now(&g->share->turn, g);

	if (own->accepts >= SHARE_TURN_ACCEPTS || all->accepts >= SHARE_TENANT_ACCEPTS)
		return false;
	own->accepts++;
	all->accepts++;
	return true;
}

bool share_turn_shake(struct egress_session *g)
{
	struct share_turn *own = now(&g->turn, g), *all = now(&g->share->turn, g);

	if (own->shakes >= SHARE_TURN_SHAKES || all->shakes >= SHARE_TENANT_SHAKES)
		return false;
	own->shakes++;
	all->shakes++;
	return true;
}
