/* list_walk.c - the walks of list.h that watch their list, in builds with sanitizers. */
#include "lib/base/list.h"

#if CORDON_STRICT
#include <stdio.h>
#include <stdlib.h>

static _Thread_local struct list_walk *list_walk_innermost;

struct list_walk *list_walk_begin(struct list_walk *w)
{
	w->outer = list_walk_innermost;
	list_walk_innermost = w;
	return w;
}

void list_walk_end(struct list_walk *w)
{
	list_walk_innermost = w->outer;
}

void list_walk_stand(struct list_walk *w, const void *e)
{
	w->at = e;
	w->is_lost = false;
}

void list_walk_check(const struct list_walk *w)
{
	if (!w->is_lost)
		return;
	/* tests look for this form of words in a program's output */
	(void)fprintf(stderr, "%s:%d: LIST_WALK: Assertion `its element is in the list' failed.\n",
		      w->file, w->line);
	abort();
}

void list_gone(const void *e)
{
	for (struct list_walk *w = list_walk_innermost; w != NULL; w = w->outer)
		w->is_lost |= w->at == e;
}
#endif
