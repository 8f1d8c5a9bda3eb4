/* grant.c - see grant.h. */
#include "daemon/tenant/grant.h"

#include <assert.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"

#define LOOK_MS 60000 /* between two looks at a key's expiry: the wall clock may be set */

static void on_revoke_task(struct loop_task *t)
{
	struct core *c = t->arg;

	/* on_revoked may close other grants, so the list is read from its start each time. */
	for (;;) {
		struct grant *g = c->grants;

		while (g != NULL && !g->revoked)
			g = g->next;
		if (g == NULL)
			return;
		grant_close(g);
		g->on_revoked(g);
	}
}

/* Move the grant to the front of the list, where the task finds it at once. */
static void grant_mark(struct grant *g)
{
	struct core *c = g->core;

	if (g->revoked)
		return;
	grant_close(g);
	grant_open(c, g);
	g->revoked = true;
	c->revoke.on_run = on_revoke_task;
	c->revoke.arg = c;
	loop_defer(c->loop, &c->revoke);
}

/* At the expiry, or LOOK_MS from now if that is earlier. */
static void set_expiry(struct grant *g)
{
	uint64_t now = core_now_ms(), left = g->expires_ms > now ? g->expires_ms - now : 0;

	loop_timer_set(g->core->loop, &g->expiry,
		       clock_now_ns() + (left < LOOK_MS ? left : LOOK_MS) * CLOCK_MS);
}

static void on_expiry(struct loop_timer *t)
{
	struct grant *g = t->arg;

	if (g->expires_ms <= core_now_ms())
		grant_mark(g);
	else
		set_expiry(g);
}

void grant_open(struct core *c, struct grant *g)
{
	assert(g->core == NULL);
	g->core = c;
	g->revoked = false;
	g->prev = NULL;
	g->next = c->grants;
	if (g->next != NULL)
		g->next->prev = g;
	c->grants = g;
	g->expiry = (struct loop_timer){ .on_expire = on_expiry, .arg = g };
	if (g->expires_ms > 0)
		set_expiry(g);
}

void grant_close(struct grant *g)
{
	struct core *c = g->core;

	if (c == NULL)
		return;
	loop_timer_cancel(c->loop, &g->expiry);
	LIST_GONE(g);
	if (g->prev != NULL)
		g->prev->next = g->next;
	else
		c->grants = g->next;
	if (g->next != NULL)
		g->next->prev = g->prev;
	g->core = NULL;
}

void grant_revoke(struct core *c, const struct tenant *t, const char *key_id)
{
	LIST_WALK_ENDING(struct grant, g, c->grants) {
		/* alone: it is marked, and the loop calls its owner */
		if (g->tenant == t && (key_id == NULL || strcmp(g->key_id, key_id) == 0))
			grant_mark(g);
	}
}

void grant_revoke_opening(struct core *c, const struct tenant *t, const char *opening)
{
	LIST_WALK_ENDING(struct grant, g, c->grants) {
		/* alone: it is marked, and the loop calls its owner */
		if (g->tenant == t && strcmp(g->opening, opening) == 0)
			grant_mark(g);
	}
}
