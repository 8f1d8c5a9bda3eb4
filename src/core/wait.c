#include "core.h"

void wait_cancel(struct wait *w)
{
	if (w->link == NULL)
		return;
	*w->link = w->next;
	if (w->next != NULL)
		w->next->link = w->link;
	w->link = NULL;
	w->next = NULL;
}

void waits_add(struct waits *l, struct wait *w)
{
	wait_cancel(w);
	w->next = l->first;
	w->link = &l->first;
	if (l->first != NULL)
		l->first->link = &w->next;
	l->first = w;
}

void waits_tell(struct waits *l, const struct err *e)
{
	/* Taken over first: whoever is told may wait again, and is not told twice by that. */
	struct waits now = { l->first };

	l->first = NULL;
	if (now.first != NULL)
		now.first->link = &now.first;
	while (now.first != NULL) {
		struct wait *w = now.first;

		wait_cancel(w);
		w->done(w, e);
	}
}
