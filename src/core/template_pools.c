/* template_pools.c - finished cells for the sessions of each template: with the node's default
 * limits and profile, and the mounts of the template.
 *
 * The pool of the template that sessions get by default has pool_size cells; those of the others
 * are empty until they are used, and then follow demand as pool.c says. All together have at most
 * pool_max; those of the operator's templates come first. In cells of a template with a start
 * command it runs in advance (pool_boot.h): there are pool_started_size of them, for
 * pool_started_keep after the last use. Cells of a tenant's templates in which its commands or a
 * guest run have room only where its quotas have room for as many sessions: they end when sessions
 * need it. The row of a default
 * session is made at the first use, when the keepers have said what the machine can do.
 *
 * There is a pool for each level that sessions of the template have had: that of the template's own
 * level, and others from their first session on. Cells with a guest take memory while they wait:
 * their number is that of cells with a start command; at microvm it does not grow with demand. At
 * each such level all templates together have STARTED_GROWTH times as many, those of one tenant
 * half of that, and the operator's come first. Those at microvm are clones of the template's memory
 * image: none is made before a session has used the level, and the image is in memory. A clone that
 * waits has run one program (pool_warm.h), with the names and random numbers of its own id, which
 * is that of the session that gets it. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "core_metrics.h"
#include "guest_at_hand.h"
#include "live_cell.h"
#include "pool.h"
#include "pool_boot.h"
#include "pool_warm.h"
#include "session_id.h"
#include "session_guest.h"
#include "session_spec.h"
#include "quota.h"
#include "templates_private.h"
#include "tenant.h"

#define STARTED_GROWTH \
	4 /* times pool_started_size, when demand is high; also of a tenant's in all */

static bool is_ready(void *arg)
{
	const struct level_pool *l = arg;
	const char *why;

	return core_ready(l->version->core, &why);
}

static bool is_vm(const struct level_pool *l)
{
	return l->like_set && cell_level_of(l->like.level)->engine == CELL_ENGINE_MICROVM;
}

static bool has_guest(const struct level_pool *l)
{
	return l->like_set && cell_level_of(l->like.level)->engine != CELL_ENGINE_NONE;
}

/* Nothing is loaded or started from the beginning for a pool. */
static bool is_vm_ready(void *arg)
{
	const struct level_pool *l = arg;

	return is_vm(l) && is_ready(arg) && guest_is_at_hand(l->version, &l->like);
}

static int settle(struct level_pool *l, uint32_t level, struct err *e)
{
	struct session_spec spec = { .profile = -1, .level = cell_level_of(level)->name };
	struct template_version *v = l->version;
	char *texts;

	if (l->like_set)
		return 0;
	if (session_spec_check(v->core, v, &spec, &l->like, &texts, e) < 0)
		return -1;
	free(texts);
	l->like.mounts = v->row.mounts; /* the others are not read any more */
	l->like_set = true;
	return 0;
}

static int plan(void *arg, struct keeper_create *ret, struct err *e)
{
	struct level_pool *l = arg;

	if (!l->like_set)
		return err_set(e, ERR_CONFLICT, "no session of this level was made yet");
	session_id_make(l->version->core->o.config->node_name, l->like.id);
	return session_spec_plan(l->version->core, l->version, &l->like, NULL, ret, e);
}

static int plan_own(void *arg, struct keeper_create *ret, struct err *e)
{
	struct level_pool *l = arg;

	return settle(l, l->version->row.level, e) < 0 ? -1 : plan(arg, ret, e);
}

static int guest(void *arg, const struct keeper_create *cell, struct boot_request *ret,
		 int *ret_fds, char ret_root[CELL_ID_MAX], struct err *e)
{
	const struct level_pool *l = arg;

	return guest_at_hand(l->version, &l->like, cell->id, ret, ret_fds, ret_root, e);
}

static unsigned lesser(uint64_t a, uint64_t b)
{
	return (unsigned)(a < b ? a : b);
}

