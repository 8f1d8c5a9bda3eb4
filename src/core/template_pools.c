/* template_pools.c - finished cells for the sessions of each template: with the node's default
 * limits and profile, and the mounts of the template.
 *
 * The pool of the template that sessions get by default has pool_size cells; those of the others
 * are empty until they are used, and then follow demand as pool.c says. All together have at most
 * pool_max; those of the operator's templates come first. In cells of a template with a start
 * command it runs in advance (pool_boot.h): there are pool_started_size of them, for
 * pool_started_keep after the last use. Cells in which a tenant's commands run have room only where
 * its quotas have room for as many sessions: they end when sessions need it. The row of a default
 * session is made at the first use, when the keepers have said what the machine can do. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "core_metrics.h"
#include "pool.h"
#include "pool_boot.h"
#include "session_id.h"
#include "session_spec.h"
#include "quota.h"
#include "templates_private.h"
#include "tenant.h"

#define STARTED_GROWTH \
	4 /* times pool_started_size, when demand is high; also of a tenant's in all */

static bool is_ready(void *arg)
{
	const struct template_version *v = arg;
	const char *why;

	return core_ready(v->core, &why);
}

static int settle(struct template_version *v, struct err *e)
{
	struct session_spec spec = { .profile = -1 };
	char *texts;

	if (v->like_set)
		return 0;
	if (session_spec_check(v->core, v, &spec, &v->like, &texts, e) < 0)
		return -1;
	free(texts);
	v->like.mounts = v->row.mounts; /* the others are not read any more */
	v->like_set = true;
	return 0;
}

int template_plan(struct template_version *v, struct keeper_create *ret, struct err *e)
{
	if (settle(v, e) < 0)
		return -1;
	session_id_make(v->core->o.config->node_name, v->like.id);
	return session_spec_plan(v->core, v, &v->like, NULL, ret, e);
}

static int plan(void *arg, struct keeper_create *ret, struct err *e)
{
	return template_plan(arg, ret, e);
}

static unsigned lesser(uint64_t a, uint64_t b)
{
	return (unsigned)(a < b ? a : b);
}

/* Programs run in these cells, so there are few, and only while the template is in use. */
static void set_started(struct pool_source *src, const struct config *g, bool is_default)
{
	src->used_size = lesser(g->pool_started_size, g->pool_max);
	src->keep_ns = g->pool_started_keep_ms * CLOCK_MS;
	src->size = is_default && g->pool_size > 0 ? src->used_size : 0;
	src->max = lesser(STARTED_GROWTH * g->pool_started_size, g->pool_max);
	src->prepare = pool_boot_prepare;
	src->unprepare = pool_boot_unprepare;
}

void template_make_pool(struct template_version *v)
{
	const struct config *g = v->core->o.config;
	bool is_default = v->row.tenant[0] == '\0' && strcmp(v->row.name, g->template) == 0;
	struct pool_source src = { .size = is_default ? (unsigned)g->pool_size : 0,
				   .max = (unsigned)g->pool_max,
				   .refill_milli = g->pool_refill_milli,
				   .is_ready = is_ready,
				   .plan = plan,
				   .arg = v };

	if (pool_boot_is_needed(&v->row))
		set_started(&src, g, is_default);
	v->pool = pool_new(&v->core->cells, &src);
}

/* Can a session with that row use a cell of the pool? */
static bool fits(const struct template_version *v, const struct store_session *row)
{
	const struct store_session *like = &v->like;

	/* What runs already cannot get them; an interpreter gets them when it is claimed. */
	if (pool_boot_is_needed(&v->row) && !v->row.interpreter &&
	    (row->env_len > 0 || row->secrets[0] != '\0'))
		return false;
	return v->like_set && row->profile == like->profile && row->level == like->level &&
	       row->storage == SESSION_MEMORY && !row->read_only &&
	       strcmp(row->mounts, like->mounts) == 0 &&
	       memcmp(&row->limits, &like->limits, sizeof(row->limits)) == 0;
}

/* ---- the share of a tenant */

struct share {
	struct tenant *tenant;
	struct quota_taken taken; /* by its cells so far */
};

