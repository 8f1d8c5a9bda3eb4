/* session_hooks.c - calls the functions of all parts, and on_changed for marked sessions.
 *
 * A change of a tenant's policy or of a secret concerns many sessions, and each of them takes time
 * (a mask, a message to egress). So the sessions are marked, and a task of the loop calls
 * on_changed for as many of them as CHANGES_MS allow in each turn.
 */
#include "daemon/session/session_hooks.h"

#include <assert.h>

#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "lib/base/clock.h"

#define CHANGES_MS 5 /* in one turn */

/* NOLINTNEXTLINE(bugprone-macro-parentheses): i is declared by it */
#define EACH_PART(c, i) for (unsigned i = 0; i < CORE_PARTS_MAX && (c)->o.parts[i] != NULL; i++)
#define CALL(c, i, hook, ...) \
	((c)->o.parts[i]->hook == NULL ? (void)0 : (c)->o.parts[i]->hook(__VA_ARGS__))

/* A part is found by its address. There are few, so a search is cheap. */
static unsigned place_of(const struct core *c, const struct session_part *p)
{
	unsigned i = 0;

	while (c->o.parts[i] != p) {
		i++;
		assert(i < CORE_PARTS_MAX);
	}
	return i;
}

void **session_parts_of_core(const struct core *c, const struct session_part *p)
{
	return &((struct core *)(uintptr_t)c)->parts[place_of(c, p)];
}

void **session_parts_of(const struct session *s, const struct session_part *p)
{
	return &((struct session *)(uintptr_t)s)->parts[place_of(s->core, p)];
}

/* ---- changes */

struct hooks_changes {
	uint64_t until_ns;
	bool left;
};

/* The mark stays set when time has run out, so the next turn finds the session again. */
static void change_one(struct session *s, void *arg)
{
	struct hooks_changes *g = arg;

	if (!s->changed)
		return;
	if (clock_now_ns() > g->until_ns) {
		g->left = true;
		return;
	}
	s->changed = false;
	EACH_PART(s->core, i)
	if (s->row.state < SESSION_ENDING)
		CALL(s->core, i, on_changed, s);
}

static void on_changes(struct loop_task *t)
{
	struct core *c = t->arg;
	struct hooks_changes g = { .until_ns = clock_now_ns() + CHANGES_MS * CLOCK_MS };

	session_each(c, NULL, change_one, &g);
	if (g.left)
		loop_defer(c->loop, t);
}

void session_parts_changed(struct session *s)
{
	s->changed = true;
	loop_defer(s->core->loop, &s->core->changes);
}

/* Deferred, because the part may be called from inside session_parts_started(). */
void session_parts_settled(struct session *s)
{
	loop_defer(s->core->loop, &s->notify_running);
}

/* ---- of the node */

int session_parts_setup(struct core *c, struct err *e)
{
	c->changes = (struct loop_task){ .on_run = on_changes, .arg = c };
	EACH_PART(c, i)
	if (c->o.parts[i]->setup != NULL && c->o.parts[i]->setup(c, e) < 0)
		return -1;
	return 0;
}

void session_parts_release(struct core *c)
{
	loop_task_cancel(c->loop, &c->changes);
	EACH_PART(c, i)
	CALL(c, i, release, c);
}

void session_parts_second(struct core *c)
{
	EACH_PART(c, i)
	CALL(c, i, on_second, c);
}

bool session_parts_fit(const struct core *c, const char **ret_why)
{
	EACH_PART(c, i)
	if (c->o.parts[i]->is_fit != NULL && !c->o.parts[i]->is_fit(c, ret_why))
		return false;
	*ret_why = NULL;
	return true;
}

void session_parts_metrics(struct core *c, struct buf *b)
{
	EACH_PART(c, i)
	CALL(c, i, on_metrics, c, b);
}

bool session_parts_delete_one(struct core *c, struct tenant *t)
{
	EACH_PART(c, i)
	if (c->o.parts[i]->delete_one != NULL && c->o.parts[i]->delete_one(c, t))
		return true;
	return false;
}

