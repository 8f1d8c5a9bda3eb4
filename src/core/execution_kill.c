/* execution_kill.c - ends processes that an ended execution left running.
 *
 * By then PID 1 has forgotten the execution, and cordond has only its record. The processes still
 * have its mark, so PID 1 is asked by mark, under a new handle. A tree_kill waits for the answer:
 * it belongs to the session, and goes on if the caller cancels. There is one tree_kill for each
 * mark, and at most KILLS_MAX for a session. If PID 1 does not answer, those that wait get an error
 * after KILL_MS. A PID 1 that was adopted is asked after its SYNCED. */
#include "execution_kill.h"

#include <assert.h>
#include <stddef.h>

#include "core_private.h"
#include "execution.h"
#include "list.h"
#include "live_cell.h"

#define KILLS_MAX 64 /* of a session, at once */
#define KILL_MS 30000

struct tree_kill {
	struct tree_kill *next, **link; /* list.h: of its session */
	struct session *session;
	struct live_program program;
	uint64_t mark;
	bool sent;
	struct completions when_dead;
};

static void end(struct tree_kill *k, const struct err *e)
{
	struct session *s = k->session;
	struct completions waiters = { 0 };

	LIST_REMOVE(k);
	if (s->cell != NULL)
		live_cell_remove(s->cell, &k->program);
	completions_move(&k->when_dead, &waiters);
	free(k);
	completions_end_all(&waiters, e);
}

static void on_program(struct live_program *p, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v)
{
	struct tree_kill *k = (struct tree_kill *)((char *)p - offsetof(struct tree_kill, program));
	struct err e;

	if (type != AGENT_TREE_DEAD)
		return; /* not an answer to KILL_TREE: PID 1 is untrusted */
	(void)err_set(&e, ERR_LIMIT, "session %s: some processes could not be ended in time",
		      c->id);
	end(k, (v->flags & AGENT_SOME_REMAIN) != 0 ? &e : NULL);
}

/* The one with that mark, or NULL; then *ret_n is how many are under way. */
static struct tree_kill *find(struct session *s, uint64_t mark, unsigned *ret_n)
{
	*ret_n = 0;
	for (struct tree_kill *k = s->kills; k != NULL; k = k->next, ++*ret_n)
		if (k->mark == mark)
			return k;
	return NULL;
}

static void ask(struct tree_kill *k, struct live_cell *c)
{
	struct err e;

	k->sent = true;
	/* A PID 1 of an earlier version treats the request as a protocol error and ends. */
	if (c->version < AGENT_VERSION_MARKS)
		end(k, NULL);
	else if (agent_send_kill_tree(&c->agent, k->program.handle, k->mark, &e) < 0)
		end(k, &e);
	else
		live_cell_flush(c);
}

static struct tree_kill *begin(struct session *s, uint64_t mark)
{
	struct tree_kill *k = calloc(1, sizeof(*k));

	assert(k != NULL);
	k->session = s;
	k->mark = mark;
	k->program.on_event = on_program;
	LIST_PUSH(&s->kills, k);
	live_cell_add(s->cell, &k->program);
	return k;
}

static void wait_for(struct tree_kill *k, struct completion *w)
{
	completion_begin(w, k->session->core->loop, &k->when_dead);
	completion_set_deadline(w, KILL_MS, "end of the execution");
}

void execution_kill_ended(struct session *s, uint64_t mark, struct completion *w)
{
	struct live_cell *c = s->cell;
	struct tree_kill *k;
	unsigned n;
	struct err e;

	/* Without a cell none of its processes lives; without a mark it never had any. */
	if (mark == 0 || c == NULL || !c->connected) {
		completion_end_soon(w, s->core->loop, NULL);
		return;
	}
	k = find(s, mark, &n);
	if (k != NULL) {
		wait_for(k, w);
		return;
	}
	if (n >= KILLS_MAX) {
		(void)err_set_reason(&e, REASON_QUOTA_EXECUTIONS,
				     "at most %d are being ended in one session", KILLS_MAX);
		completion_end_soon(w, s->core->loop, &e);
		return;
	}
	k = begin(s, mark);
	wait_for(k, w);
	if (c->synced)
		ask(k, c);
}

void execution_kills_synced(struct session *s)
{
	struct tree_kill *k = s->kills;

	while (k != NULL) {
		if (k->sent) {
			k = k->next;
			continue;
		}
		ask(k, s->cell); /* a callback may change the list */
		k = s->kills;
	}
}

void execution_kills_lost(struct session *s)
{
	while (s->kills != NULL)
		end(s->kills, NULL);
}