/* Programs run in these cells, so there are few, and only while the template is in use. */
static void set_few(struct pool_source *src, const struct config *g, bool is_default)
{
	src->used_size = lesser(g->pool_started_size, g->pool_max);
	src->keep_ns = g->pool_started_keep_ms * CLOCK_MS;
	src->size = is_default && g->pool_size > 0 ? src->used_size : 0;
	src->max = lesser(STARTED_GROWTH * g->pool_started_size, g->pool_max);
}

static void set_level(struct pool_source *src, const struct config *g, uint32_t level,
		      bool is_default)
{
	if (cell_level_of(level)->engine == CELL_ENGINE_NONE)
		return;
	set_few(src, g, is_default);
	src->guest = guest;
	src->prepare = pool_warm_prepare;
	src->unprepare = pool_warm_unprepare;
	if (cell_level_of(level)->engine != CELL_ENGINE_MICROVM)
		return;
	src->size = 0;
	src->max = src->used_size;
	src->is_ready = is_vm_ready;
}

static bool is_default(const struct template_version *v)
{
	return v->row.tenant[0] == '\0' && strcmp(v->row.name, v->core->o.config->template) == 0;
}

static struct level_pool *make_pool(struct template_version *v, uint32_t level)
{
	const struct config *g = v->core->o.config;
	bool is_own = level == v->row.level;
	bool many = is_own && is_default(v);
	struct level_pool *l = calloc(1, sizeof(*l));
	struct pool_source src = { .size = many ? (unsigned)g->pool_size : 0,
				   .max = (unsigned)g->pool_max,
				   .refill_milli = g->pool_refill_milli,
				   .is_ready = is_ready,
				   .plan = is_own ? plan_own : plan,
				   .arg = l };

	assert(l != NULL);
	l->version = v;
	if (pool_boot_is_needed(&v->row))
		set_few(&src, g, many);
	set_level(&src, g, level, many);
	if (pool_boot_is_needed(&v->row)) {
		src.prepare = pool_boot_prepare;
		src.unprepare = pool_boot_unprepare;
	}
	l->pool = pool_new(&v->core->cells, &src);
	v->pools[level] = l;
	return l;
}

void template_make_pool(struct template_version *v)
{
	if (is_default(v))
		(void)make_pool(v, v->row.level);
}

int template_plan(struct template_version *v, struct keeper_create *ret, struct err *e)
{
	struct level_pool *own = v->pools[v->row.level];
	struct store_session row;

	if (own == NULL)
		own = make_pool(v, v->row.level);
	if (settle(own, v->row.level, e) < 0)
		return -1;
	row = own->like;
	row.level = CELL_CONTAINER;
	session_id_make(v->core->o.config->node_name, row.id);
	return session_spec_plan(v->core, v, &row, NULL, ret, e);
}

void template_pools_empty(struct core *c)
{
	for (struct template_version *v = c->templates; v != NULL; v = v->next)
		for (unsigned i = 0; i < CELL_LEVELS; i++)
			if (v->pools[i] != NULL)
				pool_limit(v->pools[i]->pool, 0);
}

void template_close_pools(struct template_version *v)
{
	for (unsigned i = 0; i < CELL_LEVELS; i++)
		if (v->pools[i] != NULL)
			pool_close(v->pools[i]->pool);
}

bool template_pools_are_idle(const struct template_version *v)
{
	for (unsigned i = 0; i < CELL_LEVELS; i++)
		if (v->pools[i] != NULL && !pool_is_idle(v->pools[i]->pool))
			return false;
	return true;
}

void template_free_pools(struct template_version *v)
{
	for (unsigned i = 0; i < CELL_LEVELS; i++)
		if (v->pools[i] != NULL) {
			pool_free(v->pools[i]->pool);
			free(v->pools[i]);
		}
}

/* Can a session with that row use a cell of the pool? */
static bool fits(const struct level_pool *l, const struct store_session *row)
{
	const struct store_template *t = &l->version->row;
	const struct store_session *like = &l->like;

	/* What runs already cannot get them; an interpreter gets them when it is claimed. */
	if (pool_boot_is_needed(t) && !t->interpreter &&
	    (row->env_len > 0 || row->secrets[0] != '\0'))
		return false;
	return l->like_set && row->profile == like->profile && row->level == like->level &&
	       row->storage == SESSION_MEMORY && !row->read_only &&
	       strcmp(row->mounts, like->mounts) == 0 &&
	       memcmp(&row->limits, &like->limits, sizeof(row->limits)) == 0;
}

