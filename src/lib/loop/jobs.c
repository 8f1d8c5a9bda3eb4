#include "lib/loop/jobs.h"

#include <assert.h>
#include <stddef.h>

#include "lib/base/clock.h"
#include "lib/base/list.h"

/* An owner with jobs is in the queue of owners. Its jobs are in its own queue. */

static void jobs_put_first(struct job_queue *q, struct job *j)
{
	if (q->first == NULL)
		q->end = &j->next;
	LIST_PUSH(&q->first, j);
}

static void jobs_append_job(struct job_queue *q, struct job *j)
{
	if (q->first == NULL)
		q->end = &q->first;
	LIST_APPEND(&q->end, j);
}

void jobs_add(struct jobs *s, struct job_queue *q, struct job *j)
{
	assert(j->on_piece != NULL);
	if (j->link != NULL)
		return;
	j->queue = q;
	jobs_append_job(q, j);
	if (q->link == NULL)
		LIST_APPEND(&s->end, q);
	loop_defer(s->loop, &s->task);
}

void jobs_cancel(struct jobs *s, struct job *j)
{
	struct job_queue *q = j->queue;

	if (j->link == NULL)
		return;
	LIST_REMOVE_FROM(&q->end, j);
	if (q->first == NULL && q->link != NULL)
		LIST_REMOVE_FROM(&s->end, q);
}

/* ---- turns */

/* Run one piece of the first owner's first job. */
static void jobs_run_one(struct jobs *s)
{
	struct job_queue *q = s->first;
	struct job *j = q->first;

	LIST_REMOVE_FROM(&s->end, q);
	LIST_REMOVE_FROM(&q->end, j);
	if (j->on_piece(j))
		jobs_put_first(q, j);
	if (q->first != NULL && q->link == NULL)
		LIST_APPEND(&s->end, q);
}

static void on_turn(struct loop_task *t)
{
	struct jobs *s = t->arg;
	uint64_t until = clock_now_ns() + JOBS_TURN_NS;

	do {
		if (s->first == NULL)
			return;
		jobs_run_one(s);
	} while (clock_now_ns() < until);
	if (s->first != NULL)
		loop_defer(s->loop, &s->task);
}

void jobs_init(struct jobs *s, struct loop *l)
{
	*s = (struct jobs){ .loop = l };
	s->end = &s->first;
	s->task = (struct loop_task){ .on_run = on_turn, .arg = s };
}

void jobs_release(struct jobs *s)
{
	if (s->loop != NULL)
		loop_task_cancel(s->loop, &s->task);
}
