/* pool.c - theory of operation
 *
 * The size follows demand: every second it becomes the number of claims in the last two seconds,
 * but at least src.size (for src.keep_ns after a claim src.used_size) and at most src.max. Without
 * demand it shrinks by one a second. A few cells are made at a time, after requests of sessions,
 * and not faster than src.refill_milli. */
#include "daemon/cells/pool.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cells/live_guest.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#define REFILL_REST_MS 5
#define MAKING_MAX 2 /* at once for each keeper, which makes one at a time anyway */
#define REST_MS 2000 /* after a cell with a failed preparation. Doubled each time */
#define RESTS_MAX 7

struct pool {
	struct cells *cells; /* borrowed */
	struct pool_source src;
	bool closed;
	struct live_cell **ready;     /* owned, the oldest last */
	struct live_cell **preparing; /* owned */
	unsigned nready, npreparing;
	unsigned making; /* cells in preparation, too */
	unsigned size;
	uint64_t used_ns;      /* the last claim. 0: none */
	uint64_t again_ns;     /* no cell is made before, after a failed preparation */
	unsigned not_prepared; /* in a row */
	uint64_t hits, misses, claimed, claimed_before;
	uint64_t tokens_milli, tokens_at_ns;
	struct loop_timer timer;
	uint64_t failures;
};

static void on_timer(struct loop_timer *t)
{
	pool_fill(t->arg);
}

struct pool *pool_new(struct cells *cs, const struct pool_source *src)
{
	struct pool *p = calloc(1, sizeof(*p));

	assert(p != NULL);
	p->cells = cs;
	p->src = *src;
	p->size = src->size;
	p->ready = calloc(src->max + 1, sizeof(struct live_cell *));
	p->preparing = calloc(src->max + 1, sizeof(struct live_cell *));
	assert(p->ready != NULL && p->preparing != NULL);
	p->timer = (struct loop_timer){ .on_expire = on_timer, .arg = p };
	return p;
}

static struct live_cell *pool_unprepared(struct pool *p, struct live_cell *c)
{
	if (p->src.unprepare != NULL)
		p->src.unprepare(p->src.arg, c);
	return c;
}

void pool_free(struct pool *p)
{
	loop_timer_cancel(p->cells->loop, &p->timer);
	while (p->nready > 0)
		live_cell_detach(pool_unprepared(p, p->ready[--p->nready]));
	while (p->npreparing > 0)
		live_cell_detach(pool_unprepared(p, p->preparing[--p->npreparing]));
	free(p->ready);
	free(p->preparing);
	free(p);
}

static bool take_out(struct live_cell **list, unsigned *n, const struct live_cell *c)
{
	for (unsigned i = 0; i < *n; i++)
		if (list[i] == c) {
			--*n;
			memmove(list + i, list + i + 1, (*n - i) * sizeof(struct live_cell *));
			return true;
		}
	return false;
}

static void add_ready(struct pool *p, struct live_cell *c)
{
	if (p->closed || p->nready >= p->src.max) {
		live_cell_abandon(pool_unprepared(p, c));
		return;
	}
	memmove(p->ready + 1, p->ready, p->nready * sizeof(struct live_cell *));
	p->ready[0] = c;
	p->nready++;
	pool_fill(p);
}

/* Take the cell out of the pool and end it. The next one is made later. */
static void not_prepared(struct pool *p, struct live_cell *c, const char *why)
{
	unsigned n = p->not_prepared < RESTS_MAX ? p->not_prepared : RESTS_MAX;
	uint64_t rest_ns = ((uint64_t)REST_MS << n) * CLOCK_MS;

	log_warn("cell of the pool was dropped: what runs in advance failed",
		 "session_id=%s error=%s next_in_s=%llu", c->id, why,
		 (unsigned long long)(rest_ns / (1000 * CLOCK_MS)));
	p->not_prepared++;
	p->again_ns = clock_now_ns() + rest_ns;
	loop_timer_set(p->cells->loop, &p->timer, p->again_ns);
	live_cell_abandon(pool_unprepared(p, c));
}

void pool_prepared(struct pool *p, struct live_cell *c, const struct err *e)
{
	if (take_out(p->preparing, &p->npreparing, c))
		p->making--;
	else
		(void)take_out(p->ready, &p->nready, c);
	if (e != NULL) {
		not_prepared(p, c, e->msg);
		return;
	}
	p->not_prepared = 0;
	add_ready(p, c);
}

static void on_cell_up(struct live_cell *c, const struct err *e)
{
	struct pool *p = c->owner;

	if (e != NULL) {
		p->making--;
		p->failures++;
		loop_timer_set(p->cells->loop, &p->timer, clock_now_ns() + 1000 * CLOCK_MS);
		return;
	}
	p->failures = 0;
	if (p->src.prepare != NULL && p->nready + p->making > p->size) { /* pool_limit() */
		p->making--;
		live_cell_abandon(c);
		return;
	}
	if (p->src.prepare == NULL || p->closed || p->npreparing >= p->src.max) {
		p->making--;
		add_ready(p, c);
		return;
	}
	p->preparing[p->npreparing++] = c;
	p->src.prepare(p->src.arg, p, c);
}

static void on_cell_dead(struct live_cell *c)
{
	struct pool *p = c->owner;

	if (take_out(p->preparing, &p->npreparing, c)) {
		p->making--;
		not_prepared(p, c, "the cell ended");
		return;
	}
	(void)take_out(p->ready, &p->nready, c);
	live_cell_abandon(pool_unprepared(p, c));
	pool_fill(p);
}

