/* pool_plan.h - what the cells of the pool are made for: sessions with the node's default template,
 * profile and limits, and without mounts. */
#pragma once

#include "core.h"
#include "pool.h"

struct store_session;

/* Fills in the source of the node's pool. */
void pool_plan_source(struct core *c, struct pool_source *ret);
/* Can a session with that row use a cell of the pool? */
bool pool_plan_fits(const struct core *c, const struct store_session *row);
