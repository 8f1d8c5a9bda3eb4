#include "capture_answer.h"

struct making {
	struct snapshot made;
	struct request *r;
	capture_answer_snapshot_fn *on_made;
};

static void release_making(struct request *r, bool answered)
{
	struct making *m = r->state;

	(void)answered;
	snapshot_cancel(&m->made);
}

static void on_snapshot(struct completion *c, const struct err *e)
{
	struct making *m = c->arg;

	m->on_made(m->r, e == NULL ? m->made.version : NULL, e);
}

void capture_answer_snapshot(struct request *r, struct session *s, const char *name,
			     uint64_t keep_ms, capture_answer_snapshot_fn *on_made)
{
	struct making *m = request_state(r, sizeof(*m), release_making);

	if (m == NULL)
		return;
	m->r = r;
	m->on_made = on_made;
	m->made.done = (struct completion){ .on_done = on_snapshot, .arg = m };
	snapshot_make(s, name, keep_ms, request_actor(r), &m->made);
}

struct forking {
	struct session_fork fork;
	struct request *r;
	capture_answer_fork_fn *on_forked;
};

static void release_forking(struct request *r, bool answered)
{
	struct forking *k = r->state;

	(void)answered;
	session_fork_release(&k->fork);
}

static void on_fork(struct completion *c, const struct err *e)
{
	struct forking *k = c->arg;

	k->on_forked(k->r, &k->fork, e);
}

void capture_answer_fork(struct request *r, struct session *s,
			 const struct capture_answer_fork *how, capture_answer_fork_fn *on_forked)
{
	struct forking *k = request_state(r, sizeof(*k), release_forking);

	if (k == NULL)
		return;
	k->r = r;
	k->on_forked = on_forked;
	k->fork.done = (struct completion){ .on_done = on_fork, .arg = k };
	session_fork(s, how->count, how->timeout_given, how->timeout_ms, how->by_snapshot,
		     request_actor(r), &k->fork);
}