/* ---- the share of a tenant */

struct share {
	struct tenant *tenant;
	struct quota_taken taken; /* by its cells so far */
	unsigned guests[CELL_LEVELS];
};

/* Do commands of a tenant, or guests for its sessions, run in its cells, and has it been used? */
static bool is_charged(const struct level_pool *l)
{
	const struct store_template *t = &l->version->row;

	return t->tenant[0] != '\0' && l->like_set && (pool_boot_is_needed(t) || has_guest(l));
}

/* How many guests may wait at a level, for sessions of all templates. */
static unsigned guests_max(const struct level_pool *l)
{
	const struct config *g = l->version->core->o.config;

	return lesser(STARTED_GROWTH * g->pool_started_size, UINT_MAX);
}

static unsigned minus(unsigned a, unsigned b)
{
	return a > b ? a - b : 0;
}

/* How many cells it may have. */
static unsigned room_of(const struct share *share, const struct level_pool *l)
{
	const struct core *c = l->version->core;
	uint64_t most = STARTED_GROWTH * c->o.config->pool_started_size;

	if (share->tenant == NULL || share->taken.sessions >= most)
		return 0;
	if (has_guest(l)) /* so that no tenant has all that may wait */
		most = lesser(most, share->taken.sessions + minus((guests_max(l) + 1) / 2,
								  share->guests[l->like.level]));
	return lesser(most - share->taken.sessions,
		      quota_room(c, share->tenant, &l->like.limits, &share->taken));
}

static void charge(struct share *share, const struct level_pool *l)
{
	uint64_t n = pool_size(l->pool);

	share->taken.sessions += n;
	share->taken.memory += n * l->like.limits.memory_bytes;
	share->taken.pids += n * l->like.limits.pids;
	share->guests[l->like.level] += has_guest(l) ? (unsigned)n : 0;
	if (share->tenant != NULL)
		share->tenant->started_cells = share->taken.sessions;
}

/* The pools of all versions, in the order of the list; l NULL: the first. */
static struct level_pool *next_pool(const struct core *c, const struct level_pool *l)
{
	const struct template_version *v = l == NULL ? c->templates : l->version;

	for (bool passed = l == NULL; v != NULL; v = v->next)
		for (unsigned k = 0; k < CELL_LEVELS; k++) {
			if (passed && v->pools[k] != NULL)
				return v->pools[k];
			passed |= v->pools[k] == l;
		}
	return NULL;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): l is declared by it */
#define EACH_POOL(c, l) \
	for (struct level_pool *l = next_pool(c, NULL); l != NULL; l = next_pool(c, l))
/* NOLINTEND(bugprone-macro-parentheses) */

/* A session of the tenant has got its room: ends the cells for which none is left. */
static void yield(struct core *c, struct tenant *t)
{
	struct share share = { .tenant = t };

	if (t->started_cells == 0)
		return;
	EACH_POOL(c, l)
	if (is_charged(l) && strcmp(l->version->row.tenant, t->row.id) == 0) {
		pool_limit(l->pool, lesser(pool_size(l->pool), room_of(&share, l)));
		charge(&share, l);
	}
}

/* ---- for sessions */

/* A clone of an image that is not the template's any more is not given out; nor are the others. */
static struct live_cell *check_clone(struct level_pool *l, struct live_cell *cell)
{
	if (cell == NULL || !is_vm(l) ||
	    guest_root_is_current(l->version, &l->like, cell->root_image))
		return cell;
	live_cell_abandon(cell);
	pool_limit(l->pool, 0);
	return NULL;
}

struct live_cell *templates_claim(struct session *s)
{
	struct template_version *v = s->template;
	struct level_pool *l = v->pools[s->row.level];
	struct live_cell *cell;
	struct err ignored;

