/* pool_plan.c - see pool_plan.h. The row of a default session is made at the first use, when the
 * keepers have said what the machine can do. */
#include "pool_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "session_id.h"
#include "session_spec.h"

static bool is_ready(void *arg)
{
	const char *why;

	return core_ready(arg, &why);
}

static int settle(struct core *c, struct err *e)
{
	struct session_spec spec = { .profile = -1 };
	char *texts;

	if (c->pool_like_set)
		return 0;
	if (session_spec_check(c, &spec, &c->pool_like, &texts, e) < 0)
		return -1;
	free(texts);
	c->pool_like.mounts = ""; /* the others are not read any more */
	c->pool_like_set = true;
	return 0;
}

static int plan(void *arg, struct keeper_create *ret, struct err *e)
{
	struct core *c = arg;

	if (settle(c, e) < 0)
		return -1;
	session_id_make(c->o.config->node_name, c->pool_like.id);
	return session_spec_plan(c, &c->pool_like, ret, e);
}

void pool_plan_source(struct core *c, struct pool_source *ret)
{
	*ret = (struct pool_source){ .size = (unsigned)c->o.config->pool_size,
				     .max = (unsigned)c->o.config->pool_max,
				     .refill_milli = c->o.config->pool_refill_milli,
				     .is_ready = is_ready,
				     .plan = plan,
				     .arg = c };
}

bool pool_plan_fits(const struct core *c, const struct store_session *row)
{
	const struct store_session *like = &c->pool_like;

	return c->pool_like_set && row->profile == like->profile &&
	       strcmp(row->template, like->template) == 0 && row->mounts[0] == '\0' &&
	       memcmp(&row->limits, &like->limits, sizeof(row->limits)) == 0;
}