/* ---- of one session */

int session_parts_check(struct session *s, struct err *e)
{
	EACH_PART(s->core, i)
	if (s->core->o.parts[i]->check != NULL && s->core->o.parts[i]->check(s, e) < 0)
		return -1;
	return 0;
}

void session_parts_started(struct session *s)
{
	EACH_PART(s->core, i)
	if (s->row.state < SESSION_ENDING) /* a part may have ended it */
		CALL(s->core, i, on_started, s);
}

bool session_parts_ready(const struct session *s)
{
	EACH_PART(s->core, i)
	if (s->core->o.parts[i]->is_ready != NULL && !s->core->o.parts[i]->is_ready(s))
		return false;
	return true;
}

void session_parts_restored(struct session *s)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_restored, s);
}

void session_parts_making(struct session *s)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_making, s);
}

void session_parts_adopted(struct session *s)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_adopted, s);
}

void session_parts_resumed(struct session *s)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_resumed, s);
}

void session_parts_session_second(struct session *s)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_session_second, s);
}

void session_parts_sampled(struct session *s, const struct session_sample *now)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_sampled, s, now);
}

void session_parts_fault(struct session *s, const char *what)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_fault, s, what);
}

int session_parts_check_execution(struct session *s, struct execution *x, const char *secrets,
				  struct err *e)
{
	EACH_PART(s->core, i)
	if (s->core->o.parts[i]->check_execution != NULL &&
	    s->core->o.parts[i]->check_execution(s, x, secrets, e) < 0)
		return -1;
	return 0;
}

int session_parts_check_memory(struct session *s, bool same, struct err *e)
{
	EACH_PART(s->core, i)
	if (s->core->o.parts[i]->check_memory != NULL &&
	    s->core->o.parts[i]->check_memory(s, same, e) < 0)
		return -1;
	return 0;
}

int session_parts_add_values(struct session *s, bool same, struct buf *to, struct err *e)
{
	EACH_PART(s->core, i)
	if (s->core->o.parts[i]->add_values != NULL &&
	    s->core->o.parts[i]->add_values(s, same, to, e) < 0)
		return -1;
	return 0;
}

int session_parts_keep_values(struct session *s, const char *layer, const char *kind, struct err *e)
{
	EACH_PART(s->core, i)
	if (s->core->o.parts[i]->keep_values != NULL &&
	    s->core->o.parts[i]->keep_values(s, layer, kind, e) < 0)
		return -1;
	return 0;
}

unsigned session_parts_prepare(struct session *s, struct execution *x, struct completion *w)
{
	unsigned begun = 0;

	EACH_PART(s->core, i)
	if (s->core->o.parts[i]->prepare != NULL && s->core->o.parts[i]->prepare(s, x, &w[i]))
		begun++;
	return begun;
}

void session_parts_execution_ended(struct session *s, struct execution *x)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_execution_ended, s, x);
}

void session_parts_add_env(struct session *s, struct execution *x, struct buf *to)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, add_env, s, x, to);
}

void session_parts_egress_listens(struct session *s, struct live_cell *cell,
				  const struct agent_event *v)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_egress_listens, s, cell, v);
}

void session_parts_cell_gone(struct session *s, const struct err *why)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_cell_gone, s, why);
}

void session_parts_ending(struct session *s, const struct err *why)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_ending, s, why);
}

int session_parts_finish(struct session *s, struct err *e)
{
	EACH_PART(s->core, i)
	if (s->core->o.parts[i]->finish != NULL && s->core->o.parts[i]->finish(s, e) < 0)
		return -1;
	return 0;
}

void session_parts_free(struct session *s, const struct err *why)
{
	EACH_PART(s->core, i)
	CALL(s->core, i, on_free, s, why);
}

bool session_is_usable(const struct session *s)
{
	return s->row.state == SESSION_RUNNING && s->cell->synced && session_parts_ready(s);
}