/* Do commands of a tenant run in its cells, and has it been used? */
static bool is_charged(const struct template_version *v)
{
	return v->row.tenant[0] != '\0' && v->like_set && pool_boot_is_needed(&v->row);
}

/* How many cells it may have. */
static unsigned room_of(const struct share *share, const struct template_version *v)
{
	uint64_t most = STARTED_GROWTH * v->core->o.config->pool_started_size;

	if (share->tenant == NULL || share->taken.sessions >= most)
		return 0;
	return lesser(most - share->taken.sessions,
		      quota_room(v->core, share->tenant, &v->like.limits, &share->taken));
}

static void charge(struct share *share, const struct template_version *v)
{
	uint64_t n = pool_size(v->pool);

	share->taken.sessions += n;
	share->taken.memory += n * v->like.limits.memory_bytes;
	share->taken.pids += n * v->like.limits.pids;
	if (share->tenant != NULL)
		share->tenant->started_cells = share->taken.sessions;
}

/* A session of the tenant has got its room: ends the cells for which none is left. */
static void yield(struct core *c, struct tenant *t)
{
	struct share share = { .tenant = t };

	if (t->started_cells == 0)
		return;
	for (struct template_version *v = c->templates; v != NULL; v = v->next)
		if (is_charged(v) && strcmp(v->row.tenant, t->row.id) == 0) {
			pool_limit(v->pool, lesser(pool_size(v->pool), room_of(&share, v)));
			charge(&share, v);
		}
}

/* ---- for sessions */

struct live_cell *templates_claim(struct session *s)
{
	struct live_cell *cell;
	struct err ignored;

	IGNORED(settle(s->template, &ignored), "then no cell of the pool fits");
	cell = pool_claim(s->template->pool, fits(s->template, &s->row));
	yield(s->core, s->tenant);
	return cell;
}

void templates_fill(struct core *c)
{
	for (struct template_version *v = c->templates; v != NULL; v = v->next)
		pool_fill(v->pool);
}

static unsigned size_of_all(const struct core *c, bool tenants)
{
	unsigned sum = 0;

	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (tenants || v->row.tenant[0] == '\0')
			sum += pool_size(v->pool);
	return sum;
}

/* Up to pool_max without the others; of a tenant's, without what its quotas have no room for. */
static void adapt(struct template_version *v, struct share *share)
{
	bool of_tenant = v->row.tenant[0] != '\0';
	unsigned max = (unsigned)v->core->o.config->pool_max;
	unsigned others = size_of_all(v->core, of_tenant) - pool_size(v->pool);
	unsigned most = max > others ? max - others : 0;

	if (is_charged(v))
		most = lesser(most, room_of(share, v));
	if (of_tenant)
		pool_limit(v->pool, most);
	pool_adapt(v->pool, most);
	if (is_charged(v))
		charge(share, v);
}

void templates_adapt(struct core *c)
{
	struct share share = { 0 };

	/* The list is by tenant: the operator's are first. */
	for (struct template_version *v = c->templates; v != NULL; v = v->next) {
		if (is_charged(v) &&
		    (share.tenant == NULL || strcmp(share.tenant->row.id, v->row.tenant) != 0))
			share = (struct share){ .tenant = tenant_find(c, v->row.tenant) };
		adapt(v, &share);
	}
}

void templates_close(struct core *c)
{
	for (struct template_version *v = c->templates; v != NULL; v = v->next)
		pool_close(v->pool);
}

bool templates_are_idle(const struct core *c)
{
	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (!pool_is_idle(v->pool))
			return false;
	return c->templates_adding == 0;
}

void templates_pools(const struct core *c, struct core_metrics_pool *ret)
{
	*ret = (struct core_metrics_pool){ 0 };
	for (const struct template_version *v = c->templates; v != NULL; v = v->next) {
		struct core_metrics_pool one;

		template_pool(v, &one);
		ret->size += one.size;
		ret->ready += one.ready;
		ret->hits += one.hits;
		ret->misses += one.misses;
	}
	ret->hits += c->pool_hits;
	ret->misses += c->pool_misses;
}

void template_pool(const struct template_version *v, struct core_metrics_pool *ret)
{
	pool_numbers(v->pool, &ret->size, &ret->ready, &ret->hits, &ret->misses);
}
