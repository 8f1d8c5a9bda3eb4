/* fair.h - a queue in which tenants take turns, and the sessions of a tenant among themselves.
 * Pure.
 *
 * Items of one session are taken in the order they were added; sessions of one tenant one item each
 * in turn; tenants likewise. So a session that adds many items delays only itself. All structures
 * are embedded in those they belong to, and start zeroed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fair_group;
struct fair_owner;

struct fair_item {
	struct fair_item *next;
	struct fair_group *group; /* NULL: it is not queued */
};

/* One session. */
struct fair_group {
	struct fair_group *next;
	struct fair_owner *owner; /* NULL: nothing of it is queued */
	struct fair_item *first, *last;
	uint64_t turn; /* the turn in which `taken` items were taken */
	unsigned taken;
};

/* One tenant. */
struct fair_owner {
	struct fair_owner *next;
	struct fair_group *first, *last;
};

struct fair {
	struct fair_owner *first, *last;
	/* May the first item of a session be taken now? If not, the session is skipped. */
	bool (*may)(struct fair_item *i);
};

/* An item is queued once at most (asserted). */
void fair_add(struct fair *f, struct fair_owner *o, struct fair_group *g, struct fair_item *i);
/* Takes it out of the queue; no effect if it is not queued. */
void fair_drop(struct fair *f, struct fair_item *i);
/* The next item, taken out of the queue; at most `most` of one session with the same turn number.
 * NULL: none may be taken. */
struct fair_item *fair_take(struct fair *f, uint64_t turn, unsigned most);
