#include "egress/control/fair_queue.h"
#include "lib/base/list.h"

#include <assert.h>

/* Three kinds of lists: each list has first and last, each element has next. */
#define APPEND(list, x)                                                       \
	do {                                                                  \
		(x)->next = NULL;                                             \
		*((list)->last ? &(list)->last->next : &(list)->first) = (x); \
		(list)->last = (x);                                           \
	} while (0)

#define UNLINK(list, x)                                                      \
	do {                                                                 \
		__typeof__((list)->first) before = NULL, at = (list)->first; \
		while (at != NULL && at != (x)) {                            \
			before = at;                                         \
			at = at->next;                                       \
		}                                                            \
		LIST_GONE(x);                                                \
		*(before ? &before->next : &(list)->first) = (x)->next;      \
		if ((list)->last == (x))                                     \
			(list)->last = before;                               \
		(x)->next = NULL;                                            \
	} while (0)

void fair_queue_add(struct fair_queue *f, struct fair_queue_tenant *t, struct fair_queue_session *s,
		    struct fair_queue_item *i)
{
	assert(i->session == NULL && (s->tenant == NULL || s->tenant == t));
	if (s->tenant == NULL) {
		if (t->first == NULL)
			APPEND(f, t);
		APPEND(t, s);
		s->tenant = t;
	}
	i->session = s;
	APPEND(s, i);
}

/* Take it out of its list, and list that become empty out of theirs. */
static void unlink_item(struct fair_queue *f, struct fair_queue_item *i)
{
	struct fair_queue_session *s = i->session;
	struct fair_queue_tenant *t = s->tenant;

	UNLINK(s, i);
	i->session = NULL;
	if (s->first != NULL)
		return;
	UNLINK(t, s);
	s->tenant = NULL;
	if (t->first == NULL)
		UNLINK(f, t);
}

void fair_queue_drop(struct fair_queue *f, struct fair_queue_item *i)
{
	if (i->session != NULL)
		unlink_item(f, i);
}

/* The first session of the tenant that may be served in this turn. */
static struct fair_queue_session *find_session(const struct fair_queue *f,
					       const struct fair_queue_tenant *t, uint64_t turn,
					       unsigned most)
{
	/* alone: may_take() looks at an item, and takes none out */
	LIST_WALK(struct fair_queue_session, s, t->first)
		if ((s->turn != turn || s->taken < most) &&
		    (f->may_take == NULL || f->may_take(s->first)))
			return s;
	return NULL;
}

struct fair_queue_item *fair_queue_take(struct fair_queue *f, uint64_t turn, unsigned most)
{
	LIST_WALK(struct fair_queue_tenant, t, f->first) {
		/* alone: as in find_session() */
		struct fair_queue_session *s = find_session(f, t, turn, most);
		struct fair_queue_item *i = s != NULL ? s->first : NULL;

		if (i == NULL)
			continue;
		s->taken = s->turn == turn ? s->taken + 1 : 1;
		s->turn = turn;
		/* Session and tenant go to the end of their lists. */
		UNLINK(t, s);
		APPEND(t, s);
		UNLINK(f, t);
		APPEND(f, t);
		unlink_item(f, i);
		return i;
	}
	return NULL;
}
