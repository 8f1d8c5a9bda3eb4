/* pool.h - finished cells that wait for sessions: as many as demand asks for, within bounds.
 *
 * A pool cell is a cell like any other, with an id of its own that its session will have; nothing
 * about it is changed when it is claimed. One pool: the default template, profile and limits. */
#pragma once

#include "core.h"

struct live_cell;
struct store_session;

struct pool;

struct pool *pool_new(struct core *c);
void pool_free(struct pool *p);

/* Starts filling. Called when the node is ready, and again after every change. */
void pool_fill(struct pool *p);
/* Once a second: follows demand. */
void pool_adapt(struct pool *p);
/* Ends all of them: the node drains. */
void pool_empty(struct pool *p);
/* No cell is being made for it. */
bool pool_is_idle(const struct pool *p);

/* A cell for a session like that, or NULL. The caller owns it. */
struct live_cell *pool_claim(struct pool *p, const struct store_session *row);

void pool_numbers(const struct pool *p, unsigned *ret_size, unsigned *ret_ready, uint64_t *ret_hits,
		  uint64_t *ret_misses);