static void on_cell_gone(struct live_cell *c)
{
}

/* A guest that does not answer is of no use to a session. */
static void on_guest(struct live_cell *c, const struct agent_event *v)
{
	if (v->stage == BOOT_GUEST_UNRESPONSIVE && c->state == LIVE_UP)
		on_cell_dead(c);
}

/* Ignore programs that a guest brings along or claims to have: none was requested. */
static void on_program(struct live_cell *c, const struct agent_event *v)
{
}

static const struct live_cell_events pool_events = { .on_up = on_cell_up,
						     .on_dead = on_cell_dead,
						     .on_gone = on_cell_gone,
						     .on_held = on_program,
						     .on_failed = on_program,
						     .on_synced = on_cell_gone,
						     .on_guest = on_guest };

static bool may_make(struct pool *p)
{
	uint64_t rate = p->src.refill_milli, now = clock_now_ns();
	uint64_t ms = (now - p->tokens_at_ns) / CLOCK_MS, more;

	if (rate == 0)
		return true;
	if (ms > 10000) {
		ms = 10000;
		p->tokens_at_ns = now - ms * CLOCK_MS;
	}
	more = rate * ms / 1000;
	p->tokens_at_ns += more * 1000 * CLOCK_MS / rate; /* not by time that gave no token yet */
	p->tokens_milli += more;
	if (p->tokens_milli > 2 * rate)
		p->tokens_milli = 2 * rate;
	if (p->tokens_milli < 1000) {
		loop_timer_set(p->cells->loop, &p->timer, now + 10 * CLOCK_MS);
		return false;
	}
	p->tokens_milli -= 1000;
	return true;
}

static unsigned making_max(const struct pool *p)
{
	return MAKING_MAX * keeper_link_greeted(&p->cells->keeper);
}

static int make_one(struct pool *p, struct err *e)
{
	struct keeper_create plan;
	struct boot_request boot;
	char root[CELL_ID_MAX] = "";
	int fds[BOOT_FDS_MAX];
	struct live_cell *c;

	if (p->src.plan(p->src.arg, &plan, e) < 0 ||
	    (p->src.guest != NULL && p->src.guest(p->src.arg, &plan, &boot, fds, root, e) < 0))
		return -1;
	p->making++;
	c = live_cell_make(p->cells, &plan, p->src.tenant, false, &pool_events, p);
	if (p->src.guest != NULL)
		live_guest_set(c, &boot, fds);
	memcpy(c->root_image, root, sizeof(root));
	return 0;
}

void pool_fill(struct pool *p)
{
	struct err e;

	if (p->closed || p->failures > 3 || clock_now_ns() < p->again_ns ||
	    !p->src.is_ready(p->src.arg) || fd_budget_check(&p->cells->fds, &e) < 0)
		return;
	while (p->nready + p->making < p->size && p->making < making_max(p) && may_make(p))
		if (make_one(p, &e) < 0) {
			log_warn("pool cannot be filled", "error=%s", e.msg);
			return;
		}
}

void pool_adapt(struct pool *p, unsigned max)
{
	uint64_t demand = p->claimed + p->claimed_before;
	bool used = p->used_ns != 0 && clock_now_ns() - p->used_ns < p->src.keep_ns;
	unsigned least = used && p->src.used_size > p->src.size ? p->src.used_size : p->src.size;
	uint64_t want = demand > least ? demand : least;

	p->claimed_before = p->claimed;
	p->claimed = 0;
	p->failures = 0;
	if (max > p->src.max)
		max = p->src.max;
	if (want > max)
		want = max;
	p->size = want >= p->size ? (unsigned)want : p->size - 1;
	if (p->nready > p->size) {
		struct live_cell *c = p->ready[--p->nready];

		live_cell_abandon(pool_unprepared(p, c));
	}
	pool_fill(p);
}

void pool_limit(struct pool *p, unsigned max)
{
	if (p->size > max)
		p->size = max;
	while (p->nready > 0 && p->nready + p->making > max)
		live_cell_abandon(pool_unprepared(p, p->ready[--p->nready]));
	while (p->npreparing > 0 && p->making > max) {
		p->making--;
		live_cell_abandon(pool_unprepared(p, p->preparing[--p->npreparing]));
	}
}

void pool_close(struct pool *p)
{
	p->closed = true;
	p->making -= p->npreparing;
	while (p->npreparing > 0)
		live_cell_abandon(pool_unprepared(p, p->preparing[--p->npreparing]));
	while (p->nready > 0)
		live_cell_abandon(pool_unprepared(p, p->ready[--p->nready]));
}

unsigned pool_size(const struct pool *p)
{
	return p->closed ? 0 : p->size;
}

bool pool_is_idle(const struct pool *p)
{
	return p->making == 0;
}

struct live_cell *pool_claim(struct pool *p, bool fits)
{
	struct live_cell *c;

	if (fits || p->src.guest == NULL) /* a guest that no session can use only takes memory */
		p->claimed++;
	if (fits)
		p->used_ns = clock_now_ns();
	if (!fits || p->nready == 0) {
		p->misses++;
		return NULL;
	}
	c = p->ready[--p->nready];
	p->hits++;
	/* Filled later: the client is answered first and, while enough cells are ready, its first
	 * execution is served first, too. */
	loop_timer_set(p->cells->loop, &p->timer,
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
