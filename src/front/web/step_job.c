#include "front/web/step_job.h"

#include "daemon/node/core.h"
#include "front/web/reply.h"
#include "front/web/routes.h"

/* s may be gone unless this returns true. */
static bool do_step(struct step_job *s)
{
	struct request *r = s->r;
	struct err e = { 0 };
	int more = s->next(s, &e);

	if (more < 0)
		reply_error(r, &e);
	return more > 0;
}

static bool on_piece(struct job *j)
{
	struct step_job *s = j->arg;

	loop_note(core_loop(s->r->core), s->r->route->pattern);
	return do_step(s);
}

/* Without turns the request may be answered when this returns. */
void step_job_start(struct step_job *s, struct request *r, bool in_turns)
{
	s->r = r;
	s->job.on_piece = on_piece;
	s->job.arg = s;
	if (in_turns)
		core_job_add(r->core, r->tenant, &s->job);
	else
		while (do_step(s))
			;
}

void step_job_cancel(struct step_job *s)
{
	if (s->r != NULL)
		core_job_cancel(s->r->core, &s->job);
}
