/* pool_warm.h - one small program in a clone of the pool, before there is a session: the first
 * program of a clone takes ten times as long as the second, since its engine has translated nothing
 * yet and has no memory of its own. template_pools.c gives these functions to pools at level
 * microvm.
 *
 * The program is /bin/true of the template, without network, secrets or files. Whether the template
 * has it, and how it ends, does not matter. Nothing of it is left when the cell is ready. */
#pragma once

struct live_cell;
struct pool;

/* For struct pool_source; arg is a struct level_pool. */
void pool_warm_prepare(void *arg, struct pool *p, struct live_cell *c);
void pool_warm_unprepare(void *arg, struct live_cell *c);
