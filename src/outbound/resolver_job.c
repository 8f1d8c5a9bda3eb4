#include "resolver_job.h"

#include <stdio.h>
#include <stdlib.h>

static void on_task(struct loop_task *t);

struct job *resolver_job_new(struct resolver *r, struct lookup *l, const char *host)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		abort(); /* a lookup without its callback would hang its caller */
	j->resolver = r;
	j->lookup = l;
	j->task = (struct loop_task){ .on_run = on_task, .arg = j };
	j->next = r->jobs;
	j->back = &r->jobs;
	if (r->jobs)
		r->jobs->back = &j->next;
	r->jobs = j;
	l->query = j;
	(void)snprintf(j->host, sizeof(j->host), "%s", host);
	return j;
}

void resolver_job_free(struct job *j)
{
	loop_task_cancel(j->resolver->loop, &j->task);
	*j->back = j->next;
	if (j->next)
		j->next->back = j->back;
	j->lookup->query = NULL;
	free(j);
}

static void on_task(struct loop_task *t)
{
	struct job *j = t->arg;
	struct lookup *l = j->lookup;
	struct result result = j->result;

	resolver_job_free(j);
	l->on_done(l, result.ips, result.n, result.n > 0 ? NULL : &result.why);
}

void resolver_job_give(struct job *j, const struct result *result)
{
	j->entry = NULL;
	j->result = *result;
	loop_defer(j->resolver->loop, &j->task);
}
