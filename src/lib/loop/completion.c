/* completion.c - see completion.h. */
#include "lib/loop/completion.h"

#include <assert.h>
#include <errno.h>

#include "lib/base/clock.h"
#include "lib/base/list.h"

/* Remove it from its list, from the timers and from the tasks. */
static void completion_settle(struct completion *c)
{
	LIST_REMOVE(c);
	if (c->loop != NULL) {
		loop_timer_cancel(c->loop, &c->deadline);
		loop_task_cancel(c->loop, &c->later);
	}
	c->state = COMPLETION_IDLE;
}

void completion_cancel(struct completion *c)
{
	if (c->state != COMPLETION_IDLE)
		completion_settle(c);
}

bool completion_is_waiting(const struct completion *c)
{
	return c->state == COMPLETION_WAITING;
}

const struct err *completion_early_error(const struct completion *c)
{
	return c->state == COMPLETION_ENDED && c->err.code != ERR_NONE ? &c->err : NULL;
}

static void on_later(struct loop_task *t)
{
	struct completion *c = t->arg;
	struct err e = c->err;

	completion_settle(c);
	c->on_done(c, e.code == ERR_NONE ? NULL : &e);
}

static void on_deadline(struct loop_timer *t)
{
	struct completion *c = t->arg;
	struct err e;

	IGNORED(err_set_reason(&e, REASON_TIMEOUT, "%s: no answer within %llu ms", c->what,
			       (unsigned long long)c->deadline_ms),
		"the callback gets it");
	e.sys = ETIMEDOUT; /* for callers that answer a timeout in another way (504) */
	completion_end(c, &e);
}

void completion_begin(struct completion *c, struct loop *l, struct completions *list)
{
	assert(c->on_done != NULL);
	completion_cancel(c);
	c->state = COMPLETION_WAITING;
	c->loop = l;
	c->begun_at = loop_step(l);
	c->deadline = (struct loop_timer){ .on_expire = on_deadline, .arg = c };
	c->later = (struct loop_task){ .on_run = on_later, .arg = c };
	if (list != NULL)
		LIST_PUSH(&list->first, c);
}

void completion_set_deadline(struct completion *c, uint64_t ms, const char *what)
{
	if (c->state != COMPLETION_WAITING)
		return;
	c->what = what;
	c->deadline_ms = ms;
	loop_timer_set(c->loop, &c->deadline, clock_now_ns() + ms * CLOCK_MS);
}

static void completion_end_twice(void)
{
#ifdef CORDON_TEST_ABORTS
	abort();
#endif
}

void completion_end(struct completion *c, const struct err *e)
{
	struct err copy = { 0 };

	if (c->state != COMPLETION_WAITING) {
		completion_end_twice();
		return;
	}
	if (e != NULL)
		copy = *e; /* it may belong to an object that the callback frees */
	completion_settle(c);
	if (c->begun_at != loop_step(c->loop)) {
		c->on_done(c, e == NULL ? NULL : &copy);
		return;
	}
	c->state = COMPLETION_ENDED;
	c->err = copy;
	loop_defer(c->loop, &c->later);
}

void completion_end_soon(struct completion *c, struct loop *l, const struct err *e)
{
	completion_begin(c, l, NULL);
	completion_end(c, e);
}

void completions_move(struct completions *from, struct completions *to)
{
	struct completion **at = &to->first;

	while (*at != NULL)
		at = &(*at)->next;
	*at = from->first;
	from->first = NULL;
	if (*at != NULL)
		(*at)->link = at;
}

void completions_end_all(struct completions *list, const struct err *e)
{
	struct completions now = { 0 };
	struct err copy = { 0 };

	if (e != NULL)
		copy = *e;
	completions_move(list, &now);
	while (now.first != NULL)
		completion_end(now.first, e == NULL ? NULL : &copy);
}
