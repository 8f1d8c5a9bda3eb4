#include "jobs.h"

#include <assert.h>
#include <stddef.h>

#include "clock.h"

/* ---- owners that have jobs */

static void append_queue(struct jobs *s, struct job_queue *q)
{
	q->next = NULL;
	q->link = s->end;
	*s->end = q;
	s->end = &q->next;
}

static void remove_queue(struct jobs *s, struct job_queue *q)
{
	*q->link = q->next;
	if (q->next != NULL)
		q->next->link = q->link;
	else
		s->end = q->link;
	q->link = NULL;
}

/* ---- jobs of an owner */

static void remove_job(struct job_queue *q, struct job *j)
{
	*j->link = j->next;
	if (j->next != NULL)
		j->next->link = j->link;
	else
		q->end = j->link;
	j->link = NULL;
}

static void put_first(struct job_queue *q, struct job *j)
{
	j->next = q->first;
	j->link = &q->first;
	if (j->next != NULL)
		j->next->link = &j->next;
	else
		q->end = &j->next;
	q->first = j;
}

static void append_job(struct job_queue *q, struct job *j)
{
	if (q->first == NULL)
		q->end = &q->first;
	j->next = NULL;
	j->link = q->end;
	*q->end = j;
	q->end = &j->next;
}

void jobs_add(struct jobs *s, struct job_queue *q, struct job *j)
{
	assert(j->piece != NULL);
	if (j->link != NULL)
		return;
	j->queue = q;
	append_job(q, j);
	if (q->link == NULL)
		append_queue(s, q);
	loop_defer(s->loop, &s->task);
}

void jobs_cancel(struct jobs *s, struct job *j)
{
	struct job_queue *q = j->queue;

	if (j->link == NULL)
		return;
	remove_job(q, j);
	if (q->first == NULL && q->link != NULL)
		remove_queue(s, q);
}

/* ---- turns */

/* One piece of the owner whose turn it is. */
static void run_one(struct jobs *s)
{
	struct job_queue *q = s->first;
	struct job *j = q->first;

	remove_queue(s, q);
	remove_job(q, j);
	if (j->piece(j))
		put_first(q, j);
	if (q->first != NULL && q->link == NULL)
		append_queue(s, q);
}

static void on_turn(struct loop_task *t)
{
	struct jobs *s = t->arg;
	uint64_t until = clock_now_ns() + JOBS_TURN_NS;

	do {
		if (s->first == NULL)
			return;
		run_one(s);
	} while (clock_now_ns() < until);
	if (s->first != NULL)
		loop_defer(s->loop, &s->task);
}

void jobs_init(struct jobs *s, struct loop *l)
{
	*s = (struct jobs){ .loop = l };
	s->end = &s->first;
	s->task = (struct loop_task){ .run = on_turn, .arg = s };
}

void jobs_release(struct jobs *s)
{
	if (s->loop != NULL)
		loop_task_cancel(s->loop, &s->task);
}
