/* template_pools.c - finished cells for the sessions of each template: with the node's default
 * limits and profile, and the mounts of the template.
 *
 * The pool of the template that sessions get by default has pool_size cells; those of the others
 * are empty until they are used, and then follow demand as pool.c says. All together have at most
 * pool_max. In cells of a template with a start command it runs in advance (pool_boot.h): there are
 * pool_started_size of them, for pool_started_keep after the last use. The row of a default session
 * is made at the first use, when the keepers have said what the machine can do. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "core_metrics.h"
#include "pool.h"
#include "pool_boot.h"
#include "session_id.h"
#include "session_spec.h"
#include "templates_private.h"

#define STARTED_GROWTH 4 /* times pool_started_size, when demand is high */

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

struct live_cell *templates_claim(struct session *s)
{
	struct err ignored;

	IGNORED(settle(s->template, &ignored), "then no cell of the pool fits");
	return pool_claim(s->template->pool, fits(s->template, &s->row));
}

void templates_fill(struct core *c)
{
	for (struct template_version *v = c->templates; v != NULL; v = v->next)
		pool_fill(v->pool);
}

static unsigned size_of_all(const struct core *c)
{
	unsigned sum = 0;

	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		sum += pool_size(v->pool);
	return sum;
}

void templates_adapt(struct core *c)
{
	unsigned max = (unsigned)c->o.config->pool_max;

	for (struct template_version *v = c->templates; v != NULL; v = v->next) {
		unsigned others = size_of_all(c) - pool_size(v->pool);

		pool_adapt(v->pool, max > others ? max - others : 0);
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
