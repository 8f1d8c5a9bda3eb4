/* fair.h - a queue in which tenants take turns, and sessions of a tenant among themselves. Pure.
 *
 * Items of one session are taken in the order they came; sessions of one tenant one item each in
 * turn; tenants likewise. So who adds many items waits for itself. All structures are embedded in
 * what they are of, zeroed at first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fair_group;
struct fair_owner;

struct fair_item {
	struct fair_item *next;
	struct fair_group *group; /* NULL: it does not wait */
};

/* Of a session. */
struct fair_group {
	struct fair_group *next;
	struct fair_owner *owner; /* NULL: nothing of it waits */
	struct fair_item *first, *last;
	uint64_t turn; /* in which `taken` of it were taken */
	unsigned taken;
};

/* Of a tenant. */
struct fair_owner {
	struct fair_owner *next;
	struct fair_group *first, *last;
};

struct fair {
	struct fair_owner *first, *last;
	/* May the first item of a session be taken now? If not, the session is passed over. */
	bool (*may)(struct fair_item *i);
};

/* An item waits in one place at most (asserted). */
void fair_add(struct fair *f, struct fair_owner *o, struct fair_group *g, struct fair_item *i);
/* It waits no more; nothing happens if it did not. */
void fair_drop(struct fair *f, struct fair_item *i);
/* The next one, out of the queue; of one session at most `most` with the same number of a turn.
 * NULL: none that may be taken. */
struct fair_item *fair_take(struct fair *f, uint64_t turn, unsigned most);
