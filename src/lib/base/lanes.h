/* lanes.h - items that wait to be served, in a lane for each owner (a tenant's id, "": the server).
 *
 * The next item is the first one of the lane with the fewest items at work, and among several such
 * lanes, of the lane served longest ago. So an owner with many items delays its own items, not
 * those of others. The items of a lane are served in their order.
 *
 * An item is a member of the caller's structure, which the caller allocates and frees. A lane
 * exists as long as it has items, so an owner that waits keeps its turn. Both structures are zeroed
 * at first. The requests to keepers (keeper_link.c) and to cordon-storage (storage_link.c) wait
 * here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANE_OWNER_MAX 72 /* the longest id, with its end */

struct lane;

struct lane_item {
	struct lane_item *next, **link; /* list.h: while it waits */
	struct lane *lane;		/* NULL: it is in none */
	bool at_work;
};

struct lanes {
	struct lane *first;
	unsigned waiting, at_work; /* items of all lanes */
	uint64_t turn;
};

/* Put the item behind the others of its owner. */
void lanes_add(struct lanes *l, const char *owner, struct lane_item *i);
/* The item to be served next, of an owner with less than `most` items at work. NULL: none. */
struct lane_item *lanes_next(const struct lanes *l, unsigned most);
/* The waiting item is at work from now on, until lanes_remove(). */
void lanes_serve(struct lanes *l, struct lane_item *i);
/* The item has ended, or is given up. Repeatable. */
void lanes_remove(struct lanes *l, struct lane_item *i);
/* Move all waiting items to other lanes, each behind the others of its owner. */
void lanes_move(struct lanes *from, struct lanes *to);
/* The waiting item after i, or the first one (i NULL), lane by lane. NULL: there are no more. */
struct lane_item *lanes_each(const struct lanes *l, const struct lane_item *i);

/* How many items may be at work at a time: of all owners, of one, and beyond `all` for owners with
 * none at work. The last are for others when two or three owners have all the rest for as long as
 * their work takes. */
struct lanes_room {
	unsigned all, owner, spare;
};

/* How many items an owner may have at work while so many of all owners are. */
static inline unsigned lanes_most(const struct lanes_room *r, unsigned at_work)
{
	if (at_work < r->all)
		return r->owner;
	return at_work < r->all + r->spare ? 1 : 0;
}
