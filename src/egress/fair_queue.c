#include "fair_queue.h"

#include <assert.h>

/* Three kinds of lists: each list has first and last, each element has next. */
#define APPEND(list, x)                                                       \
	do {                                                                  \
		(x)->next = NULL;                                             \
		*((list)->last ? &(list)->last->next : &(list)->first) = (x); \
		(list)->last = (x);                                           \
	} while (0)

#define UNLINK(list, type, x)                                           \
	do {                                                            \
		type *before = NULL, *at = (list)->first;               \
		while (at != (x)) {                                     \
			before = at;                                    \
			at = at->next;                                  \
		}                                                       \
		*(before ? &before->next : &(list)->first) = (x)->next; \
		if ((list)->last == (x))                                \
			(list)->last = before;                          \
		(x)->next = NULL;                                       \
	} while (0)

void fair_queue_add(struct fair_queue *f, struct fair_queue_tenant *o, struct fair_queue_session *g,
		    struct fair_queue_item *i)
{
	assert(i->group == NULL && (g->owner == NULL || g->owner == o));
	if (g->owner == NULL) {
		if (o->first == NULL)
			APPEND(f, o);
		APPEND(o, g);
		g->owner = o;
	}
	i->group = g;
	APPEND(g, i);
}

/* Takes it out of its list, and lists that become empty out of theirs. */
static void unlink_item(struct fair_queue *f, struct fair_queue_item *i)
{
	struct fair_queue_session *g = i->group;
	struct fair_queue_tenant *o = g->owner;

	UNLINK(g, struct fair_queue_item, i);
	i->group = NULL;
	if (g->first != NULL)
		return;
	UNLINK(o, struct fair_queue_session, g);
	g->owner = NULL;
	if (o->first == NULL)
		UNLINK(f, struct fair_queue_tenant, o);
}

void fair_queue_drop(struct fair_queue *f, struct fair_queue_item *i)
{
	if (i->group != NULL)
		unlink_item(f, i);
}

/* The first session of the tenant that may be served in this turn. */
static struct fair_queue_session *find_group(const struct fair_queue *f,
					     const struct fair_queue_tenant *o, uint64_t turn,
					     unsigned most)
{
	for (struct fair_queue_session *g = o->first; g != NULL; g = g->next)
		if ((g->turn != turn || g->taken < most) &&
		    (f->may_take == NULL || f->may_take(g->first)))
			return g;
	return NULL;
}

struct fair_queue_item *fair_queue_take(struct fair_queue *f, uint64_t turn, unsigned most)
{
	for (struct fair_queue_tenant *o = f->first; o != NULL; o = o->next) {
		struct fair_queue_session *g = find_group(f, o, turn, most);
		struct fair_queue_item *i = g != NULL ? g->first : NULL;

		if (i == NULL)
			continue;
		g->taken = g->turn == turn ? g->taken + 1 : 1;
		g->turn = turn;
		/* Session and tenant go to the end of their lists. */
		UNLINK(o, struct fair_queue_session, g);
		APPEND(o, g);
		UNLINK(f, struct fair_queue_tenant, o);
		APPEND(f, o);
		unlink_item(f, i);
		return i;
	}
	return NULL;
}
