/* pool.h - finished cells that wait for sessions: their number follows the demand, within bounds.
 *
 * A cell of the pool is a cell like any other, with an id of its own, later its session's id. A
 * claim changes nothing about it. All cells of a pool are alike. The owner describes them (struct
 * pool_source), and may start programs in them in advance. */
#pragma once

#include "daemon/cells/cells.h"

struct boot_request;
struct keeper_create;
struct live_cell;
struct pool;

struct pool_source {
	unsigned size, max;    /* cells always wanted, and at most */
	uint64_t refill_milli; /* thousandths of a cell made in a second. 0: no bound */
	/* May a cell be made now? */
	bool (*is_ready)(void *arg);
	/* The request for the next cell, with a new id. */
	int (*plan)(void *arg, struct keeper_create *ret, struct err *e);
	/* The sources of a guest's start in that cell (live_guest.h): the request, its descriptors,
	 * which the pool takes over, and for live_cell.root_image. NULL: cells without a guest. */
	int (*guest)(void *arg, const struct keeper_create *plan, struct boot_request *ret,
		     int *ret_fds, char ret_root[CELL_ID_MAX], struct err *e);
	/* Start in a finished cell what runs before a session has it: pool_prepared() follows, and
	 * the cell is not ready before. NULL: nothing is started. */
	void (*prepare)(void *arg, struct pool *p, struct live_cell *c);
	/* Release what prepare() made: the cell ends, or this daemon does. */
	void (*unprepare)(void *arg, struct live_cell *c);
	/* Cells wanted for keep_ns after the last claim. */
	unsigned used_size;
	uint64_t keep_ns;
	const char *tenant; /* whose template it is, borrowed. "": the operator's */
	void *arg;
};

struct pool *pool_new(struct cells *cs, const struct pool_source *src);
void pool_free(struct pool *p);

/* Start filling. Called when the node is ready, and again after every change. */
void pool_fill(struct pool *p);
/* Once a second: follows demand, up to max cells (and src.max). */
void pool_adapt(struct pool *p, unsigned max);
/* Never more than max cells from now on, until pool_adapt(): those over it end at once. */
void pool_limit(struct pool *p, unsigned max);
/* How many cells should be ready. */
unsigned pool_size(const struct pool *p);
/* End all of them, and make no more: the node drains. */
void pool_close(struct pool *p);
/* No cell is being made for it. */
bool pool_is_idle(const struct pool *p);

/* A cell, or NULL. The caller owns it. fits: the session can use a cell of this pool. If not, count
 * a miss. */
struct live_cell *pool_claim(struct pool *p, bool fits);

/* The work of prepare() is done, or failed (e), or a part of it ended later: then the cell is
 * dropped, and the next one is made after a pause, longer with every failure. */
void pool_prepared(struct pool *p, struct live_cell *c, const struct err *e);

void pool_numbers(const struct pool *p, unsigned *ret_size, unsigned *ret_ready, uint64_t *ret_hits,
		  uint64_t *ret_misses);
