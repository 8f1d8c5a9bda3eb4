#include "lib/base/lanes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/list.h"
#include "lib/base/str.h"

struct lane {
	struct lane *next, **link; /* list.h */
	struct lane_item *first, **end;
	unsigned items; /* waiting and at work */
	unsigned at_work;
	uint64_t served; /* the turn in which it was served last */
	char owner[LANE_OWNER_MAX];
};

static struct lane *lanes_lane_of(struct lanes *l, const char *owner)
{
	struct lane *a = l->first;

	while (a != NULL && strcmp(a->owner, owner) != 0)
		a = a->next;
	if (a != NULL)
		return a;
	a = calloc(1, sizeof(*a));
	assert(a != NULL && strlen(owner) < sizeof(a->owner));
	a->end = &a->first;
	a->served = l->turn; /* or an owner that asks again and again would always be first */
	str_copy(a->owner, owner);
	LIST_PUSH(&l->first, a);
	return a;
}

void lanes_add(struct lanes *l, const char *owner, struct lane_item *i)
{
	assert(i->lane == NULL);
	i->lane = lanes_lane_of(l, owner);
	i->lane->items++;
	i->at_work = false;
	LIST_APPEND(&i->lane->end, i);
	l->waiting++;
}

/* Is the first lane to be served before the second? */
static bool lanes_is_before(const struct lane *a, const struct lane *b)
{
	return a->at_work != b->at_work ? a->at_work < b->at_work : a->served < b->served;
}

struct lane_item *lanes_next(const struct lanes *l, unsigned most)
{
	const struct lane *best = NULL;

	if (l->waiting == 0)
		return NULL;
	for (const struct lane *a = l->first; a != NULL; a = a->next)
		if (a->first != NULL && a->at_work < most &&
		    (best == NULL || lanes_is_before(a, best)))
			best = a;
	return best == NULL ? NULL : best->first;
}

void lanes_serve(struct lanes *l, struct lane_item *i)
{
	struct lane *a = i->lane;

	assert(!i->at_work);
	LIST_REMOVE_FROM(&a->end, i);
	i->at_work = true;
	a->at_work++;
	a->served = ++l->turn;
	l->waiting--;
	l->at_work++;
}

void lanes_remove(struct lanes *l, struct lane_item *i)
{
	struct lane *a = i->lane;

	if (a == NULL)
		return;
	LIST_REMOVE_FROM(&a->end, i);
	a->at_work -= i->at_work;
	*(i->at_work ? &l->at_work : &l->waiting) -= 1;
	i->lane = NULL;
	i->at_work = false;
	if (--a->items > 0)
		return;
	LIST_REMOVE(a);
	free(a);
}

void lanes_move(struct lanes *from, struct lanes *to)
{
	struct lane_item *i;

	while ((i = lanes_each(from, NULL)) != NULL) {
		char owner[LANE_OWNER_MAX];

		str_copy(owner, i->lane->owner);
		lanes_remove(from, i);
		lanes_add(to, owner, i);
	}
}

struct lane_item *lanes_each(const struct lanes *l, const struct lane_item *i)
{
	const struct lane *a = i == NULL ? l->first : i->lane->next;

	if (i != NULL && i->next != NULL)
		return i->next;
	while (a != NULL && a->first == NULL)
		a = a->next;
	return a == NULL ? NULL : a->first;
}
