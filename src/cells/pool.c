/* pool.c - theory of operation
 *
 * The size follows demand: every second it becomes what was claimed in the last two seconds, but at
 * least what the configuration says, at most its maximum; it shrinks by one a second when nobody
 * asks. Refill makes a few cells at a time, behind whatever sessions ask of the keeper, and not
 * faster than configured. */
#include "pool.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "core_private.h"
#include "fd_budget.h"
#include "live_cell.h"
#include "log.h"
#include "session_id.h"
#include "session_spec.h"

#define REFILL_REST_MS 5
#define MAKING_MAX 2 /* at once for each keeper, which makes one at a time anyway */

struct pool {
	struct core *core;
	struct store_session like; /* what a pool cell is good for */
	bool usable;
	struct live_cell **ready; /* owned; the oldest last */
	unsigned nready, making, size;
	uint64_t hits, misses, claimed, claimed_before;
	uint64_t tokens_milli, tokens_at_ns;
	struct loop_timer timer;
	uint64_t failures;
};

static void on_timer(struct loop_timer *t)
{
	pool_fill(t->arg);
}

struct pool *pool_new(struct core *c)
{
	struct pool *p = calloc(1, sizeof(*p));

	assert(p != NULL);
	p->core = c;
	p->size = (unsigned)c->o.config->pool_size;
	p->ready = calloc(c->o.config->pool_max + 1, sizeof(struct live_cell *));
	assert(p->ready != NULL);
	p->timer = (struct loop_timer){ .fire = on_timer, .arg = p };
	return p;
}

void pool_free(struct pool *p)
{
	loop_timer_cancel(p->core->loop, &p->timer);
	while (p->nready > 0)
		live_cell_leave(p->ready[--p->nready]);
	free(p->ready);
	free(p);
}

static void cell_up(struct live_cell *c, const struct err *e)
{
	struct pool *p = c->owner;

	p->making--;
	if (e != NULL) {
		p->failures++;
		loop_timer_set(p->core->loop, &p->timer, clock_now_ns() + 1000 * CLOCK_MS);
		return;
	}
	p->failures = 0;
	if (p->core->draining || p->nready >= p->core->o.config->pool_max) {
		live_cell_own(c, &core_orphan_events, NULL);
		live_cell_end(c);
		return;
	}
	memmove(p->ready + 1, p->ready, p->nready * sizeof(struct live_cell *));
	p->ready[0] = c;
	p->nready++;
	pool_fill(p);
}

static void cell_dead(struct live_cell *c)
{
	struct pool *p = c->owner;

	for (unsigned i = 0; i < p->nready; i++)
		if (p->ready[i] == c) {
			p->nready--;
			memmove(p->ready + i, p->ready + i + 1,
				(p->nready - i) * sizeof(struct live_cell *));
			break;
		}
	live_cell_own(c, &core_orphan_events, NULL);
	live_cell_end(c);
	pool_fill(p);
}

static void cell_gone(struct live_cell *c)
{
	(void)c;
}

static const struct live_cell_events pool_events = { .up = cell_up,
						     .dead = cell_dead,
						     .gone = cell_gone };

static bool may_make(struct pool *p)
{
	uint64_t rate = p->core->o.config->pool_refill_milli, now = clock_now_ns();
	uint64_t ms = (now - p->tokens_at_ns) / CLOCK_MS;

	if (rate == 0)
		return true;
	p->tokens_milli += rate * (ms < 10000 ? ms : 10000) / 1000;
	p->tokens_at_ns = now;
	if (p->tokens_milli > 2 * rate)
		p->tokens_milli = 2 * rate;
	if (p->tokens_milli < 1000) {
		loop_timer_set(p->core->loop, &p->timer, now + 10 * CLOCK_MS);
		return false;
	}
	p->tokens_milli -= 1000;
	return true;
}

static unsigned making_max(const struct pool *p)
{
	return MAKING_MAX * keeper_link_greeted(&p->core->keeper);
}

void pool_fill(struct pool *p)
{
	struct session_spec spec = { .profile = -1 };
	struct keeper_create plan;
	char *texts;
	struct err e;
	const char *why;

	if (!core_ready(p->core, &why) || p->core->draining || p->failures > 3 ||
	    fd_budget_check(&p->core->fds, &e) < 0)
		return;
	if (!p->usable) {
		if (session_spec_check(p->core, &spec, &p->like, &texts, &e) < 0) {
			log_warn("no pool", "error=%s", e.msg);
			return;
		}
		free(texts);
		p->like.mounts = "";
		p->usable = true;
	}
	while (p->nready + p->making < p->size && p->making < making_max(p) && may_make(p)) {
		session_id_make(p->core->o.config->node_name, p->like.id);
		if (session_spec_plan(p->core, &p->like, &plan, &e) < 0)
			return;
		p->making++;
		(void)live_cell_make(p->core, &plan, false, &pool_events, p);
	}
}

void pool_adapt(struct pool *p)
{
	const struct config *g = p->core->o.config;
	uint64_t demand = p->claimed + p->claimed_before;
	uint64_t want = demand > g->pool_size ? demand : g->pool_size;

	p->claimed_before = p->claimed;
	p->claimed = 0;
	p->failures = 0;
	if (want > g->pool_max)
		want = g->pool_max;
	p->size = want >= p->size ? (unsigned)want : p->size - 1;
	if (p->nready > p->size) {
		struct live_cell *c = p->ready[--p->nready];

		live_cell_own(c, &core_orphan_events, NULL);
		live_cell_end(c);
	}
	pool_fill(p);
}

void pool_empty(struct pool *p)
{
	while (p->nready > 0) {
		struct live_cell *c = p->ready[--p->nready];

		live_cell_own(c, &core_orphan_events, NULL);
		live_cell_end(c);
	}
}

bool pool_is_idle(const struct pool *p)
{
	return p->making == 0;
}

static bool alike(const struct pool *p, const struct store_session *row)
{
	return p->usable && row->profile == p->like.profile &&
	       strcmp(row->template, p->like.template) == 0 && row->mounts[0] == '\0' &&
	       memcmp(&row->limits, &p->like.limits, sizeof(row->limits)) == 0;
}

struct live_cell *pool_claim(struct pool *p, const struct store_session *row)
{
	struct live_cell *c;

	p->claimed++;
	if (!alike(p, row) || p->nready == 0) {
		p->misses++;
		return NULL;
	}
	c = p->ready[--p->nready];
	p->hits++;
	/* Later: the one who asked is answered first, and while there is enough, what it runs next,
	 * too. */
	loop_timer_set(p->core->loop, &p->timer,
		       clock_now_ns() + (2 * p->nready >= p->size ? REFILL_REST_MS : 1) * CLOCK_MS);
	return c;
}

void pool_numbers(const struct pool *p, unsigned *ret_size, unsigned *ret_ready, uint64_t *ret_hits,
		  uint64_t *ret_misses)
{
	*ret_size = p->size;
	*ret_ready = p->nready;
	*ret_hits = p->hits;
	*ret_misses = p->misses;
}