	if (l == NULL)
		l = make_pool(v, s->row.level);
	IGNORED(settle(l, s->row.level, &ignored), "then no cell of the pool fits");
	cell = check_clone(l, pool_claim(l->pool, fits(l, &s->row)));
	yield(s->core, s->tenant);
	return cell;
}

void templates_fill(struct core *c)
{
	EACH_POOL(c, l)
	pool_fill(l->pool);
}

/* Sizes of all pools. */
struct sizes {
	unsigned all, operators;
	struct {
		unsigned all, operators;
	} guests[CELL_LEVELS];
};

/* Counts a pool, or one less. */
static void count(struct sizes *n, const struct level_pool *l, int by)
{
	unsigned size = (unsigned)by * pool_size(l->pool);

	bool is_operators = l->version->row.tenant[0] == '\0';

	n->all += size;
	n->operators += is_operators ? size : 0;
	if (!has_guest(l))
		return;
	n->guests[l->like.level].all += size;
	n->guests[l->like.level].operators += is_operators ? size : 0;
}

/* Up to pool_max without the others; of a tenant's, without what its quotas have no room for. n: of
 * the others. */
static void adapt(struct level_pool *l, struct share *share, const struct sizes *n)
{
	const struct template_version *v = l->version;
	const struct config *g = v->core->o.config;
	bool of_tenant = v->row.tenant[0] != '\0';
	unsigned max = (unsigned)g->pool_max;
	unsigned others = of_tenant ? n->all : n->operators;
	unsigned most = minus(max, others), level = l->like.level;

	if (has_guest(l))
		most = lesser(most, minus(guests_max(l), of_tenant ? n->guests[level].all
								   : n->guests[level].operators));
	if (is_charged(l))
		most = lesser(most, room_of(share, l));
	if (of_tenant)
		pool_limit(l->pool, most);
	pool_adapt(l->pool, most);
	if (is_charged(l))
		charge(share, l);
}

/* The sizes are added up once, and follow the changes: there are as many pools as templates that
 * were used. */
void templates_adapt(struct core *c)
{
	struct share share = { 0 };
	struct sizes n = { 0 };

	EACH_POOL(c, l)
	count(&n, l, 1);
	/* The list is by tenant: the operator's are first. */
	EACH_POOL(c, l)
	{
		const char *tenant = l->version->row.tenant;

		if (is_charged(l) &&
		    (share.tenant == NULL || strcmp(share.tenant->row.id, tenant) != 0))
			share = (struct share){ .tenant = tenant_find(c, tenant) };
		count(&n, l, -1);
		adapt(l, &share, &n);
		count(&n, l, 1);
	}
}

void templates_close(struct core *c)
{
	for (struct template_version *v = c->templates; v != NULL; v = v->next)
		template_close_pools(v);
}

bool templates_are_idle(const struct core *c)
{
	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (!template_pools_are_idle(v))
			return false;
	return c->templates_adding == 0;
}

static void add_numbers(struct core_metrics_pool *sum, const struct core_metrics_pool *one)
{
	sum->size += one->size;
	sum->ready += one->ready;
	sum->hits += one->hits;
	sum->misses += one->misses;
}

void templates_pools(const struct core *c, struct core_metrics_pool *ret)
{
	*ret = (struct core_metrics_pool){ 0 };
	for (const struct template_version *v = c->templates; v != NULL; v = v->next) {
		struct core_metrics_pool one;

		template_pool(v, &one);
		add_numbers(ret, &one);
	}
	ret->hits += c->pool_hits;
	ret->misses += c->pool_misses;
}

void template_pool(const struct template_version *v, struct core_metrics_pool *ret)
{
	*ret = (struct core_metrics_pool){ 0 };
	for (unsigned i = 0; i < CELL_LEVELS; i++) {
		struct core_metrics_pool one;

		if (v->pools[i] == NULL)
			continue;
		pool_numbers(v->pools[i]->pool, &one.size, &one.ready, &one.hits, &one.misses);
		add_numbers(ret, &one);
	}
}
